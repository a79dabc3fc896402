"""Commands that meet the seam between two executions, and answers of newer workers."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from client.stub_run import StubRun
from crewlog.client import Run
from crewlog.errors import UsageError
from crewlog.wire import WORKFLOW_TYPE
from shared import LIMIT, Lab


@pytest.fixture(autouse=True)
async def stub(lab: Lab) -> AsyncIterator[None]:
    async with Worker(
        lab.client.temporal,
        task_queue=lab.client.task_queue,
        workflows=[StubRun],
        workflow_runner=UnsandboxedWorkflowRunner(),
    ):
        yield


async def start(lab: Lab, **data: Any) -> Run:
    handle = await lab.client.temporal.start_workflow(
        WORKFLOW_TYPE,
        data,
        id=f"stub-{secrets.token_hex(4)}",
        task_queue=lab.client.task_queue,
        execution_timeout=timedelta(seconds=LIMIT * 2),
    )
    return lab.client.run(handle.id)


async def test_an_update_refused_by_a_closing_run_is_repeated(lab: Lab) -> None:
    run = await start(lab, closing=5)
    assert (await run.answer("i1", "yes", id="r1")).position == 1
    assert (await run.status()).steps == 5
    await run.stop()
    await run.result(LIMIT)


async def test_an_update_cut_off_by_continue_as_new_is_repeated(lab: Lab) -> None:
    run = await start(lab, cut_off=True)
    # Applied in the first execution, which ended without an answer; answered by the second.
    assert (await run.answer("i1", "yes", id="r1")).position == 1
    assert (await run.answer("i1", "yes", id="r2")).position == 2
    await run.stop()
    await run.result(LIMIT)


async def test_fields_of_a_newer_worker_are_ignored(lab: Lab) -> None:
    run = await start(lab)
    assert (await run.status()).usage.calls == 1
    await run.stop()
    assert (await run.result(LIMIT)).status == "completed"


async def test_an_entry_of_a_newer_worker_is_not_skipped(lab: Lab) -> None:
    run = await start(lab)
    with pytest.raises(UsageError, match=r"position 1 .* holds a 'Unheard' that this version"):
        async for _ in run.events():
            pass
    await run.stop()
