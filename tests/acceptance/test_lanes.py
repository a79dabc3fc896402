"""No barrier: a node starts when its own conditions hold; and many runs share one worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crewlog.client import Run

from .harness import LIMIT, Site, calls, tool


def sleeper(*seconds: float) -> list[dict[str, Any]]:
    return [*(calls(("nap", {"seconds": s})) for s in seconds), {"text": "slept"}]


async def first_start(site: Site, run: Run, node: str) -> int:
    entries = await site.entries(run, "StepStarted")
    return next(e.at for e in entries if e.step == f"{node}#1")


async def test_the_makespan_is_the_critical_path(crews: Site) -> None:
    """Lanes of three stages: each stage's barrier would cost the slowest of the three lanes."""
    naps = {"a": (0.2, 0.6, 1.0), "b": (0.6, 1.0, 0.2), "c": (1.0, 0.2, 0.6)}
    agents = {f"{lane}{i}": sleeper(s) for lane, row in naps.items() for i, s in enumerate(row)}
    flow: list[Any] = []
    for lane in naps:
        flow += [{"agent": f"{lane}0", "after": []}]
        flow += [{"agent": f"{lane}{i}", "after": f"{lane}{i - 1}"} for i in (1, 2)]
    crew = crews.crew(agents, tools={"nap": tool("nap")}, flow=flow)
    run, _ = await crews.finish(crew)
    notes = crews.ledger(run)
    span = max(e["at"] for e in notes) - min(e["at"] for e in notes)
    critical = 1.8
    assert span < critical * 1.3  # with a barrier after each stage, 3.0
    assert await first_start(crews, run, "a1") < await first_start(crews, run, "c1")


@pytest.mark.parametrize(("join", "before"), [("any", 0.6), (2, 1.0), ("all", 10.0)])
async def test_a_join_starts_as_soon_as_it_may(crews: Site, join: Any, before: float) -> None:
    agents = {
        "fast": sleeper(0.1),
        "mid": sleeper(0.5),
        "slow": sleeper(1.3),
        "last": [{"text": "n"}],
    }
    flow = [{"parallel": ["fast", "mid", "slow"], "join": join}, "last"]
    run, result = await crews.finish(crews.crew(agents, tools={"nap": tool("nap")}, flow=flow))
    waited = (await first_start(crews, run, "last") - await first_start(crews, run, "fast")) / 1000
    assert waited < before + 0.3 if before < 10 else waited > 1.3
    # What was not waited for is not lost, and the join fires once.
    assert set(result.outputs) == set(agents)
    assert len(await crews.entries(run, "StepStarted")) == 4


async def test_twenty_runs_at_once_on_one_worker(crews: Site) -> None:
    crew = crews.crew(
        {
            "a": [calls(("nap", {"seconds": 0.1}), ("echo", {"text": "x"})), {"text": "A"}],
            "b": [{"text": "B"}],
        },
        tools={"nap": tool("nap"), "echo": tool("echo")},
    )
    runs = [await crews.start(crew) for _ in range(20)]
    results = await asyncio.gather(*(run.result(LIMIT) for run in runs))
    assert {result.status for result in results} == {"completed"}
    assert all(len(crews.ledger(run, "start")) == 2 for run in runs)
