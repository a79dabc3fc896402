"""The stand that faults are done on: services with durable data, the ledger, forked workers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from temporalio.client import Client as TemporalClient

from acceptance.harness import Site
from crewlog.activities.batches import Batches
from crewlog.client import Client, Run
from crewlog.dev import postgres
from crewlog.dev.ephemeral import Ephemeral, own_environ
from crewlog.dev.paths import Home
from crewlog.dev.processes import Watchdog
from crewlog.dev.services import Services
from crewlog.ids import RunId
from crewlog.payload_storage.converter import data_converter
from crewlog.state.calls import CALL_MODEL, CALL_TOOL, CallInput, CallModel, CallTool
from crewlog.store import PostgresStore

from .audit import Completion, Evidence
from .fleet import Fleet, Nursery
from .ledger import Ledger
from .points import Points
from .victims import PostgresVictim, TemporalVictim, Victim
from .worker import LEDGER, ORDERS

CALLS: dict[str, type[CallInput]] = {CALL_MODEL: CallModel, CALL_TOOL: CallTool}
"""The activities whose results the run applies."""


@dataclass
class Stand:
    """Services, a site of the acceptance tests on them, a ledger, and a process that forks."""

    site: Site
    nursery: Nursery
    ledger: Ledger
    postgres: Victim
    temporal: Victim | None
    """None where the server is somebody else's: a cluster's processes are victims of their own."""

    def client(self, queue: str) -> Client:
        return self.site.client(queue)

    def fleet(self, queue: str, size: int, **environ: str) -> Fleet:
        """Workers on a task queue, with points of their own; to be opened."""
        folder = self.site.root / queue
        folder.mkdir()
        points = Points(folder / "orders", self.ledger)
        points.create()
        whole = {
            **self.site.environ(queue),
            "CREWLOG_SCRIPT_RECORD": "",  # a thousand long prompts are not looked at
            LEDGER: str(self.ledger.path),
            ORDERS: str(folder / "orders"),
            **environ,
        }
        return Fleet(self.nursery, whole, folder, points, self.ledger, size)

    # -- evidence ----------------------------------------------------------------------------

    async def evidence(self, run: Run, ended: str) -> Evidence:
        """All that is known of a run; its workers must be there, to tell the live state."""
        journal = await self.site.journal(run)
        completions, executions = await self._completions(run)
        states = {}
        if journal:
            snapshot = await self.site.store.get_snapshot(RunId(run.id), journal[-1][0])
            live = await run.state()
            states["the workflow's state"] = live
            if snapshot is not None and snapshot.position == journal[-1][0]:
                states["the stored state"] = type(live).from_json(snapshot.state)
        return Evidence(
            run=run.id,
            ended=ended,
            journal=journal,
            states=states,
            tries=self.ledger.tries(run.id),
            deposits=self.ledger.deposits(run.id),
            clashes=self.ledger.clashes(run.id),
            sent=self.ledger.sent(run.id),
            completions=completions,
            calls=self.ledger.calls(run.id),
            executions=executions,
        )

    async def _completions(self, run: Run) -> tuple[list[Completion], int]:
        """What the server took, over all executions, and how many those are."""
        temporal = self.site.temporal
        execution = (await temporal.get_workflow_handle(run.id).describe()).run_id
        batches = Batches(self.site.store)
        found: list[Completion] = []
        count = 0
        while execution:
            count += 1
            handle = temporal.get_workflow_handle(run.id, run_id=execution)
            history = await handle.fetch_history()
            events = {event.event_id: event for event in history.events}
            for event in history.events:
                if not event.HasField("activity_task_completed_event_attributes"):
                    continue
                done = event.activity_task_completed_event_attributes
                begun = events[done.started_event_id].activity_task_started_event_attributes
                ordered = events[done.scheduled_event_id].activity_task_scheduled_event_attributes
                name = ordered.activity_type.name
                step, call, view = "", 0, {}
                if name in CALLS:
                    [data] = await temporal.data_converter.decode(ordered.input.payloads)
                    given = CALLS[name].model_validate({**data, "run": run.id})
                    task = await batches.unpack_input(given)
                    step, call, view = task.step, task.call, task.view.heads
                found.append(
                    Completion(
                        execution, ordered.activity_id, name, step, call, begun.attempt, view
                    )
                )
            first = history.events[0].workflow_execution_started_event_attributes
            execution = first.continued_execution_run_id
        return found, count


@asynccontextmanager
async def make_stand(root: Path, *, address: str | None = None) -> AsyncGenerator[Stand]:
    """A stand in `root`; everything that it started is ended at the end of the block.

    Args:
        root: A folder that is there; the caller removes it.
        address: A Temporal server to use, that of a cluster, instead of a local one.
    """
    home = Home.at(root / "home")
    watchdog = await asyncio.to_thread(Watchdog)
    nursery = Nursery()
    (root / "project").mkdir()
    (root / "ledger").mkdir()
    ledger = Ledger(root / "ledger.db")
    ledger.create()
    try:
        await asyncio.to_thread(home.create)
        _, database = await asyncio.gather(
            nursery.open(),
            postgres.start(home, on_spawn=lambda p: watchdog.watch(p, signal.SIGQUIT)),
        )
        environ = {**own_environ(), "DATABASE_URL": database.address}
        if address:
            environ["TEMPORAL_ADDRESS"] = address
        services = Services(home, environ=environ, watchdog=watchdog)
        ends = replace(await services.ensure(), database_url=database.address)
        temporal = await TemporalClient.connect(
            ends.temporal_address, data_converter=data_converter(root / "payloads")
        )
        store = await PostgresStore.connect(database.address)
        site = Site(Ephemeral(ends, services, home), root, temporal, store)
        server = TemporalVictim(services) if not address else None
        keeper = PostgresVictim(database, home, watchdog)
        try:
            yield Stand(site, nursery, ledger, keeper, server)
        finally:
            await store.close()
            await keeper.kill(signal.SIGQUIT)
            if server is not None:
                await server.kill()
    finally:
        await nursery.close()
        await asyncio.to_thread(watchdog.close)
