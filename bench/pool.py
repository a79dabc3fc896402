"""A pool of two over five steps, and a turn of four tools: each by the least time that it can take.

Every step is model, tool, model, and the tool sleeps. No order of the five can end sooner than half
of what they sleep together, and in the order of the list they do where a step that is done makes
room at once. In rounds of two they would take 9 s instead of 6.3.

What the engine itself takes of that is told as milliseconds, too, and the same pool is measured
with naps of half a second: by the optimum that is more, since the steps do less.
"""

from __future__ import annotations

from bench.cases import Bench
from bench.crews import pool, together
from bench.history import IS_STEP, events_of, makespan_ms, scheduled
from bench.pairs import Figure, figure, rounds

NAPS = (3.6, 1.8, 1.8, 2.7, 2.7)
AT_ONCE = 2
OPTIMUM = sum(NAPS) / AT_ONCE * 1000
SHORT = (1.0, 0.5, 0.5, 0.75, 0.75)
"""The same naps, as short as a quick tool."""
SHORT_OPTIMUM = sum(SHORT) / AT_ONCE * 1000
IN_A_ROW = 3
"""Steps one after the other in the slot that has more of them."""
TOOLS = (3.0, 1.0, 2.0, 3.0)
OF_MAKER = 2
"""Model calls before the pool begins."""


async def run(bench: Bench) -> list[Figure]:
    """Both, in the same rounds."""
    site = bench.site
    pooled = await site.register(pool(NAPS, AT_ONCE))
    short = await site.register(pool(SHORT, AT_ONCE, "short"))
    turn = await site.register(together(TOOLS))

    async def crew(name: str, before: int) -> float:
        handle = await site.start_crew(name)
        await handle.result()
        events, is_step = await events_of(site, handle), IS_STEP["engine"]
        return makespan_ms(events[scheduled(events, is_step)[before] :], is_step)

    found = await rounds(
        {
            "pool": lambda: crew(pooled, OF_MAKER),
            "short": lambda: crew(short, OF_MAKER),
            "turn": lambda: crew(turn, 0),
        },
        bench.pairs,
        told=bench.told("pool"),
    )
    longest = max(TOOLS) * 1000
    return [
        figure("pool_vs_optimum", [ms / OPTIMUM for ms in found["pool"]]),
        figure("pool_overhead_ms", [(ms - OPTIMUM) / IN_A_ROW for ms in found["pool"]]),
        figure("pool_short_vs_optimum", [ms / SHORT_OPTIMUM for ms in found["short"]]),
        figure("turn_tools_vs_longest", [ms / longest for ms in found["turn"]]),
    ]
