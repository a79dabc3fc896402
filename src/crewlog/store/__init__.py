"""The store: definitions, bodies, journals, and the rows that are projected from them.

open_store(url)        the store of a URL
protocol.Store         the contract; its models are the rows
projection             the rows that follow from a batch of entries: pure, for both stores
deletion               what a deletion removes besides the rows of the runs: pure, for both stores
in_process.InMemoryStore   the store without a database
postgres.PostgresStore     the store in Postgres
    pool               connections and their errors
    schema, sql        numbered migrations and named queries, from the .sql files
    key_check, reencryption  whether rows fit the encryption keys; encrypting them again
    codec              JSON and text as Postgres text, and back exactly
"""

from __future__ import annotations

from crewlog.encryption.keys import environment_keyring
from crewlog.encryption.rows import RowCipher
from crewlog.errors import UsageError
from crewlog.store.in_process import InMemoryStore
from crewlog.store.postgres import PostgresStore
from crewlog.store.protocol import Store

__all__ = ["InMemoryStore", "PostgresStore", "Store", "open_store"]


async def open_store(
    url: str, *, max_size: int = 10, namespace: str = "default", allow_unreadable: bool = False
) -> Store:
    """Opens the store of a URL.

    Args:
        url: `memory:` for a new store in memory, or a `postgresql://` URL.
        max_size: How many connections to Postgres to hold at most.
        namespace: The namespace of its runs. If encryption is on, rows are bound to it.
        allow_unreadable: Whether to open the store even if its rows cannot be decrypted.

    Raises:
        UsageError: the URL is neither, or the key file of the environment cannot be used.
        StoreUnavailable: Postgres does not answer or refuses.
        DecryptionFailed: it has plain rows, which are not accepted, or belongs to another
            namespace.
        EncryptionKeyMissing: its rows are encrypted, and the process has no keys.
    """
    scheme = url.partition(":")[0]
    if scheme == "memory":
        return InMemoryStore()
    if scheme in {"postgres", "postgresql"}:
        cipher = RowCipher(environment_keyring(), namespace)
        return await PostgresStore.connect(
            url, max_size=max_size, cipher=cipher, allow_unreadable=allow_unreadable
        )
    raise UsageError(
        f"a store cannot be opened by a URL that starts with {scheme[:20]!r}",
        remedy="Use postgresql://user:password@host/database, or memory: for a store in memory.",
    )
