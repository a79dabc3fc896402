"""A hostile model on the real path: five hundred calls, and people who rule meanwhile.

The tools write what they really did, outside of the system. Nothing forbidden is among it, and the
journal tells of every call that was asked for what became of it.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from audit_records import audit_records
from authority.hostile import agrees
from covers import covers
from crewlog.client import Run
from crewlog.errors import CommandRejected
from crewlog.state import journal as j
from crewlog.state.calls import CALL_TOOL

from .harness import LIMIT, Site, calls, tool

AGENTS = ("a", "b", "c")
OFFERED = ("own", "never", "few", "open")
SPELLINGS = ("opne", "OPEN", "set_output", "__import__")
REPLIES, EACH, FEW = 3, 56, 30
SLACK = 0.5
"""Seconds that a busy machine may take from the last check of the live permissions, with which a
call begins, to the first line of its tool: a thread has to be free, and to get its turn. Nothing
else is waited for in between, as tests/activities/test_tool_permissions.py shows."""


def hostile(rng: random.Random) -> list[dict[str, Any]]:
    """An agent's replies: all that it can think of, again and again."""
    names = [*OFFERED * 4, *SPELLINGS]
    replies = [
        calls(*[(rng.choice(names), {"text": "x"}) for _ in range(EACH)]) for _ in range(REPLIES)
    ]
    return [*replies, {"text": "done"}]


async def test_a_call_that_is_forbidden_while_it_waits_for_a_worker_is_not_begun(
    crews: Site,
) -> None:
    """The run has let it pass already: the look in the activity alone stops it."""
    echo = calls(("echo", {"text": "x"}))
    crew = crews.crew(
        {name: [echo, {"text": name}] for name in ("a", "b")},
        tools={"echo": tool("echo", "never", effects="external", queue="later")},
        flow=[["a", "b"]],
    )
    run = await crews.start(crew)
    await until_scheduled(crews, run, 2)
    await run.rule("a", "echo", "deny", by="ana")
    await crews.start_worker("later")
    assert (await run.result(LIMIT)).status == "completed"
    await asyncio.to_thread(crews.end_workers, "later")
    done = [str(line["step"]).partition("#")[0] for line in crews.ledger(run, "start")]
    assert done == ["b"], "what was not ruled of is made, and made once"
    (denied,) = await crews.entries(run, "PermissionDenied")
    assert (denied.agent, denied.rule) == ("a", "live_permission")


async def until_scheduled(site: Site, run: Run, calls: int) -> None:
    """Waits until that many of a run's calls of tools wait for a worker."""
    handle = site.temporal.get_workflow_handle(run.id)
    async with asyncio.timeout(LIMIT):
        while True:
            pending = (await handle.describe()).raw_description.pending_activities
            waiting = [each for each in pending if each.activity_type.name == CALL_TOOL]
            if len(waiting) == calls:
                return
            await asyncio.sleep(0.05)


@covers("C14", "C15")
async def test_nothing_forbidden_is_done_and_every_call_is_accounted_for(crews: Site) -> None:
    rng = random.Random(7)  # noqa: S311
    crew = crews.crew(
        {name: hostile(rng) for name in AGENTS},
        rules={name: {"tools": list(OFFERED)} for name in AGENTS},
        # A call of a busy worker that misses a heartbeat is made again, which is another matter.
        tools={name: tool("echo", heartbeat=30) for name in OFFERED},
        flow=[list(AGENTS)],
        permissions={"own": ["a"]},
    )
    crew["rules"] = [
        {"tool": "never", "do": "never", "reason": "it is never done"},
        {"tool": "few", "quota": f"{FEW} per run"},
    ]
    run = await crews.start(crew)
    forbidden: dict[str, list[list[float]]] = {name: [] for name in AGENTS}
    over = asyncio.create_task(run.result(LIMIT))
    while not over.done():
        name = rng.choice(AGENTS)
        spans = forbidden[name]
        try:
            if not spans or len(spans[-1]) == 2:
                await run.rule(name, "open", "deny")
                spans.append([time.time()])
            else:
                spans[-1].append(time.time())
                await run.rule(name, "open", "allow")
        except CommandRejected as refused:
            assert "has ended" in str(refused)  # noqa: PT017 - nothing else is refused
        await asyncio.wait({over}, timeout=0.05)
    assert (await over).status == "completed"

    journal = await crews.journal(run)
    entries = [entry for _, entry in journal]
    asked = {
        (e.step, c.call): (e.agent, c.tool)
        for e in entries
        if isinstance(e, j.ModelCallCompleted)
        for c in e.calls
    }
    assert len(asked) == len(AGENTS) * REPLIES * EACH
    done = crews.ledger(run, "start")
    for line in done:
        agent, called = asked[line["step"], line["call"]]
        assert called == line["tool"]
        assert called in OFFERED
        assert called != "never"
        assert called != "own" or agent == "a"
        if called == "open":
            for since, *until in forbidden[agent]:
                assert not since + SLACK < line["at"] < (until or [float("inf")])[0], (agent, line)
    assert sum(line["tool"] == "few" for line in done) == FEW

    made = {(line["step"], line["call"]) for line in done}
    denied = {(e.step, e.call): e for e in entries if isinstance(e, j.PermissionDenied)}
    answered = [(e.step, e.call) for e in entries if isinstance(e, j.ToolCallCompleted)]
    assert len(done) == len(made), "nothing was done twice"
    assert sorted(answered) == sorted(asked)
    assert made | denied.keys() == asked.keys()
    assert not made & denied.keys()
    assert all(e.reason for e in denied.values())
    ruled = [key for key, e in denied.items() if e.rule == "live_permission"]
    agrees(audit_records(journal), asked.keys(), made)
    assert ruled, "no live permission applied: the test shows nothing"
