"""What a crew of creatures is to end by, and nobody sets.

A run that rests ends by `ends_on`, or by `idle`. Where no agent sets what a condition looks at, it
never ends by that, unless people do it. Agents that take no part count: others may be made like
them while the run lives. Who lives in another run sets nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.conditions import Fact, facts_in
from crewlog.definition.creatures import creatures_of
from crewlog.definition.findings import Finding, did_you_mean
from crewlog.definition.model import AgentDefinition, AskPhase, CrewDefinition
from crewlog.definition.phases import Phase
from crewlog.definition.pool_checks import counted_conflicts


def ending_findings(definition: CrewDefinition, found: list[Phase]) -> Iterator[Finding]:
    """Conditions of `ends_on` that no agent may ever meet."""
    policy = definition.graph
    if policy is None or not policy.ends_on:
        return
    agents = {name: definition.agents[name] for name in creatures_of(definition)}
    set_ = {flag for agent in agents.values() for flag in agent.writes_flags}
    set_ |= {p.item.sets for p in found if isinstance(p.item, AskPhase) and p.item.sets}
    set_ |= {*counted_conflicts(definition)}
    for i, condition in enumerate(policy.ends_on):
        for fact in facts_in(condition):
            fault = _of_agent(fact, agents) if fact.agent is not None else _of_flag(fact, set_)
            if fault is None:
                continue
            say, remedy, word = fault
            path = ("graph", "ends_on", i)
            yield Finding(path, say, remedy, word=word, severity="warning")


def _of_flag(fact: Fact, set_: set[str]) -> tuple[str, str, str] | None:
    if fact.name in set_:
        return None
    people = f"Let one set it, by 'writes_flags'; people do by: crewlog edit RUN {fact.name}=true"
    say = f"no agent sets the flag {fact.name!r}, by which the run is to end"
    return say, did_you_mean(fact.name, set_, people), fact.name


def _of_agent(fact: Fact, agents: dict[str, AgentDefinition]) -> tuple[str, str, str] | None:
    whole = f"{fact.agent}.{fact.name}"
    agent = agents.get(fact.agent or "")
    if agent is None:
        say = f"the run is to end by {whole!r}, and no agent {fact.agent!r} lives in it"
        remedy = did_you_mean(fact.agent or "", agents, "Name an output of an agent of the crew.")
        return say, remedy, fact.agent or ""
    error = ("error",) if agent.on_error.failure == "continue" else ()
    known = (*agent.writes_flags, *outputs_of(agent), "text", *error)
    if fact.name in known:
        return None
    say = f"agent {fact.agent!r} does not set {fact.name!r}, by which the run is to end"
    add = f"Add it to the agent's writes_flags or outputs, e.g. outputs: [{fact.name}]."
    return say, did_you_mean(fact.name, known, add), whole
