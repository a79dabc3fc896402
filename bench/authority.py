"""A call of a tool with everything on that authority knows, by one of a crew that says nothing.

One agent calls a short tool twenty times. The one crew has groups, rules with conditions, quotas, a
table of permissions and a log of its own for its group; a third has a quota of the day in the place
of that of the run, reserved in the store before each call. What is compared is what a call costs
the turn, in rounds that nothing else on the machine disturbed.
"""

from __future__ import annotations

from statistics import fmean
from typing import Any

from bench.cases import Bench
from bench.crews import lookups
from bench.history import IS_STEP, events_of, gaps_ms
from bench.pairs import Figure, Sample, compared, figure, ratios

CALLS = 20


def guarded(count: int, per: str = "run") -> dict[str, Any]:
    """The crew of `lookups` with rules, quotas and audiences.

    Args:
        count: How many calls.
        per: What the quota is of: "run", or "day", which the store counts over all runs.
    """
    crew = lookups(count, local=False)
    crew["crew"] = f"lookups-guarded-{per}"
    crew["flags"] = {"closed": False}
    crew["groups"] = {"desk": ["agent0"]}
    crew["agents"]["agent0"] |= {
        "reads": ["public", "group:desk"],
        "writes": ["public", "group:desk"],
    }
    crew["permissions"] = {"lookup": ["agent0"]}
    crew["rules"] = [
        {"tool": "*", "do": "never", "if": "closed", "reason": "the desk is closed"},
        {"tool": "lookup", "agents": ["group:desk"], "do": "ask", "if": "closed"},
        {"tool": "lookup", "quota": f"100000 per {per}"},
    ]
    return crew


async def run(bench: Bench) -> list[Figure]:
    """All three crews in each round."""
    site = bench.site
    worker = await site.peer("engine")

    async def measured(crew: dict[str, Any]) -> Sample:
        name, before = await site.register(crew), worker.used_ms()
        handle = await site.start_crew(name)
        await handle.result()
        used = worker.used_ms(since=before)
        gaps = gaps_ms(await events_of(site, handle), IS_STEP["engine"])
        assert len(gaps) == CALLS, f"{len(gaps)} calls"
        return Sample(fmean(gaps), used)

    systems = {
        "off": lambda: measured(lookups(CALLS, local=False)),
        "on": lambda: measured(guarded(CALLS)),
        "daily": lambda: measured(guarded(CALLS, per="day")),
    }
    found = await compared(
        systems,
        "off",
        bench.pairs,
        told=bench.told("authority"),
        refused=bench.refused("authority"),
    )
    on, off = found["on"], found["off"]
    return [
        figure("authority_off_ms", [one.ms for one in off]),
        figure("authority_on_ms", [one.ms for one in on]),
        *ratios("authority_on_vs_off", on, off),
        *ratios("authority_daily_quota_vs_off", found["daily"], off),
    ]
