# ruff: noqa: E501  (tables of cases: a case is a line)
"""Definitions to plans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from crewlog.definition.content import definition_hash
from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition
from crewlog.graph.loops import Loops
from crewlog.graph.lowering.coordination_rules import requirements
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan, Join
from graph.crews import crew, flows, flutter, plan_of


def joins(plan: GraphPlan) -> dict[str, Any]:
    return {
        n: (node.join.of, node.join.need) if node.join else None for n, node in plan.nodes.items()
    }


def test_the_flutter_crew() -> None:
    plan = flutter()
    assert joins(plan) == {
        "ui_designer": None,
        "backend": None,
        "aggregator": (("ui_designer", "backend"), 2),
        "audio": (("aggregator",), 1),
    }
    assert [n for n, node in plan.nodes.items() if node.entry] == ["ui_designer", "backend"]
    assert plan.rules == (
        "ui_designer starts with the run",
        "backend starts with the run",
        "aggregator waits for ui_designer and backend",
        "audio waits for aggregator and backend.models_ready",
    )
    assert requirements(plan) == ["audio depends on backend.models_ready"]
    assert plan.agents["backend"].tools == ("set_flag",)


def test_a_bare_flag_of_one_agent_is_named_with_it() -> None:
    plan = plan_of(
        ["a", {"agent": "b", "when": "ready and not (ok or a.score > 2)"}],
        {"a": {"writes_flags": ["ready"], "outputs": ["score"]}},
    )
    assert requirements(plan) == ["b depends on a.ready and not (ok or a.score > 2)"]


@pytest.mark.parametrize(
    ("flow", "expected"),
    [
        (["a", "b"], {"a": None, "b": (("a",), 1)}),
        (["a", ["b", "c"], "d"], {"a": None, "b": (("a",), 1), "c": (("a",), 1), "d": (("b", "c"), 2)}),
        ([{"parallel": ["a", "b", "c"], "join": "any"}, "d"], {"a": None, "b": None, "c": None, "d": (("a", "b", "c"), 1)}),
        ([{"parallel": ["a", "b", "c"], "join": 2}, "d"], {"a": None, "b": None, "c": None, "d": (("a", "b", "c"), 2)}),
        (["a", {"agent": "b", "after": []}, {"agent": "c", "after": {"quorum": 1, "of": ["a", "b"]}}], {"a": None, "b": None, "c": (("a", "b"), 1)}),
        (["a", {"parallel": ["b", {"agent": "c", "after": []}], "after": "a"}], {"a": None, "b": (("a",), 1), "c": None}),
        ([["a", "b"], {"if": "ok", "go": "end"}, "c"], {"a": None, "b": None, "after_a_b": (("a", "b"), 2), "c": (("after_a_b",), 1)}),
        (["a", {"ask": "x?"}, {"ask": "y?"}, "b"], {"a": None, "ask_1": (("a",), 1), "ask_2": (("ask_1",), 1), "b": (("ask_2",), 1)}),
        (["a", {"agent": "after_a", "after": []}, {"if": "ok", "go": "end", "after": "a"}], {"a": None, "after_a": None, "after_a_2": (("a",), 1)}),
    ],
)  # fmt: skip
def test_joins_are_written_at_their_target(flow: list[Any], expected: dict[str, Any]) -> None:
    assert joins(plan_of(flow)) == expected


def test_a_phase_that_is_only_sent_to_has_neither_join_nor_entry() -> None:
    plan = plan_of(["a", {"if": "ok", "go": "c"}, "b", {"agent": "c", "after": "go"}])
    node = plan.nodes["c"]
    assert (node.join, node.entry) == (None, False)
    assert "c starts when a branch or a handoff leads to it" in plan.rules
    assert Loops(plan).joins("after_a", "c") == {}


def test_going_back_resets_the_joins_of_the_loop() -> None:
    loop = {"if": "not ok", "go": "w", "at_most": 3, "phase": "d"}
    plan = plan_of(["s", "w", ["x", "y"], {"agent": "j", "after": ["x", "y", "s"]}, loop, "z"])
    # w is reached by the route; x and y wait for w; j has s outside; z is behind the loop
    assert Loops(plan).joins("d", "w") == {"x": (), "y": (), "j": ("s",), "d": ()}


def test_the_loops_head_is_reset_only_where_it_waits_for_its_own_body() -> None:
    flow = [
        "s",
        {"agent": "x", "after": "s"},
        {"agent": "h", "after": {"any": ["s", "x"]}},
        {"if": "not ok", "go": "x", "at_most": 2, "phase": "inner"},
        {"if": "ok", "go": "h", "at_most": 2, "phase": "outer"},
    ]
    plan = plan_of(flow)
    assert Loops(plan).joins("inner", "x") == {"h": ("s",), "inner": ()}
    # h is reached by the route; inner's way back to x is inner's own affair
    assert Loops(plan).joins("outer", "h") == {"inner": (), "outer": ()}


def test_an_inner_loop_leaves_the_arrivals_of_the_outer_loops_other_lanes() -> None:
    flow = [
        "h",
        {"agent": "other", "after": "h"},
        {"agent": "w", "after": "h"},
        {"if": "not ok", "go": "w", "at_most": 2, "phase": "inner"},
        {"if": "ok", "go": "h", "at_most": 2, "phase": "outer", "after": ["inner", "other"]},
    ]
    plan = plan_of(flow)
    assert Loops(plan).joins("inner", "w") == {"inner": ()}
    assert Loops(plan).joins("outer", "h") == {"other": (), "w": (), "inner": (), "outer": ()}


def test_tools_are_those_listed_and_permissions_are_kept_beside_them() -> None:
    tools = {name: {"run": "m:f", "effects": "read"} for name in ("z", "y", "x")}
    plan = plan_of(
        ["a", "b", "c", "d"],
        {"a": {"tools": ["z", "x"]}, "b": {"tools": []}, "d": {"outputs": ["k"], "tools": ["y"]}},
        tools=tools,
        permissions={"x": ["b", "c"], "y": [], "z": None},
    )
    assert {n: r.tools for n, r in plan.agents.items()} == {
        "a": ("z", "x"), "b": (), "c": ("x", "y", "z"), "d": ("y", "set_output"),
    }  # fmt: skip
    assert plan.permissions == {"x": ("b", "c"), "y": (), "z": None}
    assert plan.tools["x"].repeat == "safe"


def test_rules_say_joins_conditions_and_decisions() -> None:
    plan = plan_of(
        [
            {"parallel": ["a", "b", "c"], "join": 2},
            {"agent": "e", "only_if": "ok"},
            {"agent": "f", "when": "ok", "else": "skip"},
            {"if": "not ok", "go": "e", "at_most": 3, "else": "ask_human"},
            {"ask": "Ship?", "options": ["yes", "stop"]},
            {"ask": "How?", "options": ["by ship", "by air"], "sets": "how", "words": True},
        ]
    )
    assert plan.rules[3:] == (
        "e waits for 2 of a, b and c",
        "e is skipped unless ok",
        "f waits for e and ok",
        "f is skipped where ok can no longer hold",
        "after_f waits for f",
        "after_f: not ok → e (≤ 3), else ask_human",
        "ask_1 waits for after_f",
        "ask_1 asks people: yes or stop",
        "ask_2 waits for ask_1",
        "ask_2 asks people: by ship, by air or any words",
    )


def test_an_invalid_definition_is_refused() -> None:
    data = crew(["a"]).to_json() | {"flow": ["b"]}
    with pytest.raises(InvalidDefinition, match="the agent 'b', which is not defined"):
        lower(CrewDefinition.from_json(data))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(flows())
def test_every_plan_can_be_carried_and_its_joins_satisfied(flow: list[Any]) -> None:
    definition = crew(flow)
    assert CrewDefinition.from_json(definition.to_json()) == definition
    plan = lower(definition)
    assert plan.definition == definition_hash(definition)
    assert GraphPlan.from_json(plan.to_json()) == plan
    done: set[str] = set()
    while True:  # without any decision that goes back, every node is reached
        more = {n for n, node in plan.nodes.items() if node.entry or _ready(node.join, done)}
        if more <= done:
            break
        done |= more
    assert done == set(plan.nodes)
    for name, node in plan.nodes.items():
        assert node.join is None or 1 <= node.join.need <= len(node.join.of)
        for joined, outside in (
            Loops(plan).joins(name, node.decide.go) if node.decide else {}
        ).items():
            assert set(outside) < set(plan.nodes[joined].join.of) or not outside
            assert joined != name or node.join is not None


def _ready(join: Join | None, done: set[str]) -> bool:
    return join is not None and sum(source in done for source in join.of) >= join.need


def test_the_rules_say_when_a_phase_runs_and_who_must_agree() -> None:
    flow = [
        "planner",
        {"ask": "Publish?", "only_if": "ok"},
        {"agent": "worker", "for_each": "planner.topics", "needs": ["read"]},
        "idle",
    ]
    agents: dict[str, Any] = {"planner": {"outputs": ["topics"]}, "idle": {"enabled": False}}
    tools = {name: {"run": "m:f"} for name in ("delete", "read")}
    plan = plan_of(
        flow,
        agents,
        tools=tools,
        approvals={"delete": None, "read": ["worker", "idle"]},
        merge={"ok": "last", "worker.text": "append"},
    )
    assert {
        "ask_1 is asked only if ok",
        "worker has a step for each item of planner.topics",
        "worker is skipped unless worker may call read",
        "idle is switched off: its phases are skipped",
        "every call of delete waits for a person's yes",
        "calls of read by worker and idle wait for a person's yes",
        "the values of worker.text from several steps make a list",
    } <= set(plan.rules)
    assert not [rule for rule in plan.rules if "ok makes" in rule]
