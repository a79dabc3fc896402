"""The component that the agents of a definition make, and the nodes at which messages wake them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from crewlog.definition.creatures import channels_named, creature_nodes, creatures_of
from crewlog.definition.expand import expand
from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import Phase, at_work, phases
from crewlog.ids import AgentName, NodeName
from crewlog.state.components import Channel, ChannelAgent, Component

ABOUT = 300
"""The most characters of what a channel is for, in the prompts of those who use it."""


def expanded_component(definition: CrewDefinition) -> Component:
    """The graph that the agents of a crew make, as it was written: with its builders."""
    whole = expand(definition).definition
    return component_of(whole, phases(whole))


def wake_nodes(definition: CrewDefinition) -> dict[NodeName, AgentName]:
    """Where agents of a crew hear, and which, as it was written: with its builders."""
    whole = expand(definition).definition
    nodes = creature_nodes(whole, phases(whole))
    return {NodeName(node): AgentName(name) for node, name in nodes.items()}


def component_of(definition: CrewDefinition, found: Sequence[Phase]) -> Component:
    """The graph that a crew's agents make.

    Args:
        definition: The crew.
        found: The phases of its flow, whose agents are in one graph.
    """
    living = creatures_of(definition)
    creatures = {name: definition.agents[name] for name in living}
    channels = {*definition.channels}
    for agent in creatures.values():
        channels.update(channels_named(agent))
    said = definition.channels

    @cache  # there may be hundreds, most of which are alike
    def made(born: str, about: str | None) -> Channel:
        return Channel(born=born, about=_about_line(about or ""))

    return Component(
        creatures={
            AgentName(name): ChannelAgent(
                listen=agent.listen,
                send=agent.send,
                wires=agent.wires,
                parent=AgentName(agent.parent) if agent.parent is not None else None,
                beside=AgentName(agent.beside) if agent.beside is not None else None,
                privileged=definition.is_privileged(name),
            )
            for name, agent in creatures.items()
        },
        channels={
            name: made(said[name].born, said[name].description) if name in said else made("", None)
            for name in sorted(channels)
        },
        flow=tuple(AgentName(name) for name in at_work(found) if name in creatures),
    )


def _about_line(about: str) -> str:
    """What a channel is for, as all who use it are told in their prompts: short, and plain.

    Agents may write it, too: it is no place for a page of orders, or for signs that nobody sees.
    """
    seen = "".join(c for c in " ".join(about.split()) if c.isprintable())
    return seen if len(seen) <= ABOUT else f"{seen[: ABOUT - 1]}…"
