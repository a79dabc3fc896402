"""A short tool that only reads: as an activity, and placed `local`.

One agent calls it twenty times, one call after the other. What a call takes is the time from the
model's answer to the next question to the model: all that the call costs the turn.
"""

from __future__ import annotations

from statistics import fmean

from bench.cases import Bench
from bench.crews import can_place_local, lookups
from bench.history import IS_STEP, events_of, gaps_ms
from bench.pairs import Figure, figure, rounds

CALLS = 20


async def run(bench: Bench) -> list[Figure]:
    """Both placements where a definition knows them, else the activity alone."""
    site = bench.site

    async def measured(*, local: bool) -> float:
        handle = await site.start_crew(await site.register(lookups(CALLS, local=local)))
        await handle.result()
        gaps = gaps_ms(await events_of(site, handle), IS_STEP["engine"])
        assert len(gaps) == CALLS, f"{len(gaps)} calls"
        return fmean(gaps)

    systems = {"activity": lambda: measured(local=False)}
    if can_place_local():
        systems["local"] = lambda: measured(local=True)
    found = await rounds(systems, bench.pairs, told=bench.told("tools"))
    figures = [figure("tool_ms", found["activity"])]
    if "local" in found:
        figures.append(figure("local_tool_ms", found["local"]))
    return figures
