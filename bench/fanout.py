"""Thirty-two steps side by side and one that waits for them: time and events of each."""

from __future__ import annotations

from collections.abc import Sequence

from temporalio.api.history.v1 import HistoryEvent

from bench.cases import Bench
from bench.crews import fan
from bench.history import IS_STEP, IsStep, events_of, ms_between, scheduled
from bench.pairs import Figure, figure, ratio, rounds
from bench.peers import bare

WIDTH = 32
Measured = tuple[float, float]
"""Milliseconds of them all, and events of each."""


async def run(bench: Bench) -> list[Figure]:
    """The engine and a bare workflow."""
    site = bench.site

    async def engine() -> Measured:
        handle = await site.start_crew(await site.register(fan(WIDTH)))
        await handle.result()
        return measured(await events_of(site, handle), IS_STEP["engine"])

    async def floor() -> Measured:
        handle = await site.start(await site.peer("bare"), bare.TYPE, bare.Order(beside=WIDTH))
        await handle.result()
        return measured(await events_of(site, handle), IS_STEP["bare"])

    tell = bench.told(f"fan-out {WIDTH}")
    found = await rounds(
        {"engine": engine, "bare": floor},
        bench.pairs,
        told=lambda number, results: tell(number, {k: ms for k, (ms, _) in results.items()}),
    )
    ours, theirs = ([ms for ms, _ in found[name]] for name in ("engine", "bare"))
    return [
        figure("fanout_ms_32", ours),
        ratio("fanout_vs_bare_32", ours, theirs),
        figure("events_per_step_fanout_32", [events for _, events in found["engine"]]),
    ]


def measured(events: Sequence[HistoryEvent], is_step: IsStep) -> Measured:
    """What the steps of a run took.

    Raises:
        AssertionError: the run did not have as many steps.
    """
    at = scheduled(events, is_step)
    assert len(at) == WIDTH + 1, f"{len(at)} steps, not {WIDTH + 1}"
    return ms_between(events[at[0]], events[at[-1]]), (at[-1] - at[0]) / WIDTH
