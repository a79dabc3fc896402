"""The store behind PgBouncer in transaction mode, and what it leaves in the server's sessions.

The conformance suite runs behind it as well: see the fixture `store`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from crewlog.client import Endpoints
from crewlog.dev import doctor
from crewlog.dev.paths import Home
from crewlog.ids import CrewName
from crewlog.store import PostgresStore, pool
from crewlog.store.append_statement import append_sql
from crewlog.store.pool import Pool
from crewlog.store.projection import TABLES
from crewlog.store.sql import migrations, queries
from crewlog.testing import scripted
from pooler import address, at_port
from shared import make_lab
from store.conftest import new_database

SETTINGS = [*pool._PLANNER, "search_path"]
SESSIONS = 3
"""The sessions that the pooler shares out, as `pooler` configures it."""


@pytest.fixture
async def pooled_database(postgres_dsn: str, pooler_port: int) -> str:
    """The URL of an empty database behind the pooler."""
    return at_port(await new_database(postgres_dsn), pooler_port)


async def test_calls_side_by_side(pooled_database: str) -> None:
    store = await PostgresStore.connect(pooled_database)

    async def ask(number: int) -> None:
        name = CrewName(f"crew-{number}")
        for version in range(1, 11):
            await store.register_crew(name, {"version": version}, version)
            found = await store.get_crew(name)
            assert found is not None
            assert found.version == version

    await asyncio.gather(*map(ask, range(20)))
    assert len(await store.list_crews()) == 20
    await store.close()


async def sessions(dsn: str) -> list[asyncpg.Record]:
    """What each of the pooler's sessions has that another client would inherit."""
    clients = [await asyncpg.connect(dsn, statement_cache_size=0) for _ in range(SESSIONS)]
    begun = [each.transaction() for each in clients]
    for each in begun:  # each in a transaction at the same time: so each in another session
        await each.start()
    rows = [
        await each.fetchrow(
            "SELECT pg_backend_pid() AS pid, array(SELECT current_setting(name) "
            "FROM unnest($1::text[]) AS name) AS settings, "
            "(SELECT count(*) FROM pg_prepared_statements) AS prepared, "
            "(SELECT count(*) FROM pg_listening_channels()) AS channels, "
            "(SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() "
            "AND locktype = 'advisory') AS locks",
            SETTINGS,
        )
        for each in clients
    ]
    for each in begun:
        await each.rollback()
    for client in clients:
        await client.close()
    assert len({row["pid"] for row in rows}) == SESSIONS
    return rows


async def test_other_clients_of_the_pooler_inherit_nothing(
    postgres_dsn: str, pooled_database: str
) -> None:
    direct = await asyncpg.connect(postgres_dsn)
    usual = [await direct.fetchval(f"SHOW {name}") for name in SETTINGS]
    await direct.close()
    store = await PostgresStore.connect(pooled_database)
    await asyncio.gather(*(store.register_crew(CrewName(str(n)), {}, n) for n in range(20)))
    await store.scan("SELECT * FROM crewlog.crews")
    await store.close()
    for row in await sessions(pooled_database):
        assert [*row.values()][1:] == [usual, 0, 0, 0]


async def test_a_pooler_is_told_from_a_server(postgres_dsn: str, pooled_dsn: str) -> None:
    async with address(postgres_dsn) as relay:  # it passes on what the server says
        for dsn, pooled in ((postgres_dsn, False), (relay.dsn, False), (pooled_dsn, True)):
            found = await Pool.connect(dsn, max_size=1)
            assert found.has_pooler is pooled, dsn
            await found.close()


async def test_connections_to_the_server_have_the_settings_once(dsn: str) -> None:
    found = await Pool.connect(dsn, max_size=2)
    for name, value in pool._PLANNER.items():
        assert [row[0] for row in await found.fetch(f"SHOW {name}")] == [value]
    [prepared] = await found.fetch("SELECT count(*) FROM pg_prepared_statements")
    assert prepared[0] > 0
    await found.close()


async def test_plans_behind_a_pooler_do_not_read_whole_tables(pooled_dsn: str) -> None:
    store = await PostgresStore.connect(pooled_dsn, max_size=1)
    statements: list[tuple[str, list[Any]]] = [
        (queries()["read_log"], ["h", ["k"]]),
        (queries()["get_run"], ["r"]),
        (append_sql(TABLES), ["r", "{}", "execution"]),
    ]
    for sql, values in statements:
        plan = "\n".join(row[0] for row in await store._pool.fetch(f"EXPLAIN {sql}", *values))
        assert "Seq Scan" not in plan
        assert "Hash Join" not in plan
    await store.close()


async def test_connections_that_migrate_at_once(pooled_database: str) -> None:
    stores = await asyncio.gather(
        *(PostgresStore.connect(pooled_database, max_size=1) for _ in range(8))
    )
    rows = await stores[0]._pool.fetch("SELECT version FROM crewlog.schema_migrations")
    assert [row["version"] for row in rows] == [one.version for one in migrations()]
    for store in stores:
        await store.close()


async def test_a_transaction_that_fails_leaves_its_connection_usable(pooled_dsn: str) -> None:
    found = await Pool.connect(pooled_dsn, max_size=1)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(found.fetch("SELECT pg_sleep(30)"), 0.05)
    assert [row[0] for row in await found.fetch("SELECT 1")] == [1]
    await found.close()


@pytest.mark.server
async def test_runs_side_by_side(server: Endpoints, pooled_database: str) -> None:
    store = await PostgresStore.connect(pooled_database)
    lab = await make_lab(server, store)
    crew = {
        "crew": "pooled",
        "model": scripted({"agents": {"a": [{"text": "A"}], "b": [{"text": "B"}]}}),
        "agents": {"a": {"prompt": "Say A."}, "b": {"prompt": "Say B."}},
        "flow": ["a", "b"],
    }
    reader = await PostgresStore.connect(pooled_database)
    async with lab.worker():
        runs = [await lab.start(crew) for _ in range(10)]
        results = await asyncio.gather(*(run.result(60) for run in runs))
    assert [result.status for result in results] == ["completed"] * 10
    for run in runs:
        rows = await reader.read_journal(run.id)
        assert rows[-1].entry["kind"] == "RunCompleted"
    for each in (store, reader):
        await each.close()


async def test_the_doctor_says_what_answers(
    postgres_dsn: str, pooled_database: str, directory: Any
) -> None:
    async def look(url: str) -> doctor.Check:
        environ = {"DATABASE_URL": url, "TEMPORAL_ADDRESS": "127.0.0.1:1"}
        checks = await doctor.examine(Home.at(directory / "none"), environ=environ)
        return next(each for each in checks if each.name == "Postgres")

    await (await PostgresStore.connect(pooled_database)).close()
    for _ in range(2):
        found = await look(pooled_database)
        assert found.status == "ok", found
        assert "behind a pooler" in found.detail
    found = await look(postgres_dsn)
    assert found.status == "ok", found
    assert "pooler" not in found.detail
