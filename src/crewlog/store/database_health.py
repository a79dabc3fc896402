"""What state a database is in: whether it answers, what answers, and whether it takes writes."""

from __future__ import annotations

from dataclasses import dataclass

from crewlog.errors import CrewlogError
from crewlog.store.pool import Connection, Pool

_HAS_TABLES = "SELECT to_regclass('crewlog.bodies') IS NOT NULL"
_WRITE = """
INSERT INTO crewlog.bodies (hash, body)
SELECT 'tried by crewlog doctor ' || gen_random_uuid(), string_agg(gen_random_uuid()::text, '')
FROM generate_series(1, 4000)
"""
"""More than fits into the pages that are there already, so that it needs room on the disk."""
_WOULD_WRITE = """
DO $$ BEGIN
    IF current_setting('transaction_read_only')::boolean THEN
        RAISE read_only_sql_transaction USING MESSAGE = 'transactions are read-only here';
    END IF;
END $$
"""
"""For a database that has no tables yet."""


@dataclass(frozen=True)
class Condition:
    """A database that answers."""

    version: str
    """The server's version."""
    pooled: bool
    """Whether a pooler is between us and the server."""
    refusal: CrewlogError | None = None
    """Why it takes no writes; none where it does."""


async def check_database(dsn: str) -> Condition:
    """What state a database is in. What is written to find out is taken back.

    Args:
        dsn: A `postgresql://` URL.

    Raises:
        StoreUnavailable: it does not answer.
    """
    pool = await Pool.connect(dsn, max_size=1)
    try:
        [row] = await pool.fetch("SHOW server_version")
        version = str(row["server_version"]).split()[0]
        return Condition(version, pool.pooled, await _refusal(pool))
    finally:
        await pool.close()


async def _refusal(pool: Pool) -> CrewlogError | None:
    try:
        async with pool.acquire() as connection:
            await _try_to_write(connection)
    except CrewlogError as error:
        return error
    return None


async def _try_to_write(connection: Connection) -> None:
    has_tables = await connection.fetchval(_HAS_TABLES)
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(_WRITE if has_tables else _WOULD_WRITE)
    finally:
        await transaction.rollback()
