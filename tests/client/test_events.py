"""The cursor over a run's journal: complete, in order, without repetition, whatever happens."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack

import pytest

from client import crews
from crewlog.client import Endpoints, Event, Run
from crewlog.errors import RunFailed, RunNotFound, StoreUnavailable, WorkerMissing
from crewlog.run_status import ENDED
from crewlog.store import InMemoryStore, Store
from shared import LIMIT, Lab, make_lab


async def events_of(run: Run, after: int = 0) -> list[Event]:
    async with asyncio.timeout(LIMIT):
        return [event async for event in run.events(after)]


def assert_complete(events: list[Event], first: int = 1) -> None:
    assert [e.position for e in events] == list(range(first, first + len(events)))
    assert events[-1].entry.kind == "RunCompleted"


@pytest.mark.usefixtures("worker")
async def test_every_entry_once_and_in_order(lab: Lab) -> None:
    run = await lab.start(crews.line())
    events = await events_of(run)
    assert_complete(events)
    assert events[0].entry.kind == "RunStarted"
    assert all(event.run == run.id and event.at > 0 for event in events)
    assert str(events[3]) == "4 StepStarted step='writer#1' agent='writer'"


@pytest.mark.usefixtures("worker")
async def test_a_reconnection_misses_nothing_and_repeats_nothing(lab: Lab) -> None:
    run = await lab.start(crews.line())
    whole = await events_of(run)
    for after in range(len(whole) - 1):
        assert await events_of(lab.client.run(run.id), after) == whole[after:]


async def test_over_many_executions_with_either_store(server: Endpoints, store: Store) -> None:
    lab = await make_lab(server, store)
    async with lab.worker():
        run = await lab.start(crews.looping(20))
        live, late = await asyncio.gather(events_of(run), run.result(LIMIT))
        assert late.executions > 2
        assert_complete(live)
        # A second reader begins when the first execution is long gone.
        assert await events_of(run) == live
        page = await run.journal(after=3, limit=5)
        assert [item.position for item in page.entries] == [4, 5, 6, 7, 8]
        whole = await run.journal(limit=1000)
        assert [i.position for i in whole.entries] == [e.position for e in live]
        points = await run.checkpoints(limit=1000)
        steps = [e.position for e in live if e.entry.kind == "StepCompleted"]
        assert [c.position for c in points.checkpoints if c.kind == "step"] == steps
        assert points.checkpoints[0].kind == "start"


async def test_the_worker_is_replaced_in_the_middle(lab: Lab) -> None:
    seen: list[Event] = []
    async with AsyncExitStack() as first:
        await first.enter_async_context(lab.worker())
        run = await lab.start(crews.looping(12))
        async with asyncio.timeout(LIMIT):
            async for event in run.events():
                seen.append(event)
                if event.position == 20:
                    await first.aclose()
                    await first.enter_async_context(lab.worker())
    assert_complete(seen)


async def test_without_a_worker_the_store_tells_what_it_has(lab: Lab) -> None:
    async with lab.worker():
        run = await lab.start(crews.line())
        await run.result(LIMIT)
        whole = await events_of(run)
    assert await events_of(run) == whole


async def test_without_a_worker_an_open_run_is_waited_for(lab: Lab) -> None:
    run = await lab.start(crews.line())
    reading = asyncio.create_task(events_of(run))
    with pytest.raises(WorkerMissing, match=r"no worker answers .* the run is safe"):
        await run.status()
    assert not reading.done()
    async with lab.worker():
        assert_complete(await reading)


@pytest.mark.usefixtures("worker")
async def test_a_terminated_run_ends_the_events(lab: Lab) -> None:
    run = await lab.start(crews.asking())
    await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    reading = asyncio.create_task(events_of(run))
    await run.terminate("enough")
    events = await reading
    assert events[-1].entry.kind not in {"RunCompleted", "RunStopped", "RunFailed"}
    assert [e.position for e in events] == list(range(1, len(events) + 1))


async def test_a_terminated_run_without_a_worker_is_told_at_once(lab: Lab) -> None:
    async with lab.worker():
        run = await lab.start(crews.asking())
        await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    await run.terminate("enough")
    began = time.monotonic()
    with pytest.raises(RunFailed, match=r"terminated from outside; known up to position \d"):
        await events_of(run)
    with pytest.raises(RunFailed, match=r"terminated from outside: enough; known up to position"):
        await run.result(LIMIT)
    assert time.monotonic() - began < LIMIT / 2


async def test_a_missing_worker_is_logged_once(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    await lab.start(crews.asking())
    await lab.start(crews.asking())
    told = [r.message for r in caplog.records if r.name == "crewlog.client"]
    assert len(told) == 1
    assert "no worker polls" in told[0]


@pytest.mark.usefixtures("worker")
async def test_a_run_that_fails_at_its_start_has_no_events(lab: Lab) -> None:
    handle = await lab.client.temporal.start_workflow(
        "CrewRun", {"crew": 7}, id="bad-start-1", task_queue=lab.client.task_queue
    )
    assert await events_of(lab.client.run(handle.id)) == []


async def test_an_unknown_run(lab: Lab) -> None:
    with pytest.raises(RunNotFound, match="there is no run 'nobody'"):
        await events_of(lab.client.run("nobody"))


async def test_older_entries_without_a_store(server: Endpoints) -> None:
    lab = await make_lab(server, InMemoryStore(), with_store=False)
    async with lab.worker():
        run = await lab.start(crews.looping(12))
        await run.wait_until(lambda view: view.status in ENDED, timeout=LIMIT)
        with pytest.raises(StoreUnavailable):
            await run.journal()
        # What the last execution has needs no store.
        position = (await run.status()).position
        assert (await run.journal(after=position - 2)).entries
