"""By what a change widens authority: nothing that gives anybody more is let pass as harmless."""

from __future__ import annotations

import inspect
import os
import random
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from crewlog.authority.definition_fields import FIELDS, ORDER, widening_rule
from crewlog.authority.permissions import authorize_tool, is_approval_required
from crewlog.authority.widening import regained_permissions, widening
from crewlog.definition.model import AgentDefinition, CrewDefinition, PatternUse
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.model import Model

AGENTS, TOOLS = ("a", "b", "c"), ("read", "write", "send")
LOGS = ("public", "group:g", "channel:x")
ROUNDS = int(os.environ.get("CREWLOG_WIDENINGS", "300"))


def crew(**more: Any) -> CrewDefinition:
    tools = {name: {"run": f"deeds:{name}"} for name in ("read", "write")}
    agents = {"a": {"prompt": "A", "tools": ["read"]}, "b": {"prompt": "B"}}
    return CrewDefinition.from_json({"crew": "c", "agents": agents, "tools": tools, **more})


def other(base: CrewDefinition, **more: Any) -> CrewDefinition:
    return CrewDefinition.from_json({**base.to_json(), **more})


def agent(base: CrewDefinition, name: str, **more: Any) -> CrewDefinition:
    data = base.to_json()
    data["agents"][name] = {**data["agents"].get(name, {}), **more}
    return CrewDefinition.from_json(data)


def tool(base: CrewDefinition, name: str, **more: Any) -> CrewDefinition:
    data = base.to_json()
    data["tools"][name] = {**data["tools"].get(name, {}), **more}
    return CrewDefinition.from_json(data)


BASE = crew(permissions={"write": ["b"]}, approvals={"write": None})
SIGNED = {
    "mode": "signed",
    "principals": {"ada": {"key": f"ed25519:{'B' * 42}A=", "rights": ["grant"]}},
}


@pytest.mark.parametrize(
    ("new", "way"),
    [
        (other(BASE, policy=SIGNED), "the policy"),
        (tool(BASE, "send", run="deeds:send"), "the tool send is new"),
        (tool(BASE, "read", run="deeds:shell"), "tool read: run"),
        (tool(BASE, "read", queue="elsewhere"), "tool read: queue"),
        (tool(BASE, "write", paths=["notes/"]), "tool write: paths"),
        (tool(BASE, "write", retry="safe"), "tool write: retry"),
        (agent(BASE, "a", tools=["read", "write"]), None),  # permissions still say no
        (agent(BASE, "d", prompt="D", tools=["read"]), "agent d may call read"),
        (agent(BASE, "d", prompt="D"), "agent d may call read"),
        (agent(BASE, "a", reads=["public", "group:g"]), "agent a reads group:g"),
        (agent(BASE, "b", writes=["channel:x"]), "agent b writes channel:x"),
        (other(BASE, permissions={}), None),  # a does not have it
        (other(agent(BASE, "a", tools=None), permissions={}), "agent a may call write"),
        (other(BASE, approvals={}), "calls of write by agent b no longer need an approval"),
        (other(BASE, approvals={"write": ["a"]}), "calls of write by agent b"),
        (agent(BASE, "b", prompt="Other words.", max_calls=3, timeout=9, on_error="fail"), None),
        (agent(BASE, "b", model="scripted:x"), "agent b: the model scripted:x"),
        (other(BASE, model="scripted:x"), "the model scripted:x"),
        (agent(BASE, "b", max_calls=26), "agent b: max_calls"),
        (agent(BASE, "d", prompt="D", tools=[], max_calls=26), "agent d: max_calls"),
        (agent(BASE, "b", timeout=181), "agent b: timeout"),
        (agent(BASE, "b", retry={"attempts": 5}), "agent b: retry: attempts"),
        (agent(BASE, "b", retry={"attempts": 2, "first": 9}), None),
        (agent(BASE, "b", on_error="continue"), "agent b: on_error"),
        (agent(BASE, "d", prompt="D", tools=[], parent="b"), None),
        (tool(BASE, "write", timeout=61), "tool write: timeout"),
        (tool(BASE, "write", hosts=["api.example.org"]), "tool write: hosts"),
        (tool(BASE, "write", checks={"to": "url"}), "tool write: checks"),
        (tool(BASE, "write", placed="local"), "tool write: placed"),
        (tool(BASE, "write", risk="high", timeout=3, on_error="fail", retry="never"), None),
        (other(BASE, limits={"steps": 10_001}), "limits: steps"),
        (other(BASE, limits={"parallel": 65}), "limits: parallel"),
        (other(BASE, limits={"tokens": 5, "wall": 9}), None),
        (other(BASE, interrupts={"default": "stop"}), "the crew's interrupts"),
        (other(BASE, groups={"g": ["a"]}), "the crew's groups"),
        (other(BASE, timezone="Europe/Berlin"), "the crew's timezone"),
        (other(BASE, memory={}), "the crew's memory"),
        (other(BASE, logs={"x": {"readers": ["a"]}}), "the crew's logs"),
        (other(BASE, mcp={"m": {"url": "https://example.org"}}), "the crew's mcp"),
        (agent(BASE, "b", model_settings={"temperature": 0, "stop": ["x"]}), None),
        (agent(BASE, "b", model_settings={"base_url": "http://x"}), "the model's setting base_url"),
        (agent(BASE, "b", model_settings={"api_key": "env:TOKEN"}), "the model's setting api_key"),
        (agent(BASE, "b", model_settings={"stop": ["env:TOKEN"]}), "the model's setting stop"),
        (agent(BASE, "d", prompt="D", tools=[], model_settings={"proxy": "http://x"}), "proxy"),
        (other(BASE, crew="d"), "the crew's name"),
        (agent(BASE, "d", prompt="D", tools=[]), None),
        (agent(BASE, "a", tools=[]), None),
        (agent(BASE, "a", reads=[]), None),
        (agent(BASE, "a", enabled=False), None),
        (other(BASE, permissions={"write": [], "read": ["a"]}), None),
        (other(BASE, approvals={"write": None, "read": ["a"]}), None),
        (other(BASE, flow=["b", "a"], flags={"x": 1}), None),
        (other(BASE, limits={"steps": 5}), None),
        (other(BASE, approval="required"), None),
        (BASE, None),
    ],
)
def test_what_widens_is_told_and_what_does_not_is_let_pass(
    new: CrewDefinition, way: str | None
) -> None:
    found = "; ".join(widening(BASE, new))
    assert (way in found) if way else not found


@pytest.mark.parametrize(
    ("was", "now", "way"),
    [
        ({"approval": "required"}, {"approval": "understood"}, "the crew's approval"),
        ({"limits": {"cost": 5}}, {"limits": {"cost": 6}}, "limits: cost"),
        ({"limits": {"wall": 5}}, {"limits": {}}, "limits: wall"),
        ({"limits": {"tokens": 5}}, {"limits": {"tokens": 4}}, None),
        ({"rules": [{"tool": "*", "do": "ask"}]}, {"rules": []}, "a rule of the crew"),
        ({"rules": []}, {"rules": [{"tool": "*", "quota": "5 per day"}]}, None),
        ({"interrupts": {"approve_risk": "low"}}, {"interrupts": {}}, "interrupts"),
        ({"policy": SIGNED}, {"policy": None}, "the policy"),
    ],
)
def test_what_gives_way_to_less_is_told(
    was: dict[str, Any], now: dict[str, Any], way: str | None
) -> None:
    found = "; ".join(widening(other(BASE, **was), other(BASE, **was | now)))
    assert (way in found) if way else not found


GO: dict[str, Any] = {"agent": "b", "after": "go"}


@pytest.mark.parametrize(
    ("was", "now", "way"),
    [
        (["a", "b"], [{"agent": "a", "on_error": "continue"}, "b"], "on_error of the phase a"),
        (["a", "b"], [{"agent": "a", "on_error": "b"}, GO], "on_error of the phase a"),
        (["a", "b"], [{"agent": "a", "on_error": "fail"}, "b"], None),
        ([{"agent": "a", "on_error": "b"}, GO], ["a", "b"], None),
        (
            [{"agent": "a", "on_error": "b"}, GO],
            [{"agent": "a", "on_error": "continue"}, "b"],
            None,
        ),
        (["a", "b"], [{"agent": "a", "timeout": "1m"}, "b"], None),
    ],
)
def test_a_phase_whose_failure_stops_less_is_told(
    was: list[Any], now: list[Any], way: str | None
) -> None:
    found = "; ".join(widening(other(BASE, flow=was), other(BASE, flow=now)))
    assert (way in found) if way else not found


ASK: dict[str, Any] = {"ask": "Publish?", "sets": "ok"}
END: dict[str, Any] = {"if": "not ok", "go": "end"}
ASKING = crew(flow=["a", ASK, END, "b"])


FLOWS: list[tuple[list[Any], str | None]] = [
    (["a", ASK, END, "b"], None),
    ([{"agent": "a", "task": "Anew."}, ASK, END, "b"], None),
    (["a", {"wait": "1h"}, ASK, END, "b", {"agent": "a", "phase": "again"}], None),
    ([ASK, END, "b"], None),
    (["a", "c", ASK, END, "b"], None),
    (["a", ["c", ASK], END, "b"], None),
    (["a", END, "b"], "the question 'Publish?' is removed"),
    (["a", ASK, "b"], "without the branch 'not ok' before it"),
    (["a", "b", ASK, END], "its turn b without the question 'Publish?'"),
    (["a", ASK, END, {"agent": "b", "after": "a"}], "without the question 'Publish?'"),
    (["a", ASK, END, {"agent": "b", "after": []}], "without the question 'Publish?'"),
    ([["a", ASK], {"agent": "b", "after": "a"}, END], "without the question 'Publish?'"),
    (["a", {**ASK, "ask": "Tea?"}, END, "b"], "the question 'Publish?' is removed"),
    (["a", {**ASK, "options": ["no", "yes"]}, END, "b"], "is removed or changed"),
    (["a", {**ASK, "options": ["approve", "b", "reject"]}, END, "b"], "is removed"),
    (["a", ASK, {"if": "not ok", "go": "b"}, {"agent": "a", "phase": "z"}, "b"], "branch"),
    (["a", {"if": "x", "go": "b"}, ASK, END, "b"], "without the question 'Publish?'"),
    (
        ["a", {"parallel": ["c", ASK], "join": "any"}, END, "b"],
        "without the question 'Publish?'",
    ),
    (["a", {"agent": "c", "when": "x", "else": "b"}, ASK, END, "b"], "without the question"),
    (["a", {"ask": "What?", "sets": "ok", "options": ["x"]}, ASK, END, "b"], "sets ok"),
    (["a", {**ASK, "only_if": "late"}, END, "b"], "is removed or changed"),
]


@pytest.mark.parametrize(("flow", "way"), FLOWS)
def test_nobody_comes_before_a_question_that_came_after_it(
    flow: list[Any], way: str | None
) -> None:
    new = agent(ASKING, "c", prompt="C", tools=[])
    found = "; ".join(widening(ASKING, other(new, flow=flow)))
    assert (way in found) if way else not found


def test_a_flow_that_asks_nobody_says_how_a_crew_works() -> None:
    base = crew(flow=["a", {"if": "x", "go": "end"}, {"agent": "b", "when": "y"}])
    assert not widening(base, other(base, flow=["b", "a"]))


def test_what_the_condition_of_a_rule_reads_is_not_changed() -> None:
    rule = {"tool": "write", "do": "never", "if": "closed or a.risk > 1"}
    base = crew(rules=[rule], flags={"closed": True}, flow=["a", "b"])
    for way, new in {
        "the flag closed": other(base, flags={"closed": False}),
        "agent b sets closed": agent(base, "b", writes_flags=["closed"]),
        "agent a sets risk": agent(base, "a", outputs=["risk"]),
        "the reducer of closed": other(base, merge={"closed": "append"}),
        "the crew's flow": other(base, flow=["b", "a"]),
    }.items():
        assert way in "; ".join(widening(base, new))
    assert not widening(base, other(base, flags={"closed": True, "other": 1}))
    assert not widening(base, agent(base, "b", outputs=["risk"], writes_flags=["other"]))


def _models(of: Any) -> Iterator[type[Model]]:
    """The models that a field's type is made of."""
    if inspect.isclass(of) and issubclass(of, Model):
        yield of
    for part in get_args(of):
        yield from _models(part)


def test_each_field_of_a_definition_has_its_place_in_the_table() -> None:
    """A field that is new must be looked at: what does a change of it give, and to whom?"""
    seen = set[type[Model]]()
    todo: list[type[Model]] = [CrewDefinition]
    while todo:
        model = todo.pop()
        if model in seen:
            continue
        seen.add(model)
        assert set(FIELDS[model]) == set(model.model_fields), model
        for name, field in model.model_fields.items():
            if FIELDS[model][name] not in ("same", "free") and (model, name) not in WHOLE:
                todo += _models(field.annotation)
    assert seen == set(FIELDS) - {PatternUse}
    assert {
        (model, key) for model, key in ORDER if FIELDS[model][key] not in ("order", "own")
    } == set()


WHOLE: set[tuple[type[Model], str]] = {
    (CrewDefinition, "rules"),
    (AgentDefinition, "inputs"),
    *((model, key) for model in FIELDS for key in ("after", "when", "only_if", "if_")),
}
"""Fields that are compared whole, whatever their models have."""


def test_a_field_that_is_not_known_counts_as_wider() -> None:
    class Newer(AgentDefinition):
        powers: tuple[str, ...] = ()
        """What a later build adds."""

    assert widening_rule(AgentDefinition, "powers") == "same"
    assert widening_rule(Newer, "prompt") == "same"


def test_an_end_of_the_policy_is_told() -> None:
    assert widening(other(BASE, policy=SIGNED), BASE)


def test_what_people_forbade_while_the_run_lived_is_not_given_back() -> None:
    (told,) = regained_permissions({"write": ()}, {"write": ("b",)}, ["a", "b"])
    assert told == "agent b may call write, which is forbidden now"
    assert not [*regained_permissions({"write": ("b",)}, {"write": ()}, ["b"])]
    assert not [*regained_permissions({}, {"write": ()}, ["b"])]


def _random(chance: random.Random) -> CrewDefinition | None:
    def some(of: tuple[str, ...]) -> list[str]:
        return [each for each in of if chance.random() < 0.6]

    def table(names: list[str]) -> dict[str, Any]:
        return {
            t: chance.choice([None, some(tuple(names))]) for t in tools if chance.random() < 0.5
        }

    names, tools = some(AGENTS) or ["a"], some(TOOLS)
    agents = {
        name: {
            "prompt": chance.choice(["P", "Q"]),
            "tools": chance.choice([None, some(tuple(tools))]),
            "reads": some(LOGS),
        }
        for name in names
    }
    data = {
        "crew": "c",
        "model": "scripted:x.yaml",
        "agents": agents,
        "tools": {name: {"run": f"deeds:{name}"} for name in tools},
        "permissions": table(names),
        "approvals": table(names),
        "groups": {"g": names},
    }
    try:
        made = CrewDefinition.from_json(data)
        lower(made)
    except InvalidDefinition:
        return None
    return made


def _cells(plan: GraphPlan) -> dict[tuple[str, str], bool]:
    """Who may call what, and whether a person must say yes: as the engine decides it."""
    found: dict[tuple[str, str], bool] = {}
    for name, rules in plan.agents.items():
        for each in TOOLS:
            decision = authorize_tool(
                name,
                each,
                agent_tools=rules.tools,
                crew_tools=plan.tools,
                permissions=plan.permissions,
            )
            if decision.allowed:
                found[name, each] = is_approval_required(name, each, plan.approvals)
    return found


def test_whatever_the_engine_allows_more_is_told() -> None:
    """Random pairs, judged by the checks that the engine makes of their plans."""
    chance = random.Random(7)  # noqa: S311
    told = silent = 0
    while told + silent < ROUNDS:
        old, new = _random(chance), _random(chance)
        if old is None or new is None:
            continue
        if chance.random() < 0.5:  # near each other, so that not all pairs widen
            data = old.to_json()
            key = chance.choice(["permissions", "approvals"])
            data[key] = {t: [] if key == "permissions" else None for t in old.tools}
            new = CrewDefinition.from_json(data)
        ways = widening(old, new)
        before, after = _cells(lower(old)), _cells(lower(new))
        more = [cell for cell, asks in after.items() if before.get(cell, None) not in (asks, False)]
        more = [cell for cell in more if cell not in before or (before[cell] and not after[cell])]
        sees = {
            (name, log)
            for name, one in new.agents.items()
            for log in one.reads
            if log not in (old.agents[name].reads if name in old.agents else ("public",))
        }
        assert ways or not (more or sees), (old.to_json(), new.to_json(), more, sees)
        told, silent = told + bool(ways), silent + (not ways)
    assert told > ROUNDS / 10
    assert silent > ROUNDS / 10


@pytest.mark.parametrize(("parent", "wider"), [("a", False), ("b", True), (None, True)])
def test_a_child_that_gets_another_parent_may_have_more(parent: str | None, wider: bool) -> None:
    child = agent(BASE, "d", prompt="D", tools=[], parent="a")
    found = [*widening(child, agent(BASE, "d", prompt="D", tools=[], parent=parent))]
    assert ("agent d: parent" in found) is wider
