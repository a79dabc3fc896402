"""The health of a database: its version, whether it has a pooler, and whether it takes writes."""

from __future__ import annotations

from dataclasses import dataclass

from crewlog.errors import CrewlogError
from crewlog.store.pool import Connection, Pool

_HAS_TABLES = "SELECT to_regclass('crewlog.bodies') IS NOT NULL"
_WRITE = """
INSERT INTO crewlog.bodies (hash, body)
SELECT 'write test of crewlog doctor ' || gen_random_uuid(), string_agg(gen_random_uuid()::text, '')
FROM generate_series(1, 4000)
"""
"""More than fits into the existing pages, so that it needs space on the disk."""
_CHECK_READ_ONLY = """
DO $$ BEGIN
    IF current_setting('transaction_read_only')::boolean THEN
        RAISE read_only_sql_transaction USING MESSAGE = 'transactions are read-only here';
    END IF;
END $$
"""
"""For a database without tables."""


@dataclass(frozen=True)
class DatabaseHealth:
    """The health of a database that answers."""

    version: str
    """The server's version."""
    has_pooler: bool
    """Whether connections go through a pooler."""
    write_error: CrewlogError | None = None
    """Why it takes no writes; None if it does."""


async def check_database(dsn: str) -> DatabaseHealth:
    """Checks a database. The test write is rolled back.

    Args:
        dsn: A `postgresql://` URL.

    Raises:
        StoreUnavailable: it does not answer.
    """
    pool = await Pool.connect(dsn, max_size=1)
    try:
        [row] = await pool.fetch("SHOW server_version")
        version = str(row["server_version"]).split()[0]
        return DatabaseHealth(version, pool.has_pooler, await _find_write_error(pool))
    finally:
        await pool.close()


async def _find_write_error(pool: Pool) -> CrewlogError | None:
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
        await connection.execute(_WRITE if has_tables else _CHECK_READ_ONLY)
    finally:
        await transaction.rollback()
