"""Brings a database to the schema that this version of Crewlog needs.

Any number of processes may start at once on an empty database: an advisory lock lets them in one
by one, and all but the first find nothing to do. Everything happens in one transaction, so that a
process that is killed half way leaves nothing behind.

A database whose tables were dropped is an empty one, even where `schema_migrations` or functions
are left: the first migration replaces functions. `crewlog rebuild` begins there.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from crewlog.errors import StoreUnavailable
from crewlog.store.sql import Migration, migrations

_LOCK = 4_854_126_601_903_001
"""Any number that other users of advisory locks in the same database are unlikely to take."""


async def migrate(
    connection: PoolConnectionProxy[asyncpg.Record], wanted: Sequence[Migration] | None = None
) -> None:
    """Applies the migrations that the database does not have yet.

    Args:
        connection: To the database.
        wanted: All migrations in order; by default those of this version.

    Raises:
        StoreUnavailable: where the database has a migration that this version does not know.
    """
    wanted = migrations() if wanted is None else wanted
    if not _missing(await _applied(connection), wanted):
        return  # the usual case costs one query and no lock
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        applied = await _applied(connection)
        if not applied:
            await _begin(connection)
        for migration in _missing(applied, wanted):
            await connection.execute(migration.sql)
            await connection.execute(
                "INSERT INTO crewlog.schema_migrations (version, name) VALUES ($1, $2)",
                migration.version,
                migration.name,
            )


async def _applied(connection: PoolConnectionProxy[asyncpg.Record]) -> set[int]:
    """The versions that the database has; none where it was never migrated or has no table left."""
    # Not `to_regclass`: it asks a cache, which still says no after another process, for which the
    # lock made us wait, has committed the table. A query of the catalog sees what is there.
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'crewlog'")
    tables = {row["tablename"] for row in rows}
    if "schema_migrations" not in tables or len(tables) == 1:
        return set()
    rows = await connection.fetch("SELECT version FROM crewlog.schema_migrations")
    return {row["version"] for row in rows}


async def _begin(connection: PoolConnectionProxy[asyncpg.Record]) -> None:
    """Makes the schema and its bookkeeping, both empty."""
    # IF NOT EXISTS asks for the right to create even where the schema exists, and an administrator
    # may have made the schema for a user who has not that right.
    if not await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = 'crewlog'"):
        await connection.execute("CREATE SCHEMA crewlog")
    await connection.execute(
        "DROP TABLE IF EXISTS crewlog.schema_migrations; "
        "CREATE TABLE crewlog.schema_migrations ("
        "version integer PRIMARY KEY, name text NOT NULL, "
        "applied_at timestamptz NOT NULL DEFAULT now())"
    )


def _missing(applied: set[int], wanted: Sequence[Migration]) -> list[Migration]:
    """What of `wanted` is not applied, in order."""
    newest = wanted[-1].version
    if unknown := applied - {migration.version for migration in wanted}:
        raise StoreUnavailable(
            f"the database has schema version {max(unknown)}, and this version of Crewlog knows "
            f"{newest} as the newest",
            remedy=(
                "A newer Crewlog has used this database: update this one, or give it another "
                "database."
            ),
        )
    return [migration for migration in wanted if migration.version not in applied]
