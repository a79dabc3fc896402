"""Tools that are placed `local`: fewer events, the same facts, and a way out for slow ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from temporalio.api.enums.v1 import EventType

from crewlog.client import Run

from .harness import LIMIT, Site, calls, tool, until

QUEUE = "local"


async def events(site: Site, run: Run) -> Counter[str]:
    """How many events of each kind the run's history has; activities by their type."""
    found: Counter[str] = Counter()
    async for event in site.temporal.get_workflow_handle(run.id).fetch_history_events():
        found[EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")] += 1
        if event.HasField("activity_task_scheduled_event_attributes"):
            found[event.activity_task_scheduled_event_attributes.activity_type.name] += 1
    return found


def crew_of(site: Site, asked: list[dict[str, Any]], **changes: Any) -> dict[str, Any]:
    tools = {name: {**tool(name), **changes} for name in ("echo", "nap", "raises", "blocking_nap")}
    return site.crew({"a": [*asked, {"text": "done"}]}, tools=tools)


async def test_a_local_tool_leaves_one_event_and_the_same_journal(crews: Site) -> None:
    asked = [calls(("echo", {"text": f"x{n}"}), ("raises", {"kind": "value"})) for n in range(4)]
    local, result = await crews.finish(crew_of(crews, asked, placed="local"))
    other, _ = await crews.finish(crew_of(crews, asked))
    assert result.total.tool_calls == 8
    here, there = await events(crews, local), await events(crews, other)
    assert (here["call_tool"], there["call_tool"]) == (0, 8)
    assert here["MARKER_RECORDED"] == there["MARKER_RECORDED"] + 8
    assert here.total() < there.total() - 30
    kinds = [[e.kind for e in await crews.entries(run)] for run in (local, other)]
    held = [[kind for kind in each if kind != "CompletionBuffered"] for each in kinds]
    assert held[0] == held[1]
    said = [[m["content"] for m in crews.prompted(run)[-1]["messages"]] for run in (local, other)]
    assert said[0] == said[1]
    assert len(crews.ledger(local, "start")) == 8


async def test_what_takes_too_long_is_made_again_as_an_ordinary_activity(crews: Site) -> None:
    both = calls(("nap", {"seconds": 2.6}), ("echo", {"text": "quick"}))
    run, result = await crews.finish(crew_of(crews, [both], placed="local"))
    assert result.outputs["a"]["text"] == "done"
    assert (await events(crews, run))["call_tool"] == 1
    assert len(crews.ledger(run, "start", tool="nap")) == 2
    assert len(crews.ledger(run, "end", tool="nap")) == 1
    assert len(crews.ledger(run, "start", tool="echo")) == 1


async def test_what_fails_in_a_way_that_may_pass_is_made_again(crews: Site) -> None:
    """An ordinary activity tries as often as its policy says; the model is told in the end."""
    asked = [calls(("raises", {"kind": "connection"}))]
    policy = {"attempts": 4, "first": 0.05}
    run, _ = await crews.finish(crew_of(crews, asked, placed="local", policy=policy))
    tries = len(crews.ledger(run, "start"))
    assert tries == 1 + 4
    assert "the oven is cold" in crews.prompted(run)[-1]["messages"][-1]["content"]


async def test_nothing_is_lost_where_workers_die_while_signals_come(site: Site) -> None:
    """A workflow task with local calls in it is done again, with other signals before it."""
    await site.start_worker(QUEUE)
    asked = [calls(("nap", {"seconds": 0.2}), ("echo", {"text": f"x{n}"})) for n in range(12)]
    run = await site.start(crew_of(site, asked, placed="local"), queue=QUEUE)
    sent = 0
    for kill in range(3):
        ends = 3 * (kill + 1)
        await until(lambda n=ends: len(site.ledger(run, "start", tool="nap")) >= n, "calls")
        (victim,) = site.workers[QUEUE]
        for _ in range(5):
            await run.message(f"m{sent}", by="ana")
            sent += 1
        victim.kill()
        site.workers.pop(QUEUE)
        await run.message(f"m{sent}", by="ana")
        sent += 1
        await site.start_worker(QUEUE)
    result = await run.result(2 * LIMIT)
    assert result.total.tool_calls == 24
    said = [e.ref.inline["content"] for e in await site.entries(run, "MessageAdded")][1:]
    assert said == [f"m{n}" for n in range(sent)]
    returned = Counter((e.step, e.call) for e in await site.entries(run, "ToolCallCompleted"))
    assert set(returned.values()) == {1}
    await asyncio.to_thread(site.end_workers, QUEUE)
