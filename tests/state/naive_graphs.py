"""Graphs of creatures as a list of things that point at each other: slow, and plainly right.

It shares nothing with what it judges but the operations, which it reads. Creatures and channels are
objects, so another name changes no edge, and whoever is lost is missed. What is free to choose (the
names and ids that are new) it takes from the outcome, once that obeys the rules.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crewlog.definition.operations import (
    AddAgent,
    AddChannel,
    Connect,
    DisableAgent,
    Disconnect,
    EnableAgent,
    Operation,
    RemoveAgent,
    RemoveChannel,
    Unwire,
    Wire,
)
from crewlog.state.components import ChannelAgent, Component, ComponentChange, Components

NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
NEW_ID = re.compile(r"\.[A-Za-z0-9_-]{8}")


@dataclass(eq=False)
class Pipe:
    """A channel."""

    name: str
    home: str
    born: str
    same: Pipe | None = None
    """The one that it is now, where two became one."""
    made: bool = True
    """Whether it stays though nobody names it: what agents alone name is there while they do."""


@dataclass(eq=False)
class Being:
    """A creature."""

    name: str
    home: str
    listen: list[Pipe] = field(default_factory=list)
    send: list[Pipe] = field(default_factory=list)
    wires: list[Being | Pipe] = field(default_factory=list)
    parent: Being | None = None
    beside: Being | None = None
    privileged: bool = False

    def speaks(self, pipe: Pipe) -> bool:
        return pipe in self.send or pipe in self.wires

    def uses(self, pipe: Pipe) -> bool:
        return pipe in self.listen or self.speaks(pipe)

    def near(self, other: Being) -> bool:
        """Whether an edge of its own leads to another one, or to a channel of that one."""
        if other in self.wires or other is self.parent or other is self.beside:
            return True
        mine = [*self.listen, *self.send, *(to for to in self.wires if isinstance(to, Pipe))]
        return any(other.uses(pipe) for pipe in mine)


Seen = tuple[Any, ...]


class Naive:
    """A world of graphs."""

    def __init__(self, world: Components) -> None:
        self.beings: list[Being] = []
        self.pipes: list[Pipe] = []
        self.flows: dict[str, list[Being]] = {}
        for id_, graph in world.items():
            self.pipes += [Pipe(n, id_, c.born or id_) for n, c in graph.channels.items()]
            self.beings += [Being(name, id_) for name in graph.agents]
            for name, creature in graph.agents.items():
                self._draw(self.being(id_, name), creature)
            self.flows[id_] = [self.being(id_, name) for name in graph.flow]

    def _draw(self, being: Being, creature: Any) -> None:
        at = being.home
        being.listen = [self.pipe(at, name) for name in creature.listen]
        being.send = [self.pipe(at, name) for name in creature.send]
        being.wires = [self.end(at, to) for to in creature.wires]
        being.parent = creature.parent and self.being(at, creature.parent)
        being.beside = creature.beside and self.being(at, creature.beside)
        being.privileged = creature.privileged

    # -- looking up ----------------------------------------------------------------------

    @property
    def homes(self) -> set[str]:
        return {*self.flows}

    def members(self, home: str) -> list[Being]:
        return [each for each in self.beings if each.home == home]

    def channels(self, home: str) -> list[Pipe]:
        return [each for each in self.pipes if each.home == home]

    def find(self, home: str, name: str) -> Being | None:
        return next((b for b in self.beings if b.home == home and b.name == name), None)

    def find_pipe(self, home: str, name: str) -> Pipe | None:
        return next((p for p in self.pipes if p.home == home and p.name == name), None)

    def being(self, home: str, name: str) -> Being:
        found = self.find(home, name)
        assert found is not None
        return found

    def pipe(self, home: str, name: str) -> Pipe:
        found = self.find_pipe(home, name)
        assert found is not None
        return found

    def find_end(self, home: str, to: str) -> Being | Pipe | None:
        kind, colon, name = to.partition(":")
        return self.find_pipe(home, name) if colon and kind == "channel" else self.find(home, to)

    def end(self, home: str, to: str) -> Being | Pipe:
        found = self.find_end(home, to)
        assert found is not None
        return found

    # -- what may not be -----------------------------------------------------------------

    def refuses(self, at: str, op: Operation, away: Collection[str]) -> bool:
        """Whether an operation cannot be done.

        Args:
            at: The run that it is asked of.
            op: The operation.
            away: Agents of that run's crew that live in other runs: their names are taken there.
        """
        match op:
            case AddAgent():
                return self._refuses_to_add(at, op, away)
            case RemoveAgent():
                gone = self.find(at, op.name)
                works = any(each.parent is gone for each in self.beings)
                return gone is None or works or len(self.members(at)) == 1
            case EnableAgent() | DisableAgent():
                return self.find(at, op.name) is None
            case AddChannel():
                return self.find_pipe(at, op.name) is not None
            case RemoveChannel():
                return self.find_pipe(at, op.name) is None
            case Unwire():
                being = self.find(at, op.name)
                return being is None or self.find_end(at, op.to) not in being.wires
            case Wire() | Connect() | Disconnect():
                return self._refuses_ends(at, op, getattr(op, "other", None) or at)
            case _:
                raise AssertionError(op)

    def _refuses_to_add(self, at: str, op: AddAgent, away: Collection[str]) -> bool:
        edges = op.agent
        named = [*(to for to in edges.get("wires", ()) if ":" not in to)]
        named += [edges[key] for key in ("parent", "beside") if key in edges]
        if op.name in away or self.find(at, op.name) is not None:
            return True
        if any(self.find(at, name) is None for name in named):
            return True
        if (name := edges.get("parent")) is None or (parent := self.find(at, name)) is None:
            return False
        theirs = {pipe.name for pipe in (*parent.listen, *parent.send)}
        return not {*edges.get("listen", ()), *edges.get("send", ())} <= theirs

    def _refuses_ends(self, here: str, op: Any, there: str) -> bool:
        if there != here and self.flows[here] and self.flows[there]:
            return True
        if isinstance(op, Wire):
            being, end = self.find(here, op.name), self.find_end(there, op.to)
            if there != here and isinstance(end, Pipe):
                return being is None or not any(each.uses(end) for each in self.members(there))
            return being is None or end is None or being is end
        sender, listener = self.find(here, op.sender), self.find(there, op.listener)
        if sender is None or listener is None or sender is listener:
            return True
        if isinstance(op, Disconnect):
            over = self._over(sender, listener, op.channel)
            send, listen = self._cuts(sender, listener, over)
            return not over or self._unbounded({sender: send}, {listener: listen})
        pipe = self._over_which(here, op, there)
        more = {each: [*each.listen, *each.send, pipe] for each in (sender, listener)}
        return any(
            each.parent is not None
            and pipe not in more.get(each.parent, [*each.parent.listen, *each.parent.send])
            for each in more
        )

    def _unbounded(self, send: Mapping[Being, list[Pipe]], listen: Mapping[Being, Any]) -> bool:
        """Whether somebody would have more channels than whom it works for, without these."""

        def left(being: Being) -> set[Pipe]:
            sends = {*being.send} - {*send.get(being, ())}
            return sends | ({*being.listen} - {*listen.get(being, ())})

        return any(each.parent and not left(each) <= left(each.parent) for each in self.beings)

    @staticmethod
    def _over(sender: Being, listener: Being, channel: str | None) -> list[Pipe]:
        named = [pipe for pipe in sender.send if channel is None or pipe.name == channel]
        return [pipe for pipe in named if pipe in listener.listen]

    def _over_which(self, here: str, op: Connect, there: str) -> Pipe | None:
        """The channel that connects two, where it is there."""
        name = self._channel(op)
        return self.find_pipe(here, name) or self.find_pipe(there, name)

    @staticmethod
    def _channel(op: Connect) -> str:
        return op.channel or f"{op.sender}-to-{op.listener}"[:64]

    # -- what is done --------------------------------------------------------------------

    def do(
        self, at: str, op: Operation, change: ComponentChange, after: Components, *, plain: bool
    ) -> None:
        """Does an operation that is not refused, and holds what was said of it to the rules.

        Args:
            at: The run that it was asked of.
            op: The operation.
            change: What was said of it.
            after: What came of it.
            plain: Whether nobody of the runs was away.
        """
        touched = {at, getattr(op, "other", None) or at}
        was = {being: seen for home in touched for being, seen in self._sights(home).items()}
        ends = self._ends(at, op)
        members = {each: {*self._sights(each)} for each in touched}
        home = self._merge(*sorted(touched), change, plain=plain) if len(touched) == 2 else at
        assert len(touched) == 2 or not change.renamed
        gone = self._connect(op, home, *ends) if ends else self._change(op, home)
        self._forget(home)
        came = self._part(home, after)
        disturbed = [being.name for being in gone]
        for each in came:
            disturbed += [b.name for b, seen in self._sights(each).items() if was.get(b) != seen]
        for each in came if len(came) != len(touched) else ():  # who is in another component
            here = {*self._sights(each)}
            disturbed += [b.name for b in here if here != members.get(each)]
        assert change.affected_creatures == tuple(sorted({*disturbed}))
        assert change.old_graph_ids == tuple(sorted(touched))
        assert change.new_graph_ids == tuple(sorted(came))
        assert {*after} == self.homes
        split, merge = len(came) > 1, len(touched) == 2
        assert not (split and merge)
        assert change.kind == ("split" if split else "merge" if merge else "nothing")

    def _ends(self, at: str, op: Operation) -> tuple[Any, ...]:
        """What an operation connects, as long as it is where the operation says that it is."""
        match op:
            case Connect():
                there = op.other or at
                sender, listener = self.being(at, op.sender), self.being(there, op.listener)
                return sender, self._over_which(at, op, there), listener
            case Wire():
                return self.being(at, op.name), self.end(op.other or at, op.to), None
        return ()

    def _connect(
        self, op: Any, home: str, one: Being, to: Being | Pipe | None, two: Being | None
    ) -> list[Being]:
        if isinstance(to, Pipe):
            to = to.same or to
        if two is None:
            assert to is not None
            one.wires += [] if to in one.wires else [to]
            return []
        pipe = to if isinstance(to, Pipe) else self._make(home, self._channel(op))
        one.send += [] if pipe in one.send else [pipe]
        two.listen += [] if pipe in two.listen else [pipe]
        return []

    def _merge(self, one: str, two: str, change: ComponentChange, *, plain: bool) -> str:
        sizes = {home: len(self.members(home)) for home in (one, two)}
        stays = min(sizes, key=lambda home: (not self.flows[home], -sizes[home], home))
        joins = two if stays == one else one
        now = {(each.kind, each.was): each.now for each in change.renamed}
        assert len(now) == len(change.renamed)
        assert {each.run for each in change.renamed} <= {joins}
        for pipe in self.channels(joins):
            same = self.find_pipe(stays, pipe.name)
            if same is not None and same.born == pipe.born:
                self._is(pipe, same)
        kinds: list[tuple[str, list[Any], list[Any]]] = [
            ("agent", self.members(stays), self.members(joins)),
            ("channel", self.channels(stays), self.channels(joins)),
        ]
        for kind, here, come in kinds:
            held = {each.name for each in here}
            taken = held & {each.name for each in come}
            new = {was for of, was in now if of == kind}
            # Who is away may have a name as well that is taken by that.
            assert new == taken if plain else new >= taken
            for each in come:
                name = now.get((kind, each.name), each.name)
                assert name not in held
                assert NAME.fullmatch(name)
                assert name.startswith(each.name[:50])
                held.add(name)
                each.name = name
                each.home = stays
        for pipe in self.channels(stays):
            pipe.made = pipe.made or pipe.born != stays
        del self.flows[joins]
        return stays

    def _is(self, pipe: Pipe, same: Pipe) -> None:
        """Two channels are one."""
        self.pipes.remove(pipe)
        pipe.same = same
        same.made = same.made or pipe.made
        for being in self.members(pipe.home):
            being.listen = [same if each is pipe else each for each in being.listen]
            being.send = [same if each is pipe else each for each in being.send]
            being.wires = [same if each is pipe else each for each in being.wires]

    def _make(self, home: str, name: str, *, made: bool = True) -> Pipe:
        pipe = self.find_pipe(home, name)
        if pipe is None:
            pipe = Pipe(name, home, home, made=made)
            self.pipes.append(pipe)
        return pipe

    def _forget(self, home: str) -> None:
        """Lets channels go that agents alone named, and none does any more."""
        members = self.members(home)
        self.pipes = [
            pipe
            for pipe in self.pipes
            if pipe.made or pipe.home != home or any(each.uses(pipe) for each in members)
        ]

    def _change(self, op: Operation, at: str) -> list[Being]:
        """Does what is asked for in a graph, and tells who went."""
        match op:
            case AddAgent():
                being = Being(op.name, at)
                self.beings.append(being)
                for name in self._named(op.agent):
                    self._make(at, name, made=False)
                said = {key: it for key, it in op.agent.items() if key in ChannelAgent.model_fields}
                self._draw(being, ChannelAgent(**said))
            case RemoveAgent():
                gone = self.being(at, op.name)
                self.beings.remove(gone)
                for each in self.beings:
                    each.wires = [to for to in each.wires if to is not gone]
                    each.beside = None if each.beside is gone else each.beside
                self.flows[at] = [each for each in self.flows[at] if each is not gone]
                return [gone]
            case AddChannel():
                self._make(at, op.name)
            case RemoveChannel():
                pipe = self.pipe(at, op.name)
                self.pipes.remove(pipe)
                for each in self.beings:
                    each.listen = [it for it in each.listen if it is not pipe]
                    each.send = [it for it in each.send if it is not pipe]
                    each.wires = [it for it in each.wires if it is not pipe]
            case Disconnect():
                sender, listener = self.being(at, op.sender), self.being(at, op.listener)
                over = self._over(sender, listener, op.channel)
                send, listen = self._cuts(sender, listener, over)
                sender.send = [each for each in sender.send if each not in send]
                listener.listen = [each for each in listener.listen if each not in listen]
            case Unwire():
                being, end = self.being(at, op.name), self.end(at, op.to)
                being.wires = [to for to in being.wires if to is not end]
        return []

    def _cuts(
        self, sender: Being, listener: Being, over: list[Pipe]
    ) -> tuple[list[Pipe], list[Pipe]]:
        """What leads from the one to the other, and of that no more than need be."""
        others = [each for each in self.beings if each is not sender and each is not listener]
        send, listen = list[Pipe](), list[Pipe]()
        for pipe in over:
            heard = any(pipe in each.listen for each in others)
            said = any(pipe in (*each.send, *each.wires) for each in others)
            send += [] if heard else [pipe]
            listen += [pipe] if heard or not said else []
        return send, listen

    @staticmethod
    def _named(edges: Mapping[str, Any]) -> Iterable[str]:
        wired = (to.partition(":")[2] for to in edges.get("wires", ()) if ":" in to)
        return (*edges.get("listen", ()), *edges.get("send", ()), *wired)

    def _part(self, home: str, after: Components) -> list[str]:
        """Gives each part of a graph its id, and tells these ids."""
        parts = self._components(home)
        flow = self.flows[home]
        keeps = min(
            parts,
            key=lambda p: (not {*flow} & {*p}, -len(p), min(b.name for b in p)),
            default=list[Being](),
        )
        new = {*after} - (self.homes - {home})
        ids = {frozenset(after[id_].agents): id_ for id_ in new}
        assert len(ids) == len(new) == max(len(parts), 1)
        for pipe in self.channels(home) if len(parts) > 1 else ():
            pipe.made = True
        for part in parts:
            id_ = ids[frozenset(each.name for each in part)]
            if part is keeps:
                assert id_ == home
                continue
            assert id_ not in self.homes
            assert id_.startswith(home[:160])
            assert NEW_ID.fullmatch(id_[len(home[:160]) :])
            self.flows[id_] = []
            for pipe in self.channels(home):
                if any(being.uses(pipe) for being in part):
                    pipe.home = id_
            for being in part:
                being.home = id_
        return sorted(new)

    def _components(self, home: str) -> list[list[Being]]:
        """Who can reach whom, over whatever edges there are."""
        members, flow = self.members(home), self.flows[home]
        ways: dict[Any, list[Any]] = {each: [] for each in members}
        for each in members:
            ends = [*each.listen, *each.send, *each.wires, each.parent, each.beside]
            ends += [home] if each in flow else []
            for end in ends:
                if end is not None:
                    ways[each].append(end)
                    ways.setdefault(end, []).append(each)
        parts: list[list[Being]] = []
        met: set[Any] = set()
        for start in members:
            if start in met:
                continue
            met.add(start)
            reached: list[Any] = [start]
            for each in reached:  # it grows as it goes
                new = {*ways[each]} - met
                met |= new
                reached += new
            parts.append([each for each in reached if isinstance(each, Being)])
        return parts

    # -- what is seen --------------------------------------------------------------------

    def _sights(self, home: str) -> dict[Being, Seen]:
        """By creature of a graph, all that it sees around it, and where it is."""
        members = self.members(home)
        return {being: self._sees(being, members) for being in members}

    def _sees(self, being: Being, others: list[Being]) -> Seen:
        outlets = {*being.send, *(to for to in being.wires if isinstance(to, Pipe))}
        return (
            being.home,
            self._edges(being),
            {pipe: {b for b in others if b.speaks(pipe)} for pipe in being.listen},
            {pipe: {b for b in others if pipe in b.listen} for pipe in outlets},
            {b for b in others if being in b.wires},
            {b for b in others if b.parent is being},
            self._all(being.home) if being.privileged else None,
        )

    @staticmethod
    def _edges(being: Being) -> Seen:
        edges = (*being.listen, None, *being.send, None, *being.wires, None)
        return (*edges, being.parent, being.beside, being.privileged)

    def _all(self, home: str) -> Seen:
        """All of a graph."""
        edges = {each: self._edges(each) for each in self.members(home)}
        return edges, {*self.channels(home)}, [*self.flows[home]]

    def holds(self, id_: str, graph: Component) -> None:
        """Asserts that a graph is what this says it is, edge by edge."""
        members, channels = self.members(id_), self.channels(id_)
        assert len(graph.agents) == len(members)
        assert {*graph.channels} == {each.name for each in channels}
        assert len(graph.channels) == len(channels)
        assert list(graph.flow) == [each.name for each in self.flows[id_]]
        for pipe in channels:
            born = graph.channels[pipe.name].born or id_
            assert born.startswith(pipe.born[:160])
            assert len(pipe.born) > 160 or born == pipe.born
        for being in members:
            found = graph.agents[being.name]
            assert list(found.listen) == [each.name for each in being.listen]
            assert list(found.send) == [each.name for each in being.send]
            assert list(found.wires) == [
                f"channel:{to.name}" if isinstance(to, Pipe) else to.name for to in being.wires
            ]
            assert found.parent == (being.parent and being.parent.name)
            assert found.beside == (being.beside and being.beside.name)
            assert found.privileged == being.privileged
