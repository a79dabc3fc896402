"""A database for each module, on the session's Postgres server, and both stores."""

import itertools
import os
import secrets
from collections.abc import AsyncIterator

import asyncpg
import pytest

from crewlog.encryption.keys import Keyring, new_key_file, write_keys
from crewlog.encryption.rows import RowCipher
from crewlog.ids import RunId
from crewlog.store import InMemoryStore, PostgresStore, Store
from pooler import at_port, pooler

_NUMBERS = itertools.count(1)


async def new_database(postgres_dsn: str) -> str:
    """The URL of a new, empty database."""
    name = f"crewlog_test_{os.getpid()}_{secrets.token_hex(4)}"
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    head, question, query = postgres_dsn.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{question}{query}"


@pytest.fixture(scope="module")
async def dsn(postgres_dsn: str) -> str:
    return await new_database(postgres_dsn)


@pytest.fixture(scope="module")
async def postgres(dsn: str) -> AsyncIterator[PostgresStore]:
    store = await PostgresStore.connect(dsn)
    yield store
    await store.close()


@pytest.fixture(scope="module")
async def sealed_postgres(
    postgres_dsn: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[PostgresStore]:
    """One that encrypts its rows."""
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    write_keys(path, new_key_file())
    store = await PostgresStore.connect(
        await new_database(postgres_dsn), cipher=RowCipher(Keyring(path), "default")
    )
    yield store
    await store.close()


@pytest.fixture(scope="session")
async def pooler_port(postgres_dsn: str) -> AsyncIterator[int]:
    """The port of a PgBouncer in front of the session's Postgres server."""
    async with pooler(postgres_dsn) as port:
        yield port


@pytest.fixture(scope="module")
async def pooled_dsn(postgres_dsn: str, pooler_port: int) -> str:
    """The URL of a new, empty database behind the pooler."""
    return at_port(await new_database(postgres_dsn), pooler_port)


@pytest.fixture(scope="module")
async def pooled_postgres(pooled_dsn: str) -> AsyncIterator[PostgresStore]:
    """One behind a pooler in transaction mode."""
    store = await PostgresStore.connect(pooled_dsn)
    yield store
    await store.close()


@pytest.fixture(params=["memory", "postgres", "sealed", "pooled"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return InMemoryStore()
    if request.param == "pooled":
        pooled: PostgresStore = request.getfixturevalue("pooled_postgres")
        return pooled
    if request.param == "sealed":
        sealed: PostgresStore = request.getfixturevalue("sealed_postgres")
        return sealed
    found: PostgresStore = request.getfixturevalue("postgres")
    return found


@pytest.fixture
def run() -> RunId:
    """A run id of the test's own: a module shares its database."""
    return RunId(f"run-{next(_NUMBERS)}")
