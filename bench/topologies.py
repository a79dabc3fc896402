"""Topology: what an operation takes on a graph of 200 creatures and 400 channels, in one thread.

The figure of a round is the slowest operation's: each is done some times, and the median counts.
Once what is pure of it alone: the operation on the crew's definition, or the crew that two runs are
together, the graph that comes out, its components, and the event. And once all that a worker does
for an operation on a live run, with a store in memory: the definition is read, checked, made a
plan, hashed and written as well.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from bench.cases import Bench
from bench.pairs import Figure, figure
from crewlog.activities.changes import ChangePreparer
from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.definitions import Definitions
from crewlog.activities.failures import Effect
from crewlog.definition.apply import apply_operations, edited
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
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
from crewlog.graph.lowering.components import expanded_component
from crewlog.graph.run_merge.definition import merged_definition
from crewlog.ids import ContentHash, RunId
from crewlog.state.calls import PrepareChange
from crewlog.state.components import Component, change_of_components, split_components
from crewlog.store.in_process import InMemoryStore

CREATURES, CHANNELS = 200, 400
TIMES = 15
_G, _H = RunId("g"), RunId("h")


async def run(bench: Bench, times: int = TIMES) -> list[Figure]:
    """The slowest operation: what is pure of it, and all that a worker does."""
    tell = bench.told("topology")
    gc.collect()
    names = ("topology_ms", "topology_worker_ms")
    found: dict[str, list[float]] = {name: [] for name in names}
    for number in range(1, bench.pairs + 1):
        pure = {name: cost(case.pure, times) for name, case in cases().items()}
        tell(number, pure)
        found["topology_ms"].append(max(pure.values()))
        whole = {
            name: await cost_of(await case.prepared(), times)
            for name, case in cases().items()
            if case.other is None
        }
        tell(number, whole)
        found["topology_worker_ms"].append(max(whole.values()))
    return [figure(name, took) for name, took in found.items()]


def cost(done: Callable[[], object], times: int) -> float:
    """The median time of something, in milliseconds of this thread's processor."""
    took: list[float] = []
    for _ in range(times):
        began = time.thread_time()
        done()
        took.append((time.thread_time() - began) * 1000)
    return statistics.median(took)


async def cost_of(done: Callable[[], Awaitable[object]], times: int) -> float:
    """As `cost`, of something that is awaited."""
    took: list[float] = []
    for _ in range(times):
        began = time.thread_time()
        await done()
        took.append((time.thread_time() - began) * 1000)
    return statistics.median(took)


class Case(NamedTuple):
    """An operation on a crew that lives, or on two."""

    crew: CrewDefinition
    graph: Component
    """Its graph, which a run has at hand."""
    operation: Operation
    other: CrewDefinition | None = None
    """The crew of the other run, where two become one."""

    def pure(self) -> object:
        """The graphs that come of it, and the event."""
        if self.other is not None:  # with the graphs of both, the crew of both, and the event
            edge = {"op": self.operation.op, **self.operation.to_json()}
            return merged_definition(
                self.crew, self.other, surviving=_G, merged=_H, edge=edge, asks=_G
            )
        after = expanded_component(edited(self.crew, self.operation))
        return change_of_components({_G: self.graph}, split_components(_G, after, "op"))

    async def prepared(self) -> Callable[[], Awaitable[object]]:
        """What a worker does for it, each time with nothing at hand from before."""
        store = InMemoryStore()
        base: ContentHash = await store.put_definition(_G, self.crew.to_json())
        said = {"op": self.operation.op, **self.operation.to_json()}
        task = PrepareChange(run=_G, base=base, operations=(said,), command="op")

        async def once() -> object:
            worker = ChangePreparer(store, Definitions(store), ModelFactory())
            return await worker.run(task, Effect())

        return once


def cases() -> dict[str, Case]:
    """One of each kind, with the crews that it is about."""
    ring = large(CREATURES, CHANNELS)
    cut = apply_operations(ring, [Disconnect(sender="a199", listener="a0")])
    wired = apply_operations(ring, [Wire(name="a3", to="a9")])
    half = large(CREATURES // 2, CHANNELS // 2)
    other = large(CREATURES // 2, CHANNELS // 2, prefix="x")
    made: dict[str, tuple[CrewDefinition, Operation, CrewDefinition | None]] = {
        "add": (ring, AddAgent(name="n", agent={"prompt": "p", "send": ["c3"]}), None),
        "add alone": (ring, AddAgent(name="n", agent={"prompt": "p"}), None),
        "remove": (ring, RemoveAgent(name="a7"), None),
        "split": (cut, RemoveAgent(name="a99"), None),
        "start": (ring, EnableAgent(name="a7"), None),
        "stop": (ring, DisableAgent(name="a7"), None),
        "add channel": (ring, AddChannel(name="n"), None),
        "remove channel": (ring, RemoveChannel(name="c8"), None),
        "connect": (ring, Connect(sender="a3", listener="a9", channel="c9"), None),
        "disconnect": (ring, Disconnect(sender="a3", listener="a4"), None),
        "wire": (ring, Wire(name="a3", to="a9"), None),
        "unwire": (wired, Unwire(name="a3", to="a9"), None),
        "merge": (half, Connect(sender="a3", listener="xa9", channel="c9", other=_H), other),
        # Each creature and each channel of the one gets another name.
        "merge of equal names": (
            half,
            Connect(sender="a3", listener="a9", channel="c9", other=_H),
            half,
        ),
    }
    return {
        name: Case(crew, expanded_component(crew), operation, two)
        for name, (crew, operation, two) in made.items()
    }


def large(creatures: int, channels: int, *, prefix: str = "") -> CrewDefinition:
    """A ring: each creature is connected with its neighbours, over four channels."""
    return load_data(
        {
            "crew": "ring",
            "model": "scripted:none",
            "agents": {
                f"{prefix}a{number}": {
                    "prompt": "p",
                    "listen": [f"{prefix}c{(2 * number + each) % channels}" for each in (0, 1)],
                    "send": [f"{prefix}c{(2 * number + each) % channels}" for each in (2, 3)],
                }
                for number in range(creatures)
            },
            "channels": {f"{prefix}c{number}": {} for number in range(channels)},
            "graph": {},
        }
    )
