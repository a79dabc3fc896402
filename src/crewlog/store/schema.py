"""Migrates a database to the schema of this version of Crewlog.

Any number of processes may start at once on an empty database: an advisory lock serializes them,
and all but the first find nothing to do. A migration is one transaction, so that a process that is
killed leaves nothing behind.

A database whose tables were dropped counts as empty, even if `schema_migrations` or functions are
left: the first migration replaces functions. `crewlog rebuild` restores the rows.
"""

from __future__ import annotations

from collections.abc import Sequence

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from crewlog.errors import StoreUnavailable
from crewlog.store.sql import Migration, migrations

_LOCK = 4_854_126_601_903_001
"""A number that other users of advisory locks in the same database are unlikely to use."""


async def migrate(
    connection: PoolConnectionProxy[asyncpg.Record], known: Sequence[Migration] | None = None
) -> None:
    """Applies the migrations that the database lacks.

    Args:
        connection: A connection to the database.
        known: All migrations in order; by default those of this version.

    Raises:
        StoreUnavailable: the database has a migration that this version does not know.
    """
    known = migrations() if known is None else known
    if not _pending(await _applied(connection), known):
        return  # the usual case costs one query and no lock
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        applied = await _applied(connection)
        if not applied:
            await _create_schema(connection)
        for migration in _pending(applied, known):
            await connection.execute(migration.sql)
            await connection.execute(
                "INSERT INTO crewlog.schema_migrations (version, name) VALUES ($1, $2)",
                migration.version,
                migration.name,
            )


async def _applied(connection: PoolConnectionProxy[asyncpg.Record]) -> set[int]:
    """The versions of the database; none if it was never migrated or its tables were dropped."""
    # Not `to_regclass`: it reads a cache, which may not have the table that another process has
    # committed while this one waited for the lock.
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'crewlog'")
    tables = {row["tablename"] for row in rows}
    if "schema_migrations" not in tables or len(tables) == 1:
        return set()
    rows = await connection.fetch("SELECT version FROM crewlog.schema_migrations")
    return {row["version"] for row in rows}


async def _create_schema(connection: PoolConnectionProxy[asyncpg.Record]) -> None:
    """Creates the schema, and an empty table of its migrations."""
    # IF NOT EXISTS needs the right to create even if the schema exists; an administrator may have
    # created the schema for a user without that right.
    if not await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = 'crewlog'"):
        await connection.execute("CREATE SCHEMA crewlog")
    await connection.execute(
        "DROP TABLE IF EXISTS crewlog.schema_migrations; "
        "CREATE TABLE crewlog.schema_migrations ("
        "version integer PRIMARY KEY, name text NOT NULL, "
        "applied_at timestamptz NOT NULL DEFAULT now())"
    )


def _pending(applied: set[int], known: Sequence[Migration]) -> list[Migration]:
    """The migrations that are not applied yet, in order."""
    newest = known[-1].version
    if unknown := applied - {migration.version for migration in known}:
        raise StoreUnavailable(
            f"the database has schema version {max(unknown)}, and this version of Crewlog knows "
            f"{newest} as the newest",
            remedy=(
                "A newer Crewlog has used this database: update this one, or use another database."
            ),
        )
    return [migration for migration in known if migration.version not in applied]
