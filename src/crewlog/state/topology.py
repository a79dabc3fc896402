"""Topology: which creatures and channels there are, and which of them are one graph.

    apply(world, operation) -> (world, TopologyChange)

A creature is an agent that lives in a graph: it has a turn for each message in a channel that it
listens to. Two creatures are in one graph if there is a way between them: over a channel that one
of them listens or sends to and the other one, too; by a wire, or by a tie. Graphs are never
declared. Every operation derives them anew, with the same outcome in every process: where sizes are
equal names decide, and nothing depends on the order of a set.

Pure: a world of graphs and an operation give another world and one fact. A run holds the graph that
it is, and applies operations to a world of that one alone; where two runs merge, of both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from crewlog.definition.findings import did_you_mean
from crewlog.errors import TopologyRefused
from crewlog.ids import AgentName, RunId
from crewlog.model import Model
from crewlog.state.hashing import hash_json

CHANNEL = "channel:"
"""What a wire to a channel begins with; any other is to a creature."""
_ID_KEPT = 160
"""Characters of a run's id that the ids of its parts begin with: ids are bounded."""


class Creature(Model):
    """A creature, with its edges."""

    listen: tuple[str, ...] = ()
    """Channels whose messages give it a turn each."""
    send: tuple[str, ...] = ()
    """Channels that it may send to."""
    wires: tuple[str, ...] = ()
    """Where its final message of a turn goes: creatures, or `channel:C`."""
    parent: AgentName | None = None
    """The creature that it works for."""
    beside: AgentName | None = None
    """A creature whose graph it joined though no channel leads there."""
    privileged: bool = False
    """Whether it has the group tools."""

    @property
    def channels(self) -> frozenset[str]:
        """The channels that it listens or sends to, or is wired to."""
        return frozenset((*self.listen, *self.outlets))

    @property
    def outlets(self) -> tuple[str, ...]:
        """The channels that it sends to, or is wired to."""
        wired = (to.removeprefix(CHANNEL) for to in self.wires if to.startswith(CHANNEL))
        return tuple(dict.fromkeys((*self.send, *wired)))

    @property
    def ties(self) -> Iterator[AgentName]:
        """The creatures that it is in one graph with whatever the channels are."""
        yield from (AgentName(to) for to in self.wires if not to.startswith(CHANNEL))
        yield from (each for each in (self.parent, self.beside) if each is not None)


class Channel(Model):
    """A channel."""

    born: str = ""
    """Where it was made first: two channels of one name and one birth are the same. Empty: in the
    recipe of the runs that have it."""


class Topology(Model):
    """A graph: its creatures and channels."""

    creatures: dict[AgentName, Creature] = Field(default_factory=dict[AgentName, Creature])
    channels: dict[str, Channel] = Field(default_factory=dict[str, Channel])
    flow: tuple[AgentName, ...] = ()
    """The creatures of the crew's flow, which are in one graph."""

    def listeners(self, channel: str, sender: AgentName | None = None) -> tuple[AgentName, ...]:
        """Who gets a message in a channel: everybody who listens to it but its sender, by name."""
        return tuple(
            sorted(n for n, c in self.creatures.items() if channel in c.listen and n != sender)
        )


World = Mapping[RunId, Topology]
"""Graphs by the ids of their runs. No creature and no channel is in two of them."""


class _In(Model):
    """What is said of one graph."""

    graph: RunId
    """The graph."""


class AddCreature(_In):
    """A creature begins to live: in a graph that there is, or in one of its own, which begins."""

    op: Literal["add"] = "add"
    name: AgentName
    creature: Creature = Creature()


class RemoveCreature(_In):
    """A creature goes."""

    op: Literal["remove"] = "remove"
    name: AgentName


class AddChannel(_In):
    """A channel is made: that alone connects nobody."""

    op: Literal["add_channel"] = "add_channel"
    name: str
    born: str = ""


class RemoveChannel(_In):
    """A channel goes, with all that leads there."""

    op: Literal["remove_channel"] = "remove_channel"
    name: str


class Connect(_In):
    """A creature sends to a channel, and another one listens to it."""

    op: Literal["connect"] = "connect"
    sender: AgentName
    listener: AgentName
    channel: str
    """Where there is none of that name in the sender's graph, it is made."""
    other: RunId | None = None
    """The graph of the listener, where it is another one."""
    born: str = ""
    """The birth of the channel, where it is made."""


class Disconnect(_In):
    """A creature does not send any more to a channel, nor does another one listen to it.

    Both edges go, to whomever else they lead. Where others keep the two in one graph, they stay in
    one.
    """

    op: Literal["disconnect"] = "disconnect"
    sender: AgentName
    listener: AgentName
    channel: str | None = None
    """None: every channel that leads from the one to the other."""


class Wire(_In):
    """A creature's final messages go to another creature, too, or to a channel."""

    op: Literal["wire"] = "wire"
    name: AgentName
    to: str
    """A creature, or `channel:C`."""
    other: RunId | None = None
    """The graph of that, where it is another one."""


class Unwire(_In):
    """A creature's final messages do not go there any more."""

    op: Literal["unwire"] = "unwire"
    name: AgentName
    to: str


Operation = Annotated[
    AddCreature
    | RemoveCreature
    | AddChannel
    | RemoveChannel
    | Connect
    | Disconnect
    | Wire
    | Unwire,
    Field(discriminator="op"),
]
"""What can be done to a world."""


class Renamed(Model):
    """A name that was taken in the graph that something came to."""

    kind: Literal["creature", "channel"]
    graph: RunId
    """The graph that it came from."""
    was: str
    now: str


class TopologyChange(Model):
    """What an operation did: the fact of C110, of which there is one for each operation."""

    kind: Literal["merge", "split", "nothing"] = "nothing"
    old_graph_ids: tuple[RunId, ...] = ()
    """The graphs that it touched, sorted."""
    new_graph_ids: tuple[RunId, ...] = ()
    """The graphs that came of them, sorted; a graph that went with its last creature is none."""
    affected_creatures: tuple[AgentName, ...] = ()
    """The creatures whose surroundings are other ones than before, by name."""
    renamed: tuple[Renamed, ...] = ()
    """What a merge gave another name."""


class Applied(NamedTuple):
    """A world after an operation, and what that did."""

    world: dict[RunId, Topology]
    change: TopologyChange


def apply(world: World, operation: Operation, command: str) -> Applied:
    """What an operation makes of a world.

    Args:
        world: The graphs that it may touch.
        operation: What is to be done.
        command: The operation's own id: the ids of graphs that come of it are made of it.

    Raises:
        TopologyRefused: it cannot be done: a name is unknown or taken, or nothing would be left.
    """
    other = getattr(operation, "other", None)
    touched = {operation.graph} if other is None else {operation.graph, other}
    new: dict[RunId, Topology] = {id_: graph for id_, graph in world.items() if id_ in touched}
    for graph in touched - {*new}:
        if not isinstance(operation, AddCreature):
            raise TopologyRefused(f"there is no graph {graph!r}", remedy=_there("graphs", world))
    renamed: tuple[Renamed, ...] = ()
    if other is not None:
        if other == operation.graph:
            raise TopologyRefused(
                f"the graph {other!r} cannot be merged with itself",
                remedy="Leave the other graph out: both creatures are in this one.",
            )
        operation, new, renamed = _merged(operation, other, new)
    done = _DO[type(operation)](new.get(operation.graph, Topology()), operation)
    parts = _parted(operation.graph, done, command)
    kind: Literal["merge", "split", "nothing"] = "nothing"
    if len(parts) > 1 and operation.graph in new:
        kind = "split"
    elif other is not None:
        kind = "merge"
    after = {**{id_: graph for id_, graph in world.items() if id_ not in touched}, **parts}
    return Applied(
        after,
        TopologyChange(
            kind=kind,
            old_graph_ids=tuple(sorted(id_ for id_ in touched if id_ in world)),
            new_graph_ids=tuple(sorted(parts)),
            affected_creatures=_affected(world, after, touched, renamed),
            renamed=renamed,
        ),
    )


def components(graph: Topology) -> list[tuple[AgentName, ...]]:
    """The graphs that some creatures make, each by name: the largest first, then by first name."""
    above: dict[str, str] = {name: name for name in graph.creatures}

    def root(of: str) -> str:
        while above[of] != of:
            above[of] = above[above[of]]
            of = above[of]
        return of

    def join(one: str, two: str) -> None:
        above.setdefault(two, two)
        first, second = sorted((root(one), root(two)))
        above[second] = first

    for name, creature in graph.creatures.items():
        for channel in creature.channels:  # its order does not matter: all of them are joined
            join(name, CHANNEL + channel)
        for tie in creature.ties:
            if tie in graph.creatures:
                join(name, tie)
    flow = [name for name in graph.flow if name in graph.creatures]
    for one, two in pairwise(flow):
        join(one, two)
    found: dict[str, list[AgentName]] = {}
    for name in sorted(graph.creatures):
        found.setdefault(root(name), []).append(name)
    return sorted(map(tuple, found.values()), key=lambda part: (-len(part), part[0]))


def survivor(graphs: World) -> RunId:
    """The graph that others are merged into: the one with most creatures, then the first by id.

    One with a flow comes before all, since only its own run can go on with that.
    """
    return min(graphs, key=lambda id_: (not graphs[id_].flow, -len(graphs[id_].creatures), id_))


class Surroundings(NamedTuple):
    """What a creature sees of its graph: nobody else's affairs change it.

    A privileged one, which may change the graph, sees all of it.
    """

    own: Creature
    """Its own edges."""
    senders: tuple[tuple[str, tuple[AgentName, ...]], ...]
    """By channel that it listens to, who sends there."""
    listeners: tuple[tuple[str, tuple[AgentName, ...]], ...]
    """By channel that it sends to, or is wired to, who listens there."""
    wired: tuple[AgentName, ...]
    """Whose final messages come to it."""
    workers: tuple[AgentName, ...]
    """Who works for it."""
    graph: Topology | None
    """All of it, for a privileged one."""


class _Index:
    """Who is where in a graph: so that many creatures can be looked at in one go."""

    def __init__(self, graph: Topology) -> None:
        self._graph = graph
        self._listeners: dict[str, list[AgentName]] = {}
        self._senders: dict[str, list[AgentName]] = {}
        self._wired: dict[str, list[AgentName]] = {}
        self._workers: dict[str, list[AgentName]] = {}
        for name in sorted(graph.creatures):
            creature = graph.creatures[name]
            for channel in creature.listen:
                self._listeners.setdefault(channel, []).append(name)
            for channel in creature.outlets:
                self._senders.setdefault(channel, []).append(name)
            for to in creature.wires:
                self._wired.setdefault(to, []).append(name)
            if creature.parent is not None:
                self._workers.setdefault(creature.parent, []).append(name)

    def around(self, name: AgentName) -> Surroundings:
        own = self._graph.creatures[name]
        return Surroundings(
            own=own,
            senders=tuple((c, tuple(self._senders.get(c, ()))) for c in sorted(own.listen)),
            listeners=tuple((c, tuple(self._listeners.get(c, ()))) for c in sorted(own.outlets)),
            wired=tuple(self._wired.get(name, ())),
            workers=tuple(self._workers.get(name, ())),
            graph=self._graph if own.privileged else None,
        )


def surroundings(graph: Topology, name: AgentName) -> Surroundings:
    """What a creature sees of its graph."""
    return _Index(graph).around(name)


# -- joining and parting ---------------------------------------------------------------------


def merged(
    stays: RunId, one: Topology, joins: RunId, two: Topology
) -> tuple[Topology, tuple[Renamed, ...]]:
    """Two graphs as one, before anything connects them.

    Channels of one birth are one; what else has a name that is taken gets another one, in the graph
    that joins.

    Args:
        stays: The graph that keeps its id.
        one: Its topology.
        joins: The other one.
        two: Its topology.
    """
    creatures = _new_names(two.creatures, one.creatures)
    known = {name: one.channels[name].born for name in one.channels}
    apart = {
        name: channel for name, channel in two.channels.items() if known.get(name) != channel.born
    }
    channels = {name: name for name in two.channels} | _new_names(apart, known)
    moved = {
        AgentName(creatures[name]): _renamed(creature, creatures, channels)
        for name, creature in two.creatures.items()
    }
    told = (
        *_told("creature", joins, creatures),
        *_told("channel", joins, channels),
    )
    graph = Topology(
        creatures={**one.creatures, **moved},
        channels={**{channels[name]: each for name, each in two.channels.items()}, **one.channels},
        flow=one.flow,
    )
    return graph, told


def _told(
    kind: Literal["creature", "channel"], graph: RunId, names: Mapping[str, str]
) -> Iterator[Renamed]:
    for was, now in sorted(names.items()):
        if was != now:
            yield Renamed(kind=kind, graph=graph, was=was, now=now)


def _new_names(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """A free name for each: its own, or with the first number behind that makes it free."""
    found: dict[str, str] = {}
    wanted = sorted(names)
    used = {*taken}
    used |= {name for name in wanted if name not in used}
    for name in wanted:
        if name not in taken:
            found[name] = name
            continue
        number = 2
        while f"{name}-{number}" in used:
            number += 1
        found[name] = f"{name}-{number}"
        used.add(found[name])
    return found


def _renamed(
    creature: Creature, creatures: Mapping[str, str], channels: Mapping[str, str]
) -> Creature:
    """A creature's edges, by the names that what they lead to has now."""

    def wire(to: str) -> str:
        if to.startswith(CHANNEL):
            name = to.removeprefix(CHANNEL)
            return CHANNEL + channels.get(name, name)
        return creatures.get(to, to)

    def tie(to: AgentName | None) -> AgentName | None:
        return None if to is None else AgentName(creatures.get(to, to))

    return creature.model_copy(
        update={
            "listen": tuple(channels.get(name, name) for name in creature.listen),
            "send": tuple(channels.get(name, name) for name in creature.send),
            "wires": tuple(map(wire, creature.wires)),
            "parent": tie(creature.parent),
            "beside": tie(creature.beside),
        }
    )


def _merged(
    operation: Operation, other: RunId, world: Mapping[RunId, Topology]
) -> tuple[Operation, dict[RunId, Topology], tuple[Renamed, ...]]:
    """The one graph that two make, and what is to be done there, by the names of there."""
    stays = survivor(world)
    joins = other if stays == operation.graph else operation.graph
    if world[joins].flow:
        raise TopologyRefused(
            f"the graphs {stays!r} and {joins!r} both have a flow, and no run has two",
            remedy="Wait until one of them is over, or have them talk over people.",
        )
    graph, renamed = merged(stays, world[stays], joins, world[joins])
    now = {(each.kind, each.was): each.now for each in renamed}

    def name(of: str, home: RunId | None) -> str:
        return now.get(("creature", of), of) if home == joins else of

    match operation:
        case Connect():
            channel = operation.channel
            if operation.graph == joins:
                channel = now.get(("channel", channel), channel)
            update = {
                "graph": stays,
                "other": None,
                "sender": name(operation.sender, operation.graph),
                "listener": name(operation.listener, other),
                "channel": channel,
            }
        case Wire():
            update = {"graph": stays, "other": None, "name": name(operation.name, operation.graph)}
            if operation.to.startswith(CHANNEL):
                channel = operation.to.removeprefix(CHANNEL)
                channel = now.get(("channel", channel), channel) if other == joins else channel
                update["to"] = CHANNEL + channel
            else:
                update["to"] = name(operation.to, other)
        case _:
            raise TopologyRefused(f"{operation.op} is about one graph", remedy="Leave 'other' out.")
    return operation.model_copy(update=update), {stays: graph}, renamed


def _parted(graph: RunId, of: Topology, command: str) -> dict[RunId, Topology]:
    """The graphs that one is now, by id: the largest has its own, as have channels of nobody."""
    parts = components(of)
    if len(parts) == 1:
        return {graph: of}
    found: dict[RunId, Topology] = {}
    used = {channel for creature in of.creatures.values() for channel in creature.channels}
    for number, names in enumerate(parts):
        creatures = {name: of.creatures[name] for name in names}
        mine = {channel for creature in creatures.values() for channel in creature.channels}
        channels = {
            name: channel
            for name, channel in of.channels.items()
            if name in mine or (not number and name not in used)
        }
        flow = of.flow if any(name in creatures for name in of.flow) else ()
        id_ = part_id(graph, command, names[0]) if number else graph
        found[id_] = Topology(creatures=creatures, channels=channels, flow=flow)
    return found


def part_id(graph: RunId, command: str, first: AgentName) -> RunId:
    """The id of a graph that another one was split into: every process makes the same.

    Args:
        graph: The graph that was split.
        command: The operation that did it.
        first: The first of its creatures, by name.
    """
    return RunId(f"{graph[:_ID_KEPT]}.{hash_json([graph, command, first])[:8]}")


def _affected(
    before: World,
    after: World,
    touched: Collection[RunId],
    renamed: Collection[Renamed],
) -> tuple[AgentName, ...]:
    """Creatures that see another graph around them than before, or are in another one."""
    now = {(each.graph, each.was): each.now for each in renamed if each.kind == "creature"}
    homes: dict[AgentName, tuple[RunId, Surroundings]] = {}
    for id_ in touched:
        if (graph := before.get(id_)) is not None:
            index = _Index(graph)
            for name in graph.creatures:
                homes[AgentName(now.get((id_, name), name))] = (id_, index.around(name))
    found: set[AgentName] = set()
    for id_, graph in after.items():
        if before.get(id_) is graph:
            continue
        index = _Index(graph)
        found |= {n for n in graph.creatures if homes.get(n) != (id_, index.around(n))}
    gone = {*homes} - {name for graph in after.values() for name in graph.creatures}
    return tuple(sorted(found | gone))


# -- the operations on one graph -------------------------------------------------------------


def _there(what: str, names: Iterable[str]) -> str:
    known = sorted(names)
    return f"There are the {what} {', '.join(known)}." if known else f"There are no {what}."


def _known(graph: Topology, name: AgentName) -> Creature:
    creature = graph.creatures.get(name)
    if creature is None:
        raise TopologyRefused(
            f"there is no creature {name!r} in the graph",
            remedy=did_you_mean(name, graph.creatures, _there("creatures", graph.creatures)),
        )
    return creature


def _known_channel(graph: Topology, name: str) -> None:
    if name not in graph.channels:
        raise TopologyRefused(
            f"there is no channel {name!r} in the graph",
            remedy=did_you_mean(name, graph.channels, _there("channels", graph.channels)),
        )


def _with(graph: Topology, name: AgentName, **edges: object) -> Topology:
    creature = graph.creatures[name].model_copy(update=edges)
    return graph.model_copy(update={"creatures": {**graph.creatures, name: creature}})


def _add(graph: Topology, op: AddCreature) -> Topology:
    if op.name in graph.creatures:
        raise TopologyRefused(
            f"there is a creature {op.name!r} in the graph", remedy="Choose another name."
        )
    for channel in op.creature.channels:
        if channel not in graph.channels:
            graph = _add_channel(graph, AddChannel(graph=op.graph, name=channel))
    for tie in op.creature.ties:
        _known(graph, tie)
    creature = op.creature
    added = graph.model_copy(update={"creatures": {**graph.creatures, op.name: creature}})
    if graph.creatures and len(components(added)) > len(components(graph)):
        # Whoever joins a graph is in it: where no channel leads there, a tie does.
        beside = min(graph.creatures)
        added = _with(added, op.name, beside=beside)
    return added


def _remove(graph: Topology, op: RemoveCreature) -> Topology:
    _known(graph, op.name)
    if len(graph.creatures) == 1:
        raise TopologyRefused(
            f"{op.name!r} is the last creature of the graph",
            remedy="Stop the run instead: a graph without creatures is none.",
        )
    left = {
        name: creature.model_copy(
            update={
                "wires": tuple(to for to in creature.wires if to != op.name),
                "parent": None if creature.parent == op.name else creature.parent,
                "beside": None if creature.beside == op.name else creature.beside,
            }
        )
        if op.name in creature.ties
        else creature
        for name, creature in graph.creatures.items()
        if name != op.name
    }
    flow = tuple(name for name in graph.flow if name != op.name)
    return graph.model_copy(update={"creatures": left, "flow": flow})


def _add_channel(graph: Topology, op: AddChannel) -> Topology:
    if op.name in graph.channels:
        raise TopologyRefused(
            f"there is a channel {op.name!r} in the graph", remedy="Choose another name."
        )
    channels = {**graph.channels, op.name: Channel(born=op.born)}
    return graph.model_copy(update={"channels": channels})


def _remove_channel(graph: Topology, op: RemoveChannel) -> Topology:
    _known_channel(graph, op.name)
    creatures = {
        name: creature.model_copy(
            update={
                "listen": tuple(c for c in creature.listen if c != op.name),
                "send": tuple(c for c in creature.send if c != op.name),
                "wires": tuple(to for to in creature.wires if to != CHANNEL + op.name),
            }
        )
        if op.name in creature.channels
        else creature
        for name, creature in graph.creatures.items()
    }
    channels = {name: each for name, each in graph.channels.items() if name != op.name}
    return graph.model_copy(update={"creatures": creatures, "channels": channels})


def _connect(graph: Topology, op: Connect) -> Topology:
    sender, listener = _known(graph, op.sender), _known(graph, op.listener)
    if op.sender == op.listener:
        raise TopologyRefused(
            f"{op.sender!r} cannot be connected with itself",
            remedy="Whoever sends does not get its own message: name two creatures.",
        )
    if op.channel not in graph.channels:
        graph = _add_channel(graph, AddChannel(graph=op.graph, name=op.channel, born=op.born))
    graph = _with(graph, op.sender, send=_plus(sender.send, op.channel))
    return _with(graph, op.listener, listen=_plus(listener.listen, op.channel))


def _plus(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return names if name in names else (*names, name)


def _disconnect(graph: Topology, op: Disconnect) -> Topology:
    sender, listener = _known(graph, op.sender), _known(graph, op.listener)
    if op.channel is not None:
        _known_channel(graph, op.channel)
    lead = [
        name
        for name in sender.send
        if name in listener.listen and (op.channel is None or name == op.channel)
    ]
    if not lead:
        over = f"the channel {op.channel!r}" if op.channel else "any channel"
        raise TopologyRefused(
            f"{op.sender!r} does not send to {op.listener!r} over {over}",
            remedy="`crewlog graph show` tells who sends and listens where.",
        )
    graph = _with(graph, op.sender, send=tuple(c for c in sender.send if c not in lead))
    listens = graph.creatures[op.listener].listen
    return _with(graph, op.listener, listen=tuple(c for c in listens if c not in lead))


def _wire(graph: Topology, op: Wire) -> Topology:
    creature = _known(graph, op.name)
    if op.to.startswith(CHANNEL):
        _known_channel(graph, op.to.removeprefix(CHANNEL))
    elif op.to == op.name:
        raise TopologyRefused(
            f"{op.name!r} cannot be wired to itself", remedy="Name another creature, or a channel."
        )
    else:
        _known(graph, AgentName(op.to))
    return _with(graph, op.name, wires=_plus(creature.wires, op.to))


def _unwire(graph: Topology, op: Unwire) -> Topology:
    creature = _known(graph, op.name)
    if op.to not in creature.wires:
        raise TopologyRefused(
            f"{op.name!r} is not wired to {op.to!r}",
            remedy=_there("wires", creature.wires),
        )
    return _with(graph, op.name, wires=tuple(to for to in creature.wires if to != op.to))


_DO: Mapping[type, Callable[[Topology, Any], Topology]] = {
    AddCreature: _add,
    RemoveCreature: _remove,
    AddChannel: _add_channel,
    RemoveChannel: _remove_channel,
    Connect: _connect,
    Disconnect: _disconnect,
    Wire: _wire,
    Unwire: _unwire,
}
