"""Runs crews in a test: a local server, an in-memory store, and a worker in this process."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Self

from temporalio.client import Client as TemporalClient

from crewlog.client import Client, Endpoints, Event, Run
from crewlog.client.catalog import Crew, definition_of, is_file
from crewlog.client.session import LazyStore
from crewlog.definition.model import CrewDefinition
from crewlog.dev.ephemeral import own_environ
from crewlog.dev.paths import Home
from crewlog.dev.processes import Watchdog
from crewlog.dev.services import Services
from crewlog.errors import CrewlogError, UsageError, WorkerMissing
from crewlog.ids import CrewName, NodeName, node_of
from crewlog.model import Json
from crewlog.payload_storage.converter import data_converter
from crewlog.run_status import ENDED
from crewlog.state.journal import StepCompleted, StepStarted
from crewlog.state.model import CrewState
from crewlog.store import InMemoryStore
from crewlog.testing.background import Background
from crewlog.wire import RunResult
from crewlog.workers.settings import WorkerSettings
from crewlog.workers.worker import running_worker

SHARED = "CREWLOG_TEST_SERVER"
"""The environment variable with the address of a server to use instead of a throwaway one.
`TEMPORAL_ADDRESS` is never used: it may be the one that matters."""
START_LIMIT = 900.0
"""Seconds for a server: on a fresh machine it is built once."""
STOP_LIMIT = 60.0


class LocalServer:
    """A throwaway Temporal server, or the shared one that `CREWLOG_TEST_SERVER` names.

    It is a process of its own, so tests in any loop and thread may use it.
    """

    def __init__(self) -> None:
        shared = os.environ.get(SHARED)
        self._root: Path | None = None
        if shared:
            self.endpoints = Endpoints(shared, "default", None)
            return
        self._root = Path(tempfile.mkdtemp(prefix="crewlog-test-"))
        self._background = Background("crewlog-test-server")
        try:
            self._watchdog = Watchdog()
            # A database is named, so that only Temporal is started: the tests' store is in memory.
            environ = {**own_environ(), "DATABASE_URL": "memory:"}
            home = Home.at(self._root)
            self._services = Services(home, environ=environ, watchdog=self._watchdog)
            found = self._background.call(self._services.ensure(), START_LIMIT)
        except BaseException:
            self._background.close()
            shutil.rmtree(self._root, ignore_errors=True)
            raise
        self.endpoints = Endpoints(found.temporal_address, found.namespace, found.ui_url)

    def close(self) -> None:
        """Ends the server and removes its files; a shared one stays."""
        if self._root is None:
            return
        try:
            self._background.call(self._services.stop_all(), STOP_LIMIT)
        finally:
            self._watchdog.close()
            self._background.close()
            shutil.rmtree(self._root, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True)
class FinishedRun:
    """A run that has ended, with everything a test may look at."""

    run: Run
    """To ask more, while the worker is there."""
    result: RunResult
    """What it gave."""
    journal: list[Event]
    """Everything that happened, in order."""
    state: CrewState
    """The last state."""

    @property
    def id(self) -> str:
        """The run's id."""
        return self.run.id

    @property
    def steps(self) -> list[NodeName]:
        """The agents' steps that were completed, as node names, in the order of completion."""
        turns = {
            event.entry.step
            for event in self.journal
            if isinstance(event.entry, StepStarted) and event.entry.agent is not None
        }
        return [
            node_of(event.entry.step)
            for event in self.journal
            if isinstance(event.entry, StepCompleted)
            and event.entry.step in turns
            and not event.entry.skipped
        ]

    @property
    def nodes(self) -> list[NodeName]:
        """All steps that were completed: decisions, questions and skipped ones, too."""
        return [
            node_of(event.entry.step)
            for event in self.journal
            if isinstance(event.entry, StepCompleted)
        ]

    @property
    def outputs(self) -> Mapping[str, Mapping[str, Json]]:
        """Outputs by agent and key; `text` is an agent's last final message."""
        return {str(agent): found for agent, found in self.result.outputs.items()}

    @property
    def flags(self) -> Mapping[str, Json]:
        """The flags at the end."""
        return self.result.flags


class CrewlogLocal:
    """A worker with a store of its own, on a task queue of its own: nothing leaks between two.

    The worker runs in a thread with its own event loop; the runs are awaited in the caller's.

    Args:
        server: A server to use; without it, one is started and ended with this object.
    """

    def __init__(self, server: LocalServer | None = None) -> None:
        self._own_server = server is None
        self._server = server
        self._root: Path | None = None
        self._added_path = False
        self._clients: dict[asyncio.AbstractEventLoop, Client] = {}
        self.store = InMemoryStore()
        self.task_queue = f"test-{secrets.token_hex(6)}"

    # -- its life ----------------------------------------------------------------------------

    def open(self) -> Self:
        """Starts the worker, and the server where none was given."""
        self._server = self._server or LocalServer()
        self._root = Path(tempfile.mkdtemp(prefix="crewlog-test-"))
        cwd = str(Path.cwd())
        if cwd not in sys.path:
            # As `crewlog worker` does: a crew's tools are modules beside it.
            sys.path.insert(0, cwd)
            self._added_path = True
        self._background = Background("crewlog-test-worker")
        self._stop = asyncio.Event()
        self._ready = asyncio.Event()
        try:
            self._background.call(self._start_worker(), STOP_LIMIT)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        """Ends the worker, and the server if it is our own."""
        root, self._root = self._root, None
        if root is None:
            return
        try:
            self._background.call(self._stop_worker(), STOP_LIMIT)
        finally:
            self._background.close()
            if self._added_path:
                sys.path.remove(str(Path.cwd()))
            if self._own_server and self._server is not None:
                self._server.close()
            shutil.rmtree(root, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.open)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.close)

    @property
    def workspace(self) -> Path:
        """The folder with a folder of files for each run."""
        return self._directory / "workspace"

    @property
    def endpoints(self) -> Endpoints:
        """Where the server answers."""
        if self._server is None:
            raise _not_open()
        return self._server.endpoints

    @property
    def _directory(self) -> Path:
        if self._root is None:
            raise _not_open()
        return self._root

    async def _start_worker(self) -> None:
        self._worker = asyncio.create_task(self._work())
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({self._worker, ready}, return_when=asyncio.FIRST_COMPLETED)
        if self._worker.done():
            ready.cancel()
            self._worker.result()

    async def _work(self) -> None:
        settings = WorkerSettings(
            task_queue=self.task_queue,
            payloads=self._payloads,
            workspace=self.workspace,
            shutdown_seconds=1.0,
        )
        async with running_worker(await self._temporal(), self.store, settings):
            self._ready.set()
            await self._stop.wait()

    async def _stop_worker(self) -> None:
        self._stop.set()
        worker = getattr(self, "_worker", None)
        if worker is not None:
            await asyncio.wait({worker})

    @property
    def _payloads(self) -> Path:
        return self._directory / "payloads"

    async def _temporal(self) -> TemporalClient:
        return await TemporalClient.connect(
            self.endpoints.address,
            namespace=self.endpoints.namespace,
            data_converter=data_converter(self._payloads),
        )

    # -- using it ----------------------------------------------------------------------------

    async def client(self) -> Client:
        """A client whose runs this worker takes, for the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = Client(
                await self._temporal(),
                self.endpoints,
                LazyStore(self.store, _no_other_store),
                self.task_queue,
            )
        return self._clients[loop]

    async def start(
        self,
        crew: Crew,
        input: Json = "",
        *,
        model: str | None = None,
        id: str | None = None,
        timeout: float = 60.0,
    ) -> Run:
        """Starts a run, to watch it and talk to it.

        Args:
            crew: A file, a definition, or a name registered with `client()`.
            input: What the crew is asked to do.
            model: The model of all agents, whatever the crew says: `scripted(...)`.
            id: The run's id.
            timeout: Seconds after which the server ends it.
        """
        client = await self.client()
        chosen = crew if model is None else await self._definition(crew, model)
        return await client.start(
            chosen, input, id=id, by="test", execution_timeout=timedelta(seconds=timeout)
        )

    async def run(
        self,
        crew: Crew,
        input: Json = "",
        *,
        model: str | None = None,
        id: str | None = None,
        timeout: float = 60.0,
    ) -> FinishedRun:
        """Runs a crew to its end; arguments as for `start`.

        Raises:
            RunFailed: the run failed.
            UsageError: the run waits for people: use `start` and `answer`.
            TimeoutError: it did not end in time.
        """
        run = await self.start(crew, input, model=model, id=id, timeout=timeout)
        try:
            view = await run.wait_until(
                lambda v: v.status in ENDED or bool(v.wait_reason), timeout=timeout
            )
            if view.status not in ENDED:
                how = "use `answer`" if view.interrupts else "talk to it with `send`"
                raise UsageError(
                    f"the run waits for people: {view.wait_reason}",
                    remedy=f"Start it with `start`, and {how}.",
                    place=f"run {run.id!r}",
                )
            return await self.finished(run, timeout=timeout)
        except (CrewlogError, TimeoutError):
            await self._end(run)
            raise

    async def finished(self, run: Run, *, timeout: float = 60.0) -> FinishedRun:
        """Waits for the end of a run that was started, and collects what there is to see."""
        result = await run.result(timeout)
        async with asyncio.timeout(timeout):
            journal = [event async for event in run.events()]
        return FinishedRun(run, result, journal, await run.state())

    async def _end(self, run: Run) -> None:
        # A run that goes on would keep the worker's activities from ending.
        try:
            await run.terminate("the test is over")
        except CrewlogError:
            return

    async def _definition(self, crew: Crew, model: str) -> CrewDefinition:
        if not isinstance(crew, str) or is_file(crew):
            return definition_of(crew, model)
        row = await self.store.get_crew(CrewName(crew))
        if row is None:
            raise UsageError(
                f"there is no crew {crew!r}",
                remedy="Register it: `await (await crewlog_local.client()).register(FILE)`.",
            )
        stored = CrewDefinition.from_json(await self.store.get_definition(row.definition))
        return stored.with_model(model)


async def _no_other_store() -> InMemoryStore:
    raise WorkerMissing("the local store was taken away")


def _not_open() -> UsageError:
    return UsageError(
        "the local crewlog is not open", remedy="Use it in a `with` or `async with` block."
    )
