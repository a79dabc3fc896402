"""Where a flow asks people, and what decides whether it does."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.graph.guards import PlanGuards
from crewlog.graph.plan import GraphPlan
from crewlog.ids import NodeName
from crewlog.state.model import Routing
from graph.crews import plan_of

ASK = {"ask": "Publish?", "phase": "q"}
FLAGS = ("risky", "good", "more", "force", "ok", "x")


def flow_of(*flow: Any, **agents: Any) -> GraphPlan:
    sets = {"s": {"writes_flags": ["x", "risky"]}} if "s" in flow else {}
    return plan_of([*flow], sets | agents, flags=dict.fromkeys(FLAGS, False))


def to(condition: str, go: str, name: str, **more: Any) -> dict[str, Any]:
    return {"if": condition, "go": go, "phase": name, **more}


DRAFTS = ("w", "r", to("not good", "w", "d", at_most=3))
LANES = {"parallel": [ASK, "x"]}
ANSWERED = {**ASK, "sets": "ok"}


@pytest.mark.parametrize(
    ("flow", "nodes", "names"),
    [
        (("a", to("not risky", "b", "d"), "x", "b"), set(), set()),
        (("a", ASK, "b"), {"q"}, set()),
        (("a", {**ASK, "only_if": "risky"}, "b"), {"q"}, {"risky"}),
        (("a", to("not risky", "b", "d"), ASK, "b"), {"d", "q"}, {"risky"}),
        (("a", to("not risky", "end", "d"), ASK, "b"), {"q"}, set()),
        ((*DRAFTS, ASK, "p"), {"q"}, set()),
        ((*DRAFTS, ASK, "p", to("more", "w", "l", at_most=2)), {"q"}, set()),
        ((*DRAFTS[:2], to("not good", "w", "d", at_most=3, **{"else": "ask_human"}), "p"),
         {"d"}, {"good"}),
        (("a", ANSWERED, to("not ok and not force", "end", "d"), "b"), {"q", "d"}, {"ok", "force"}),
        (("a", ANSWERED, {"agent": "b", "only_if": "ok or force"}), {"q"}, {"ok", "force"}),
        (("a", ANSWERED, to("ok", "b", "d"), to("force", "b", "e"), to("not x", "end", "f"), "b"),
         {"q", "d", "e"}, {"ok", "force"}),
        (("a", ANSWERED, to("force", "b", "d"), to("not ok", "end", "e"), "b"),
         {"q", "d", "e"}, {"ok", "force"}),
        (("a", to("x", "p", "d"), "y", to("not risky", "b", "e"), ASK, "p", "b"),
         {"q", "d", "e"}, {"x", "risky"}),
        (("s", to("x", "p2", "d", at_most=9), ASK, "p1", "p2", to("more", "d", "l", at_most=9)),
         {"q", "d"}, {"x"}),
        (("a", {"agent": "y", "when": "good", "else": "b"}, ASK, "b"), {"q", "y"}, {"good"}),
        (("a", LANES, to("more", "z", "d"), "c", "z"), {"q"}, set()),
        (("s", to("risky", "j", "d"), LANES, "c", to("x", "end", "e"), "j"), {"q", "d"}, {"risky"}),
    ],
)  # fmt: skip
def test_what_decides_whether_people_are_asked(
    flow: tuple[Any, ...], nodes: set[str], names: set[str]
) -> None:
    found = PlanGuards(flow_of(*flow))
    assert found.guards() == nodes
    assert found.names().flags == names


def test_outputs_decide_as_flags_do() -> None:
    plan = flow_of("a", {**ASK, "only_if": "a.risk > 1"}, "b", a={"outputs": ["risk"]})
    assert PlanGuards(plan).names().outputs == {("a", "risk")}


def test_what_is_reached_with_nobody_asked() -> None:
    after: dict[str, Any] = {"agent": "z", "after": ["b", "x"]}
    plan = flow_of(
        ["a", "x"], {**ASK, "after": "a"}, "b", after, {"ask": "Mail?", "phase": "m"}, "y"
    )
    asking, none = PlanGuards(plan), Routing()

    def reached(*begin: str, routing: Routing = none) -> set[str]:
        return {*asking.unguarded([*map(NodeName, begin)], routing)}

    assert reached("a", "x") == reached("q", "x") == reached("m") == set()
    assert reached("b") == {"b"}
    assert reached("b", "x") == {"b", "z"}
    assert reached("y") == {"y"}
    z, b = NodeName("z"), NodeName("b")
    assert reached("x", routing=Routing(arrivals={z: {b: 1}})) == {"z"}
    assert reached("x", routing=Routing(completed_before={z: (b,)})) == {"z"}


def test_a_decision_asks_once_it_is_used_up() -> None:
    loop = to("not good", "w", "d", at_most=3, **{"else": "ask_human"})
    asking = PlanGuards(flow_of("w", loop, "p"))
    p, d = NodeName("p"), NodeName("d")
    assert asking.unguarded([p], Routing(loops={d: 2})) == set()
    assert asking.unguarded([p], Routing(loops={d: 3})) == {"p"}
