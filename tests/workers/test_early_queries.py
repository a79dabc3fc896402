"""Queries that bring events before a workflow task has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle, WorkflowHistory
from temporalio.worker import Replayer, Worker

from crewlog.workers.sdk_workarounds import WorkerHost
from crewlog.workers.workflow_runner import CrewRunner
from early import Early, breathe
from shared import LIMIT, Lab

Handle = WorkflowHandle[Early, list[tuple[str, float]]]

TRIES = 60
"""What comes first, a query or a task, is the server's choice."""
TASK_TIMEOUT = timedelta(seconds=1)


@asynccontextmanager
async def worker(lab: Lab, **options: Any) -> AsyncIterator[Worker]:
    runner = CrewRunner()
    running = Worker(
        lab.client.temporal,
        task_queue=lab.client.task_queue,
        workflows=[Early],
        activities=[breathe],
        workflow_runner=runner,
        **options,
    )
    runner.attach(running)
    async with running:
        yield running


async def told_a(lab: Lab, number: int) -> Handle:
    """An execution that was told one thing, and is in no worker's memory."""
    temporal, queue = lab.client.temporal, lab.client.task_queue
    handle: Handle = await temporal.start_workflow(
        Early.run,
        id=f"{queue}-{number}",
        task_queue=queue,
        execution_timeout=timedelta(seconds=LIMIT),
        task_timeout=TASK_TIMEOUT,
    )
    async with worker(lab, max_cached_workflows=0):
        await handle.signal(Early.say, "a")
        while await handle.query(Early.said) != "a":
            pass
    return handle


async def asked_and_told_b(handle: Handle) -> asyncio.Task[str]:
    """A query that is on its way, as no worker is there, and then a signal."""
    answer = asyncio.create_task(handle.query(Early.said))
    await asyncio.sleep(0.02)  # the server must have it before there is a task that it could join
    await handle.signal(Early.say, "b")
    return answer


def times(history: WorkflowHistory) -> list[float]:
    """When the task began that took a signal, for each of them."""
    found: list[float] = []
    waiting, began = 0, 0.0
    for each in history.events:
        if each.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            waiting += 1
        elif each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED:
            began = each.event_time.ToNanoseconds() / 1e9
        elif each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED:
            found += [began] * waiting
            waiting = 0
    return found


async def test_events_of_a_query_are_processed_by_their_task(lab: Lab) -> None:
    """Whatever time it was when the query was answered: a replay tells it then, and all at once.

    A server may also give a task to a worker that dies, and the query to another worker. The local
    server gives the query first, so `test_workflow_runner` has that case.
    """
    met = 0
    for number in range(TRIES):
        handle = await told_a(lab, number)
        answer = await asked_and_told_b(handle)
        async with worker(lab):
            met += await asyncio.wait_for(answer, LIMIT) == "ab"
            async with asyncio.timeout(LIMIT):
                while len(times(await handle.fetch_history())) < 2:
                    pass  # nothing else comes with it
            await handle.signal(Early.say, "c")
            said = await asyncio.wait_for(handle.result(), LIMIT)
        history = await handle.fetch_history()
        assert [round(at, 6) for _, at in said] == [round(at, 6) for at in times(history)]
        await Replayer(workflows=[Early], workflow_runner=CrewRunner()).replay_workflow(history)
        if met == 8:
            return
    pytest.fail("no query met what no task had taken")


async def test_no_update_is_lost_after_an_early_query(lab: Lab) -> None:
    """The task is under way to the very worker that the query has told of it."""
    temporal, queue = lab.client.temporal, lab.client.task_queue
    met = 0
    async with worker(lab) as running:
        for number in range(TRIES):
            handle: Handle = await temporal.start_workflow(
                Early.run,
                id=f"{queue}-{number}",
                task_queue=queue,
                execution_timeout=timedelta(seconds=LIMIT),
            )
            await handle.signal(Early.say, "a")
            while await handle.query(Early.said) != "a":
                pass
            execution = handle.first_execution_run_id
            running._bridge_worker.request_workflow_eviction(execution)  # its history is read anew
            answer = asyncio.create_task(handle.query(Early.said))
            told, *heard = await asyncio.wait_for(
                asyncio.gather(
                    handle.signal(Early.say, "b"),
                    *(handle.execute_update(Early.hear, each, id=each) for each in "xyz"),
                ),
                LIMIT,
            )
            assert (told, heard) == (None, ["x", "y", "z"])
            met += await answer == "ab"
            await handle.terminate()
            if met == 20:
                return
    pytest.fail(f"{met} queries of {TRIES} met what no task had taken")


async def test_a_queried_run_stays_in_the_cache(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    evicted: list[str] = []
    monkeypatch.setattr(WorkerHost, "evict", lambda _, execution: evicted.append(execution))
    handle = await told_a(lab, 0)
    async with worker(lab):
        await handle.signal(Early.say, "b")
        while await handle.query(Early.said) != "ab":
            pass
        await handle.signal(Early.say, "c")
        await asyncio.wait_for(handle.result(), LIMIT)
        for _ in range(10):
            assert await handle.query(Early.said) == "abc"
    assert not evicted
