"""Worlds of graphs and operations on them by a seed: some can be done, some must be refused."""

from __future__ import annotations

from random import Random
from typing import Any

from crewlog.state.topology import (
    AddChannel,
    AddCreature,
    Channel,
    Connect,
    Creature,
    Disconnect,
    Operation,
    RemoveChannel,
    RemoveCreature,
    Topology,
    Unwire,
    Wire,
    World,
)

SHORT = ("a", "b", "c", "d", "e", "f", "a-2", "b-2", "g", "h")
LONG = tuple(letter * 64 for letter in "abcdef") + tuple(letter * 62 + "-2" for letter in "abcd")
PIPES = ("p", "q", "r", "s", "t", "p-2", "u", "v")
BORN = ("", "", "", "x", "y")
MOST = 12
"""Creatures in all, about: more are taken away than added from there on."""


class Dice:
    """What comes next in a world."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        self.names = LONG if seed % 5 == 0 else SHORT
        self.ids = ("i" * 200, "j" * 170, "k") if seed % 7 == 0 else ("g", "h", "k")

    def world(self) -> World:
        """Graphs to begin with: some with a flow, one without creatures."""
        flow = self.names[: self.random.randrange(3)]
        more = self.names[3 : 3 + self.random.randrange(3)]
        listens = Creature(listen=("p",))
        first = {**dict.fromkeys(flow, Creature()), self.names[3]: listens}
        first |= dict.fromkeys(more, Creature(send=("p",)))
        if flow:
            first[self.names[3]] = Creature(listen=("p",), parent=flow[0])
        second = {self.names[0]: Creature(privileged=True)}
        pipe = {"p": Channel()}
        return {
            self.ids[0]: Topology(creatures=first, channels=pipe, flow=flow),
            self.ids[1]: Topology(creatures=second, channels=pipe, flow=(*second,)),
            self.ids[2]: Topology(channels=pipe),
        }

    def operation(self, world: World) -> Operation:
        """What somebody asks for."""
        size = sum(len(graph.creatures) for graph in world.values())
        grow, shrink = (5, 3) if size < MOST else (2, 6)
        kinds = [AddCreature, RemoveCreature, AddChannel, RemoveChannel]
        kinds += [Connect, Disconnect, Wire, Unwire]
        graph = self._graph(world)
        has = world.get(graph, Topology()).creatures
        if len(has) < 2:
            grow, shrink = 12, 1
        linked = 5 if self._pairs(world, graph) else 1
        wired = 4 if any(each.wires for each in has.values()) else 1
        (kind,) = self.random.choices(kinds, (grow, shrink, 1, 2, 6, linked, 3, wired))
        return getattr(self, f"_{kind.__name__}")(world, graph)

    # -- what is drawn -------------------------------------------------------------------

    def _seldom(self) -> bool:
        return self.random.random() < 0.04

    def _graph(self, world: World) -> str:
        if self._seldom():
            return self.random.choice(["nowhere", *self.ids])
        return self.random.choice(sorted(world))

    def _creature(self, world: World, graph: str, but: str = "") -> str:
        here = world.get(graph)
        if self._seldom() or here is None or not here.creatures:
            return self.random.choice(self.names)
        return self.random.choice([each for each in here.creatures if each != but] or [but])

    def _pipe(self, world: World, graph: str) -> str:
        here = world.get(graph)
        if self.random.random() < 0.1 or here is None or not here.channels:
            return "no name" if self._seldom() else self.random.choice(PIPES)
        return self.random.choice([*here.channels])

    def _end(self, world: World, graph: str, but: str = "") -> str:
        if self.random.random() < 0.5:
            return self._creature(world, graph, but)
        return f"channel:{self._pipe(world, graph)}"

    def _other(self, world: World, graph: str, often: float) -> str | None:
        if self.random.random() > often:
            return None
        others = sorted({*world} - {graph})
        return graph if self._seldom() or not others else self.random.choice(others)

    def _AddCreature(self, world: World, graph: str) -> Operation:  # noqa: N802
        many = len(world) < 6 and self.random.random() < 0.3
        graph = f"new{self.random.randrange(10**6)}" if many else graph
        draw, tie = self.random.random, lambda: self._creature(world, graph)
        creature: dict[str, Any] = {
            "listen": (self._pipe(world, graph),) if draw() < 0.4 else (),
            "send": (self._pipe(world, graph),) if draw() < 0.3 else (),
            "wires": (self._end(world, graph),) if draw() < 0.2 else (),
            "parent": tie() if draw() < 0.2 else None,
            "beside": tie() if draw() < 0.1 else None,
            "privileged": draw() < 0.15,
        }
        here = world.get(graph, Topology())
        free = [each for each in self.names if each not in here.creatures]
        often = free if free and not self._seldom() else self.names
        name = "0" if self._seldom() else self.random.choice(often)
        return AddCreature(graph=graph, name=name, creature=creature)

    def _RemoveCreature(self, world: World, graph: str) -> Operation:  # noqa: N802
        return RemoveCreature(graph=graph, name=self._creature(world, graph))

    def _AddChannel(self, world: World, graph: str) -> Operation:  # noqa: N802
        name, born = self.random.choice(PIPES), self.random.choice(BORN)
        return AddChannel(graph=graph, name=name, born=born)

    def _RemoveChannel(self, world: World, graph: str) -> Operation:  # noqa: N802
        return RemoveChannel(graph=graph, name=self._pipe(world, graph))

    def _Connect(self, world: World, graph: str) -> Operation:  # noqa: N802
        other = self._other(world, graph, 0.4)
        sender = self._creature(world, graph)
        return Connect(
            graph=graph,
            sender=sender,
            listener=self._creature(world, other or graph, sender),
            channel=self._pipe(world, self.random.choice([graph, other or graph])),
            other=other,
            born=self.random.choice(BORN),
        )

    def _Disconnect(self, world: World, graph: str) -> Operation:  # noqa: N802
        pairs = self._pairs(world, graph)
        if self._seldom() or not pairs:
            sender, listener = self._creature(world, graph), self._creature(world, graph)
            channel: str | None = self._pipe(world, graph)
        else:
            sender, listener, channel = self.random.choice(pairs)
        channel = None if self.random.random() < 0.3 else channel
        return Disconnect(graph=graph, sender=sender, listener=listener, channel=channel)

    @staticmethod
    def _pairs(world: World, graph: str) -> list[tuple[str, str, str]]:
        here = world.get(graph, Topology())
        return [
            (sender, listener, channel)
            for sender, one in sorted(here.creatures.items())
            for channel in one.send
            for listener, two in sorted(here.creatures.items())
            if channel in two.listen
        ]

    def _Wire(self, world: World, graph: str) -> Operation:  # noqa: N802
        other = self._other(world, graph, 0.3)
        name = self._creature(world, graph)
        to = self._end(world, other or graph, name)
        return Wire(graph=graph, name=name, to=to, other=other)

    def _Unwire(self, world: World, graph: str) -> Operation:  # noqa: N802
        here = world.get(graph, Topology())
        wires = [(name, to) for name, each in here.creatures.items() for to in each.wires]
        name, to = self._creature(world, graph), self._end(world, graph)
        if wires and not self._seldom():
            name, to = self.random.choice(wires)
        return Unwire(graph=graph, name=name, to=to)
