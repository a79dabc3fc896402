"""A pool over the items of a list: who takes each, after which others, and never too many."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crewlog.graph.plan import GraphPlan
from crewlog.state.calls import OutputValue
from crewlog.state.hashing import hash_json
from graph.crews import plan_of
from graph.simulation import (
    Replies,
    Simulation,
    as_json,
    folded,
    returns,
    says,
)

AGENTS: dict[str, Any] = {"maker": {"outputs": ["list"]}, "a": {}, "b": {}}
WORK: dict[str, Any] = {"phase": "work", "for_each": "maker.list", "by": "agent"}


def pool(work: dict[str, Any] | None = None, **more: Any) -> GraphPlan:
    agents = {**AGENTS, **more.pop("agents", {})}
    among = [name for name in agents if name not in ("maker", "end_er")]
    item = {**WORK, "among": among, **(work or {})}
    return plan_of(["maker", {k: v for k, v in item.items() if v}, "end_er"], agents, **more)


def output(value: Any) -> OutputValue:
    if len(json.dumps(value)) <= 256:
        return OutputValue(key="list", value=value)
    return OutputValue(key="list", body=hash_json(value), content=value)


async def begun(items: Any, plan: GraphPlan, **replies: Any) -> Simulation:
    script = Replies(
        {"maker#1": [says("", "set_output")], **replies},
        {"set_output": returns("set", outputs=(output(items),))},
    )
    return await Simulation.begin(plan, script)


async def made(items: Any, plan: GraphPlan | None = None, **replies: Any) -> Simulation:
    sim = await begun(items, plan or pool(), **replies)
    await sim.run()
    return sim


def wide(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same items, so long that the workflow keeps none of them."""
    return [{**item, "task": "x" * 300} for item in items]


def who(sim: Simulation) -> dict[str, str]:
    started = [e for e in sim.facts("StepStarted") if "." in e["step"]]
    return {e["step"].partition("#1.")[2]: e.get("agent", "") for e in started}


@pytest.mark.parametrize("large", [False, True])
async def test_each_item_is_taken_by_the_agent_that_it_names_after_those_that_it_waits_for(
    large: bool,
) -> None:
    items = [
        {"id": "x", "agent": "a", "after": ["z"]},
        {"id": 2, "agent": "B", "after": "x"},
        {"id": "z", "agent": "b"},
    ]
    sim = await made(wide(items) if large else items)
    assert sim.ran() == ["maker#1", "work#1.3", "work#1.1", "work#1.2", "end_er#1"]
    assert who(sim) == {"1": "a", "2": "b", "3": "b"}
    (mapped,) = sim.facts("StepMapped")
    assert (mapped["agents"], mapped["whose"], mapped["after"]) == (
        ["a", "b"], [0, 1, 1], [[3], [1], []],
    )  # fmt: skip
    assert as_json(folded(sim.journal)) == as_json(sim.state)


BAD = [
    ([{"agent": "c"}], "item 1 names the agent 'c', which is none of its phase: it may be a or b"),
    ([{"id": "x"}], "item 1 ('x') names no agent at 'agent': it may be a or b"),
    ([{"agent": {"name": "a"}}], "item 1: its 'agent' is an object and no name"),
    ([{"id": "x", "agent": "a"}, {"id": "x", "agent": "b"}], "items 1 and 2 have the same id 'x'"),
    (
        [{"id": "one", "agent": "a"}, {"agent": "b", "after": ["oen"]}],
        "item 2 waits for 'oen', which no item has as its id. Did you mean 'one'?",
    ),
    ([{"id": "x", "agent": "a", "after": ["x"]}], "item 1 ('x') waits for itself"),
    (
        [
            {"id": "x", "agent": "a", "after": ["z"]},
            {"id": "y", "agent": "a", "after": ["x"]},
            {"id": "z", "agent": "a", "after": ["y"]},
        ],
        "items wait for each other in a circle: 'x' after 'z' after 'y' after 'x'",
    ),
    ([{"agent": "a", "after": [{"id": "x"}]}], "item 1: its 'after' is an object and no name"),
    (["text"], "item 1 names no agent at 'agent': it may be a or b"),
]


@pytest.mark.parametrize(("items", "fault"), BAD)
@pytest.mark.parametrize("large", [False, True])
async def test_a_list_that_cannot_be_worked_on_starts_nothing_and_is_asked_about(
    items: list[Any], fault: str, large: bool
) -> None:
    if large and isinstance(items[0], dict):
        items = wide(items)
    sim = await made(items)
    (refused,) = sim.facts("ItemsRefused")
    assert refused["faults"] == [fault]
    asked = sim.asked()
    assert (asked.kind, asked.step, asked.options) == (
        "requirement", "work#1", ("again", "skip", "stop"),
    )  # fmt: skip
    assert fault in asked.question
    assert sim.ran() == ["maker#1"]
    await sim.respond("skip")
    await sim.run()
    assert sim.ran() == ["maker#1", "end_er#1"]
    assert sim.state.status == "completed"


async def test_a_phase_that_says_else_goes_there_with_a_bad_list() -> None:
    sim = await made([{"agent": "nobody"}], pool({"else": "end_er"}))
    assert sim.ran() == ["maker#1", "end_er#1"]
    (skipped,) = [e for e in sim.facts("StepCompleted") if e["step"] == "work#1"]
    assert skipped["because"] == "maker.list cannot be worked on"
    assert not sim.facts("InterruptRaised")


async def test_five_steps_with_a_cap_of_two_all_run_and_two_are_at_work_at_the_most() -> None:
    sim = await begun([{"agent": "ab"[n % 2]} for n in range(5)], pool({"at_once": 2}))
    widest = 0
    while not sim.state.closed:
        await sim.settle()
        sim.launch()
        at_work = [step for step in sim.state.frontier if "." in step]
        widest = max(widest, len(at_work))
        left = 5 - len([e for e in sim.facts("StepStarted") if "." in e["step"]])
        if "work#1" in sim.state.frontier:
            assert len(at_work) == 2 or not left, "a slot is idle"
        if sim.flights:
            await sim.land(next(reversed(sim.flights)))
    assert widest == 2
    assert sorted(who(sim)) == ["1", "2", "3", "4", "5"]
    assert sim.ran()[-1] == "end_er#1"
