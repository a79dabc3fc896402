"""What many tests share: one Temporal server and one Postgres for the session.

Every run that a test starts has an execution timeout (`Lab.start` sees to it), and every wait a
limit, so that nothing hangs. `CREWLOG_TEST_SERVER` and `CREWLOG_TEST_POSTGRES` name servers to use
instead of throwaway ones.
"""

from __future__ import annotations

import itertools
import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from temporalio.client import Client as TemporalClient
from temporalio.worker import Worker

from crewlog.client import Client, Endpoints, Run
from crewlog.client.session import LazyStore
from crewlog.dev.ephemeral import own_environ
from crewlog.dev.paths import Home
from crewlog.dev.processes import Watchdog
from crewlog.dev.services import Services
from crewlog.errors import StoreUnavailable
from crewlog.payload_storage.converter import data_converter
from crewlog.store import InMemoryStore, PostgresStore, Store
from crewlog.testing import LocalServer
from crewlog.workers.settings import WorkerSettings
from crewlog.workers.worker import running_worker

LIMIT = 60.0
"""Seconds that a run, and a wait for one, may take."""
_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def server(crewlog_server: LocalServer) -> Endpoints:
    """Where the session's Temporal server answers."""
    return crewlog_server.endpoints


@pytest.fixture(scope="session")
async def postgres_dsn() -> AsyncIterator[str]:
    """The URL of the session's Postgres server."""
    if url := os.environ.get("CREWLOG_TEST_POSTGRES"):
        yield url
        return
    root = Path(tempfile.mkdtemp(prefix="crewlog-test-"))
    watchdog = Watchdog()
    # A Temporal server is named, so that only Postgres is started.
    environ = {**own_environ(), "TEMPORAL_ADDRESS": "unused:1"}
    services = Services(Home.at(root), environ=environ, watchdog=watchdog)
    try:
        yield (await services.ensure()).database_url
    finally:
        await services.stop_all()
        watchdog.close()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
async def database(postgres_dsn: str) -> str:
    """The URL of an empty database of the test's own."""
    return await make_database(postgres_dsn)


async def make_database(postgres_dsn: str) -> str:
    """The URL of a new, empty database on a Postgres server."""
    name = f"crewlog_test_{os.getpid()}_{next(_NUMBERS)}_{secrets.token_hex(3)}"
    connection = await asyncpg.connect(postgres_dsn)
    await connection.execute(f'CREATE DATABASE "{name}"')
    await connection.close()
    head, question, query = postgres_dsn.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{question}{query}"


@pytest.fixture
async def postgres_store(database: str) -> AsyncIterator[Store]:
    found = await PostgresStore.connect(database)
    yield found
    await found.close()


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest, database: str) -> AsyncIterator[Store]:
    """Each of the two stores."""
    found = InMemoryStore() if request.param == "memory" else await PostgresStore.connect(database)
    yield found
    await found.close()


@dataclass
class Lab:
    """A client, and workers on its task queue whenever a test wants them."""

    client: Client
    store: Store
    root: Path

    @property
    def settings(self) -> WorkerSettings:
        return WorkerSettings(
            task_queue=self.client.task_queue,
            payloads=self.root / "payloads",
            workspace=self.root / "workspace",
            shutdown_seconds=0.5,
        )

    def worker(self, **changes: Any) -> AbstractAsyncContextManager[Worker]:
        settings = self.settings.model_copy(update=changes)
        return running_worker(self.client.temporal, self.store, settings)

    async def start(self, crew: Any, input: Any = "go", **options: Any) -> Run:
        options.setdefault("execution_timeout", timedelta(seconds=LIMIT * 2))
        return await self.client.start(crew, input, **options)


async def make_lab(server: Endpoints, store: Store, *, with_store: bool = True) -> Lab:
    root = Path(tempfile.mkdtemp(prefix="crewlog-lab-"))

    async def away() -> Store:
        raise StoreUnavailable("the store of this test is away")

    temporal = await TemporalClient.connect(
        server.address,
        namespace=server.namespace,
        data_converter=data_converter(root / "payloads"),
    )
    queue = f"test-{secrets.token_hex(6)}"
    lazy = LazyStore(store if with_store else None, away)
    return Lab(Client(temporal, server, lazy, queue), store, root)


@pytest.fixture
async def lab(server: Endpoints) -> AsyncIterator[Lab]:
    """A client with a store in memory and a task queue of its own; no worker yet."""
    found = await make_lab(server, InMemoryStore())
    yield found
    shutil.rmtree(found.root, ignore_errors=True)


@pytest.fixture
async def worker(lab: Lab) -> AsyncIterator[Worker]:
    """A worker on the lab's task queue."""
    async with lab.worker() as running:
        yield running


@pytest.fixture
def directory() -> Iterator[Path]:
    """Not pytest's tmp_path: as root, PostgreSQL's user must pass through what is above it."""
    path = Path(tempfile.mkdtemp(prefix="crewlog-test-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)
