"""Fifty runs of three model calls of two seconds each, started at once on one worker.

The calls of a run take six seconds. What the runs take beyond that is the engine's: workflow tasks,
activity slots, the store.
"""

from __future__ import annotations

import asyncio
import time

from bench.cases import Bench
from bench.crews import slow
from bench.pairs import Figure, figure

RUNS = 50
CALLS = 3
SECONDS = 2.0


async def run(bench: Bench) -> list[Figure]:
    """The seconds from the first start to the last result."""
    site = bench.site
    crew = await site.register(slow(CALLS, SECONDS))
    engine = await site.peer("engine")
    tell = bench.told("slow models", "s")

    async def one() -> None:
        await (await site.start_crew(crew, peer=engine)).result()

    found: list[float] = []
    for number in range(max(3, bench.pairs // 3)):
        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(RUNS)))
        found.append(time.perf_counter() - began)
        tell(number + 1, {"runs": found[-1]})
    return [figure("slow_models_seconds", found)]
