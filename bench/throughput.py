"""A hundred runs of ten steps, started at once on one worker: steps a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from temporalio.client import WorkflowHandle

from bench.cases import Bench
from bench.crews import ring
from bench.pairs import Figure, figure, ratio, rounds
from bench.peers import bare
from bench.site import Peer

RUNS = 100
STEPS = 10

Start = Callable[[], Awaitable[WorkflowHandle[Any, Any]]]


async def run(bench: Bench, runs: int = RUNS) -> list[Figure]:
    """The engine and a bare workflow, from the first start to the last result."""
    site = bench.site
    crew = await site.register(ring(STEPS))
    engine, floor = await site.peer("engine"), await site.peer("bare")
    tuned = await site.peer("tuned")

    async def rate(start: Start) -> float:
        async def one() -> None:
            await (await start()).result()

        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(runs)))
        return runs * STEPS / (time.perf_counter() - began)

    def bare_rate(peer: Peer) -> Awaitable[float]:
        return rate(lambda: site.start(peer, bare.TYPE, bare.Order(steps=STEPS)))

    found = await rounds(
        {
            "engine": lambda: rate(lambda: site.start_crew(crew, peer=engine)),
            "bare": lambda: bare_rate(floor),
            "tuned": lambda: bare_rate(tuned),
        },
        bench.pairs,
        told=bench.told("throughput", "steps/s"),
    )
    return [
        figure("throughput_steps_per_s", found["engine"]),
        ratio("throughput_vs_bare", found["engine"], found["bare"]),
        ratio("throughput_vs_bare_same_process", found["engine"], found["tuned"]),
    ]
