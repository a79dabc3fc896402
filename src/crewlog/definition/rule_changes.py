"""What becomes of rules when an agent or a tool goes: nothing is widened by that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crewlog.definition.conditions import facts_in
from crewlog.definition.creatures import creatures_of
from crewlog.definition.findings import Finding
from crewlog.definition.model import CrewDefinition, Rule
from crewlog.definition.splice import FIRST


def without_tool(crew: CrewDefinition, tool: str) -> tuple[Rule, ...]:
    """The rules once a tool is gone; those that are about nothing else go with it."""
    found: list[Rule] = []
    for rule in crew.rules:
        left = tuple(name for name in rule.tools if name != tool)
        if left == rule.tools:
            found.append(rule)
        elif left:
            found.append(rule.model_copy(update={"tool": left}))
    return tuple(found)


def without_agent(crew: CrewDefinition, agent: str) -> dict[str, Any]:
    """The rules once an agent is gone, as fields to set.

    A rule for that agent alone goes with it: without a name it would hold for every agent.
    """
    rules: list[Rule] = []
    for rule in crew.rules:
        left = rule.agents and tuple(name for name in rule.agents if name != agent)
        if left == rule.agents:
            rules.append(rule)
        elif left:
            rules.append(rule.model_copy(update={"agents": left}))
    return {"rules": tuple(rules)}


def needed_by_rules(crew: CrewDefinition, agent: str) -> Iterator[Finding]:
    """Rules and agents that cannot be as they are without an agent: it does not go before."""
    for i, rule in enumerate(crew.rules):
        if rule.if_ is not None and any(fact.agent == agent for fact in facts_in(rule.if_)):
            say = f"the condition of rules[{i}] looks at {agent!r}"
            yield Finding(("rules", i, "if"), say, f"{FIRST}: edit_crew, with other 'rules'.")
    for name in creatures_of(crew):
        if name != agent and crew.agents[name].parent == agent:
            say = f"{name!r} works for {agent!r}, and may no more than that one"
            remedy = f"{FIRST}: edit_agent {name}, with another 'parent', or remove_agent {name}."
            yield Finding(("agents", name, "parent"), say, remedy)
