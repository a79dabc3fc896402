"""A worker that completes the task which a command came with, and leaves the command out."""

from __future__ import annotations

import asyncio

from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import (
    PollWorkflowTaskQueueRequest,
    RespondWorkflowTaskCompletedRequest,
)
from temporalio.client import Client

from client.crews import asking
from shared import LIMIT, Lab


async def completes_one(temporal: Client, queue: str) -> list[str]:
    """The updates of a workflow task that is completed without a word about them."""
    got = await temporal.workflow_service.poll_workflow_task_queue(
        PollWorkflowTaskQueueRequest(
            namespace=temporal.namespace, task_queue=TaskQueue(name=queue), identity="forgets"
        )
    )
    await temporal.workflow_service.respond_workflow_task_completed(
        RespondWorkflowTaskCompletedRequest(
            task_token=got.task_token, namespace=temporal.namespace, identity="forgets"
        )
    )
    return [message.protocol_instance_id for message in got.messages]


async def test_a_command_that_a_worker_left_out_is_sent_again(lab: Lab) -> None:
    async with lab.worker():
        run = await lab.start(asking())
        await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    answering = asyncio.create_task(run.answer("i1", "yes", id="r1"))
    left_out = await asyncio.wait_for(
        completes_one(lab.client.temporal, lab.client.task_queue), LIMIT
    )
    assert len(left_out) == 1
    async with lab.worker():
        await asyncio.wait_for(answering, LIMIT)
        assert (await run.result(LIMIT)).status == "completed"
    entries = [each.entry async for each in run.events()]
    assert [e.command for e in entries if e.kind == "InterruptAnswered"] == ["r1"]
