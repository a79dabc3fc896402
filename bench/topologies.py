"""Topology: what an operation takes on a graph of 200 creatures and 400 channels, in one thread.

The figure of a round is the slowest operation's: each is applied some times, and the median counts.
"""

from __future__ import annotations

import gc
import statistics
import time

from bench.cases import Bench
from bench.pairs import Figure, figure
from crewlog.ids import AgentName, RunId
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
    apply,
)

CREATURES, CHANNELS = 200, 400
TIMES = 15
_G, _H = RunId("g"), RunId("h")


async def run(bench: Bench, times: int = TIMES) -> list[Figure]:
    """The slowest operation."""
    tell = bench.told("topology")
    gc.collect()
    found: list[float] = []
    for number in range(1, bench.pairs + 1):
        took = {name: cost(world, op, times) for name, (world, op) in operations().items()}
        tell(number, took)
        found.append(max(took.values()))
    return [figure("topology_ms", found)]


def cost(world: World, operation: Operation, times: int) -> float:
    """The median time of an operation, in milliseconds of this thread's processor."""
    took: list[float] = []
    for _ in range(times):
        began = time.thread_time()
        apply(world, operation, "op")
        took.append((time.thread_time() - began) * 1000)
    return statistics.median(took)


def operations() -> dict[str, tuple[World, Operation]]:
    """One of each kind, with the graphs that it is about."""
    ring = large(CREATURES, CHANNELS)
    world: World = {_G: ring}
    cut = ring.model_copy(
        update={"creatures": {**ring.creatures, AgentName("a0"): Creature()}},
    )
    wired = ring.model_copy(
        update={
            "creatures": {
                **ring.creatures,
                AgentName("a3"): Creature(
                    **{**ring.creatures[AgentName("a3")].to_json(), "wires": ("a9",)}
                ),
            }
        },
    )
    half = large(CREATURES // 2, CHANNELS // 2)
    other = large(CREATURES // 2, CHANNELS // 2, prefix="x")
    a3, a4, a9 = AgentName("a3"), AgentName("a4"), AgentName("a9")
    return {
        "add": (world, AddCreature(graph=_G, name=AgentName("n"), creature=Creature(send=("c3",)))),
        "remove": (world, RemoveCreature(graph=_G, name=AgentName("a7"))),
        "split": ({_G: cut}, RemoveCreature(graph=_G, name=AgentName("a99"))),
        "add channel": (world, AddChannel(graph=_G, name="n")),
        "remove channel": (world, RemoveChannel(graph=_G, name="c8")),
        "connect": (world, Connect(graph=_G, sender=a3, listener=a9, channel="c9")),
        "disconnect": (world, Disconnect(graph=_G, sender=a3, listener=a4)),
        "wire": (world, Wire(graph=_G, name=a3, to="a9")),
        "unwire": ({_G: wired}, Unwire(graph=_G, name=a3, to="a9")),
        "merge": (
            {_G: half, _H: other},
            Connect(graph=_G, sender=a3, listener=AgentName("xa9"), channel="c9", other=_H),
        ),
        # Each creature and each channel of the one gets another name.
        "merge of equal names": (
            {_G: half, _H: half},
            Connect(graph=_G, sender=a3, listener=a9, channel="c9", other=_H),
        ),
    }


def large(creatures: int, channels: int, *, prefix: str = "") -> Topology:
    """A ring: each creature is connected with its neighbours, over four channels."""
    ring = {
        AgentName(f"{prefix}a{number}"): Creature(
            listen=tuple(f"{prefix}c{(2 * number + each) % channels}" for each in (0, 1)),
            send=tuple(f"{prefix}c{(2 * number + each) % channels}" for each in (2, 3)),
        )
        for number in range(creatures)
    }
    names = [f"{prefix}c{number}" for number in range(channels)]
    return Topology(creatures=ring, channels=dict.fromkeys(names, Channel()))
