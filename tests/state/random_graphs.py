"""Crews that live, and operations on their graphs by a seed: some can be done, some are refused."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from crewlog.definition import operations as o
from crewlog.ids import RunId
from crewlog.state.components import Channel, ChannelAgent, Component, Components

LETTERS = "abcdefghijklmno"
SHORT = (*LETTERS, "a-2", "b-2", "c-2", "a-3")
LONG = tuple(letter * 64 for letter in LETTERS) + tuple(letter * 62 + "-2" for letter in "abcd")
PIPES = ("p", "q", "r", "s", "t", "p-2", "u", "v")
MOST = 12
"""Creatures in all, about: more are taken away than added from there on."""


class Dice:
    """What comes next in a world."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)  # noqa: S311
        self.names = LONG if seed % 5 == 0 else SHORT
        self.ids = ("i" * 200, "j" * 170) if seed % 7 == 0 else ("g", "h")

    def world(self) -> dict[RunId, Component]:
        """Graphs to begin with: one may have a flow, the other one has."""
        flow = self.names[: self.random.randrange(3)]
        more = self.names[3 : 3 + self.random.randrange(3)]
        first = dict.fromkeys(flow, ChannelAgent(send=("p",)))
        first |= dict.fromkeys(more, ChannelAgent(send=("p",)))
        first |= {self.names[3]: ChannelAgent(listen=("p",), parent=flow[0] if flow else None)}
        second = {self.names[0]: ChannelAgent(privileged=True)}
        pipe = {"p": Channel()}
        return {
            self.ids[0]: Component(agents=first, channels=pipe, flow=flow),
            self.ids[1]: Component(agents=second, channels=pipe, flow=(*second,)),
        }

    def operation(self, world: Components) -> tuple[RunId, o.Operation]:
        """What somebody asks for, and of which run."""
        size = sum(len(graph.agents) for graph in world.values())
        grow, shrink = (5, 3) if size < MOST else (2, 6)
        # Whoever is in a larger graph does more.
        run = self.random.choice([id_ for id_ in sorted(world) for _ in world[id_].agents])
        has = world[run].agents
        if len(has) < 2:
            grow, shrink = 7, 1
        linked = 5 if self._pairs(world, run) else 1
        wired = 4 if any(each.wires for each in has.values()) else 1
        often: Mapping[type[o.Operation], int] = {
            o.AddAgent: grow,
            o.RemoveAgent: shrink,
            o.EnableAgent: 1,
            o.DisableAgent: 1,
            o.AddChannel: 1,
            o.RemoveChannel: 2,
            o.Connect: 6,
            o.Disconnect: linked,
            o.Wire: 3,
            o.Unwire: wired,
        }
        (kind,) = self.random.choices([*often], [*often.values()])
        return run, getattr(self, f"_{kind.__name__}")(world, run)

    # -- what is drawn -------------------------------------------------------------------

    def _seldom(self) -> bool:
        return self.random.random() < 0.04

    def _creature(self, world: Components, run: RunId, but: str = "") -> str:
        here = world[run].agents
        if self._seldom():
            return self.random.choice(self.names)
        return self.random.choice([each for each in here if each != but] or [but])

    def _pipe(self, world: Components, run: RunId) -> str:
        here = world[run].channels
        if self.random.random() < 0.1 or not here:
            return self.random.choice(PIPES)
        return self.random.choice([*here])

    def _end(self, world: Components, run: RunId, but: str = "") -> str:
        if self.random.random() < 0.5:
            return self._creature(world, run, but)
        return f"channel:{self._pipe(world, run)}"

    def _other(self, world: Components, run: RunId, often: float) -> RunId | None:
        others = sorted({*world} - {run})
        return self.random.choice(others) if others and self.random.random() < often else None

    def _AddAgent(self, world: Components, run: RunId) -> o.Operation:  # noqa: N802
        draw, tie = self.random.random, lambda: self._creature(world, run)
        agent: dict[str, Any] = {"prompt": "p"}
        if draw() < 0.6:
            agent["listen"] = [self._pipe(world, run)]
        if draw() < 0.4:
            agent["send"] = [self._pipe(world, run)]
        if draw() < 0.2:
            agent["wires"] = [self._end(world, run)]
        if draw() < 0.2:
            agent["parent"] = tie()
        if draw() < 0.2:
            agent["beside"] = tie()
        if draw() < 0.15:
            agent["privileged"] = True
        free = [each for each in self.names if each not in world[run].agents]
        often = free if free and not self._seldom() else self.names
        return o.AddAgent(name=self.random.choice(often), agent=agent)

    def _RemoveAgent(self, world: Components, run: RunId) -> o.Operation:  # noqa: N802
        return o.RemoveAgent(name=self._creature(world, run))

    def _EnableAgent(self, world: Components, run: RunId) -> o.Operation:  # noqa: N802
        return o.EnableAgent(name=self._creature(world, run))

    def _DisableAgent(self, world: Components, run: RunId) -> o.Operation:  # noqa: N802
        return o.DisableAgent(name=self._creature(world, run))

    def _AddChannel(self, world: Components, run: RunId) -> o.Operation:  # noqa: N802
        del world, run
        return o.AddChannel(name=self.random.choice(PIPES))

    def _RemoveChannel(self, world: Components, run: RunId) -> o.Operation:  # noqa: N802
        return o.RemoveChannel(name=self._pipe(world, run))

    def _Connect(self, world: Components, run: RunId) -> o.Operation:  # noqa: N802
        other = self._other(world, run, 0.4)
        sender = self._creature(world, run)
        pipe = self._pipe(world, self.random.choice([run, other or run]))
        return o.Connect(
            sender=sender,
            listener=self._creature(world, other or run, sender),
            channel=None if self._seldom() else pipe,
            other=other,
        )

    def _Disconnect(self, world: Components, run: RunId) -> o.Operation:  # noqa: N802
        pairs = self._pairs(world, run)
        if self._seldom() or not pairs:
            sender, listener = self._creature(world, run), self._creature(world, run)
            channel: str | None = self._pipe(world, run)
        else:
            sender, listener, channel = self.random.choice(pairs)
        channel = None if self.random.random() < 0.3 else channel
        return o.Disconnect(sender=sender, listener=listener, channel=channel)

    @staticmethod
    def _pairs(world: Components, run: RunId) -> list[tuple[str, str, str]]:
        here = world[run].agents
        return [
            (sender, listener, channel)
            for sender, one in sorted(here.items())
            for channel in one.send
            for listener, two in sorted(here.items())
            if channel in two.listen
        ]

    def _Wire(self, world: Components, run: RunId) -> o.Operation:  # noqa: N802
        other = self._other(world, run, 0.3)
        name = self._creature(world, run)
        return o.Wire(name=name, to=self._end(world, other or run, name), other=other)

    def _Unwire(self, world: Components, run: RunId) -> o.Operation:  # noqa: N802
        wires = [(name, to) for name, each in world[run].agents.items() for to in each.wires]
        name, to = self._creature(world, run), self._end(world, run)
        if wires and not self._seldom():
            name, to = self.random.choice(wires)
        return o.Unwire(name=name, to=to)
