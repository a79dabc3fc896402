"""A run of 5,000 steps: bounded histories, a carry that stays as it is, no slowing down."""

from __future__ import annotations

import statistics
from datetime import timedelta
from itertools import pairwise

import pytest

from acceptance.harness import Site
from crewlog.client import Run

from .measure import Execution, assert_calm, executions, figure, memory, pick

STEPS = pick(300, 5_000)
AGENTS = 50
EVENTS = pick(300, 2_000)
"""The limit of events: some eight executions in either size."""
HISTORY = 8_000_000
QUEUE = "long"
LIMIT = pick(90, 1_500)
pytestmark = [pytest.mark.size, pytest.mark.timeout(LIMIT * 2)]


async def step_times(site: Site, run: Run) -> list[int]:
    """Milliseconds from the completion of each step to that of the next."""
    done = [entry.at for entry in await site.entries(run, "StepCompleted")]
    return [later - earlier for earlier, later in pairwise(done)]


def assert_bounded(found: list[Execution]) -> None:
    """Every history is short, and what is carried does not grow with the run."""
    assert len(found) >= 5
    sizes = [execution.size for execution in found]
    carried = [execution.carried for execution in found[1:]]
    figure(f"{STEPS} steps: executions", len(found))
    figure(f"{STEPS} steps: largest history, bytes", f"{max(sizes):,}")
    figure(f"{STEPS} steps: history a step, bytes", f"{sum(sizes) / STEPS:,.0f}")
    figure(f"{STEPS} steps: carried first and last, bytes", f"{carried[0]:,} {carried[-1]:,}")
    assert max(sizes) < HISTORY
    # What one workflow task schedules, and what lands meanwhile, comes on top.
    assert max(len(execution.events) for execution in found) < EVENTS + 100
    assert carried[-1] < carried[0] * 1.05


async def test_a_run_of_many_steps_finishes_as_fast_as_it_began(site: Site) -> None:
    worker = await site.start_worker(QUEUE)
    # Many agents, each of which reads what it said itself: what grows is the prompt of a model,
    # which is no matter of the run.
    names = [f"a{i}" for i in range(AGENTS)]
    crew = site.crew(
        {name: [{"text": "x" * 400}] * (STEPS // AGENTS) for name in names},
        rules={name: {"reads": []} for name in names},
        flags={"enough": False},
        limits={"events": EVENTS, "steps": STEPS},
    )
    loop = {"if": "not enough", "go": names[0], "at_most": STEPS // AGENTS - 1}
    crew["flow"] = [*names, loop]
    run = await site.start(crew, queue=QUEUE, within=timedelta(seconds=LIMIT))
    await run.wait_until(lambda view: view.steps >= STEPS // 3, LIMIT)
    early = memory(worker)
    result = await run.result(LIMIT)
    late = memory(worker)
    assert (result.status, result.steps) == ("completed", STEPS)
    assert {usage.calls for usage in result.usage.values()} == {STEPS // AGENTS}
    assert_bounded(await executions(site, run))
    await assert_calm(site, run)
    times = await step_times(site, run)
    fifth = STEPS // 5
    first, last = statistics.median(times[:fifth]), statistics.median(times[-fifth:])
    figure(f"{STEPS} steps: ms a step, first and last fifth", f"{first:g} {last:g}")
    figure(
        f"{STEPS} steps: worker's memory at a third and at the end, MB", f"{early:.0f} {late:.0f}"
    )
    assert last < first * 1.5 + 5
    assert late < early + pick(60, 150)
