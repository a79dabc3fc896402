"""Dry runs of changes and the ids of changes: neither is ever taken for the other."""

from __future__ import annotations

import asyncio
import secrets
from datetime import timedelta
from typing import Any

import pytest
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from client.stub_run import StubRun
from crewlog.client import Run
from crewlog.definition.operations import RemoveAgent
from crewlog.errors import CommandConflict, CommandRejected, UsageError, WorkerMissing
from crewlog.wire import WORKFLOW_TYPE
from shared import LIMIT, Lab

REMOVE = [RemoveAgent(name="b")]


async def started(lab: Lab, **data: Any) -> Run:
    handle = await lab.client.temporal.start_workflow(
        WORKFLOW_TYPE,
        data,
        id=f"stub-{secrets.token_hex(4)}",
        task_queue=lab.client.task_queue,
        execution_timeout=timedelta(seconds=LIMIT * 2),
    )
    return lab.client.run(handle.id)


def working(lab: Lab) -> Worker:
    return Worker(
        lab.client.temporal,
        task_queue=lab.client.task_queue,
        workflows=[StubRun],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


async def test_a_dry_run_that_nobody_answers_says_that_nothing_was_changed(lab: Lab) -> None:
    run = await started(lab)
    with pytest.raises(WorkerMissing) as dry:
        await run.change(operations=REMOVE, dry_run=True, id="ch1")
    assert "nothing was changed yet" in dry.value.remedy
    assert "ch1" not in str(dry.value)
    with pytest.raises(WorkerMissing, match="no worker answers") as real:
        await run.change(operations=REMOVE, id="ch2")
    assert "the command 'ch2' was applied is not known" in real.value.remedy


async def test_a_dry_run_leaves_its_id_unused(lab: Lab) -> None:
    run = await started(lab)
    async with working(lab):
        assert (await run.change(operations=REMOVE, dry_run=True, id="ch1")).plan
        changed = await run.change(operations=REMOVE, id="ch1", wait=False)
        assert (changed.id, changed.plan) == ("ch1", {})
        await run.stop()


async def test_an_operation_may_be_data_and_one_that_is_none_is_refused(lab: Lab) -> None:
    run = await started(lab)
    data: list[dict[str, Any]] = [{"op": "remove_agent", "name": "b"}]
    async with working(lab):
        changed = await run.change(operations=data, id="ch1", wait=False)
        # Sent again as what it is, it is the same command.
        assert (await run.change(operations=REMOVE, id="ch1", wait=False)) == changed
        for none in ({"op": "remove_agnet", "name": "b"}, {}):
            with pytest.raises(UsageError, match=r"operations\[0\]|operations\.0"):
                await run.change(operations=[none])
        await run.stop()


async def test_the_outcome_of_a_dry_run_is_refused_as_that_of_a_change(lab: Lab) -> None:
    run = await started(lab)
    command: dict[str, Any] = {"id": "ch1", "operations": [{"op": "remove_agent", "name": "b"}]}
    async with working(lab):
        # Another client, which sends a dry run by the id of the change.
        handle = lab.client.temporal.get_workflow_handle(run.id)
        await handle.execute_update("change", {**command, "dry_run": True}, id="ch1")
        with pytest.raises(CommandConflict, match="'ch1' was used for a dry run"):
            await run.change(operations=REMOVE, id="ch1")
        told = await run.change(operations=REMOVE, id="ch2", dry_run=True)
        with pytest.raises(CommandConflict, match="'ch2' was used for a dry run"):
            await run.swapped(told)
        await run.stop()


async def test_a_swap_that_nobody_accepted_is_not_waited_for(lab: Lab) -> None:
    run = await started(lab, entry={"kind": "Paused", "at": 1})
    async with working(lab), asyncio.timeout(LIMIT):
        with pytest.raises(CommandRejected, match=r"accepted no change to graph v2 at position 1"):
            await run.change(operations=REMOVE, id="ch1")
        await run.stop()
