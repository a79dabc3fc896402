"""What the operations on channels and wires make of a crew; `operations` says what they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from crewlog.definition import operations as o
from crewlog.definition.audiences import CHANNEL
from crewlog.definition.creatures import channels_named, creatures_of, outlets
from crewlog.definition.findings import Finding, Path, listed
from crewlog.definition.model import (
    EDGES,
    AgentDefinition,
    ChannelDefinition,
    CrewDefinition,
    GraphPolicy,
)
from crewlog.definition.refusing import Refused, known
from crewlog.ids import RunId
from crewlog.model import Json

OWN = (*EDGES, "parent", "enabled")
"""Fields of an agent that one which is like it does not have by that."""


def channels_of(crew: CrewDefinition) -> tuple[str, ...]:
    """The channels of a crew: those that are defined, and those that its agents name."""
    return _channels(crew, crew.agents)


def _here(crew: CrewDefinition) -> tuple[str, ...]:
    """The channels of the graph: what agents name that are in other runs is in these runs."""
    return _channels(crew, creatures_of(crew))


def _channels(crew: CrewDefinition, agents: Iterable[str]) -> tuple[str, ...]:
    found = [*crew.channels]
    for name in agents:
        found += channels_named(crew.agents[name])
    return tuple(dict.fromkeys(found))


def lives(crew: CrewDefinition, name: str, path: Path, *, joins: bool = False) -> None:
    """Checks that an agent lives in the graph.

    Args:
        crew: The crew.
        name: The agent.
        path: Where the operation names it.
        joins: Whether the operation could make its run and this one one.

    Raises:
        Refused: there is none of that name, or it is in another run.
    """
    if name not in crew.away:
        known("agent", name, creatures_of(crew), path)
    if (home := crew.away.get(name)) is not None:
        say = f"{name!r} lives in the run {home!r} since the graph was split"
        remedy = f"Change it there: name the run {home}."
        if joins:
            remedy = f"`--with {home}` makes the two runs one. Or change it there: name that run."
        raise Refused(Finding(path, say, remedy))


def tied(crew: CrewDefinition, name: str, agent: AgentDefinition, at: str) -> None:
    """Checks that an agent is tied anew to nobody who lives in another run.

    Args:
        crew: The crew.
        name: The agent.
        agent: What it is to be.
        at: Where the operation says it.

    Raises:
        Refused: it is.
    """
    before = {*_ties(crew.agents[name])} if name in crew.agents else set[tuple[str, str]]()
    for key, to in _ties(agent):
        if (key, to) not in before and to in crew.agents:
            lives(crew, to, (at, key))


def _ties(agent: AgentDefinition) -> Iterator[tuple[str, str]]:
    """Whom an agent's data names that is in its graph by that, each with the key."""
    yield from (("wires", to) for to in agent.wires)
    yield from ((k, to) for k, to in (("parent", agent.parent), ("beside", agent.beside)) if to)


def like(crew: CrewDefinition, op: o.AddAgent) -> dict[str, Json]:
    """The new agent's data, with what it has of the one that it is like.

    Raises:
        Refused: there is no such agent.
    """
    if op.like is None:
        return op.agent
    known("agent", op.like, crew.agents, ("like",))
    there = crew.agents[op.like].to_json()
    return {**{key: value for key, value in there.items() if key not in OWN}, **op.agent}


def add_channel(crew: CrewDefinition, op: o.AddChannel) -> CrewDefinition:
    """The crew with a channel more."""
    if op.name in _here(crew):
        say = f"the crew has a channel {op.name!r} already"
        raise Refused(Finding(("name",), say, "Choose another name."))
    return _with_channel(crew, op.name, ChannelDefinition(description=op.description))


def remove_channel(crew: CrewDefinition, op: o.RemoveChannel) -> CrewDefinition:
    """The crew without a channel, and without all that leads there."""
    known("channel", op.name, _here(crew), ("name",))

    def left(agent: AgentDefinition) -> AgentDefinition:
        return _with(
            agent,
            listen=tuple(each for each in agent.listen if each != op.name),
            send=tuple(each for each in agent.send if each != op.name),
            wires=tuple(to for to in agent.wires if to != CHANNEL + op.name),
        )

    channels = {name: each for name, each in crew.channels.items() if name != op.name}
    agents = {**crew.agents, **{name: left(crew.agents[name]) for name in creatures_of(crew)}}
    return crew.model_copy(update={"agents": agents, "channels": channels, **alive(crew)})


def connect(crew: CrewDefinition, op: o.Connect) -> CrewDefinition:
    """The crew in which one agent sends to a channel that another one listens to."""
    _own(op.other)
    _two(crew, op, "connected with")
    channel = op.over
    if channel not in _here(crew):
        crew = _with_channel(crew, channel, ChannelDefinition())
    sender, listener = crew.agents[op.sender], crew.agents[op.listener]
    return _with_agents(
        crew,
        {
            op.sender: _with(sender, send=_plus(sender.send, channel)),
            op.listener: _with(listener, listen=_plus(listener.listen, channel)),
        },
    )


def disconnect(crew: CrewDefinition, op: o.Disconnect) -> CrewDefinition:
    """The crew in which what the one says in a channel is not heard by the other one any more.

    What others hear and say there stays: the sender sends on where others listen, and the listener
    listens on where others speak. Where both would, it is the listener that goes.
    """
    _two(crew, op, "disconnected from")
    if op.channel is not None:
        known("channel", op.channel, _here(crew), ("channel",))
    sender, listener = crew.agents[op.sender], crew.agents[op.listener]
    lead = [
        name
        for name in sender.send
        if name in listener.listen and (op.channel is None or name == op.channel)
    ]
    if not lead:
        over = f"the channel {op.channel!r}" if op.channel else "any channel"
        say = f"{op.sender!r} does not send to {op.listener!r} over {over}"
        sends = listed(sender.send) or "nowhere"
        remedy = f"{op.sender} sends to {sends}; {op.listener} listens to "
        remedy += f"{listed(listener.listen) or 'nothing'}."
        ways = {op.listener, *(f"{CHANNEL}{name}" for name in listener.listen)}
        if wired := [to for to in sender.wires if to in ways]:
            remedy = f"{op.sender} is wired to {listed(wired)}: unwire it."
        raise Refused(Finding(("channel" if op.channel else "listener",), say, remedy))
    others = [crew.agents[n] for n in creatures_of(crew) if n not in (op.sender, op.listener)]
    heard = {name for name in lead if any(name in each.listen for each in others)}
    said = {name for name in lead if any(name in outlets(each) for each in others)}
    ends = {*lead} - heard
    leaves = {*lead} - (said - heard)
    return _with_agents(
        crew,
        {
            op.sender: _with(sender, send=tuple(c for c in sender.send if c not in ends)),
            op.listener: _with(
                listener, listen=tuple(c for c in listener.listen if c not in leaves)
            ),
        },
    )


def wire(crew: CrewDefinition, op: o.Wire) -> CrewDefinition:
    """The crew in which an agent's final messages go to another agent, too, or to a channel."""
    _own(op.other)
    lives(crew, op.name, ("name",), joins=True)
    if op.to.startswith(CHANNEL):
        known("channel", op.to.removeprefix(CHANNEL), _here(crew), ("to",))
    else:
        lives(crew, op.to, ("to",), joins=True)
    if op.to == op.name:
        say = f"{op.name!r} cannot be wired to itself"
        raise Refused(Finding(("to",), say, "Name another agent, or a channel."))
    agent = crew.agents[op.name]
    return _with_agents(crew, {op.name: _with(agent, wires=_plus(agent.wires, op.to))})


def unwire(crew: CrewDefinition, op: o.Unwire) -> CrewDefinition:
    """The crew in which they do not go there any more."""
    lives(crew, op.name, ("name",))
    agent = crew.agents[op.name]
    if op.to not in agent.wires:
        say = f"{op.name!r} is not wired to {op.to!r}"
        remedy = f"It is wired to {listed(agent.wires)}." if agent.wires else "It has no wires."
        raise Refused(Finding(("to",), say, remedy))
    left = tuple(to for to in agent.wires if to != op.to)
    return _with_agents(crew, {op.name: _with(agent, wires=left)})


def _own(other: RunId | None) -> None:
    """Checks that an operation is about one run: a definition knows no other one.

    Raises:
        Refused: it names another run.
    """
    if other is not None:
        say = f"a crew alone cannot be connected with the run {other!r}"
        remedy = "Connect agents of one run: leave the other run out."
        raise Refused(Finding(("other",), say, remedy))


def _two(crew: CrewDefinition, op: o.Connect | o.Disconnect, done: str) -> None:
    """Checks that an operation names two agents of the graph.

    Raises:
        Refused: it does not.
    """
    joins = op.op == "connect"
    lives(crew, op.sender, ("sender",), joins=joins)
    lives(crew, op.listener, ("listener",), joins=joins)
    if op.sender == op.listener:
        say = f"{op.sender!r} cannot be {done} itself"
        remedy = "Whoever sends does not get its own message: name two agents."
        raise Refused(Finding(("listener",), say, remedy))


def _plus(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)


def _with(agent: AgentDefinition, **edges: Any) -> AgentDefinition:
    changed = {key: value for key, value in edges.items() if getattr(agent, key) != value}
    return agent.model_copy(update=changed) if changed else agent


def alive(crew: CrewDefinition) -> dict[str, Any]:
    """What keeps a crew alive whose last edge goes: it is no crew without a flow by that."""
    return {"graph": crew.graph or GraphPolicy()}


def _with_agents(crew: CrewDefinition, agents: dict[str, AgentDefinition]) -> CrewDefinition:
    return crew.model_copy(update={"agents": {**crew.agents, **agents}, **alive(crew)})


def _with_channel(crew: CrewDefinition, name: str, channel: ChannelDefinition) -> CrewDefinition:
    return crew.model_copy(update={"channels": {**crew.channels, name: channel}, **alive(crew)})
