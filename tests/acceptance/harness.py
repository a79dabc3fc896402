"""What the acceptance tests share: real services, workers as processes, and a check of every run.

A `Site` has the services, a project directory with tools, and a client. It remembers every run
that it started; after each test, `Site.settle` folds each run's journal from the store and compares
it with the state that the run itself stored and tells: nobody can forget to check it.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
from temporalio.api.common.v1 import Payload
from temporalio.api.operatorservice.v1 import DeleteNamespaceRequest
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from crewlog.client import Client, Run
from crewlog.client import Endpoints as ClientEndpoints
from crewlog.client.session import LazyStore
from crewlog.dev import temporal_server
from crewlog.dev.ephemeral import Ephemeral, ephemeral, own_environ
from crewlog.dev.services import Endpoints
from crewlog.encryption.codec import decrypt_payload
from crewlog.encryption.keys import environment_keyring
from crewlog.errors import CrewlogError, TemporalUnavailable, WorkerMissing
from crewlog.ids import RunId
from crewlog.payload_storage.converter import data_converter
from crewlog.state.fold import fold
from crewlog.state.journal import JournalEntry, RunForked, RunMerged, entry_from_json
from crewlog.state.model import CrewState
from crewlog.store import PostgresStore, Store, open_store
from crewlog.wire import InterruptView, RunResult
from starter import Started, starter

T = TypeVar("T")

LIMIT = 60.0
"""Seconds that a wait may take; the machine may be busy."""
START_LIMIT = 90.0
"""Seconds that a worker may take to start: it imports much, and several start side by side."""
RUN_LIMIT = timedelta(seconds=180)
"""The execution timeout of every run."""
PROJECT = Path(__file__).parent / "project"
SHARED = "shared"
"""The task queue of the worker that most tests share."""
_NUMBERS = itertools.count(1)


TRIES = {"first": 0.05, "longest": 1, "attempts": 20}
"""How often a call is made before people are asked: a machine that stands still for some seconds
uses up those that there are by default, where a heartbeat is missed after one."""
PATIENT = {"heartbeat": 5, "retry": TRIES}
"""Of agents, where the machine may be busy and workers are killed: that one was is noticed."""
ASKS_EACH = 1.0
"""Seconds between two looks at what a run asks people."""


async def until(
    condition: Callable[[], T], what: str, limit: float = LIMIT, *, of: Run | None = None
) -> T:
    """Waits until a condition holds, and returns what it gave.

    Args:
        condition: What is waited for.
        what: It, in words.
        limit: Seconds that it may take.
        of: The run that has to do it; none: no run, or one that may ask people meanwhile.

    Raises:
        AssertionError: the run asks people something, and does nothing before it has an answer.
        TimeoutError: it did not come in time.
    """
    deadline, look = time.monotonic() + limit, time.monotonic() + ASKS_EACH
    while True:
        found = condition()
        if found:
            return found
        now = time.monotonic()
        if now > deadline:
            raise TimeoutError(f"{what} did not come within {limit:g} s")
        if of is not None and now > look:
            await _asks_nobody(of, what)
            look = time.monotonic() + ASKS_EACH
        await asyncio.sleep(0.02)


async def _asks_nobody(run: Run, what: str) -> None:
    asked: Sequence[InterruptView] = ()
    with suppress(CrewlogError):  # its worker is away, or busy: it asks later, if it does
        asked = await run.interrupts()
    told = "; ".join(f"{each.kind}: {each.question} {each.detail}" for each in asked)
    assert not asked, f"{what} does not come, since {run.id} asks people. {told}"


WORKERS = "crewlog.workers"
Process = subprocess.Popen[bytes] | Started


@dataclass
class WorkerProcess:
    """A worker: `python -m crewlog.workers` in the project's directory."""

    process: Process
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    async def ready(self) -> None:
        def look() -> bool:
            if self.process.poll() is not None:
                raise AssertionError(f"the worker ended: {self.said()[-2000:]}")
            return "the worker polls" in self.said()

        await until(look, "the worker", START_LIMIT)

    def kill(self) -> None:
        """SIGKILL: nothing of it gets to say goodbye."""
        self.process.kill()
        self.process.wait(10)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()


@dataclass(frozen=True)
class Given:
    """Servers that were there before: of them the session has a namespace and a database."""

    endpoints: Endpoints
    root: Path

    @property
    def environ(self) -> dict[str, str]:
        """Variables with which a child process uses them."""
        return {
            "CREWLOG_HOME": str(self.root / "home"),
            "TEMPORAL_ADDRESS": self.endpoints.temporal_address,
            "TEMPORAL_NAMESPACE": self.endpoints.namespace,
            "DATABASE_URL": self.endpoints.database_url,
        }


@dataclass(repr=False)
class Site:
    """Services, a project, a client and a store, for many tests."""

    places: Ephemeral | Given
    root: Path
    temporal: TemporalClient
    store: Store
    runs: list[Run] = field(default_factory=list)
    workers: dict[str, list[WorkerProcess]] = field(default_factory=dict)

    @property
    def services(self) -> Ephemeral:
        """The servers that the site itself started."""
        assert isinstance(self.places, Ephemeral), "these servers are not the site's to stop"
        return self.places

    @property
    def endpoints(self) -> Endpoints:
        return self.places.endpoints

    @property
    def shared_workers(self) -> int:
        """Workers that most tests share: two where the servers are real ones."""
        return 2 if isinstance(self.places, Given) else 1

    @property
    def project(self) -> Path:
        return self.root / "project"

    @property
    def payloads(self) -> Path:
        return self.root / "payloads"

    @property
    def prompts(self) -> Path:
        return self.root / "prompts.jsonl"

    def environ(self, queue: str) -> dict[str, str]:
        """A worker's environment."""
        return {
            **own_environ(),
            **self.places.environ,
            "CREWLOG_TASK_QUEUE": queue,
            "CREWLOG_PAYLOADS": str(self.payloads),
            "CREWLOG_WORKSPACE": str(self.root / "workspace"),
            "CREWLOG_STICKY_SECONDS": "0.5",
            "CREWLOG_SHUTDOWN_SECONDS": "1",
            "CREWLOG_SCRIPT_RECORD": str(self.prompts),
            "ACCEPTANCE_LEDGER": str(self.root / "ledger"),
        }

    # -- workers -----------------------------------------------------------------------------

    def spawn(self, queue: str, *, module: str = WORKERS, **environ: str) -> WorkerProcess:
        """Starts a worker; `ready` waits until it polls.

        The starter has imported `crewlog.workers` already. So a worker of another module, or with a
        variable that decides about imports, such as PYTHONPATH, gets an interpreter of its own.
        """
        log = self.root / f"worker-{next(_NUMBERS)}.log"
        env = {**self.environ(queue), **environ}
        process: Process
        if module == WORKERS and not any(name.startswith("PYTHON") for name in environ):
            process = starter().start(module, self.project, env, log)
        else:
            with log.open("wb") as out:
                process = subprocess.Popen(
                    [sys.executable, "-m", module],
                    cwd=self.project,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                )
        worker = WorkerProcess(process, log)
        self.workers.setdefault(queue, []).append(worker)
        return worker

    async def start_worker(self, queue: str, **environ: str) -> WorkerProcess:
        worker = self.spawn(queue, **environ)
        await worker.ready()
        return worker

    def has_worker(self, queue: str) -> bool:
        return any(w.process.poll() is None for w in self.workers.get(queue, ()))

    def end_workers(self, queue: str | None = None) -> None:
        for name in [queue] if queue is not None else list(self.workers):
            for worker in self.workers.pop(name, ()):
                worker.end()

    # -- crews and runs ----------------------------------------------------------------------

    def script(self, agents: Mapping[str, Sequence[Mapping[str, Any]]], **more: Any) -> str:
        """The model that says what the agents' entries say."""
        name = f"script-{next(_NUMBERS)}.json"
        (self.project / name).write_text(json.dumps({"agents": agents, **more}))
        return f"scripted:{name}"

    def crew(
        self,
        agents: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        rules: Mapping[str, Mapping[str, Any]] | None = None,
        script: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        """A crew whose agents say what is given; `rules` adds to the agents' definitions."""
        return {
            "crew": "acceptance",
            "model": self.script(agents, **(script or {})),
            "agents": {
                name: {
                    "prompt": f"You are {name}.",
                    "heartbeat": 1,
                    "retry": TRIES,
                    **((rules or {}).get(name, {})),
                }
                for name in agents
            },
            **more,
        }

    def client(self, queue: str = SHARED) -> Client:
        ends = self.endpoints
        endpoints = ClientEndpoints(ends.temporal_address, ends.namespace, ends.ui_url)
        return Client(self.temporal, endpoints, LazyStore(self.store, self._open), queue)

    async def _open(self) -> Store:
        return self.store

    async def start(
        self,
        crew: Any,
        input: Any = "go",
        *,
        queue: str = SHARED,
        id: str | None = None,
        within: timedelta = RUN_LIMIT,
        **prompt: Any,
    ) -> Run:
        """Starts a run with an execution timeout, to be checked at the test's end."""
        run = await self.client(queue).start(
            crew, input, id=id, by="test", execution_timeout=within, **prompt
        )
        self.runs.append(run)
        return run

    async def finish(self, crew: Any, input: Any = "go", **options: Any) -> tuple[Run, RunResult]:
        run = await self.start(crew, input, **options)
        return run, await run.result(LIMIT)

    # -- what happened -----------------------------------------------------------------------

    def ledger(self, run: Run, event: str | None = None, **wanted: Any) -> list[dict[str, Any]]:
        """What the run's tools really did."""
        path = self.root / "ledger" / f"{run.id}.jsonl"
        text = path.read_text() if path.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # a tool may be in the middle of writing a line
        lines = [json.loads(line) for line in whole.splitlines()]
        if event is not None:
            wanted["event"] = event
        return [e for e in lines if all(e.get(k) == v for k, v in wanted.items())]

    async def spoken(self, run: Run, agent: str) -> None:
        """Waits until an agent has had its say."""
        async with asyncio.timeout(LIMIT):
            while agent not in (await run.state()).agent_outputs:  # noqa: ASYNC110 - a query tells
                await asyncio.sleep(0.02)

    def open_gate(self, run: Run, gate: str) -> None:
        (self.root / "ledger" / f"{run.id}.{gate}.open").touch()

    def prompted(self, run: Run) -> list[dict[str, Any]]:
        """The prompts that the run's models were given, in all workers."""
        text = self.prompts.read_text() if self.prompts.exists() else ""
        lines = [json.loads(line) for line in text.splitlines()]
        return [prompt for prompt in lines if prompt["run"] == run.id]

    async def stored(self, run: Run) -> None:
        """Waits until the store has what a live run had written when this began.

        A run without a worker writes nothing more.
        """
        description = await self.temporal.get_workflow_handle(run.id).describe()
        is_running = description.status is WorkflowExecutionStatus.RUNNING
        if not is_running or not self.has_worker(description.task_queue):
            return
        position, deadline = (await run.state()).position, time.monotonic() + LIMIT
        while position and not await self.store.read_journal(run.id, position - 1, 1):
            if time.monotonic() > deadline:
                raise TimeoutError(f"entry {position} of {run.id} is not stored in {LIMIT:g} s")
            await asyncio.sleep(0.02)

    async def journal(self, run: Run) -> list[tuple[int, JournalEntry]]:
        """The journal of a run in the store, with what a live run had written when this began."""
        await self.stored(run)
        return await self.stored_journal(run)

    async def stored_journal(self, run: Run) -> list[tuple[int, JournalEntry]]:
        """The entries of the run that the store has now."""
        found: list[tuple[int, JournalEntry]] = []
        while True:
            after = found[-1][0] if found else 0
            rows = await self.store.read_journal(run.id, after)
            if not rows:
                return found
            found += [(row.position, entry_from_json(row.entry)) for row in rows]

    async def entries(self, run: Run, *kinds: str) -> list[Any]:
        """The entries of the run's journal, with those of a live run that are not stored yet."""
        description = await self.temporal.get_workflow_handle(run.id).describe()
        found: list[JournalEntry] = []
        if description.status is not WorkflowExecutionStatus.RUNNING:
            found = [entry for _, entry in await self.journal(run)]
            return [entry for entry in found if not kinds or entry.kind in kinds]
        position = 0
        while (page := await run.journal(position)).entries:
            position = page.entries[-1].position
            found += [entry_from_json(each.data) for each in page.entries]
        return [entry for entry in found if not kinds or entry.kind in kinds]

    # -- the check of every run --------------------------------------------------------------

    async def settle(self) -> None:
        """Checks every run that was started since the last time, and ends those that are open."""
        runs, self.runs = self.runs, []
        try:
            for run in runs:
                await self.check(run)
        finally:
            for run in runs:
                with suppress(CrewlogError):
                    await run.terminate("the test is over")

    async def check(self, run: Run) -> CrewState | None:
        """Folding the journal of the store gives the state, the stored one and the live one."""
        description = await self.temporal.get_workflow_handle(run.id).describe()
        failed = description.status is WorkflowExecutionStatus.FAILED
        rows = await self.stored_journal(run)
        if failed and (not rows or rows[-1][1].kind != "RunFailed"):
            raise AssertionError(f"{run.id}: {await self.client().gateway.failure(run.id)}")
        if not rows:
            # A run at work may have nothing stored yet: its first call stores what led to it.
            running = description.status is WorkflowExecutionStatus.RUNNING
            assert failed or running, f"{run.id} has no journal"
            return None
        first = rows[0][1]
        base = first.to if isinstance(first, RunForked) else 0  # a fork's journal goes on after it
        state = CrewState(run=RunId(run.id), position=base)
        states = {base: state}
        for position, entry in rows:
            before = state.position
            if isinstance(entry, RunMerged):  # it goes on behind the journal of both
                assert entry.previous_position == before, f"{run.id} has a gap before {position}"
                before = max(before, position - 1)
            assert position == before + 1, f"{run.id} has a gap before {position}"
            state = states[position] = fold(state, entry)
        snapshot = await self.store.get_snapshot(run.id, state.position)
        if snapshot is not None:
            assert_equal(CrewState.from_json(snapshot.state), states[snapshot.position])
        if self.has_worker(description.task_queue):
            await self._compare_live(run, state)
        if description.close_time is not None and (
            description.status
            in (WorkflowExecutionStatus.COMPLETED, WorkflowExecutionStatus.CANCELED)
        ):
            assert state.is_ended, f"{run.id} ended, and its journal did not"
            assert snapshot is not None
            assert snapshot.position == state.position
        return state

    async def _live(self, run: Run) -> CrewState:
        """What the run tells; a worker of a busy machine may take long to read its history."""
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                return await run.state()
            except WorkerMissing:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.2)

    async def _compare_live(self, run: Run, folded: CrewState) -> None:
        live = await self._live(run)
        # What the store does not have yet is told by the run itself.
        while folded.position < live.position:
            page = await run.journal(folded.position, 1000)
            for item in page.entries:
                if item.position <= live.position:
                    entry = entry_from_json(item.data)
                    folded = fold(folded, entry)
        if folded.position == live.position:
            assert_equal(live, folded)


def assert_equal(one: CrewState, other: CrewState) -> None:
    """Two states are equal; else it says where they are not."""
    pairs = {name: (getattr(one, name), getattr(other, name)) for name in CrewState.model_fields}
    differing = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if differing:
        raise AssertionError(f"{one.run}: the states differ in {differing}")


@asynccontextmanager
async def make_site(root: Path, *, own_services: bool = False) -> AsyncGenerator[Site]:
    """A site in `root`, with all that it started ended at the end of the block.

    It uses the servers of `TEMPORAL_ADDRESS` and `DATABASE_URL` where both are set, and throwaway
    ones otherwise, or where a test stops them.
    """
    shutil.copytree(PROJECT, root / "project", ignore=shutil.ignore_patterns("__pycache__"))
    (root / "ledger").mkdir()
    address, url = os.environ.get("TEMPORAL_ADDRESS"), os.environ.get("DATABASE_URL")
    given = address and url and not own_services
    async with given_places(address, url, root) if given else ephemeral(root / "home") as places:
        temporal = await TemporalClient.connect(
            places.endpoints.temporal_address,
            namespace=places.endpoints.namespace,
            data_converter=data_converter(root / "payloads"),
        )
        store = await open_store(
            places.endpoints.database_url, namespace=places.endpoints.namespace
        )
        assert isinstance(store, PostgresStore)
        site = Site(places, root, temporal, store)
        try:
            yield site
        finally:
            await asyncio.to_thread(site.end_workers)
            await store.close()


@asynccontextmanager
async def given_places(address: str, url: str, root: Path) -> AsyncGenerator[Given]:
    """A namespace and a database of the session's own, on servers that are there."""
    name = f"acceptance_{secrets.token_hex(4)}"
    client = await temporal_server.connect(address)
    await make_namespace(client, name)
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f'CREATE DATABASE "{name}"')
        parts = urlsplit(url)
        own = urlunsplit(parts._replace(path=f"/{name}"))
        yield Given(Endpoints(address, name, None, own), root)
        await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    finally:
        await connection.close()
        await client.operator_service.delete_namespace(DeleteNamespaceRequest(namespace=name))


async def make_namespace(client: TemporalClient, name: str) -> None:
    """A namespace that knows our search attributes; it is usable some seconds after its making."""
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            await temporal_server.prepare(client, name)
        except (TemporalUnavailable, RPCError):
            if time.monotonic() > deadline:
                raise
        else:
            return
        await asyncio.sleep(0.1)


def payload_in(file: Path) -> bytes:
    """What a file of the payload folder holds, decrypted where encryption is on."""
    payload, keys = Payload.FromString(file.read_bytes()), environment_keyring()
    return payload.data if keys is None else decrypt_payload(keys, payload).data


def calls(*tools: tuple[str, dict[str, Any]], text: str = "") -> dict[str, Any]:
    """A script entry that calls tools."""
    return {"text": text, "tool_calls": [{"tool": tool, "args": args} for tool, args in tools]}


def tool(function: str, retry: str | None = None, **more: Any) -> dict[str, Any]:
    """A tool of the project, as a crew defines it."""
    return {
        "run": f"deeds:{function}",
        "heartbeat": 1,
        "policy": TRIES,
        **({"retry": retry} if retry else {"effects": "read"}),
        **more,
    }
