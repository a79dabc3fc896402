"""Awareness blocks: the part of a system prompt that describes the agent's component.

A block is the text of `agent_neighbors` and nothing else. So it changes exactly when an operation
affects the agent. It is built from the definition that a call names, and is in no history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crewlog.definition.audiences import CHANNEL
from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import phases
from crewlog.graph.lowering.components import component_of
from crewlog.ids import AgentName
from crewlog.state.components import ChannelAgent, Component, agent_neighbors

HEADING = "Your component, the agents connected with you:"
"""The first line of a block."""


class AwarenessBlocks:
    """The awareness blocks of a crew's agents with channels.

    Args:
        definition: The crew, without builders and patterns.
    """

    def __init__(self, definition: CrewDefinition) -> None:
        self._component: Component | None = None
        if definition.lives:
            self._component = component_of(definition, phases(definition))

    def block(self, name: AgentName) -> str:
        """The block of an agent; empty if it is not an agent with channels."""
        if self._component is None or name not in self._component.agents:
            return ""
        lines = self._lines(self._component, name)
        return "\n".join((HEADING, *(f"- {line}" for line in lines)))

    def _lines(self, component: Component, name: AgentName) -> Iterator[str]:
        seen = agent_neighbors(component, name)
        senders, listeners = dict(seen.senders), dict(seen.listeners)
        for channel in seen.own.listen:
            others = _others(name, senders[channel])
            senders_text = f"{listed(others)} may send to it" if others else "no agent sends to it"
            label = _channel_label(component, channel)
            yield f"You listen to {label}: {senders_text}. Each message starts a turn of yours."
        for channel in seen.own.send:
            readers = _readers_text(name, listeners[channel])
            yield f"You may send to {_channel_label(component, channel)}: {readers}."
        for to in seen.own.wires:
            channel = to.removeprefix(CHANNEL)
            where = f"to {to}"
            if channel != to:
                readers = _readers_text(name, listeners[channel])
                where = f"to the channel {_channel_label(component, channel)}: {readers}"
            yield f"The final message of your turn goes {where}."
        if seen.wired:
            yield f"You receive the final message of each turn of {listed(seen.wired)}."
        if seen.own.parent is not None:
            yield f"You work for {seen.own.parent}."
        if seen.own.beside is not None:
            yield f"You stay in one component with {seen.own.beside}."
        if seen.workers:
            yield f"These agents work for you: {listed(seen.workers)}."
        if seen.component is not None:
            yield "You may change the component by the group tools. All of it:"
            yield from self._component_lines(seen.component)
        elif len(seen.own.channels) + len(seen.own.wires) + len(seen.wired) == 0:
            yield "No channel and no wire leads to you or from you."

    def _component_lines(self, component: Component) -> Iterator[str]:
        """All agents with channels, the channels, and the agents of the flow."""
        for name, agent in sorted(component.agents.items()):
            edges = "; ".join(_edges(agent))
            yield f"{name}: {edges or 'nothing leads to it or from it'}."
        if component.channels:
            labels = (_channel_label(component, each) for each in sorted(component.channels))
            yield f"Channels: {', '.join(labels)}."
        if component.flow:
            yield f"In the flow: {', '.join(component.flow)}."


def _channel_label(component: Component, channel: str) -> str:
    about = component.channels[channel].about
    return f"{channel} ({about})" if about else channel


def _others(name: AgentName, names: Iterable[AgentName]) -> tuple[AgentName, ...]:
    return tuple(each for each in names if each != name)


def _readers_text(name: AgentName, listeners: Iterable[AgentName]) -> str:
    others = _others(name, listeners)  # no message wakes its sender
    return f"read by {listed(others)}" if others else "no agent reads it"


def _edges(agent: ChannelAgent) -> Iterator[str]:
    if agent.privileged:
        yield "privileged"
    if agent.listen:
        yield f"listens to {', '.join(agent.listen)}"
    if agent.send:
        yield f"sends to {', '.join(agent.send)}"
    if agent.wires:
        yield f"is wired to {', '.join(agent.wires)}"
    if agent.parent is not None:
        yield f"works for {agent.parent}"
    if agent.beside is not None:
        yield f"stays with {agent.beside}"
