"""No barrier: a node starts when its own conditions hold; and many runs share one worker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run

from .harness import LIMIT, Site, calls, tool


def sleeper(*seconds: float) -> list[dict[str, Any]]:
    return [*(calls(("nap", {"seconds": s})) for s in seconds), {"text": "slept"}]


async def spans(site: Site, run: Run) -> dict[str, tuple[float, float]]:
    """For each node's first visit, when it started and when it was completed, in seconds."""
    started = {e.step: e.at / 1000 for e in await site.entries(run, "StepStarted")}
    ended = {e.step: e.at / 1000 for e in await site.entries(run, "StepCompleted")}
    return {step.removesuffix("#1"): (at, ended[step]) for step, at in started.items()}


async def first_start(site: Site, run: Run, node: str) -> int:
    entries = await site.entries(run, "StepStarted")
    return next(e.at for e in entries if e.step == f"{node}#1")


async def test_the_makespan_is_the_critical_path(crews: Site) -> None:
    """Lanes of three stages: each stage's barrier would cost the slowest of the three lanes."""
    naps = {"a": (0.2, 0.9, 1.6), "b": (0.9, 1.6, 0.2), "c": (1.6, 0.2, 0.9)}
    agents = {f"{lane}{i}": sleeper(s) for lane, row in naps.items() for i, s in enumerate(row)}
    flow: list[Any] = []
    for lane in naps:
        flow += [{"agent": f"{lane}0", "after": []}]
        flow += [{"agent": f"{lane}{i}", "after": f"{lane}{i - 1}"} for i in (1, 2)]
    crew = crews.crew(agents, tools={"nap": tool("nap")}, flow=flow)
    run, _ = await crews.finish(crew)
    # Against what the steps themselves took: the machine may be slow, the shape may not change.
    took = await spans(crews, run)
    alone = {node: end - start for node, (start, end) in took.items()}
    lanes = [sum(alone[f"{lane}{i}"] for i in range(3)) for lane in naps]
    barriers = sum(max(alone[f"{lane}{i}"] for lane in naps) for i in range(3))
    makespan = max(end for _, end in took.values()) - min(start for start, _ in took.values())
    assert makespan < (max(lanes) + barriers) / 2  # nearer to the one than to the other
    for lane in naps:
        for i in (1, 2):  # a stage waits for its own lane alone
            slowest = max(took[f"{other}{i - 1}"][1] for other in naps)
            own = took[f"{lane}{i - 1}"][1]
            assert own == slowest or took[f"{lane}{i}"][0] < slowest
    assert await first_start(crews, run, "a1") < await first_start(crews, run, "c1")


@pytest.mark.parametrize(
    ("join", "after", "before"), [("any", "fast", "mid"), (2, "mid", "slow"), ("all", "slow", "")]
)
@covers("C37")
async def test_a_join_starts_as_soon_as_it_may(
    crews: Site, join: Any, after: str, before: str
) -> None:
    gates = ("fast", "mid", "slow")
    agents = {name: [calls(("gate", {"name": name})), {"text": name}] for name in gates}
    crew = crews.crew(
        agents | {"last": [{"text": "n"}]},
        tools={"gate": tool("gate")},
        flow=[{"parallel": [*gates], "join": join}, "last"],
    )
    run = await crews.start(crew)
    for name in gates[: gates.index(after) + 1]:
        assert "last" not in (await run.state()).agent_outputs
        crews.open_gate(run, name)
        await crews.spoken(run, name)
    await crews.spoken(run, "last")  # what is not waited for is still at its gate
    for name in gates:
        crews.open_gate(run, name)
    result = await run.result(LIMIT)
    took = await spans(crews, run)
    assert took["last"][0] >= took[after][1]
    assert not before or took["last"][1] <= took[before][1]
    # What was not waited for is not lost, and the join fires once.
    assert set(result.outputs) == {*gates, "last"}
    assert len(await crews.entries(run, "StepStarted")) == 4


async def test_twenty_runs_at_once_on_one_worker(crews: Site) -> None:
    crew = crews.crew(
        {
            "a": [calls(("nap", {"seconds": 0.1}), ("echo", {"text": "x"})), {"text": "A"}],
            "b": [{"text": "B"}],
        },
        # A busy worker's call that misses a heartbeat is made again, and makes it busier.
        tools={name: tool(name, heartbeat=30) for name in ("nap", "echo")},
        rules={name: {"heartbeat": 30} for name in "ab"},
    )
    runs = [await crews.start(crew) for _ in range(20)]
    results = await asyncio.gather(*(run.result(LIMIT) for run in runs))
    assert {result.status for result in results} == {"completed"}
    assert all(len(crews.ledger(run, "start")) == 2 for run in runs)
