"""Graphs of 200 nodes, and 200 calls at a time: from one node, and from one reply."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import pytest

from acceptance.harness import Site, calls, tool
from crewlog.client import Run
from crewlog.definition.load import load_data
from crewlog.graph.lowering.compiler import compile_plan
from crewlog.graph.lowering.plans import lower
from crewlog.reporting.drawing.mermaid import mermaid
from crewlog.reporting.drawing.terminal import terminal_drawing
from pace import paced

from .measure import TASK_LIMIT, assert_calm, executions, figure

WIDE = 200
QUEUE = "wide"
LIMIT = 120.0
WITHIN = timedelta(seconds=LIMIT)
pytestmark = [pytest.mark.size, pytest.mark.timeout(LIMIT * 2)]
GRAPHS: dict[str, list[Any]] = {
    "a chain": [f"n{i}" for i in range(WIDE)],
    "twenty lanes": [[f"n{i}_{k}" for k in range(20)] for i in range(WIDE // 20)],
    "a fan": ["first", [f"n{i}" for i in range(WIDE - 2)], "last"],
    "two layers": [[f"{side}{i}" for i in range(WIDE // 2)] for side in "ab"],
}


def names_in(flow: list[Any]) -> list[str]:
    return [name for item in flow for name in ([item] if isinstance(item, str) else item)]


def crew_of(site: Site, flow: list[Any], **more: Any) -> dict[str, Any]:
    """A crew whose agents each say their number, in one reply."""
    agents = {name: [{"text": f"{name} is done"}] for name in names_in(flow)}
    return site.crew(agents, rules={name: {"reads": []} for name in agents}, flow=flow, **more)


@pytest.mark.parametrize("name", list(GRAPHS))
def test_a_graph_of_200_nodes_is_read_compiled_and_drawn(name: str) -> None:
    flow = GRAPHS[name]
    data = {
        "crew": "wide",
        "model": "openai:x",
        "agents": {agent: {"prompt": "P."} for agent in names_in(flow)},
        "flow": flow,
    }
    took: dict[str, float] = {}

    def timed(what: str, made: Any) -> Any:
        found: list[Any] = []
        took[what] = paced(lambda: found.append(made()))
        return found[0]

    definition = timed("validate", lambda: load_data(data))
    plan = timed("lower", lambda: lower(definition))
    assert len(plan.nodes) == WIDE
    timed("compile", lambda: compile_plan(plan))
    chart = timed("mermaid", lambda: mermaid(plan))
    drawn = timed("picture", lambda: terminal_drawing(plan))
    shown = ", ".join(f"{what} {seconds * 1000:.0f}" for what, seconds in took.items())
    figure(f"{name} of {WIDE} nodes, ms of CPU", shown)
    # All that a first workflow task does together, and what `crewlog graph` does.
    assert took["compile"] + took["mermaid"] < TASK_LIMIT
    assert sum(took.values()) < 20
    assert all(f'"{node}"' in chart and node in drawn for node in plan.nodes)


@pytest.mark.parametrize("name", ["a chain", "a fan"])
async def test_a_graph_of_200_nodes_runs_through(site: Site, name: str) -> None:
    """All of a fan are reached by one completion, run side by side, and are joined once."""
    await site.start_worker(QUEUE)
    crew = crew_of(site, GRAPHS[name], limits={"parallel": 1000})
    began = time.monotonic()
    run = await site.start(crew, queue=QUEUE, within=WITHIN)
    result = await run.result(LIMIT)
    took = time.monotonic() - began
    assert result.steps == WIDE
    assert {agent: found["text"] for agent, found in result.outputs.items()} == {
        agent: f"{agent} is done" for agent in names_in(GRAPHS[name])
    }
    started = [entry.step for entry in await site.entries(run, "StepStarted")]
    assert sorted(started) == sorted(f"{node}#1" for node in names_in(GRAPHS[name]))
    if name == "a fan":
        assert started[0] == "first#1"
        assert started[-1] == "last#1"
    await assert_calm(site, run)
    await note_events(site, run, f"{name} of {WIDE} nodes", took)


async def note_events(site: Site, run: Run, what: str, took: float) -> None:
    found = await executions(site, run)
    events = sum(len(execution.events) for execution in found)
    size = sum(execution.size for execution in found)
    figure(
        f"{what}: s, events a call, bytes a call",
        f"{took:.1f} {events / WIDE:.1f} {size / WIDE:,.0f}",
    )


async def test_a_reply_with_200_calls(site: Site) -> None:
    await site.start_worker(QUEUE)
    batch = calls(*(("echo", {"text": f"call {i}"}) for i in range(WIDE)))
    crew = site.crew(
        {"a": [batch, {"text": "A"}]},
        tools={"echo": tool("echo", heartbeat=30)},  # a busy worker must not look dead
        limits={"parallel": 1000},
    )
    began = time.monotonic()
    run = await site.start(crew, queue=QUEUE, within=WITHIN)
    result = await run.result(LIMIT)
    took = time.monotonic() - began
    assert result.outputs["a"]["text"] == "A"
    assert sorted(e["text"] for e in site.ledger(run, "start")) == sorted(
        f"call {i}" for i in range(WIDE)
    )
    # However they ended, they are applied in the order in which they were asked for.
    returned = await site.entries(run, "ToolCallCompleted")
    assert [entry.call for entry in returned] == list(range(2, WIDE + 2))
    assert [entry.model_next for entry in returned] == [False] * (WIDE - 1) + [True]
    (_, second) = site.prompted(run)
    answers = [m["content"] for m in second["messages"] if m["type"] == "tool"]
    assert answers == [f"call {i}" for i in range(WIDE)]
    held = len(await site.entries(run, "CompletionBuffered"))
    figure(f"a reply with {WIDE} calls: results that were held", held)
    await assert_calm(site, run)
    await note_events(site, run, f"a reply with {WIDE} calls", took)
