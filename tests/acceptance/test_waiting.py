"""A run that waits says for what: in its page, in lists, in searches, and in its trace."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from crewlog.client import Run
from crewlog.client.pending_calls import pending_calls
from crewlog.reporting.trace.view import PendingCall

from .harness import LIMIT, SHARED, Site, calls, tool

SLOW = {"first": 3, "backoff": 1, "longest": 3, "attempts": 5}
FAILS = {"fail": "unavailable", "times": 1}
QUEUE = "waiting"


@pytest.fixture
async def lacking(site: Site) -> AsyncIterator[Site]:
    """The site with a worker that knows the tools as they are now."""
    await site.start_worker(QUEUE)
    yield site
    await asyncio.to_thread(site.end_workers, QUEUE)


async def command_line(site: Site, *words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crewlog.cli.main", *words),
        env=site.environ(SHARED),
        cwd=site.project,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, said = await asyncio.wait_for(process.communicate(), LIMIT)
    assert process.returncode == 0, said
    return out.decode()


async def seen(site: Site, run: Run, reason: str) -> PendingCall:
    """The first call of a run that waits for something."""
    async with asyncio.timeout(LIMIT):
        while True:
            for call in await pending_calls(site.client().gateway, run.id):
                if call.reason == reason:
                    return call
            await asyncio.sleep(0.02)


async def test_a_step_that_is_tried_again_says_why_and_when(crews: Site) -> None:
    site = crews
    crew = site.crew({"a": [FAILS, {"text": "A"}]}, rules={"a": {"retry": SLOW}})
    run = await site.start(crew)
    call = await seen(site, run, "failure")
    assert (call.step, call.agent, call.tool, call.call) == ("a#1", "a", "", 1)
    assert (call.attempt, call.max_attempts, call.error_type) == (2, 5, "ModelUnavailable")
    assert "lets 'a' fail" in call.error
    assert call.next_at is not None
    assert call.scheduled_at is not None
    assert call.next_at == call.attempt_at > call.scheduled_at

    result = await run.result(LIMIT)
    assert result.status == "completed"
    assert await pending_calls(site.client().gateway, run.id) == []


async def test_pages_and_lists_tell_of_a_retry_in_words(crews: Site) -> None:
    site = crews
    slow = {**SLOW, "first": 100, "longest": 100}
    run = await site.start(site.crew({"a": [FAILS, {"text": "A"}]}, rules={"a": {"retry": slow}}))
    await seen(site, run, "failure")
    shown = json.loads(await command_line(site, "show", run.id, "--json"))
    assert shown["status"] == "retrying"
    assert [(each["step"], each["attempt"]) for each in shown["pending"]] == [("a#1", 2)]
    page = await command_line(site, "show", run.id)
    assert "· retrying" in page
    assert "a#1 model waits for attempt 2 of 5 at " in " ".join(page.split())
    assert "attempt 1 failed: " in " ".join(page.split())
    listed = json.loads(await command_line(site, "ps", "--json", "--limit", "1000"))["runs"]
    (row,) = [each for each in listed if each["run"] == run.id]
    assert (row["status"], row["pending"][0]["attempt"]) == ("retrying", 2)
    traced = json.loads(await command_line(site, "trace", run.id, "--json"))
    assert [(each["step"], each["attempt"]) for each in traced["pending"]] == [("a#1", 2)]
    trace = " ".join((await command_line(site, "trace", run.id)).split())
    assert "model waits for attempt 2 of 5 at " in trace
    assert "✗ attempt 1 failed: " in trace
    table = await command_line(site, "ps", "--limit", "1000")
    line = next(line for line in table.splitlines() if run.id in line)
    assert "retrying" in line


async def test_watch_tells_of_each_attempt_once(crews: Site) -> None:
    site = crews
    crew = site.crew({"a": [FAILS, {"text": "A"}]}, rules={"a": {"retry": {**SLOW, "first": 15}}})
    run = await site.start(crew)
    lines = (await command_line(site, "watch", run.id, "--json")).splitlines()
    (told,) = [each for each in map(json.loads, lines) if each["event"] == "pending"]
    assert (told["run"], told["step"], told["attempt"]) == (run.id, "a#1", 2)
    assert "lets 'a' fail" in told["error"]


async def test_one_call_at_work_is_enough_to_be_running(crews: Site) -> None:
    site = crews
    slow = {**SLOW, "first": 100, "longest": 100}
    crew = site.crew(
        {"a": [FAILS, {"text": "A"}], "b": [{"stall": 60}]},
        rules={"a": {"retry": slow}},
        flow=[["a", "b"]],
    )
    run = await site.start(crew)
    await seen(site, run, "failure")
    (row,) = [r for r in await site.client().list(limit=1000, pending=True) if r.run == run.id]
    assert row.status == "running"
    assert [call.attempt for call in row.pending] == [2]


async def test_a_call_that_no_worker_takes_names_its_queue(crews: Site) -> None:
    site = crews
    crew = site.crew(
        {"a": [calls(("echo", {"text": "x"})), {"text": "A"}]},
        tools={"echo": {**tool("echo"), "queue": "nobody-there"}},
        flow=["a"],
    )
    run = await site.start(crew)
    call = await seen(site, run, "worker")
    assert (call.step, call.tool, call.has_pollers) == ("a#1", "echo", False)
    assert (call.attempt, call.task_queue) == (1, "nobody-there")
    page = " ".join((await command_line(site, "show", run.id)).split())
    assert "· waiting" in page
    assert "a#1 echo waits for a worker since " in page
    assert "no worker polls 'nobody-there'" in page


async def test_a_run_that_lacks_a_tool_is_found_by_a_search(lacking: Site) -> None:
    site = lacking
    crew = site.crew(
        {"a": [calls(("later", {"text": "x"})), {"text": "A"}]},
        tools={"later": {**tool("echo"), "run": "later_deeds:echo"}},
        flow=["a"],
    )
    run = await site.start(crew, queue=QUEUE)
    found: dict[str, Any] = {}
    async with asyncio.timeout(LIMIT):
        while found.get("CrewlogStatus") != ["waiting"]:
            found = dict(
                (await site.temporal.get_workflow_handle(run.id).describe()).search_attributes
            )
            await asyncio.sleep(0.02)
    assert "waits for a worker that has the tool 'later'" in str(found["CrewlogWaiting"])
    async with asyncio.timeout(LIMIT):  # between two looks it may be tried, and then it is running
        while f'"run":"{run.id}"' not in "".join((await inbox(site)).split()):
            pass


async def inbox(site: Site) -> str:
    return await command_line(site, "inbox", "--json")


async def test_the_trace_tells_delays_from_the_models_own_time(crews: Site) -> None:
    site = crews
    crew = site.crew({"a": [FAILS, {"text": "A"}]}, rules={"a": {"retry": {**SLOW, "first": 2}}})
    run = await site.start(crew)
    await run.result(LIMIT)
    told: dict[str, Any] = json.loads(await command_line(site, "trace", run.id, "--json"))
    (call,) = told["steps"][0]["calls"]
    assert call["delay"]["attempts"] == 2
    assert call["delay"]["retries_ms"] >= 2000
    assert call["ms"] < call["ended_at"] - call["scheduled_at"] - 2000 + 1
    assert "of retries (attempt 2)" in await command_line(site, "trace", run.id)


async def test_a_plain_call_has_no_delay(crews: Site) -> None:
    run, _ = await crews.finish(crews.crew({"a": [{"text": "A"}]}))
    (replied,) = await crews.entries(run, "ModelCallCompleted")
    assert "delay" not in replied.to_json()
