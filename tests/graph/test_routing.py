"""Joins against a naive model, in the routers, in LangGraph and in runs; loops, late arrivals."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from crewlog.graph.joins import complete_generations, dependents, has_fired, missing_sources
from crewlog.graph.lowering.compiler import compile_plan
from crewlog.graph.plan import GraphPlan, Join, PlanNode
from crewlog.ids import AgentName, ContentHash, CrewName, NodeName
from crewlog.state.fold import routing_after
from crewlog.state.model import Routing
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, dice, final, returns, run, says


def random_graph(rng: random.Random) -> GraphPlan:
    """Nodes that wait for any number of earlier ones, in an order that is not theirs."""
    names = [NodeName(f"n{i}") for i in range(rng.randint(2, 9))]
    nodes: dict[NodeName, PlanNode] = {}
    for i, name in enumerate(names):
        join = None
        if i and rng.random() < 0.8:
            of = tuple(rng.sample(names[:i], rng.randint(1, min(i, 5))))
            join = Join(of=of, need=rng.randint(1, len(of)))
        nodes[name] = PlanNode(kind="agent", agent=AgentName("a"), join=join, entry=join is None)
    shuffled = rng.sample(names, len(names))
    return GraphPlan(
        crew=CrewName("t"),
        definition=ContentHash("d"),
        nodes={name: nodes[name] for name in shuffled},
        agents={},
    )


class Naive:
    """The i-th arrival of a source belongs to generation i; a full generation fires, once."""

    def __init__(self, plan: GraphPlan) -> None:
        self.plan = plan
        self.seen: Counter[tuple[str, str]] = Counter()
        self.generations: dict[tuple[str, int], set[str]] = {}

    def completed(self, source: NodeName) -> set[NodeName]:
        fired = set[NodeName]()
        for name, node in self.plan.nodes.items():
            if node.join is None or source not in node.join.of:
                continue
            self.seen[name, source] += 1
            arrived = self.generations.setdefault((name, self.seen[name, source]), set())
            arrived.add(source)
            if len(arrived) == node.join.need:
                fired.add(name)
        return fired

    def begun_and_not_full(self, name: NodeName) -> bool:
        join = self.plan.nodes[name].join
        return join is not None and any(
            len(arrived) < join.need for (at, _), arrived in self.generations.items() if at == name
        )


def completions(plan: GraphPlan, rng: random.Random, model: Naive) -> Any:
    """Nodes complete in a random order; some are sent to again, as answers and handoffs do."""
    ready = [name for name, node in plan.nodes.items() if node.entry]
    for _ in range(40):
        if not ready:
            return
        source = ready.pop(rng.randrange(len(ready)))
        fired = model.completed(source)
        yield source, fired
        ready += sorted(fired)
        if rng.random() < 0.15:
            ready.append(rng.choice(list(plan.nodes)))


def test_joins_fire_as_a_naive_model_says() -> None:
    fired_later = 0
    for seed in range(2_000):
        rng = dice(seed)
        plan = random_graph(rng)
        following = dependents(plan)
        routing, model = Routing(), Naive(plan)
        for source, fired in completions(plan, rng, model):
            routing = routing_after(routing, source, is_arrival=True)
            assert {t for t in following[source] if has_fired(plan, t, source, routing)} == fired
            fired_later += routing.completed[source] > 1 and bool(fired)
        for name in plan.nodes:
            assert bool(missing_sources(plan, name, routing)) == model.begun_and_not_full(name)
    assert fired_later > 100, "no second generation was tried"


async def test_langgraph_routes_as_the_naive_model_says() -> None:
    for seed in range(60):
        rng = dice(seed)
        plan = random_graph(rng)
        driver = compile_plan(plan)
        entries = driver.apply("__start__", {"routing": Routing(), "outcome": ("next",)})
        assert [t.node for t in entries] == [n for n, node in plan.nodes.items() if node.entry]
        routing, model = Routing(), Naive(plan)
        for source, fired in completions(plan, rng, model):
            routing = routing_after(routing, source, is_arrival=True)
            values = {"routing": routing, "outcome": ("next",)}
            reached = [t.node for t in driver.apply(source, values)]
            assert reached == [name for name in plan.nodes if name in fired]


@pytest.mark.parametrize(
    ("need", "counts", "expected"),
    [
        (2, {"a": 1}, 0),
        (2, {"a": 1, "b": 1}, 1),
        (2, {"a": 3, "b": 1}, 1),
        (1, {"a": 1, "b": 1}, 1),
        (1, {"a": 2}, 2),
        (2, {"a": 1, "b": None}, 1),
        (2, {"a": None, "b": None}, 0),
        (1, {"a": 1, "b": None}, 1),
        (1, {"b": None}, 0),
        (2, {"a": 0, "b": 1}, 0),
        (1, {"a": -1}, 0),
    ],
)
def test_levels(need: int, counts: Any, expected: int) -> None:
    join = Join(of=(NodeName("a"), NodeName("b")), need=need)
    assert max(0, complete_generations(join, {"a": 0, "b": 0} | counts)) == expected


LOOP: list[Any] = [["a", "b"], "c", {"if": "not ok", "go": "a", "at_most": 2}]


async def test_going_back_to_one_of_two_runs_that_one_and_what_follows() -> None:
    sim = await run(plan_of(LOOP))
    assert sim.ran()[:2] == ["a#1", "b#1"]
    assert sim.ran()[2:] == ["c#1", "a#2", "c#2", "a#3", "c#3"]
    assert sim.state.status == "completed"


async def test_a_loop_in_a_loop_counts_for_itself() -> None:
    inner = {"if": "not ok", "go": "b", "at_most": 1, "phase": "in"}
    outer = {"if": "not ok", "go": "a", "at_most": 1, "phase": "out"}
    sim = await run(plan_of(["a", "b", "c", inner, "d", outer, "e"]))
    first = ["a#1", "b#1", "c#1", "b#2", "c#2", "d#1"]
    assert sim.ran() == [*first, "a#2", "b#3", "c#3", "d#2", "e#1"]


@pytest.mark.parametrize("order", ["abc", "bca", "cab", "cba"])
@pytest.mark.parametrize(("join", "after"), [("any", 1), (2, 2), ("all", 3)])
async def test_a_join_fires_once_and_absorbs_what_is_late(
    order: str, join: Any, after: int
) -> None:
    sim = await Simulation.begin(plan_of([{"parallel": ["a", "b", "c"], "join": join}, "d"]))
    for count, name in enumerate(order, 1):
        await sim.finish(f"{name}#1")
        assert ("d#1" in sim.ran()) == (count >= after)
    await sim.run()
    assert sim.ran().count("d#1") == 1
    assert len(sim.ran()) == 4
    assert sim.state.status == "completed"


async def test_what_is_late_for_one_generation_does_not_count_for_the_next() -> None:
    flow = ["x", {"parallel": ["a", "b"], "join": "any"}, "c"]
    back = {"if": "not ok", "go": "x", "at_most": 1}
    sim = await Simulation.begin(plan_of([*flow, back]))
    await sim.finish("x#1", "a#1", "c#1", "x#2")
    assert sim.state.frontier["b#2"].status == "queued"  # type: ignore[index]
    await sim.finish("b#1")
    assert "c#2" not in sim.ran()
    await sim.finish("b#2")
    assert "c#2" in sim.ran()
    await sim.run()
    assert sim.ran().count("c#2") == 1
    assert "c#3" not in sim.ran()
    assert sim.state.status == "completed"


async def test_a_late_quorum_does_not_ask_for_what_it_does_not_lack() -> None:
    flow = ["x", {"parallel": ["a", "b", "c"], "join": 2}, "d"]
    sim = await Simulation.begin(plan_of([*flow, {"if": "not ok", "go": "x", "at_most": 1}]))
    await sim.finish("x#1", "a#1", "b#1", "d#1", "c#1", "x#2", "c#2")
    assert "d#2" not in sim.ran()
    await sim.run()
    assert sim.ran().count("d#2") == 1
    assert sim.state.status == "completed"


async def test_a_source_outside_of_the_loop_comes_late_and_still_counts() -> None:
    """`s` waits for `p` in the loop and for `z` outside of it, which comes after going back."""
    flow: list[Any] = [
        ["x", "z"],
        {"agent": "p", "after": "x"},
        {"agent": "s", "after": ["p", "z"]},
        {"if": "not ok", "go": "p", "at_most": 1, "phase": "d", "after": {"any": ["p", "s"]}},
    ]
    sim = await Simulation.begin(plan_of(flow))
    await sim.finish("x#1", "p#1", "z#1")
    await sim.finish("p#2")
    await sim.run()
    assert "s#1" in sim.ran()
    assert sim.state.status == "completed"


async def test_a_node_that_is_reached_while_it_runs_is_queued() -> None:
    script = Replies({"a#1": [says("", "act", "act")]}, {"act": returns(goto=("b",))})
    plan = plan_of(["b", {"agent": "a", "after": []}], tools={"act": {"run": "m:f"}})
    sim = await Simulation.begin(plan, script)
    await sim.finish("a#1", "a#1", "a#1")
    assert [(e.step, e.status) for e in sim.state.frontier.values()] == [
        ("b#1", "running"),
        ("b#2", "queued"),
    ]
    await sim.finish("b#1")
    assert [(e.step, e.status) for e in sim.state.frontier.values()] == [("b#2", "running")]
    assert (await sim.run()).state.visits == {"a": 1, "b": 2}


async def test_lanes_do_not_wait_for_each_other() -> None:
    flow: list[Any] = [["a", "b"], {"agent": "a2", "after": "a"}, {"agent": "a3", "after": "a2"}]
    sim = await Simulation.begin(plan_of(flow), final)
    await sim.finish("a#1", "a2#1", "a3#1")
    assert sim.state.routing.completed == {"a": 1, "a2": 1, "a3": 1}
    assert list(sim.state.frontier) == ["b#1"]
