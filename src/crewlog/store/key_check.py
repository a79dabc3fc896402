"""Checks, when a store is opened, that its rows fit the encryption keys of the process.

A process that accepts only encrypted rows refuses a store with plain ones before it starts any
work. Otherwise a run could fail late: a body that it stores may be there already as a plain row
with the same hash, and the run fails when it reads that row.

A search of all rows takes time, so it is done once: the table `key_checks` records that all texts
are encrypted. A process that accepts plain rows does not record that, since others may write some.
"""

from __future__ import annotations

from dataclasses import dataclass

from crewlog.encryption.keys import ACCEPT_PLAIN, KEYS
from crewlog.encryption.rows import PREFIX, RowCipher
from crewlog.errors import CrewlogError, DecryptionFailed, EncryptionKeyMissing
from crewlog.store.pool import Connection, Pool

_LOCK = 4_854_126_601_903_002
"""The advisory lock of the search: of workers that start together, only one searches."""
_TIMEOUT = 600.0
"""Seconds for the search of all rows."""


@dataclass(frozen=True)
class Column:
    """An encrypted column."""

    table: str
    column: str
    kind: str
    """The kind of its texts, see `RowCipher.encrypt`."""
    place: tuple[str, ...]
    """The columns that its texts are bound to, in this order."""

    @property
    def name(self) -> str:
        """`bodies.body`."""
        return f"{self.table}.{self.column}"

    @property
    def where(self) -> str:
        """The SQL condition for rows with a text."""
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
"""All encrypted columns; docs/authority/encryption.md lists them."""


@dataclass(frozen=True)
class _RecordedCheck:
    """The recorded check of a store."""

    namespace: str = ""
    only_encrypted: bool = False
    """Whether a process that refuses plain rows has found none."""

    def is_usable_with(self, cipher: RowCipher) -> bool:
        """Whether the store can be opened with these keys without a search."""
        if cipher.keys is None:
            return not self.only_encrypted
        if self.namespace != cipher.namespace:
            return False
        return cipher.keys.accept_plain or self.only_encrypted


async def check_keys(connection: Connection, cipher: RowCipher, place: str) -> None:
    """Checks that the rows of a store fit the keys, and records the result.

    Args:
        connection: To its database.
        cipher: The row encryption of the process.
        place: The server and the database, for errors.

    Raises:
        DecryptionFailed: it has plain rows, which are not accepted, or belongs to another
        namespace.
        EncryptionKeyMissing: its rows are encrypted, and the process has no keys.
    """
    if (await _read_check(connection)).is_usable_with(cipher):
        return  # the usual case costs one query
    async with connection.transaction():
        await connection.execute(f"SELECT pg_advisory_xact_lock({_LOCK})", timeout=_TIMEOUT)
        check = await _read_check(connection)
        if check.is_usable_with(cipher):
            return
        error = await _key_problem(connection, cipher, check, place)
        if error is not None:
            raise error
        await connection.execute("DELETE FROM crewlog.key_checks")
        if cipher.keys is not None:
            await connection.execute(
                "INSERT INTO crewlog.key_checks (namespace, only_encrypted) VALUES ($1, $2)",
                *(cipher.namespace, not cipher.keys.accept_plain),
            )


async def _key_problem(
    connection: Connection, cipher: RowCipher, check: _RecordedCheck, place: str
) -> CrewlogError | None:
    if check.namespace not in {"", cipher.namespace} or cipher.keys is None:
        if not await _first_column(connection, encrypted=True):
            check = _RecordedCheck()  # a process with keys opened the store, and wrote nothing
        elif cipher.keys is None:
            return _no_keys_error(place)
        else:
            return _wrong_namespace_error(check.namespace, cipher.namespace, place)
    if cipher.keys is None or cipher.keys.accept_plain:
        return None
    plain = await _first_column(connection, encrypted=False)
    return _plain_rows_error(plain, place) if plain else None


async def find_key_problem(dsn: str, cipher: RowCipher) -> CrewlogError | None:
    """The error that opening the store of a URL would raise; None if it would succeed.

    Args:
        dsn: A `postgresql://` URL.
        cipher: The row encryption of the process.

    Raises:
        StoreUnavailable: it does not answer.
    """
    pool = await Pool.connect(dsn, max_size=1)
    try:
        async with pool.acquire() as connection:
            if await connection.fetchval("SELECT to_regclass('crewlog.key_checks')") is None:
                return None  # the database has no tables yet
            check = await _read_check(connection)
            return (
                None
                if check.is_usable_with(cipher)
                else await _key_problem(connection, cipher, check, pool.place)
            )
    finally:
        await pool.close()


async def _read_check(connection: Connection) -> _RecordedCheck:
    row = await connection.fetchrow("SELECT namespace, only_encrypted FROM crewlog.key_checks")
    return _RecordedCheck(row["namespace"], row["only_encrypted"]) if row else _RecordedCheck()


async def _first_column(connection: Connection, *, encrypted: bool) -> str:
    """The first column that has an encrypted text, or one that is not; empty if none."""
    operator = "=" if encrypted else "<>"
    searches = [
        # `left` reads only the start of a large text; `starts_with` would read all of it.
        f"(SELECT '{each.name}' AS name FROM crewlog.{each.table} "  # noqa: S608 - our own names
        f"WHERE {each.where} AND left({each.column}, {len(PREFIX)}) {operator} '{PREFIX}' LIMIT 1)"
        for each in COLUMNS
    ]
    sql = f"SELECT name FROM ({' UNION ALL '.join(searches)}) AS columns LIMIT 1"  # noqa: S608
    return await connection.fetchval(sql, timeout=_TIMEOUT) or ""


def _plain_rows_error(column: str, place: str) -> DecryptionFailed:
    return DecryptionFailed(
        f"encryption is on, and the store has rows that are not encrypted ({column})",
        remedy=f"No work was started. Set {ACCEPT_PLAIN}=true for workers and commands, run "
        "`crewlog encryption reencrypt`, and unset it once `crewlog encryption status` "
        "counts no plain text. Or use another database for encrypted runs.",
        place=place,
    )


def _no_keys_error(place: str) -> EncryptionKeyMissing:
    return EncryptionKeyMissing(
        "the rows of the store are encrypted, and this process has no keys",
        remedy=f"Set {KEYS} to the key file that they were written with, or use another database "
        "for runs without encryption.",
        place=place,
    )


def _wrong_namespace_error(stored: str, own: str, place: str) -> DecryptionFailed:
    return DecryptionFailed(
        f"the rows of the store are bound to the namespace {stored!r}, and this process uses "
        f"{own!r}",
        remedy="Use one database for each namespace: set DATABASE_URL, or correct "
        "TEMPORAL_NAMESPACE.",
        place=place,
    )
