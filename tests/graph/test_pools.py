"""A pool over the items of a list: who takes each, after which others, and never too many."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.graph.engine import Engine
from crewlog.graph.plan import GraphPlan, PlanNode
from crewlog.graph.restore import roll_back
from crewlog.ids import AgentName, NodeName, StepId, item_number
from crewlog.state.calls import OutputValue
from graph.crews import plan_of
from graph.simulation import (
    Failure,
    Replies,
    Simulation,
    Witness,
    as_json,
    dice,
    folded,
    items_at_random,
    returns,
    run,
    says,
)

IDLE = PlanNode(kind="agent", agent=AgentName("a"))
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
    (mapped,) = sim.facts("ParentStepStarted")
    assert (mapped["agents"], mapped["owners"], mapped["after"]) == (
        ["a", "b"], [0, 1, 1], [[3], [1], []],
    )  # fmt: skip
    assert as_json(folded(sim.journal)) == as_json(sim.state)


BAD = [
    ([{"agent": "c"}], "item 1 names the agent 'c', which is none of its phase: it may be a or b"),
    ([{"id": "x"}], "item 1 ('x') names no agent at 'agent': it may be a or b"),
    ([{"agent": {"name": "a"}}], "item 1: its 'agent' must be a name, not an object"),
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
        "items wait for each other in a cycle: 'x' after 'z' after 'y' after 'x'",
    ),
    ([{"agent": "a", "after": [{"id": "x"}]}], "item 1: its 'after' must be a name, not an object"),
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
    assert refused["errors"] == [fault]
    asked = sim.asked()
    assert (asked.kind, asked.step, asked.options) == (
        "requirement", "work#1", ("again", "skip", "stop"),
    )  # fmt: skip
    assert fault in asked.question
    assert sim.ran() == ["maker#1"]
    await sim.answer("skip")
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
    while not sim.state.is_ended:
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


# -- at random, beside a model of what should be -----------------------------------------------


class Naive:
    """What may happen next in a pool, said as simply as possible."""

    def __init__(self, items: list[dict[str, Any]], cap: int) -> None:
        numbers = {item["id"]: number for number, item in enumerate(items, 1)}
        self.after = {
            number: {numbers[other] for other in item.get("after", ())}
            for number, item in enumerate(items, 1)
        }
        self.cap = cap
        self.at_work: set[int] = set()
        self.done: set[int] = set()

    def starts(self) -> list[int]:
        """The items that must be at work now, in the order in which they start."""
        started: list[int] = []
        for number, waits in self.after.items():
            free = len(self.at_work) < self.cap
            if free and number not in self.at_work | self.done and waits <= self.done:
                self.at_work.add(number)
                started.append(number)
        return started

    def ends(self, number: int) -> None:
        self.at_work.remove(number)
        self.done.add(number)


def numbers_at_work(sim: Simulation) -> set[int]:
    return {item_number(step) for step in sim.state.frontier if item_number(step)}


async def mapped_at_random(seed: int, **more: Any) -> tuple[Simulation, Naive, random.Random]:
    """A crew in the middle of its life: the list is there, and its steps are about to start."""
    rng = dice(f"pool/{seed}")
    items = items_at_random(rng, ["a", "b", "c"], rng.randint(2, 14))
    cap = rng.randint(1, 4)
    plan = pool({"at_once": cap}, agents={"c": {}}, **more)
    sim = await begun(items, plan)
    await sim.finish("maker#1", "maker#1", "maker#1")
    return sim, Naive(items, cap), rng


def other(plan: GraphPlan) -> GraphPlan:
    """Another graph, in which the pool is what it was."""
    nodes = {**plan.nodes, NodeName(f"idle{len(plan.nodes)}"): IDLE}
    return plan.model_copy(update={"nodes": nodes})


@pytest.mark.parametrize("seed", range(60))
async def test_a_pool_does_what_a_simple_model_of_it_does_whatever_happens(seed: int) -> None:
    sim, naive, rng = await mapped_at_random(seed)
    widest = paused = 0
    seen: list[int] = []
    for _ in range(200):
        if not paused:
            seen += naive.starts()
        await sim.settle()
        sim.launch()
        if "end_er#1" in sim.state.frontier:
            break
        assert numbers_at_work(sim) == naive.at_work
        widest = max(widest, len(naive.at_work))
        if sim.flights and rng.random() < 0.85:
            step, _ = key = rng.choice(list(sim.flights))
            await sim.land(key)
            naive.ends(item_number(StepId(step)))
            continue
        match rng.choice(["pause", "restore", "swap"]):
            case "pause" if not paused:
                await sim.command("pause")
                paused = 1
                continue
            case "restore" | "swap" as how:
                for step, _ in list(sim.flights):
                    naive.ends(item_number(StepId(step)))
                await sim.drain()
                await (sim.restore() if how == "restore" else sim.change(other(sim.engine.plan)))
            case _:
                pass
        if paused:
            await sim.command("resume")
            paused = 0
    started = [item_number(StepId(s)) for s in sim.ran() if item_number(StepId(s))]
    assert started == seen
    assert sorted(started) == sorted(naive.after)
    assert widest <= naive.cap
    if paused:
        await sim.command("resume")
    await sim.run()
    assert sim.state.status == "completed"
    assert as_json(folded(sim.journal)) == as_json(sim.state)


@pytest.mark.parametrize("seed", range(60, 90))
async def test_a_pool_that_goes_back_does_the_rest_and_no_more(seed: int) -> None:
    sim, naive, rng = await mapped_at_random(seed)
    states = sim.engine.journal.states  # type: ignore[attr-defined]
    await sim.run()
    ends = [at for at, e in enumerate(sim.journal, 1) if e["kind"] == "StepCompleted"]
    items = [at for at in ends if item_number(StepId(sim.journal[at - 1]["step"]))]
    at = rng.choice(items[:-1])  # with the last of them the visit is over
    done = {item_number(StepId(sim.journal[e - 1]["step"])) for e in items if e <= at}
    engine = Engine(sim.engine.plan, Witness(states[items[-1] - 1]))
    roll_back(engine, at, states[at - 1], sim.engine.plan, by="ana", command="back")
    again = Simulation(engine, sim.script, dice(seed))
    there = numbers_at_work(again)
    while again.state.frontier and "end_er#1" not in again.state.frontier:
        await again.settle()
        again.launch()
        assert len(numbers_at_work(again)) <= naive.cap
        if again.flights:
            step, _ = key = rng.choice(list(again.flights))
            assert not naive.after[item_number(StepId(step))] - done
            await again.land(key)
            done.add(item_number(StepId(step)))
    started = {item_number(StepId(s)) for s in again.ran() if item_number(StepId(s))}
    assert not started & there
    assert done == set(naive.after)


# -- agents that fail, are switched off, or leave the crew ---------------------------------------


def on_error(policy: str) -> dict[str, Any]:
    return {"a": {"on_error": policy}, "b": {"on_error": policy}}


async def test_one_failed_worker_does_not_lose_the_others() -> None:
    items = [{"id": "x", "agent": "a"}, {"agent": "b", "after": ["x"]}, {"agent": "b"}]
    plan = pool({"at_once": 2}, agents=on_error("continue"))
    replies = {"work#1.1": [Failure("out of paper")], "work#1.3": [Failure("no ink")]}
    sim = await made(items, plan, **replies)
    (ended,) = [e for e in sim.facts("StepCompleted") if e["step"] == "work#1"]
    assert ended["because"] == "3 items: 1 done, 2 failed"
    assert sim.ran()[-1] == "end_er#1"
    errors = {a: o["error"].value for a, o in sim.state.agent_outputs.items() if "error" in o}
    assert errors == {"a": ["out of paper"], "b": ["no ink"]}
    assert sorted((e["step"], e["agent"], e["error"]) for e in sim.facts("StepFailed")) == [
        ("work#1.1", "a", "out of paper"), ("work#1.3", "b", "no ink"),
    ]  # fmt: skip
    told = [e["ref"]["inline"]["content"] for e in sim.facts("MessageAdded") if e["by"] == "crew"]
    assert sorted(told) == ["a failed on item 1: ToolMissing", "b failed on item 3: ToolMissing"]
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_an_item_that_asks_people_keeps_its_place_in_the_pool() -> None:
    items = [{"agent": "a"}, {"agent": "b"}, {"agent": "b"}]
    sim = await made(items, pool({"at_once": 1}), **{"work#1.1": [Failure("jam")]})
    assert sim.asked().step == "work#1.1"
    assert sim.ran() == ["maker#1", "work#1.1"]
    await sim.answer("retry")
    await sim.run()
    assert sim.ran() == ["maker#1", "work#1.1", "work#1.2", "work#1.3", "end_er#1"]


async def test_items_of_an_agent_that_is_switched_off_or_lacks_a_tool_are_skipped() -> None:
    items = [{"agent": "a"}, {"agent": "b"}]
    off = {"a": {"enabled": False}}
    sim = await made(items, pool(agents=off))
    skipped = {e["step"]: e["because"] for e in sim.facts("StepCompleted") if e.get("skipped")}
    assert skipped == {"work#1.1": "a is switched off"}
    assert [e["because"] for e in sim.facts("StepCompleted") if e["step"] == "work#1"] == [
        "2 items: 1 done, 1 skipped"
    ]
    lacks = {"a": {"tools": ["t"]}, "b": {"tools": []}}
    plan = pool({"needs": ["t"]}, agents=lacks, tools={"t": {"run": "m:f"}})
    sim = await made(items, plan)
    skipped = {e["step"]: e["because"] for e in sim.facts("StepCompleted") if e.get("skipped")}
    assert [*skipped] == ["work#1.2"]
    assert "it needs t" in skipped["work#1.2"]
    assert sim.state.status == "completed"


async def test_where_an_agent_may_be_named_no_more_nothing_goes_on_under_its_name() -> None:
    sim = await begun([{"agent": "a"}] * 3, pool({"at_once": 1}))
    await sim.finish("maker#1", "maker#1", "maker#1")
    await sim.settle()
    report = await sim.change(pool({"at_once": 1, "among": ["b"]}))
    assert [(f.step, f.effect) for f in report.steps] == [
        ("work#1", "finishes"), ("work#1.1", "finishes"), ("work#2", "starts"),
    ]  # fmt: skip
    await sim.run()
    assert sim.ran() == ["maker#1", "work#1.1"]
    assert "item 1 names the agent 'a', which is none of its phase" in sim.asked().question


async def test_more_agents_and_a_wider_pool_hold_for_one_that_is_under_way() -> None:
    sim = await begun([{"agent": "a"}] * 5, pool({"at_once": 1}))
    await sim.finish("maker#1", "maker#1", "maker#1")
    await sim.change(pool({"at_once": 3}, agents={"c": {}}))
    await sim.settle()
    assert numbers_at_work(sim) == {2, 3, 4}
    await sim.run()
    assert sim.state.status == "completed"


async def test_a_list_that_people_correct_is_worked_on() -> None:
    sim = await made(wide([{"agent": "nobody"}]))
    good = wide([{"agent": "a", "id": "x", "after": ["y"]}, {"agent": "b", "id": "y"}])
    await sim.command("edit_state", set={"outputs.maker.list": good})
    await sim.run()
    assert sim.ran() == ["maker#1", "work#1.2", "work#1.1", "end_er#1"]


async def test_items_that_several_steps_made_name_their_agents() -> None:
    short, long = {"agent": "a"}, {"agent": "b", "task": "x" * 300}
    script = Replies(
        {"maker#1": [says("", "set_output", "set_output")]},
        {
            "set_output/2": returns("", outputs=(output(long),)),
            "set_output/3": returns("", outputs=(output(short),)),
        },
    )
    sim = await run(pool(merge={"maker.list": "append"}), script)
    assert who(sim) == {"1": "b", "2": "a"}


async def test_a_long_plan_costs_no_more_for_each_item_than_a_short_one() -> None:
    sim = await begun(
        [
            {"id": f"i{n}", "agent": "a", "after": [f"i{n - 1}"] if n % 50 else []}
            for n in range(2000)
        ],
        pool({"at_once": 8}),
    )
    await sim.finish("maker#1", "maker#1", "maker#1")
    mapped = sim.state.frontier[StepId("work#1")].child_steps
    assert mapped is not None
    assert len(json.dumps(mapped.to_json())) < 40_000


async def test_a_reply_that_is_none_is_tried_again_by_the_items_own_agent() -> None:
    wanted = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    form = {"schema": wanted, "fallback": {"ok": False}}
    plan = pool(
        agents={"a": {"reply": {**form, "tries": 2}}, "b": {"reply": {**form, "tries": 3}}},
        merge={"a.ok": "append", "b.ok": "append", "a.text": "append", "b.text": "append"},
    )
    bad = says("garbage", errors=("it is no JSON",))
    items = [{"agent": "a"}, {"agent": "b"}]
    sim = await made(items, plan, **{"work#1.1": [bad] * 2, "work#1.2": [bad] * 3})
    tried = sorted(
        (e["agent"], e["attempt"], e["of"]) for e in sim.facts("StructuredOutputRejected")
    )
    assert tried == [("a", 1, 2), ("a", 2, 2), ("b", 1, 3), ("b", 2, 3), ("b", 3, 3)]
    assert sorted((e["agent"], e["how"]) for e in sim.facts("StructuredOutputParsed")) == [
        ("a", "fallback"), ("b", "fallback"),
    ]  # fmt: skip
