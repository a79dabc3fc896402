"""Measures what a unit costs: the difference between a run of many units and one of few.

So nothing is in it that a run costs once. Of a run that waits for people between two units, only
the units are counted, and no difference is needed.

The client is in the caller's loop, and the worker in a thread of its own, on the event loop that
worker processes have: what the client does is not counted. Nothing that is counted depends on how
fast the machine is: see `tests.costs.steady` and `tests.costs.gate`.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import secrets
import shutil
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client as TemporalClient
from tests.costs.counting import Counts, Tally
from tests.costs.gate import Gate
from tests.costs.steady import LONG, steady
from tests.costs.units import Unit

from bench.crews import Crew
from bench.history import events_of, is_idle
from crewlog.activities import chat_models
from crewlog.client import Client, Endpoints, Run
from crewlog.client.session import LazyStore
from crewlog.definition.load import load_data
from crewlog.ids import CrewName
from crewlog.payload_storage.converter import data_converter
from crewlog.store import PostgresStore, Store
from crewlog.workers.settings import WorkerSettings
from crewlog.workers.worker import loop_factory, running_worker

IDENTITY = "1234567@costs-worker"
"""Of the client and the worker: in three events of a step, else as long as the machine's name."""
LIMIT = timedelta(seconds=120)
TRIES = 3
"""Runs of each size, of which the cheapest counts: what disturbs a run only adds to its costs."""
_TASK = EventType.EVENT_TYPE_WORKFLOW_TASK_SCHEDULED
_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class Counted:
    """What was counted of one run; by default nothing."""

    figures: Mapping[str, float] = field(default_factory=dict[str, float])
    functions: Counter[str] = field(default_factory=Counter[str])


@dataclass(frozen=True)
class Cost:
    """What one unit costs."""

    figures: dict[str, float]
    """By the names of `report.FIGURES`."""
    functions: dict[str, float]
    """Calls of each Python function."""


class Meter:
    """A worker whose work is counted, and a client; made by `metering`."""

    def __init__(self, temporal: TemporalClient, store: Store, client: Client, counts: Counts):
        self.temporal = temporal
        self.client = client
        self.gate = Gate()
        self._store = store
        self._counts = counts
        self._crews: set[str] = set()
        self._warm: set[str] = set()

    async def cost(self, unit: Unit, enough: Callable[[Cost], bool] = lambda _: False) -> Cost:
        """What a unit costs.

        Args:
            unit: The unit.
            enough: Whether a measurement is good enough, so that it is not repeated.
        """
        few: list[Counted] = []
        many: list[Counted] = []
        while True:
            few.append(await unit.run(self, unit.few) if unit.few else Counted())
            many.append(await unit.run(self, unit.many))
            found = _difference(_least(few), _least(many), unit.many - unit.few)
            if len(many) == TRIES or enough(found):
                return found

    async def to_its_end(self, crew: Crew, gated: int = 0) -> Counted:
        """Counts a run from its start to its end, once another run of the crew has ended.

        Args:
            crew: The run's crew.
            gated: How many calls the gate holds.
        """
        name = await self._register(crew)
        if name not in self._warm:
            self._warm.add(name)
            await self.to_its_end(crew, gated)
        self.gate.close(gated)
        with self._counting() as tally:
            run = await self._start(name)
            await self.temporal.get_workflow_handle(run.id).result()
            await self._settled(run)
        return _counted(await self._events(run), tally)

    async def at_rest(
        self,
        crew: Crew,
        ready: Callable[[Run], Awaitable[None]],
        act: Callable[[Run, int], Awaitable[None]],
        *,
        before: int,
        count: int,
    ) -> Counted:
        """Counts what a client has a run do that waits for people, one after the other.

        Args:
            crew: The run's crew.
            ready: Waits until the run waits for people.
            act: Has it do something, for the so manieth time.
            before: How often it is done before it counts.
            count: How often it is done then.
        """
        run = await self._start(await self._register(crew))
        await ready(run)
        await self._settled(run)
        for number in range(before):
            await act(run, number)
            await self._settled(run)
        already = len(await self._events(run))
        with self._counting() as tally:
            for number in range(before, before + count):
                await act(run, number)
                await self._settled(run)
        counted = _counted((await self._events(run))[already:], tally)
        await run.terminate("measured")
        return counted

    async def _register(self, crew: Crew) -> str:
        name = str(crew["crew"])
        if name not in self._crews:
            definition = load_data(dict(crew)).to_json()
            await self._store.register_crew(CrewName(name), definition, int(time.time() * 1000))
            self._crews.add(name)
        return name

    async def _start(self, name: str) -> Run:
        id = f"costs-{next(_NUMBERS):04}"
        return await self.client.start(name, "go", id=id, by="costs", execution_timeout=LIMIT)

    @contextmanager
    def _counting(self) -> Iterator[Tally]:
        # What the collector finalizes, it would find at another time in every run.
        gc.collect()
        gc.disable()
        try:
            with self._counts.counting() as tally:
                yield tally
        finally:
            gc.enable()

    async def _settled(self, run: Run) -> None:
        """Waits until neither the server nor the worker has anything to do for a run."""
        while True:
            before = self._counts.moves()
            idle = await is_idle(self, run.id)
            await asyncio.sleep(0.02)
            if idle and self._counts.moves() == before:
                return

    async def _events(self, run: Run) -> list[HistoryEvent]:
        return await events_of(self, self.temporal.get_workflow_handle(run.id))


def _counted(events: list[HistoryEvent], tally: Tally) -> Counted:
    figures: dict[str, float] = {
        "history_bytes": sum(map(_size, events)),
        "events": len(events),
        "workflow_tasks": sum(event.event_type == _TASK for event in events),
        "round_trips": tally.round_trips,
        "serialisations": tally.serialisations,
        "validations": tally.validations,
        "calls": tally.functions.total(),
    }
    return Counted(figures, tally.functions)


def _size(event: HistoryEvent) -> int:
    """Bytes of an event with a time of the greatest length: nanoseconds are a varint."""
    event.event_time.nanos = 999_999_999
    return event.ByteSize()


def _least(runs: list[Counted]) -> Counted:
    figures = {name: min(run.figures[name] for run in runs) for name in runs[0].figures}
    return Counted(figures, min(runs, key=lambda run: run.functions.total()).functions)


def _difference(few: Counted, many: Counted, units: int) -> Cost:
    figures = {
        name: (value - few.figures.get(name, 0)) / units for name, value in many.figures.items()
    }
    names = few.functions.keys() | many.functions.keys()
    functions = {name: (many.functions[name] - few.functions[name]) / units for name in names}
    return Cost(figures, functions)


@asynccontextmanager
async def metering(endpoints: Endpoints, database: str) -> AsyncGenerator[Meter]:
    """A meter on servers that run; `database` is the URL of an empty database."""
    root = Path(tempfile.mkdtemp(prefix="crewlog-costs-"))
    queue = f"costs-{secrets.token_hex(6)}"
    counts = Counts()
    store = await PostgresStore.connect(database)
    temporal = await _connected(endpoints, root)

    async def opened() -> Store:
        return store

    client = Client(temporal, endpoints, LazyStore(store, opened), queue)
    meter = Meter(temporal, store, client, counts)
    settings = WorkerSettings(
        task_queue=queue,
        payloads=root / "payloads",
        workspace=root / "workspace",
        shutdown_seconds=0.5,
        max_cached_runs=1000,
        # A task that waits a second for a busy machine is not one of another worker.
        sticky_seconds=LONG,
    )
    chat_models.register("bench", "bench.peers.model:build")
    chat_models.register("costs", meter.gate.build)
    try:
        with steady(), counts.installed():
            worker = _Worker(endpoints, database, root, settings, meter.gate, counts)
            try:
                await worker.ready()
                yield meter
            finally:
                await worker.end()
    finally:
        await store.close()
        shutil.rmtree(root, ignore_errors=True)


async def _connected(endpoints: Endpoints, root: Path) -> TemporalClient:
    return await TemporalClient.connect(
        endpoints.address,
        namespace=endpoints.namespace,
        data_converter=data_converter(root / "payloads", keys=None),
        identity=IDENTITY,
    )


class _Worker:
    """A worker in a thread of its own, on the event loop of worker processes."""

    def __init__(
        self,
        endpoints: Endpoints,
        database: str,
        root: Path,
        settings: WorkerSettings,
        gate: Gate,
        counts: Counts,
    ) -> None:
        self._given = (endpoints, database, root, settings, gate, counts)
        self._polls: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._main, name="costs-worker", daemon=True)
        self._thread.start()

    async def ready(self) -> None:
        """Waits until it polls."""
        await asyncio.wrap_future(self._polls)

    async def end(self) -> None:
        """Ends it."""
        if self._polls.done() and self._polls.exception() is None:
            loop, stop = self._polls.result()
            loop.call_soon_threadsafe(stop.set)
        await asyncio.to_thread(self._thread.join)

    def _main(self) -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:
            if self._polls.done():
                raise
            self._polls.set_exception(error)

    async def _serve(self) -> None:
        endpoints, database, root, settings, gate, counts = self._given
        counts.store_thread = threading.get_ident()
        # One connection: a statement is prepared once on each.
        store = await PostgresStore.connect(database, max_size=1)
        try:
            temporal = await _connected(endpoints, root)
            async with running_worker(temporal, store, settings) as worker:
                stop = asyncio.Event()
                gate.attach(worker._bridge_worker)
                self._polls.set_result((asyncio.get_running_loop(), stop))
                await stop.wait()
        finally:
            await store.close()
