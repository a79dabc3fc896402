"""Topology: which creatures and channels there are, and which of them are one graph.

    parts_of(run, topology, command) -> the graphs that one is now, by id: who keeps it is first
    survivor(world), as_one(edge, …) -> which of two graphs stays, and what the two are together
    change_of(old, new)              -> ComponentChange, the one fact of it

A creature is an agent that lives in a graph: it has a turn for each message in a channel that it
listens to. Two creatures are in one graph if there is a way between them: over a channel that one
of them listens or sends to and the other one, too; by a wire, or by a tie. Graphs are never
declared. Every operation derives them anew, with the same outcome in every process: where sizes are
equal names decide, and nothing depends on the order of a set. A flow stays with its run: the part
that has it keeps the run's id, however small it is, and others are merged into the graph that has
it.

Pure. An operation changes the definition (`crewlog.definition.regrouping`), and the component
follows from the definition (`crewlog.graph.lowering.components`). How components change by that is
computed here alone: for a run, for its dry runs, and for run merges.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Literal, NamedTuple

from pydantic import Field

from crewlog.canonical_json import hash_json
from crewlog.definition.audiences import CHANNEL
from crewlog.definition.findings import did_you_mean
from crewlog.definition.operations import Connect, Wire
from crewlog.errors import ComponentConflict
from crewlog.ids import AgentName, RunId
from crewlog.model import Model

_ID_KEPT = 160
"""Characters of a run's id that the ids of its parts begin with: ids are bounded."""
_NAME_LENGTH = 64
"""The most characters of a name, as the pattern of names has it."""
_NAMED = 20
"""How many names a remedy lists."""


class ChannelAgent(Model):
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
        if not self.wires:
            return tuple(dict.fromkeys(self.send))
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
    about: str = ""
    """What it is for, as who uses it is told."""


class Component(Model):
    """A graph: its creatures and channels."""

    creatures: dict[AgentName, ChannelAgent] = Field(default_factory=dict[AgentName, ChannelAgent])
    channels: dict[str, Channel] = Field(default_factory=dict[str, Channel])
    flow: tuple[AgentName, ...] = ()
    """The creatures of the crew's flow, which are in one graph."""

    def listeners(self, channel: str, sender: AgentName | None = None) -> tuple[AgentName, ...]:
        """Who gets a message in a channel: everybody who listens to it but its sender, by name."""
        return tuple(
            sorted(n for n, c in self.creatures.items() if channel in c.listen and n != sender)
        )


World = Mapping[RunId, Component]
"""Graphs by the ids of their runs. No creature and no channel is in two of them, though two of them
may have creatures, or channels, of one name."""


class Rename(Model):
    """A name that was taken in the graph that something came to."""

    kind: Literal["creature", "channel", "group"]
    graph: RunId
    """The graph that it came from."""
    was: str
    now: str


class ComponentChange(Model):
    """What an operation did: the fact of C110, of which there is one for each operation."""

    kind: Literal["merge", "split", "nothing"] = "nothing"
    old_graph_ids: tuple[RunId, ...] = ()
    """The graphs that it touched, sorted."""
    new_graph_ids: tuple[RunId, ...] = ()
    """The graphs that came of them, sorted."""
    affected_creatures: tuple[AgentName, ...] = ()
    """The creatures whose graph became one with another, or fell apart; else those that came or
    went, or have other surroundings than before: by the names that they have now, sorted."""
    renamed: tuple[Rename, ...] = ()
    """What a merge gave another name."""


def change_of_components(
    old: World, new: World, renamed: tuple[Rename, ...] = ()
) -> ComponentChange:
    """What became of some graphs.

    Args:
        old: The graphs that were touched, as they were.
        new: What came of them: as many; more, as `parts_of` gives them; or one of several.
        renamed: What has another name now, by which creatures are told.
    """
    kinds: dict[bool, Literal["merge", "split"]] = {True: "split", False: "merge"}
    same = len(new) == len(old)
    return ComponentChange(
        kind="nothing" if same else kinds[len(new) > len(old)],
        old_graph_ids=tuple(sorted(old)),
        new_graph_ids=tuple(sorted(new)),
        affected_creatures=(affected if same else _agents_in_other_components)(old, new, renamed),
        renamed=renamed,
    )


def connected_agents(graph: Component) -> list[tuple[AgentName, ...]]:
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


def _channels(creature: ChannelAgent) -> Iterator[str]:
    """A creature's channels, in the order in which they are written; some more than once."""
    yield from creature.listen
    yield from creature.send
    for to in creature.wires:
        if to.startswith(CHANNEL):
            yield to.removeprefix(CHANNEL)


def surviving_run_id(graphs: World) -> RunId:
    """The graph that others are merged into: the one with most creatures, then the first by id.

    One with a flow comes before all, since only its own run can go on with that.
    """
    return min(graphs, key=lambda id_: (not graphs[id_].flow, -len(graphs[id_].creatures), id_))


class AgentNeighbors(NamedTuple):
    """What a creature sees of its graph: nobody else's affairs change it.

    A privileged one, which may change the graph, sees all of it.
    """

    own: ChannelAgent
    """Its own edges."""
    senders: tuple[tuple[str, tuple[AgentName, ...]], ...]
    """By channel that it listens to, who sends there."""
    listeners: tuple[tuple[str, tuple[AgentName, ...]], ...]
    """By channel that it sends to, or is wired to, who listens there."""
    wired: tuple[AgentName, ...]
    """Whose final messages come to it."""
    workers: tuple[AgentName, ...]
    """Who works for it."""
    graph: Component | None
    """All of it, for a privileged one."""


def surroundings(graph: Component, name: AgentName) -> AgentNeighbors:
    """What a creature sees of its graph."""
    own = graph.creatures[name]
    others = sorted(graph.creatures.items())
    speaks = {each: creature.outlets for each, creature in others}
    return AgentNeighbors(
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


def _moved(channels: Mapping[str, Channel], from_: RunId, to: RunId) -> dict[str, Channel]:
    """Channels that come from one run to another, which may be the one in which they were made."""
    left, came = _run_label(from_), _run_label(to)

    @cache
    def now(born: str, about: str) -> Channel:
        return Channel(born="" if born == came else born, about=about)

    return {name: now(each.born or left, each.about) for name, each in channels.items()}


def _run_label(graph: RunId) -> str:
    """How a run is named as the birth of a channel: its id, if that is short."""
    return graph if len(graph) <= _ID_KEPT else f"{graph[:_ID_KEPT]}.{hash_json(graph)[:8]}"


def _told(
    kind: Literal["creature", "channel"], graph: RunId, names: Mapping[str, str]
) -> Iterator[Rename]:
    for was, now in sorted(names.items()):
        if was != now:
            yield Rename(kind=kind, graph=graph, was=was, now=now)


def free_names(
    names: Iterable[str], taken: Collection[str], reserved: Collection[str] = ()
) -> dict[str, str]:
    """A free name for each: its own, or with the first number behind that makes it free.

    What is too long for a number behind it loses its end.

    Args:
        names: Those that are wanted.
        taken: Those of others.
        reserved: Names that nobody gets whose own name they are not.
    """
    found: dict[str, str] = {}
    wanted = sorted(names)
    used = {*taken, *wanted, *reserved}
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


class MergedComponent(NamedTuple):
    """What two graphs are as one."""

    edge: Connect | Wire
    """What connects them there, by the names of there."""
    channels: dict[str, Channel]
    renamed: tuple[Rename, ...]
    """What the graph that joins called otherwise."""


def merged_component(
    edge: Connect | Wire,
    home: RunId,
    world: World,
    stays: RunId,
    *,
    taken: Collection[str] = (),
    reserved: Collection[str] = (),
) -> MergedComponent:
    """What two graphs are as one, and what connects them there.

    Channels of one name and one birth are one; what else has a name that is taken gets another one,
    in the graph that joins.

    Args:
        edge: What connects them, by the names of each.
        home: The graph of its sender, or of who is wired.
        world: The two.
        stays: Which of them keeps its id, as `survivor` says.
        taken: Names of creatures that nobody who joins keeps, besides those of the graph that
            stays.
        reserved: Names that nobody gets whose own name they are not.

    Raises:
        ComponentConflict: a name is unknown in its own graph.
    """
    (other,), (joins,) = {*world} - {home}, {*world} - {stays}
    # By the names and graphs that were said: once the two are one, any creature would do.
    here, there = world[home], world[other]
    if isinstance(edge, Connect):
        _known(here, edge.sender, home)
        _known(there, edge.listener, other)
    else:
        _known(here, edge.name, home)
        _check_wire_target(there, edge.to, other)
    channels, renamed = _merged(stays, joins, world, taken, reserved)
    now = {(each.kind, each.was): each.now for each in renamed}

    def name(kind: Literal["creature", "channel"], of: str, at: RunId) -> str:
        return now.get((kind, of), of) if at == joins else of

    if isinstance(edge, Connect):
        update = {
            "sender": name("creature", edge.sender, home),
            "listener": name("creature", edge.listener, other),
            # What the sender's graph does not have keeps its name: it is not taken there.
            "channel": name("channel", edge.over, home),
        }
    elif edge.to.startswith(CHANNEL):
        to = CHANNEL + name("channel", edge.to.removeprefix(CHANNEL), other)
        update = {"name": name("creature", edge.name, home), "to": to}
    else:
        update = {
            "name": name("creature", edge.name, home),
            "to": name("creature", edge.to, other),
        }
    return MergedComponent(edge.model_copy(update={**update, "other": None}), channels, renamed)


def _merged(
    stays: RunId,
    joins: RunId,
    world: World,
    taken: Collection[str],
    reserved: Collection[str],
) -> tuple[dict[str, Channel], tuple[Rename, ...]]:
    """The channels of two graphs as one, and what of the second one has another name there."""
    one, two = world[stays], world[joins]
    creatures = free_names(two.creatures, {*one.creatures, *taken}, reserved)
    joining = _moved(two.channels, joins, stays)
    known = _moved(one.channels, stays, stays)
    apart = [
        name
        for name, channel in joining.items()
        if name not in known or known[name].born != channel.born
    ]
    names = free_names(apart, known, reserved)
    both = {**known, **{names.get(name, name): each for name, each in joining.items()}}
    return both, (*_told("creature", joins, creatures), *_told("channel", joins, names))


def parts_of(graph: RunId, of: Component, command: str) -> dict[RunId, Component]:
    """The graphs that one is now, by id; the first part keeps its own, as do channels of nobody."""
    parts = connected_agents(of)
    if len(parts) < 2:  # none: a run without creatures, which has its channels all the same
        return {graph: of}
    home = {
        channel: number
        for number, names in enumerate(parts)
        for name in names
        for channel in _channels(of.creatures[name])
    }
    found: dict[RunId, Component] = {}
    for number, names in enumerate(parts):
        id_ = split_run_id(graph, command, names[0]) if number else graph
        channels = {
            name: channel for name, channel in of.channels.items() if home.get(name, 0) == number
        }
        found[id_] = Component(
            creatures={name: of.creatures[name] for name in names},
            channels=_moved(channels, graph, id_) if number else channels,
            flow=() if number else of.flow,
        )
    return found


def split_run_id(graph: RunId, command: str, first: AgentName) -> RunId:
    """The id of a graph that another one was split into: every process makes the same.

    Args:
        graph: The graph that was split.
        command: The operation that did it.
        first: The first of its creatures, by name.
    """
    return RunId(f"{graph[:_ID_KEPT]}.{hash_json([graph, command, first])[:8]}")


def _agents_in_other_components(
    old: World, new: World, renamed: Collection[Rename]
) -> tuple[AgentName, ...]:
    """Of graphs that became one, or fell apart: who has another component, or is affected else."""
    found = {*affected(old, new, renamed)}
    for id_, graph in new.items():
        if id_ not in old or old[id_].creatures.keys() != graph.creatures.keys():
            found |= {*graph.creatures}
    return tuple(sorted(found))


def affected(old: World, new: World, renamed: Collection[Rename] = ()) -> tuple[AgentName, ...]:
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
        found |= (
            {*graph.creatures} if before is None else _agents_with_other_neighbors(before, graph)
        )
    for id_, graph in old.items():
        was = {AgentName(now.get((id_, name), name)) for name in graph.creatures}
        here = new[id_].creatures if id_ in new else {}
        found |= was - {*here}
    return tuple(sorted(found))


def _agents_with_other_neighbors(before: Component, after: Component) -> set[AgentName]:
    """Creatures of a graph whose surroundings are other ones than before.

    What differs is looked for among the creatures that are not the same: few, in a graph of many.
    """
    differ: set[AgentName] = set()
    spoken: set[str] = set()
    heard: set[str] = set()
    reached: set[str] = set()
    for name in {**before.creatures, **after.creatures}:
        was, is_ = before.creatures.get(name), after.creatures.get(name)
        if was is is_ or was == is_:
            continue
        differ.add(name)
        if was is None or is_ is None:  # it came, or went, with all that it has
            one = was or is_ or ChannelAgent()
            spoken.update(one.outlets)
            heard.update(one.listen)
            reached.update(one.wires)
            if one.parent is not None:
                reached.add(one.parent)
            continue
        spoken |= {*was.outlets} ^ {*is_.outlets}
        heard |= {*was.listen} ^ {*is_.listen}
        reached |= {*was.wires} ^ {*is_.wires}
        if was.parent != is_.parent:
            reached |= {each for each in (was.parent, is_.parent) if each is not None}
    known = before.channels.keys() & after.channels.keys()
    other = {each for each in known if before.channels[each].about != after.channels[each].about}
    same = not differ and before.channels == after.channels and before.flow == after.flow
    return {
        name
        for name, creature in after.creatures.items()
        if name in differ
        or name in reached
        or (creature.privileged and not same)
        or not spoken.isdisjoint(creature.listen)
        or not heard.isdisjoint(creature.send)
        or (other and not other.isdisjoint(creature.channels))
        or (creature.wires and not heard.isdisjoint(creature.outlets))
    }


# -- what there is ---------------------------------------------------------------------------


def _there(what: str, names: Iterable[str]) -> str:
    known = sorted(names)
    if not known:
        return f"There are no {what}."
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    return f"There are the {what} {', '.join(known[:_NAMED])}{more}."


def _known(graph: Component, name: str, id_: RunId) -> None:
    if name not in graph.creatures:
        raise ComponentConflict(
            f"there is no creature {name!r} in the graph {id_!r}",
            remedy=did_you_mean(name, graph.creatures, _there("creatures", graph.creatures)),
        )


def _check_wire_target(graph: Component, to: str, id_: RunId) -> None:
    """Checks that a wire may lead there: to a channel only where somebody uses it."""
    name = to.removeprefix(CHANNEL)
    if name == to:
        return _known(graph, to, id_)
    if name not in graph.channels:
        raise ComponentConflict(
            f"there is no channel {name!r} in the graph {id_!r}",
            remedy=did_you_mean(name, graph.channels, _there("channels", graph.channels)),
        )
    if not any(name in _channels(each) for each in graph.creatures.values()):
        raise ComponentConflict(
            f"nobody in the graph {id_!r} listens or sends to the channel {name!r}",
            remedy="A channel alone connects nobody: name one that a creature there uses.",
        )
    return None
