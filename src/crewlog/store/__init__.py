"""Where Crewlog keeps rows: definitions, bodies, journals, and what is projected from them.

open_store(url)        the store of a URL
protocol.Store         the contract; its models are the rows
projection             what a batch of entries means as rows: pure, shared by both stores
memory.InMemoryStore   the store without a database
postgres.PostgresStore the store in Postgres
    pool               connections, and errors that say which server and what to do
    migrate, sql       numbered migrations and named queries, from the .sql files beside
    key_check, reencryption  whether rows are encrypted as who opens it expects, and encrypting them
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
    url: str, *, max_size: int = 10, namespace: str = "default", any_rows: bool = False
) -> Store:
    """Opens the store of a URL.

    Args:
        url: `memory:` for a new store in memory, or a `postgresql://` URL.
        max_size: How many connections to Postgres to hold at most.
        namespace: The namespace whose runs it has; where encryption is on, rows are bound to it.
        any_rows: Whether it is opened even where rows of it could not be read: to count them.

    Raises:
        UsageError: where the URL is neither, or the key file of the environment cannot be used.
        StoreUnavailable: where Postgres does not answer or refuses.
        DecryptionFailed: it has plain rows, and they are not accepted; or it is another
        namespace's. EncryptionKeyMissing: its rows are encrypted, and there are no keys.
    """
    scheme = url.partition(":")[0]
    if scheme == "memory":
        return InMemoryStore()
    if scheme in {"postgres", "postgresql"}:
        cipher = RowCipher(environment_keyring(), namespace)
        return await PostgresStore.connect(url, max_size=max_size, cipher=cipher, any_rows=any_rows)
    raise UsageError(
        f"a store cannot be opened by a URL that starts with {scheme[:20]!r}",
        remedy="Use postgresql://user:password@host/database, or memory: for a store in memory.",
    )
