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

MAX_DESCRIPTION = 300
"""The most characters of a channel's description in prompts."""


def expanded_component(definition: CrewDefinition) -> Component:
    """The component of a definition that still has its builders."""
    whole = expand(definition).definition
    return component_of(whole, phases(whole))


def wake_nodes(definition: CrewDefinition) -> dict[NodeName, AgentName]:
    """The nodes at which messages wake agents, of a definition that still has its builders."""
    whole = expand(definition).definition
    nodes = creature_nodes(whole, phases(whole))
    return {NodeName(node): AgentName(name) for node, name in nodes.items()}


def component_of(definition: CrewDefinition, flow: Sequence[Phase]) -> Component:
    """The component of an expanded definition.

    Args:
        definition: The definition.
        flow: The phases of its flow, which connects their agents.
    """
    agents = {name: definition.agents[name] for name in creatures_of(definition)}
    names = {*definition.channels}
    for agent in agents.values():
        names.update(channels_named(agent))
    definitions = definition.channels

    @cache  # there may be hundreds of channels, most of them equal
    def build_channel(born: str, about: str | None) -> Channel:
        return Channel(born=born, about=_description_line(about or ""))

    return Component(
        agents={
            AgentName(name): ChannelAgent(
                listen=agent.listen,
                send=agent.send,
                wires=agent.wires,
                parent=AgentName(agent.parent) if agent.parent is not None else None,
                beside=AgentName(agent.beside) if agent.beside is not None else None,
                privileged=definition.is_privileged(name),
            )
            for name, agent in agents.items()
        },
        channels={
            name: build_channel(definitions[name].born, definitions[name].description)
            if name in definitions
            else build_channel("", None)
            for name in sorted(names)
        },
        flow=tuple(AgentName(name) for name in at_work(flow) if name in agents),
    )


def _description_line(text: str) -> str:
    """A channel's description for prompts: one short line of printable characters.

    Agents may write it, too, so it must not have room for instructions or hidden characters.
    """
    line = "".join(c for c in " ".join(text.split()) if c.isprintable())
    return line if len(line) <= MAX_DESCRIPTION else f"{line[: MAX_DESCRIPTION - 1]}…"
