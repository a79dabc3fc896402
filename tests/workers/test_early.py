"""Queries that come by themselves while a workflow task is under way at a worker that dies."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import PollWorkflowTaskQueueRequest
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Replayer, Worker

from crewlog.workers.sandbox import AHEAD, sandbox
from early import Early
from shared import LIMIT, Lab

TRIES = 40
"""A query may be given to the worker that dies."""
TASK_TIMEOUT = timedelta(seconds=1)


async def dies_with_a_task(temporal: Client, queue: str) -> bool:
    """Whether a worker that does not answer got a workflow task, and not the query."""
    ask = PollWorkflowTaskQueueRequest(
        namespace=temporal.namespace, task_queue=TaskQueue(name=queue), identity="dies"
    )
    got = await temporal.workflow_service.poll_workflow_task_queue(ask)
    return not got.query.query_type


async def test_what_comes_after_a_query_that_met_a_dead_worker_s_task_is_told_with_it(
    lab: Lab,
) -> None:
    """The query is answered with a signal that no task has taken; then another signal comes."""
    temporal, queue = lab.client.temporal, lab.client.task_queue
    worker: dict[str, Any] = {"workflows": [Early], "workflow_runner": sandbox()}
    for number in range(TRIES):
        handle: WorkflowHandle[Early, list[str]] = await temporal.start_workflow(
            Early.run,
            id=f"{queue}-{number}",
            task_queue=queue,
            execution_timeout=timedelta(seconds=LIMIT),
            task_timeout=TASK_TIMEOUT,
        )
        async with Worker(temporal, task_queue=queue, max_cached_workflows=0, **worker):
            await handle.signal(Early.say, "a")
            while await handle.query(Early.said) != ["a"]:
                pass
        answer = asyncio.create_task(handle.query(Early.said))
        await asyncio.sleep(0.02)  # it is on its way, before there is a task that it could join
        await handle.signal(Early.say, "b")
        if not await dies_with_a_task(temporal, queue):
            answer.cancel()
            await handle.terminate()
            continue
        async with Worker(temporal, task_queue=queue, **worker):
            if await asyncio.wait_for(answer, LIMIT) != ["a", "b"]:
                await handle.terminate()
                continue  # it was late, and joined the next task
            await handle.signal(Early.say, "c")
            assert await asyncio.wait_for(handle.result(), LIMIT) == ["a", "b", "c"]
        history = await handle.fetch_history()
        await Replayer(**worker).replay_workflow(history)
        failed = [
            each.workflow_task_failed_event_attributes.failure.message
            for each in history.events
            if each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
        ]
        assert failed == [AHEAD]
        return
    pytest.fail("no query met a task that a dead worker had")
