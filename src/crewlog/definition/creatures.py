"""Creatures: agents that have turns for what they hear, and what tools they have by that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crewlog.definition.audiences import CHANNEL
from crewlog.definition.model import (
    GROUP_TOOLS,
    SEND_MESSAGE,
    AgentDefinition,
    CrewDefinition,
    GraphPolicy,
)
from crewlog.definition.phases import Phase
from crewlog.errors import Diagnostic, InvalidDefinition

INBOX = ".inbox"
"""What the node of a creature ends with whose own name a phase of the flow has."""


def creatures_of(definition: CrewDefinition) -> tuple[str, ...]:
    """The agents that live in the crew's graph: all of them, but those that are in other runs."""
    return tuple(name for name in definition.agents if name not in definition.away)


def elsewhere(crew: CrewDefinition, homes: Mapping[str, str]) -> CrewDefinition:
    """A crew of which some agents live in other runs, where they stay.

    Args:
        crew: The crew.
        homes: The runs of those, by name; agents that the crew does not have are nowhere.
    """
    away = {name: home for name, home in homes.items() if name in crew.agents}
    if not away:
        return crew
    policy = crew.graph or GraphPolicy()
    return crew.model_copy(
        update={"graph": policy.model_copy(update={"away": dict(sorted(away.items()))})}
    )


def where_they_are(crew: CrewDefinition, base: CrewDefinition | None) -> CrewDefinition:
    """A crew as people change it, in which who lives in another run stays there.

    That is the engine's word: by leaving it out, nobody would come home who lives on elsewhere, but
    live twice; and whoever is said to be somewhere would be nowhere.

    Args:
        crew: What they make of it.
        base: What it was; none: the run begins.

    Raises:
        InvalidDefinition: it says otherwise where agents live.
    """
    away: Mapping[str, str] = base.away if base is not None else {}
    given = crew.away
    wrong = sorted(name for name, home in given.items() if away.get(name) != home)
    if wrong:
        here = f"lives in {away[wrong[0]]!r}" if wrong[0] in away else "has left for no other run"
        say = f"'graph.away' says that {wrong[0]!r} lives in {given[wrong[0]]!r}, and it {here}"
        remedy = (
            "Leave 'away' out. `crewlog graph disconnect` has agents leave for a run of theirs."
        )
        raise InvalidDefinition([Diagnostic(say, ("graph", "away", wrong[0]), remedy)])
    return crew if given == away else elsewhere(crew, away)


def channels_named(agent: AgentDefinition) -> tuple[str, ...]:
    """The channels that an agent listens to, sends to or is wired to; some more than once."""
    return (*agent.listen, *outlets(agent))


def outlets(agent: AgentDefinition) -> tuple[str, ...]:
    """The channels that an agent sends to or is wired to; some more than once."""
    if not agent.wires:
        return agent.send
    wired = (to.removeprefix(CHANNEL) for to in agent.wires if to.startswith(CHANNEL))
    return (*agent.send, *wired)


def creature_nodes(definition: CrewDefinition, found: list[Phase]) -> dict[str, str]:
    """The nodes at which creatures hear, by name, each with its agent.

    Args:
        definition: The crew.
        found: The phases of its flow: a node that has none of their names is called as its agent.
    """
    if not definition.lives:
        return {}
    taken = {phase.name for phase in found}
    return {
        name if name not in taken else f"{name}{INBOX}": name for name in creatures_of(definition)
    }


def creature_tools(definition: CrewDefinition, name: str) -> tuple[str, ...]:
    """The tools that an agent has because of its channels, and of its privilege."""
    sends = (SEND_MESSAGE,) if definition.agents[name].send else ()
    return (*sends, *GROUP_TOOLS) if definition.is_privileged(name) else sends


def among_agents(definition: CrewDefinition) -> CrewDefinition:
    """The crew without wires and ties to agents that it does not have, and without such a root."""
    known = definition.agents

    def left(agent: AgentDefinition) -> AgentDefinition:
        wires = tuple(to for to in agent.wires if to.startswith(CHANNEL) or to in known)
        beside = agent.beside if agent.beside in known else None
        if (wires, beside) == (agent.wires, agent.beside):
            return agent
        return agent.model_copy(update={"wires": wires, "beside": beside})

    update: dict[str, Any] = {"agents": {name: left(agent) for name, agent in known.items()}}
    if definition.graph is not None:
        update["graph"] = definition.graph.among(known)
    return definition.model_copy(update=update) if definition.lives else definition
