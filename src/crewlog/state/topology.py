"""Topology: which creatures and channels there are, and which of them are one graph.

    apply(world, operation) -> (world, TopologyChange)

A creature is an agent that lives in a graph: it has a turn for each message in a channel that it
listens to. Two creatures are in one graph if there is a way between them: over a channel that one
of them listens or sends to and the other one, too; by a wire, or by a tie. Graphs are never
declared. Every operation derives them anew, with the same outcome in every process: where sizes are
equal names decide, and nothing depends on the order of a set. A flow stays with its run: the part
that has it keeps the run's id, however small it is, and others are merged into the graph that has
it.

Pure: a world of graphs and an operation give another world and one fact. A run holds the graph that
it is, and applies operations to a world of that one alone; where two runs merge, of both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field

from crewlog.definition.audiences import CHANNEL
from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import NAME_PATTERN
from crewlog.errors import TopologyRefused
from crewlog.ids import AgentName, RunId
from crewlog.model import Model
from crewlog.state.hashing import hash_json

_ID_KEPT = 160
"""Characters of a run's id that the ids of its parts begin with: ids are bounded."""
_NAME_LENGTH = 64
"""The most characters of a name, as the pattern of names has it."""
_NAMED = 20
"""How many names a remedy lists."""


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
    """The run in which it was made: two channels of one name and one birth are the same. Empty: in
    the run that has it. Where a channel comes to another run it is filled in, since two runs of one
    recipe have channels of equal names that are not the same."""


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
"""Graphs by the ids of their runs. No creature and no channel is in two of them, though two of them
may have creatures, or channels, of one name."""


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
    """The one of that name in the sender's graph, else the one in the listener's; where there is
    none in either, it is made."""
    other: RunId | None = None
    """The graph of the listener, where it is another one."""
    born: str = ""
    """The birth of the channel, where it is made. Empty: the run that the two are in then."""


class Disconnect(_In):
    """What a creature says in a channel is not heard by another one any more.

    It sends there no more, unless others listen; the other one listens there no more, unless others
    speak. Where others do both, the other one goes all the same. Where others keep the two in one
    graph, they stay in one.
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

    kind: Literal["creature", "channel", "group"]
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
    """The graphs that came of them, sorted."""
    affected_creatures: tuple[AgentName, ...] = ()
    """The creatures that came or went, are in another graph, or have other surroundings than
    before: by the names that they have now, sorted."""
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
    other: RunId | None = getattr(operation, "other", None)
    ids = (operation.graph,) if other is None else (operation.graph, other)
    old: dict[RunId, Topology] = {id_: world[id_] for id_ in ids if id_ in world}
    for id_ in ids:
        if id_ not in old and not isinstance(operation, AddCreature):
            raise TopologyRefused(f"there is no graph {id_!r}", remedy=_there("graphs", world))
    graphs = old
    renamed: tuple[Renamed, ...] = ()
    if other is not None:
        operation, graph, renamed = as_one(operation, other, old)
        graphs = {operation.graph: graph}
    done = _DO[type(operation)](graphs.get(operation.graph, Topology()), operation)
    parts = parts_of(operation.graph, done, command)
    after = {id_: graph for id_, graph in world.items() if id_ not in old}
    if taken := sorted({*parts} & {*after}):
        raise TopologyRefused(
            f"a part of the graph {operation.graph!r} would have the id of the graph {taken[0]!r}",
            remedy="Give the command an id of its own: this one parted the graph before.",
        )
    kind: Literal["merge", "split", "nothing"] = "nothing"
    if len(parts) > 1:
        kind = "split"
    elif other is not None:
        kind = "merge"
    change = TopologyChange(
        kind=kind,
        old_graph_ids=tuple(sorted(old)),
        new_graph_ids=tuple(sorted(parts)),
        affected_creatures=affected(old, parts, renamed),
        renamed=renamed,
    )
    return Applied({**after, **parts}, change)


def components(graph: Topology) -> list[tuple[AgentName, ...]]:
    """The graphs that some creatures make, each by name, in order of who keeps the graph's id.

    The one with the flow is first, then the largest; of two that are equal, the one whose first
    name is less.
    """
    above: dict[AgentName, AgentName] = {name: name for name in graph.creatures}

    def root(of: AgentName) -> AgentName:
        while above[of] != of:
            above[of] = above[above[of]]
            of = above[of]
        return of

    def join(one: AgentName, two: AgentName) -> None:
        first, second = root(one), root(two)
        above[second] = first

    met: dict[str, AgentName] = {}
    for name, creature in graph.creatures.items():
        for channel in _channels(creature):
            if (there := met.setdefault(channel, name)) != name:
                join(there, name)
        for tie in creature.ties:
            if tie in above:
                join(tie, name)
    flow = [name for name in graph.flow if name in above]
    for one, two in pairwise(flow):
        join(one, two)
    found: dict[AgentName, list[AgentName]] = {}
    for name in sorted(above):
        found.setdefault(root(name), []).append(name)
    flows = root(flow[0]) if flow else None
    order = sorted(found, key=lambda of: (of != flows, -len(found[of]), found[of][0]))
    return [tuple(found[of]) for of in order]


def _channels(creature: Creature) -> Iterator[str]:
    """A creature's channels, in the order in which they are written; some more than once."""
    yield from creature.listen
    yield from creature.send
    for to in creature.wires:
        if to.startswith(CHANNEL):
            yield to.removeprefix(CHANNEL)


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


def surroundings(graph: Topology, name: AgentName) -> Surroundings:
    """What a creature sees of its graph."""
    own = graph.creatures[name]
    others = sorted(graph.creatures.items())
    speaks = {each: creature.outlets for each, creature in others}
    return Surroundings(
        own=own,
        senders=tuple(
            (channel, tuple(each for each, _ in others if channel in speaks[each]))
            for channel in sorted(own.listen)
        ),
        listeners=tuple(
            (channel, tuple(each for each, creature in others if channel in creature.listen))
            for channel in sorted(own.outlets)
        ),
        wired=tuple(each for each, creature in others if name in creature.wires),
        workers=tuple(each for each, creature in others if creature.parent == name),
        graph=graph if own.privileged else None,
    )


# -- joining and parting ---------------------------------------------------------------------


def merged(
    stays: RunId, one: Topology, joins: RunId, two: Topology
) -> tuple[Topology, tuple[Renamed, ...]]:
    """Two graphs as one, before anything connects them.

    Channels of one name and one birth are one; what else has a name that is taken gets another one,
    in the graph that joins.

    Args:
        stays: The graph that keeps its id.
        one: Its topology.
        joins: The other one.
        two: Its topology.
    """
    creatures = new_names(two.creatures, one.creatures)
    joining = _moved(two.channels, joins, stays)
    known = _moved(one.channels, stays, stays)
    apart = [
        name
        for name, channel in joining.items()
        if name not in known or known[name].born != channel.born
    ]
    channels = {name: name for name in joining} | new_names(apart, known)
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
        channels={**known, **{channels[name]: each for name, each in joining.items()}},
        flow=one.flow,
    )
    return graph, told


def _moved(channels: Mapping[str, Channel], from_: RunId, to: RunId) -> dict[str, Channel]:
    """Channels that come from one run to another, which may be the one in which they were made."""
    left, came = _birth(from_), _birth(to)
    moved: dict[str, Channel] = {}
    for name, channel in channels.items():
        born = channel.born or left
        born = "" if born == came else born
        same = born == channel.born
        moved[name] = channel if same else Channel(**{**vars(channel), "born": born})
    return moved


def _birth(graph: RunId) -> str:
    """How a run is named as the birth of a channel: its id, if that is short."""
    return graph if len(graph) <= _ID_KEPT else f"{graph[:_ID_KEPT]}.{hash_json(graph)[:8]}"


def _told(
    kind: Literal["creature", "channel"], graph: RunId, names: Mapping[str, str]
) -> Iterator[Renamed]:
    for was, now in sorted(names.items()):
        if was != now:
            yield Renamed(kind=kind, graph=graph, was=was, now=now)


def new_names(names: Iterable[str], taken: Collection[str]) -> dict[str, str]:
    """A free name for each: its own, or with the first number behind that makes it free.

    What is too long for a number behind it loses its end.
    """
    found: dict[str, str] = {}
    wanted = sorted(names)
    used = {*taken, *wanted}
    for name in wanted:
        if name not in taken:
            found[name] = name
            continue
        number, now = 2, name
        while now in used:
            end = f"-{number}"
            now = name[: _NAME_LENGTH - len(end)] + end
            number += 1
        found[name] = now
        used.add(now)
    return found


def _renamed(
    creature: Creature, creatures: Mapping[str, str], channels: Mapping[str, str]
) -> Creature:
    """A creature's edges, by the names that what they lead to has now.

    Args:
        creature: The creature.
        creatures: New names by old ones.
        channels: Likewise.
    """

    def wire(to: str) -> str:
        if to.startswith(CHANNEL):
            name = to.removeprefix(CHANNEL)
            return CHANNEL + channels.get(name, name)
        return creatures.get(to, to)

    def tie(to: AgentName | None) -> AgentName | None:
        return None if to is None else AgentName(creatures.get(to, to))

    edges: dict[str, Any] = {
        "listen": tuple(channels.get(name, name) for name in creature.listen),
        "send": tuple(channels.get(name, name) for name in creature.send),
        "wires": tuple(map(wire, creature.wires)),
        "parent": tie(creature.parent),
        "beside": tie(creature.beside),
    }
    own = vars(creature)
    return creature if edges.items() <= own.items() else Creature(**{**own, **edges})


class AsOne(NamedTuple):
    """The graph that two make before anything connects them."""

    operation: Operation
    """What is to be done there, by the names of there."""
    graph: Topology
    renamed: tuple[Renamed, ...]
    """What the graph that joins called otherwise."""


def as_one(operation: Operation, other: RunId, world: World, stays: RunId | None = None) -> AsOne:
    """The one graph that two make, and what is to be done there.

    Args:
        operation: What connects them, by the names of each; the graph that it is said of is one.
        other: The other one.
        world: The two.
        stays: Which of them keeps its id; by default `survivor` says.

    Raises:
        TopologyRefused: they cannot be one: a name is unknown, or both have a flow.
    """
    if other == operation.graph:
        raise TopologyRefused(
            f"the graph {other!r} cannot be merged with itself",
            remedy="Leave the other graph out: both creatures are in this one.",
        )
    # By the names and graphs that were said: once the two are one, any creature would do.
    here, there = world[operation.graph], world[other]
    match operation:
        case Connect():
            _known(here, operation.sender)
            _known(there, operation.listener)
        case Wire():
            _known(here, operation.name)
            _known_end(there, operation.to)
            channel = operation.to.removeprefix(CHANNEL)
            if channel != operation.to and not _used(there, channel):
                raise TopologyRefused(
                    f"nobody in the graph {other!r} listens or sends to the channel {channel!r}",
                    remedy="A channel alone connects nobody: name one that a creature there uses.",
                )
        case _:
            raise TopologyRefused(f"{operation.op} is about one graph", remedy="Leave 'other' out.")
    stays = stays or survivor(world)
    joins = other if stays == operation.graph else operation.graph
    if world[joins].flow:
        raise TopologyRefused(
            f"the graphs {stays!r} and {joins!r} both have a flow, and no run has two",
            remedy="Wait until one of them is over, or have them talk over people.",
        )
    graph, renamed = merged(stays, world[stays], joins, world[joins])
    now = {(each.kind, each.was): each.now for each in renamed}

    def name(kind: Literal["creature", "channel"], of: str, home: RunId) -> str:
        return now.get((kind, of), of) if home == joins else of

    home, away = operation.graph, other
    if isinstance(operation, Connect):
        update = {
            "sender": name("creature", operation.sender, home),
            "listener": name("creature", operation.listener, away),
            # What the sender's graph does not have keeps its name: it is not taken there.
            "channel": name("channel", operation.channel, home),
        }
    else:
        update = {"name": name("creature", operation.name, home), "to": operation.to}
        if operation.to.startswith(CHANNEL):
            to = operation.to.removeprefix(CHANNEL)
            update["to"] = CHANNEL + name("channel", to, away)
        else:
            update["to"] = name("creature", operation.to, away)
    said = operation.model_copy(update={**update, "graph": stays, "other": None})
    return AsOne(said, graph, renamed)


def parts_of(graph: RunId, of: Topology, command: str) -> dict[RunId, Topology]:
    """The graphs that one is now, by id; the first part keeps its own, as do channels of nobody."""
    parts = components(of)
    if len(parts) < 2:  # none: a run without creatures, which has its channels all the same
        return {graph: of}
    home = {
        channel: number
        for number, names in enumerate(parts)
        for name in names
        for channel in _channels(of.creatures[name])
    }
    found: dict[RunId, Topology] = {}
    for number, names in enumerate(parts):
        id_ = part_id(graph, command, names[0]) if number else graph
        channels = {
            name: channel for name, channel in of.channels.items() if home.get(name, 0) == number
        }
        found[id_] = Topology(
            creatures={name: of.creatures[name] for name in names},
            channels=_moved(channels, graph, id_) if number else channels,
            flow=() if number else of.flow,
        )
    return found


def part_id(graph: RunId, command: str, first: AgentName) -> RunId:
    """The id of a graph that another one was split into: every process makes the same.

    Args:
        graph: The graph that was split.
        command: The operation that did it.
        first: The first of its creatures, by name.
    """
    return RunId(f"{graph[:_ID_KEPT]}.{hash_json([graph, command, first])[:8]}")


def affected(old: World, new: World, renamed: Collection[Renamed] = ()) -> tuple[AgentName, ...]:
    """Creatures that see another graph around them than before, or are in another one, or went.

    Args:
        old: The graphs that were touched, as they were.
        new: What came of them.
        renamed: Who has another name now, by which it is told.
    """
    now = {(each.graph, each.was): each.now for each in renamed if each.kind == "creature"}
    found: set[AgentName] = set()
    for id_, graph in new.items():
        before = old.get(id_)
        found |= {*graph.creatures} if before is None else _disturbed(before, graph)
    for id_, graph in old.items():
        was = {AgentName(now.get((id_, name), name)) for name in graph.creatures}
        here = new[id_].creatures if id_ in new else {}
        found |= was - {*here}
    return tuple(sorted(found))


def _disturbed(before: Topology, after: Topology) -> set[AgentName]:
    """Creatures of a graph whose surroundings are other ones than before.

    What differs is looked for among the creatures that are not the same: few, in a graph of many.
    """
    nobody = Creature()
    differ: set[AgentName] = set()
    spoken: set[str] = set()
    heard: set[str] = set()
    reached: set[str] = set()
    for name in {**before.creatures, **after.creatures}:
        was, is_ = before.creatures.get(name, nobody), after.creatures.get(name, nobody)
        if was is is_ or (was == is_ and name in before.creatures and name in after.creatures):
            continue
        differ.add(name)
        spoken |= {*was.outlets} ^ {*is_.outlets}
        heard |= {*was.listen} ^ {*is_.listen}
        reached |= {*was.wires} ^ {*is_.wires}
        if was.parent != is_.parent:
            reached |= {each for each in (was.parent, is_.parent) if each is not None}
    same = not differ and before.channels == after.channels and before.flow == after.flow
    return {
        name
        for name, creature in after.creatures.items()
        if name in differ
        or name in reached
        or (creature.privileged and not same)
        or not spoken.isdisjoint(creature.listen)
        or not heard.isdisjoint(creature.send)
        or (creature.wires and not heard.isdisjoint(creature.outlets))
    }


# -- the operations on one graph -------------------------------------------------------------


def _there(what: str, names: Iterable[str]) -> str:
    known = sorted(names)
    if not known:
        return f"There are no {what}."
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"There are the {what} {', '.join(known[:_NAMED])}{more}."


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


def _known_end(graph: Topology, to: str) -> None:
    if to.startswith(CHANNEL):
        _known_channel(graph, to.removeprefix(CHANNEL))
    else:
        _known(graph, AgentName(to))


def _used(graph: Topology, channel: str) -> bool:
    return any(channel in _channels(each) for each in graph.creatures.values())


def _free(what: str, name: str, taken: Collection[str]) -> None:
    if name in taken:
        raise TopologyRefused(
            f"there is a {what} {name!r} in the graph", remedy="Choose another name."
        )
    if not re.fullmatch(NAME_PATTERN, name):
        raise TopologyRefused(
            f"{name!r} is no name of a {what}",
            remedy=f"A name has a letter first, then letters, digits, `_` and `-`; "
            f"{_NAME_LENGTH} characters at most.",
        )


def _with(graph: Topology, name: AgentName, **edges: object) -> Topology:
    creature = graph.creatures[name].model_copy(update=edges)
    return graph.model_copy(update={"creatures": {**graph.creatures, name: creature}})


def _add(graph: Topology, op: AddCreature) -> Topology:
    _free("creature", op.name, graph.creatures)
    for channel in _channels(op.creature):
        if channel not in graph.channels:
            graph = _add_channel(graph, AddChannel(graph=op.graph, name=channel))
    ties = [*op.creature.ties]
    for tie in ties:
        _known(graph, tie)
    creature = op.creature
    mine = {*_channels(creature)}
    joined = ties or any(
        not mine.isdisjoint(_channels(other)) for other in graph.creatures.values()
    )
    if graph.creatures and not joined:
        # Whoever joins a graph is in it: where no channel leads there, a tie does.
        creature = creature.model_copy(update={"beside": min(graph.creatures)})
    return graph.model_copy(update={"creatures": {**graph.creatures, op.name: creature}})


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
    _free("channel", op.name, graph.channels)
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
    if op.sender == op.listener:
        raise TopologyRefused(
            f"{op.sender!r} cannot be disconnected from itself",
            remedy="Whoever sends does not get its own message: name two creatures.",
        )
    if op.channel is not None:
        _known_channel(graph, op.channel)
    lead = [
        name
        for name in sender.send
        if name in listener.listen and (op.channel is None or name == op.channel)
    ]
    if not lead:
        over = "any channel" if op.channel is None else f"the channel {op.channel!r}"
        raise TopologyRefused(
            f"{op.sender!r} does not send to {op.listener!r} over {over}",
            remedy="It is wired to a channel there: unwire it."
            if any(CHANNEL + name in sender.wires for name in listener.listen)
            else "`crewlog graph show` tells who sends and listens where.",
        )
    others = [c for name, c in graph.creatures.items() if name not in (op.sender, op.listener)]
    heard = {name for name in lead if any(name in each.listen for each in others)}
    said = {name for name in lead if any(name in each.outlets for each in others)}
    ends, leaves = {*lead} - heard, {*lead} - (said - heard)
    graph = _with(graph, op.sender, send=tuple(c for c in sender.send if c not in ends))
    listens = graph.creatures[op.listener].listen
    return _with(graph, op.listener, listen=tuple(c for c in listens if c not in leaves))


def _wire(graph: Topology, op: Wire) -> Topology:
    creature = _known(graph, op.name)
    if op.to == op.name:
        raise TopologyRefused(
            f"{op.name!r} cannot be wired to itself", remedy="Name another creature, or a channel."
        )
    _known_end(graph, op.to)
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
