"""An uneven graph of three lanes: its makespan by that of the longest lane alone.

The critical path is what the same system needs for the longest lane by itself, its own overhead
included: what is more than that is waiting for neighbours. Each agent's turn is model, tool,
model; the tool sleeps. Where a system has a barrier after each stage, it takes the sum of
the slowest of each stage: 2.8 s instead of 1.6.
"""

from __future__ import annotations

from bench.cases import Bench
from bench.crews import lanes
from bench.history import IS_STEP, events_of, makespan_ms
from bench.pairs import Figure, figure, ratio, rounds

NAPS = ((0.2, 0.4, 1.0), (1.0, 0.2, 0.2), (0.2, 0.8, 0.2))
LONGEST = NAPS[0]


async def run(bench: Bench) -> list[Figure]:
    """The engine, and plain LangGraph in rounds of its own."""
    site = bench.site
    whole = await site.register(lanes("lanes", NAPS))
    alone = await site.register(lanes("lane", [LONGEST]))

    async def crew(name: str) -> float:
        handle = await site.start_crew(name)
        await handle.result()
        return makespan_ms(await events_of(site, handle), IS_STEP["engine"])

    async def plain(naps: object) -> float:
        answer = await (await site.plain()).ask({"do": "lanes", "lanes": naps})
        return float(answer["seconds"]) * 1000

    ours = await rounds(
        {"lanes": lambda: crew(whole), "longest": lambda: crew(alone)},
        bench.pairs,
        told=bench.told("lanes"),
    )
    theirs = await rounds(
        {"lanes": lambda: plain(NAPS), "longest": lambda: plain([LONGEST])},
        bench.pairs,
        told=bench.told("lanes, plain LangGraph"),
    )
    asleep = sum(LONGEST) * 1000
    return [
        ratio("lanes_vs_critical_path", ours["lanes"], ours["longest"]),
        figure("lanes_vs_sleep", [ms / asleep for ms in ours["lanes"]]),
        ratio("plain_lanes_vs_critical_path", theirs["lanes"], theirs["longest"]),
    ]
