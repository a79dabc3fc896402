"""By what a change widens authority: nothing that gives anybody more is let pass as harmless."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest

from crewlog.authority.permissions import check_tool, needs_approval
from crewlog.authority.widening import regained, widening
from crewlog.definition.model import CrewDefinition
from crewlog.errors import InvalidDefinition
from crewlog.graph.lower import lower
from crewlog.graph.plan import GraphPlan

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
    "principals": {"ada": {"key": f"ed25519:{'A' * 43}=", "rights": ["grant"]}},
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
        (other(BASE, approvals={}), "calls of write by agent b need no approval any more"),
        (other(BASE, approvals={"write": ["a"]}), "calls of write by agent b"),
        (other(BASE, approval="none"), "the crew's approval"),
        (agent(BASE, "b", prompt="Other words.", model="scripted:x", max_calls=3), None),
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
        (BASE, None),
    ],
)
def test_what_widens_is_told_and_what_does_not_is_let_pass(
    new: CrewDefinition, way: str | None
) -> None:
    found = "; ".join(widening(BASE, new))
    assert (way in found) if way else not found


def test_an_end_of_the_policy_is_told() -> None:
    assert widening(other(BASE, policy=SIGNED), BASE)


def test_what_people_forbade_while_the_run_lived_is_not_given_back() -> None:
    (told,) = regained({"write": ()}, {"write": ("b",)}, ["a", "b"])
    assert told == "agent b may call write, which is forbidden now"
    assert not [*regained({"write": ("b",)}, {"write": ()}, ["b"])]
    assert not [*regained({}, {"write": ()}, ["b"])]


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
            decision = check_tool(
                name,
                each,
                offered=rules.tools,
                known=plan.tools,
                permissions=plan.permissions,
            )
            if decision.allowed:
                found[name, each] = needs_approval(name, each, plan.approvals)
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
