"""Where a run that has ended cannot go on, what it is called, and how an open one is deleted."""

from __future__ import annotations

import asyncio
import time

import pytest
from temporalio.client import WorkflowExecutionStatus

from crewlog.client import Run
from crewlog.client.starting import begin
from crewlog.errors import CommandRejected, RunFailed, UsageError
from crewlog.wire import StartRun

from .harness import LIMIT, RUN_LIMIT, Site

PROMPT = "The writer drafts notes. Then the checker checks them."


async def how(site: Site, run: Run) -> WorkflowExecutionStatus | None:
    return (await site.temporal.get_workflow_handle(run.id).describe()).status


async def taken_up_by_the_wire(site: Site, run: Run) -> RunFailed:
    """What a run ends with that another client starts with `reopen`."""
    again = StartRun(reopen="live", by="test")
    await begin(site.client(), run.id, "x", again, RUN_LIMIT, again=True)
    with pytest.raises(RunFailed) as caught:
        await run.result(LIMIT)
    return caught.value


async def test_a_run_without_a_journal_is_not_taken_up(crews: Site) -> None:
    away = crews.client("nobody-is-here")
    away.mentions = False
    run = await away.start(crews.crew({"a": [{"text": "A"}]}), "go", execution_timeout=RUN_LIMIT)
    await run.terminate("before its first task")
    with pytest.raises(UsageError, match="has no journal") as caught:
        await run.resume()
    assert f"crewlog rebuild {run.id}" in caught.value.remedy
    assert await how(crews, run) is WorkflowExecutionStatus.TERMINATED, "nothing was started"
    # Also where another client does not look first, nothing is left that hangs.
    assert "has no journal" in str(await taken_up_by_the_wire(crews, run))


async def test_a_prompt_that_was_stopped_before_its_approval_is_not_taken_up(crews: Site) -> None:
    run = await crews.start(PROMPT, model=crews.script({"writer": [{"text": "W"}]}))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await run.stop()
    assert (await run.result(LIMIT)).status == "stopped"
    with pytest.raises(UsageError, match="ended before it had a crew") as caught:
        await run.resume()
    assert "with the prompt" in caught.value.remedy
    assert await how(crews, run) is WorkflowExecutionStatus.COMPLETED


async def test_who_resumes_a_run_that_asks_is_sent_to_the_answer(crews: Site) -> None:
    run = await crews.start(crews.crew({"a": [{"text": "A"}]}, flow=["a", {"ask": "Well?"}]))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    command = await run.resume()
    async with asyncio.timeout(LIMIT):
        while command not in (commands := (await run.state()).commands):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    detail = commands[command].detail
    assert "it waits for an answer to i1: Well?" in detail
    assert f"crewlog answer {run.id}" in detail
    assert (await run.status()).interrupts == ("i1",)


async def test_a_stopped_run_is_called_stopped(crews: Site) -> None:
    run = await crews.start(crews.crew({"a": [{"text": "A"}]}, flow=["a", {"ask": "Well?"}]))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    await run.stop()
    await run.result(LIMIT)
    with pytest.raises(CommandRejected, match=r"ended \(stopped\): 'message' has no effect"):
        await run.message("too late")
    with pytest.raises(
        CommandRejected, match=r"ended \(stopped\): 'edit_state' has no effect"
    ) as caught:
        await run.edit_state({"shared.x": 1})
    assert f"crewlog resume {run.id}" in caught.value.remedy
    listed = {each.run: each.status for each in await crews.client().list(limit=1000)}
    assert listed[run.id] == "stopped"


async def test_a_run_that_waits_for_people_is_deleted_at_once(crews: Site) -> None:
    run = await crews.start(crews.crew({"a": [{"text": "A"}]}, flow=["a", {"ask": "Well?"}]))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    told: list[str] = []
    began = time.monotonic()
    done = await crews.client().delete(run.id, force=True, tell=told.append)
    # Ended first and deleted then, it takes the server more than twenty.
    assert time.monotonic() - began < 10
    crews.runs.remove(run)
    assert [each.status for each in done.runs] == ["terminated"]
    assert told[0] == f"deletes {run.id}"
