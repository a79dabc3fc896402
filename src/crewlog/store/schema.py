"""Migrates a database to the schema of this version of Crewlog.

Any number of processes may start at once on an empty database: an advisory lock serializes them,
and all but the first find nothing to do. A migration is one transaction, so that a process that is
killed leaves nothing behind.

A database whose tables were dropped counts as empty, even if `schema_migrations` or functions are
left: the first migration replaces functions. `crewlog rebuild` restores the rows.

The database has the hash of each migration. If a migration was edited since, the tables are not
those of this version, and the database is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from crewlog.errors import StoreUnavailable
from crewlog.store.sql import Migration, migrations

_LOCK = 4_854_126_601_903_001
"""A number that other users of advisory locks in the same database are unlikely to use."""


async def migrate(
    connection: PoolConnectionProxy[asyncpg.Record],
    known: Sequence[Migration] | None = None,
    place: str = "",
) -> None:
    """Applies the migrations that the database lacks.

    Args:
        connection: A connection to the database.
        known: All migrations in order; by default those of this version.
        place: The server and the database, for errors.

    Raises:
        StoreUnavailable: the database has a migration that this version does not know, or in which
            it has other statements.
    """
    known = migrations() if known is None else known
    applied = await _applied(connection)
    if not _pending(applied, known, place):
        await _check_hashes(connection, applied, known, place)
        return  # the usual case costs two queries and no lock
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        applied = await _applied(connection)
        await _check_hashes(connection, applied, known, place)
        if not applied:
            await _create_schema(connection)
        for migration in _pending(applied, known, place):
            await connection.execute(migration.sql)
            await connection.execute(
                "INSERT INTO crewlog.schema_migrations (version, name, hash) VALUES ($1, $2, $3)",
                migration.version,
                migration.name,
                migration.hash,
            )


async def _applied(connection: PoolConnectionProxy[asyncpg.Record]) -> dict[int, str | None]:
    """The versions of the database with their hashes.

    None if it was never migrated or its tables were dropped. A database of a build that stored no
    hashes has None for each.
    """
    # Not `to_regclass`: it reads a cache, which may not have the table that another process has
    # committed while this one waited for the lock.
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'crewlog'")
    tables = {row["tablename"] for row in rows}
    if "schema_migrations" not in tables or len(tables) == 1:
        return {}
    rows = await connection.fetch(
        "SELECT version, to_jsonb(each) ->> 'hash' AS hash FROM crewlog.schema_migrations AS each"
    )
    return {row["version"]: row["hash"] for row in rows}


async def _check_hashes(
    connection: PoolConnectionProxy[asyncpg.Record],
    applied: Mapping[int, str | None],
    known: Sequence[Migration],
    place: str,
) -> None:
    """Checks that the database was migrated by the statements of this version.

    Raises:
        StoreUnavailable: it was not.
    """
    edited = next((m for m in known if applied.get(m.version, m.hash) != m.hash), None)
    if edited is None:
        return
    # Only the local server has this setting.
    folder = await connection.fetchval("SELECT current_setting('crewlog.data', true)")
    deletion = (
        f"stop the local services with `crewlog dev --stop`, and delete the directory {folder}"
        if folder
        else "drop it with `DROP SCHEMA crewlog CASCADE`"
    )
    raise StoreUnavailable(
        "the schema `crewlog` of the database was made by another build of Crewlog: its migration "
        f"{edited.version} ({edited.name}) has other statements in this build",
        place=place,
        remedy=f"Use the build that made it, or another database. Or {deletion}: `crewlog rebuild "
        "RUN` restores the rows of each run whose history this build can read, and no others.",
    )


async def _create_schema(connection: PoolConnectionProxy[asyncpg.Record]) -> None:
    """Creates the schema, and an empty table of its migrations."""
    # IF NOT EXISTS needs the right to create even if the schema exists; an administrator may have
    # created the schema for a user without that right.
    if not await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = 'crewlog'"):
        await connection.execute("CREATE SCHEMA crewlog")
    await connection.execute(
        "DROP TABLE IF EXISTS crewlog.schema_migrations; "
        "CREATE TABLE crewlog.schema_migrations ("
        "version integer PRIMARY KEY, name text NOT NULL, hash text NOT NULL, "
        "applied_at timestamptz NOT NULL DEFAULT now())"
    )


def _pending(
    applied: Mapping[int, str | None], known: Sequence[Migration], place: str
) -> list[Migration]:
    """The migrations that are not applied yet, in order."""
    newest = known[-1].version
    if unknown := applied.keys() - {migration.version for migration in known}:
        raise StoreUnavailable(
            f"the database has schema version {max(unknown)}, and this version of Crewlog knows "
            f"{newest} as the newest",
            place=place,
            remedy=(
                "A newer Crewlog has used this database: update this one, or use another database."
            ),
        )
    return [migration for migration in known if migration.version not in applied]
