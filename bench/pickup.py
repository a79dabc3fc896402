"""A cold worker: its first task of an execution of 2,000 events, from getting it to its end.

The run waits for people. Its worker ends, another process starts, and a signal wakes the run: the
new worker gets the whole history and replays it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent

from bench.cases import Bench
from bench.crews import Crew, ring
from bench.history import executions_of, is_idle, ms_between
from bench.pairs import Figure, figure
from bench.site import Site
from crewlog.client import Run

STEPS = 330
"""Six events each."""
LEAST_EVENTS = 1_950
LIMIT = 60.0
_STARTED = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
_DONE = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED


async def run(bench: Bench, steps: int = STEPS) -> list[Figure]:
    """One run, with a new worker in every round."""
    site = bench.site
    peer = await site.spawn("engine", "bench.peers.worker", "engine")
    run = await site.client(peer.queue).start(asking_ring(steps), "go", by="bench")
    found: list[float] = []
    try:
        await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
        for number in range(1, bench.pairs + 1):
            await peer.end()
            peer = await site.spawn("engine", "bench.peers.worker", "engine", queue=peer.queue)
            found.append(await picked_up(site, run, steps))
            bench.told("pickup", "s")(number, {"first task": found[-1]})
    finally:
        await run.terminate("measured")
        await peer.end()
    return [figure("cold_pickup_s", found)]


def asking_ring(steps: int) -> Crew:
    """A ring that is gone around in one execution, then a question that nobody answers."""
    crew = ring(steps)
    return {**crew, "flow": [*crew["flow"], {"ask": "Go on?"}], "limits": {"events": 20_000}}


async def picked_up(site: Site, run: Run, steps: int) -> float:
    """Wakes the run; how long the first task took that its new worker got, in seconds."""
    before = len(await _at_rest(site, run))
    assert before >= LEAST_EVENTS * steps / STEPS
    await run.message("still there?")
    deadline = time.monotonic() + LIMIT
    while True:
        events = (await _events(site, run))[before:]
        ended = next((e for e in events if e.event_type == _DONE), None)
        if ended is not None:
            started = ended.workflow_task_completed_event_attributes.started_event_id
            begun = next(e for e in events if e.event_id == started)
            assert begun.event_type == _STARTED
            return ms_between(begun, ended) / 1000
        assert time.monotonic() < deadline, "no worker took the run"
        await asyncio.sleep(0.1)


async def _at_rest(site: Site, run: Run) -> Sequence[HistoryEvent]:
    """The events of the run, once it is idle: the round before may leave a flush pending."""
    deadline = time.monotonic() + LIMIT
    while not await is_idle(site, run.id):
        assert time.monotonic() < deadline, "the run does not become idle"
        await asyncio.sleep(0.1)
    return await _events(site, run)


async def _events(site: Site, run: Run) -> Sequence[HistoryEvent]:
    return (await executions_of(site, site.temporal.get_workflow_handle(run.id)))[-1]
