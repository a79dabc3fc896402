"""Whether a store is one for the keys of who opens it: looked at as it is opened, and not later.

Bodies and definitions are known by the hash of their content. Where a plain row has the hash of
what a run is about to store, the run would find it only as it reads it, at its end, and could not
end. So a process that accepts encrypted rows only refuses a store with any other before it begins
anything.

Looking through all rows takes its time, so it is done once: the table `key_checks` records that all
texts are encrypted. Whoever accepts plain rows does not note that: another process may still be
writing some.
"""

from __future__ import annotations

from dataclasses import dataclass

from crewlog.encryption.keys import ACCEPT_PLAIN, KEYS
from crewlog.encryption.rows import PREFIX, RowCipher
from crewlog.errors import CrewlogError, DecryptionFailed, EncryptionKeyMissing
from crewlog.store.pool import Connection, Pool

_LOCK = 4_854_126_601_903_002
"""Held while rows are looked through: of workers that start at once, one does it."""
_TIMEOUT = 600.0
"""Seconds for looking through all rows."""


@dataclass(frozen=True)
class Column:
    """A column that is encrypted."""

    table: str
    column: str
    kind: str
    """What its texts are bound to as, see `RowCipher.encrypt`."""
    place: tuple[str, ...]
    """The columns that say where a text stands, in the order in which it is bound to them."""

    @property
    def name(self) -> str:
        """`bodies.body`."""
        return f"{self.table}.{self.column}"

    @property
    def where(self) -> str:
        """What holds texts at all: an empty error is none."""
        return f"{self.column} IS NOT NULL AND {self.column} <> ''"


COLUMNS = (
    Column("definitions", "definition", "definition", ("hash",)),
    Column("bodies", "body", "body", ("hash",)),
    Column("journal_entries", "entry", "entry", ("run", "position", "hash")),
    Column("snapshots", "state", "snapshot", ("run", "position")),
    Column("interrupts", "interrupt", "interrupt", ("run", "id")),
    Column("interrupts", "decision", "decision", ("run", "id")),
    Column("interrupts", "answered_by", "answered_by", ("run", "id")),
    Column("runs", "started_by", "started_by", ("run",)),
    Column("runs", "error", "error", ("run",)),
    Column("memories", "text", "memory", ("crew", "scope", "key")),
    Column("memories", "metadata", "memory_metadata", ("crew", "scope", "key")),
    Column("memories", "encrypted_key", "memory_key", ("crew", "scope", "key")),
    Column("memories", "written_by", "memory_by", ("crew", "scope", "key")),
    Column("tool_approvals", "approver", "approver", ("source", "tool")),
    Column("tool_approvals", "description", "approved", ("source", "tool")),
    Column("signed_tool_approvals", "approver", "approver", ("source", "tool", "key")),
)
"""All that is encrypted; docs/authority/encryption.md lists it."""


@dataclass(frozen=True)
class _Known:
    """What the store remembers of its rows."""

    namespace: str = ""
    only_encrypted: bool = False
    """Whether a process has found no plain text, and accepts none."""

    def is_usable_with(self, cipher: RowCipher) -> bool:
        """Whether there is nothing to look at for who opens the store with these keys."""
        if cipher.keys is None:
            return not self.only_encrypted
        if self.namespace != cipher.namespace:
            return False
        return cipher.keys.accept_plain or self.only_encrypted


async def admit(connection: Connection, cipher: RowCipher, place: str) -> None:
    """Refuses a store that is not for the keys of who opens it; else remembers what was found.

    Args:
        connection: To its database.
        cipher: What whoever opens it encrypts rows with.
        place: The server and the database, for messages.

    Raises:
        DecryptionFailed: it has plain rows, and they are not accepted; or it is another
        namespace's. EncryptionKeyMissing: its rows are encrypted, and there are no keys.
    """
    if (await _known(connection)).is_usable_with(cipher):
        return  # the usual case costs one query
    async with connection.transaction():
        await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})", timeout=_TIMEOUT)
        known = await _known(connection)
        if known.is_usable_with(cipher):
            return
        error = await _key_problem(connection, cipher, known, place)
        if error is not None:
            raise error
        await connection.execute("DELETE FROM crewlog.key_checks")
        if cipher.keys is not None:
            await connection.execute(
                "INSERT INTO crewlog.key_checks (namespace, only_encrypted) VALUES ($1, $2)",
                *(cipher.namespace, not cipher.keys.accept_plain),
            )


async def _key_problem(
    connection: Connection, cipher: RowCipher, known: _Known, place: str
) -> CrewlogError | None:
    if known.namespace not in {"", cipher.namespace} or cipher.keys is None:
        if not await _first(connection, sealed=True):
            known = _Known()  # somebody tried it with keys, and nothing was ever written
        elif cipher.keys is None:
            return _no_keys(place)
        else:
            return _wrong_namespace(known.namespace, cipher.namespace, place)
    if cipher.keys is None or cipher.keys.accept_plain:
        return None
    plain = await _first(connection, sealed=False)
    return _has_unencrypted_rows(plain, place) if plain else None


async def refused(dsn: str, cipher: RowCipher) -> CrewlogError | None:
    """Why the store of a URL would be refused; none where it would not. Nothing is changed.

    Args:
        dsn: A `postgresql://` URL.
        cipher: What whoever opens it encrypts rows with.

    Raises:
        StoreUnavailable: it does not answer.
    """
    pool = await Pool.connect(dsn, max_size=1)
    try:
        async with pool.acquire() as connection:
            if await connection.fetchval("SELECT to_regclass('crewlog.key_checks')") is None:
                return None  # it has no tables yet
            known = await _known(connection)
            return (
                None
                if known.is_usable_with(cipher)
                else await _key_problem(connection, cipher, known, pool.place)
            )
    finally:
        await pool.close()


async def _known(connection: Connection) -> _Known:
    row = await connection.fetchrow("SELECT namespace, only_encrypted FROM crewlog.key_checks")
    return _Known(row["namespace"], row["only_encrypted"]) if row else _Known()


async def _first(connection: Connection, *, sealed: bool) -> str:
    """The first column that has an encrypted text, or one that is not; empty if none."""
    is_ = "=" if sealed else "<>"
    looks = [
        # `left` reads the beginning of a large text alone; `starts_with` would read all of it.
        f"(SELECT '{each.name}' AS name FROM crewlog.{each.table} "  # noqa: S608 - our own names
        f"WHERE {each.where} AND left({each.column}, {len(PREFIX)}) {is_} '{PREFIX}' LIMIT 1)"
        for each in COLUMNS
    ]
    sql = f"SELECT name FROM ({' UNION ALL '.join(looks)}) AS found LIMIT 1"  # noqa: S608
    return await connection.fetchval(sql, timeout=_TIMEOUT) or ""


def _has_unencrypted_rows(column: str, place: str) -> DecryptionFailed:
    return DecryptionFailed(
        f"the store has rows that are not encrypted, which is on here ({column})",
        remedy=f"Nothing was begun. Set {ACCEPT_PLAIN}=true for workers and commands, run "
        "`crewlog encryption reencrypt`, and unset it once `crewlog encryption status` "
        "counts nothing that is not encrypted. Or give what is encrypted a database of its own.",
        place=place,
    )


def _no_keys(place: str) -> EncryptionKeyMissing:
    return EncryptionKeyMissing(
        "the rows of the store are encrypted, and this process has no keys",
        remedy=f"Set {KEYS} to the key file of those who wrote them; what is not to be encrypted "
        "needs another database.",
        place=place,
    )


def _wrong_namespace(theirs: str, ours: str, place: str) -> DecryptionFailed:
    return DecryptionFailed(
        f"the store is that of the namespace {theirs!r}, which its rows are bound to, and this "
        f"process is in {ours!r}",
        remedy="Give each namespace a database of its own: set DATABASE_URL, or correct "
        "TEMPORAL_NAMESPACE.",
        place=place,
    )
