"""What a creature is told of the graph that it lives in: a block of its system prompt.

It says what `surroundings` does, all of it and nothing else: so it is another text exactly where an
operation affects the creature, and the rest of the prompt is never touched. It is made of the
definition that a call names, and no history has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crewlog.definition.audiences import CHANNEL
from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.definition.phases import phases
from crewlog.graph.lowering.components import component_of
from crewlog.ids import AgentName
from crewlog.state.components import ChannelAgent, Component, surroundings

HEADING = "The graph that you live in:"
"""How the block begins."""


class AwarenessBlocks:
    """The blocks of a crew's creatures.

    Args:
        definition: The crew, without builders and patterns.
    """

    def __init__(self, definition: CrewDefinition) -> None:
        self._graph: Component | None = None
        if definition.lives:
            self._graph = component_of(definition, phases(definition))

    def block(self, name: AgentName) -> str:
        """What an agent is told; empty where it does not live in the graph."""
        if self._graph is None or name not in self._graph.creatures:
            return ""
        return "\n".join((HEADING, *(f"- {line}" for line in self._lines(self._graph, name))))

    def _lines(self, graph: Component, name: AgentName) -> Iterator[str]:
        seen = surroundings(graph, name)
        senders, listeners = dict(seen.senders), dict(seen.listeners)
        for channel in seen.own.listen:
            others = _but(name, senders[channel])
            who = f"{listed(others)} may speak there" if others else "no agent speaks there"
            yield f"You listen to {_named(graph, channel)}: {who}. Each message gives you a turn."
        for channel in seen.own.send:
            heard = _readers_text(name, listeners[channel])
            yield f"You may send to {_named(graph, channel)}: {heard}."
        for to in seen.own.wires:
            channel = to.removeprefix(CHANNEL)
            where = f"to {to}"
            if channel != to:
                heard = _readers_text(name, listeners[channel])
                where = f"to the channel {_named(graph, channel)}: {heard}"
            yield f"What you say at the end of a turn goes {where}."
        if seen.wired:
            yield f"What {listed(seen.wired)} says at the end of a turn comes to you."
        if seen.own.parent is not None:
            yield f"You work for {seen.own.parent}."
        if seen.own.beside is not None:
            yield f"You stay in one graph with {seen.own.beside}."
        if seen.workers:
            yield f"For you works {listed(seen.workers)}."
        if seen.graph is not None:
            yield "You may change the graph by the group tools. All of it:"
            yield from self._whole(seen.graph)
        elif len(seen.own.channels) + len(seen.own.wires) + len(seen.wired) == 0:
            yield "No channel and no wire leads to you or from you."

    def _whole(self, graph: Component) -> Iterator[str]:
        """All creatures and channels, and who works in the flow."""
        for name, creature in sorted(graph.creatures.items()):
            edges = "; ".join(_edges(creature))
            yield f"{name}: {edges or 'nothing leads to it or from it'}."
        if graph.channels:
            named = (_named(graph, each) for each in sorted(graph.channels))
            yield f"Channels: {', '.join(named)}."
        if graph.flow:
            yield f"In the flow: {', '.join(graph.flow)}."


def _named(graph: Component, channel: str) -> str:
    about = graph.channels[channel].about
    return f"{channel} ({about})" if about else channel


def _but(name: AgentName, names: Iterable[AgentName]) -> tuple[AgentName, ...]:
    """Agents without oneself: whoever speaks does not hear itself."""
    return tuple(each for each in names if each != name)


def _readers_text(name: AgentName, listeners: Iterable[AgentName]) -> str:
    others = _but(name, listeners)
    return f"heard by {listed(others)}" if others else "nobody listens there"


def _edges(creature: ChannelAgent) -> Iterator[str]:
    if creature.privileged:
        yield "privileged"
    if creature.listen:
        yield f"listens to {', '.join(creature.listen)}"
    if creature.send:
        yield f"sends to {', '.join(creature.send)}"
    if creature.wires:
        yield f"is wired to {', '.join(creature.wires)}"
    if creature.parent is not None:
        yield f"works for {creature.parent}"
    if creature.beside is not None:
        yield f"stays with {creature.beside}"
