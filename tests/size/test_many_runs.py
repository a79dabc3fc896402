"""Many open runs on one worker, and workers that keep fewer of them than there are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from acceptance.harness import Site
from crewlog.client import Run

from .measure import assert_calm, figure, memory, pick

RUNS = pick(60, 1_000)
AT_ONCE = 16
"""Requests at a time."""
QUEUE = "many"
LIMIT = pick(90, 900)
pytestmark = [pytest.mark.size, pytest.mark.timeout(LIMIT * 2)]


async def each(runs: list[Run], do: Callable[[Run], Awaitable[object]]) -> float:
    """Does something with every run, some at a time; returns how many seconds it took."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(run: Run) -> None:
        async with gate:
            await do(run)

    began = time.monotonic()
    await asyncio.gather(*(one(run) for run in runs))
    return time.monotonic() - began


async def test_many_idle_runs_answer_and_go_on(site: Site) -> None:
    worker = await site.start_worker(QUEUE)
    crew = site.crew({"a": [{"text": "A"}]}, flow=[{"ask": "Begin?"}, "a"])
    empty = memory(worker)
    within = timedelta(seconds=LIMIT)
    runs = [await site.start(crew, queue=QUEUE, within=within) for _ in range(RUNS)]

    async def asks(run: Run) -> None:
        await run.wait_until(lambda view: view.interrupts == ("i1",), LIMIT)

    async def answered(run: Run) -> None:
        await run.answer("i1", "approve", by="ana")

    async def ended(run: Run) -> None:
        assert (await run.result(LIMIT)).outputs["a"]["text"] == "A"

    begun = await each(runs, asks)
    idle = memory(worker)
    looked = await each(runs, asks)
    went = await each(runs, answered) + await each(runs, ended)
    figure(
        f"{RUNS} idle runs: s to begin, query, answer to the end all",
        f"{begun:.1f} {looked:.1f} {went:.1f}",
    )
    figure(
        "worker's memory empty, with them idle, at the end, MB",
        f"{empty:.0f} {idle:.0f} {memory(worker):.0f}",
    )
    for run in runs[:: max(RUNS // 20, 1)]:
        await assert_calm(site, run)


@pytest.mark.parametrize(("kept", "open_"), [(0, 6), (1, 48)])
async def test_more_runs_than_are_kept_lose_no_task(site: Site, kept: int, open_: int) -> None:
    """A run that is evicted in mid-task would start over after its task has timed out."""
    queue = f"kept-{kept}"
    await site.start_worker(queue, CREWLOG_MAX_CACHED_RUNS=str(kept))
    crew = site.crew({"a": [{"text": "A"}]}, flow=[{"ask": "One?"}, {"ask": "Two?"}, "a"])
    runs = [await site.start(crew, queue=queue) for _ in range(open_)]

    async def answer_both(run: Run) -> None:
        for question in ("i1", "i2"):
            await run.wait_until(lambda view, q=question: view.interrupts == (q,), LIMIT)  # type: ignore[misc]
            await run.answer(question, "approve")
        await run.result(LIMIT)

    await each(runs, answer_both)
    for run in runs:
        await assert_calm(site, run)
