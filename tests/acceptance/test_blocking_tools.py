"""Tools that block their loop, or do not let themselves be cancelled: they harm nobody else."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator

import pytest

from .harness import LIMIT, Site, WorkerProcess, calls, tool, until

QUEUE = "blocked"


@pytest.fixture
async def worker(site: Site) -> AsyncIterator[WorkerProcess]:
    yield await site.start_worker(QUEUE)
    await asyncio.to_thread(site.end_workers, QUEUE)


async def test_a_tool_that_blocks_its_loop_is_named_and_others_go_on(
    site: Site, worker: WorkerProcess
) -> None:
    crew = site.crew(
        {
            "a": [calls(("hog", {"name": "g"})), {"text": "A"}],
            "b": [calls(("nap", {"seconds": 2.5})), {"text": "B"}],
        },
        tools={
            "hog": tool("hog", "never", effects="external", heartbeat=3),
            # Twice what its heartbeat allows: a worker that stood still would have missed it.
            "nap": tool("nap", "never", effects="external"),
        },
        flow=[["a", "b"]],
    )
    run = await site.start(crew, queue=QUEUE)
    view = await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    (asked,) = await run.interrupts()
    assert (asked.kind, asked.step) == ("outcome_unknown", "a#1")
    assert "'deeds:hog' has blocked its event loop for" in asked.detail
    assert "at deeds.py:" in asked.detail
    assert "Make it a plain function" in asked.detail
    site.open_gate(run, "g")
    await run.answer(asked.id, "done")
    assert (await run.result(LIMIT)).status == "completed"
    assert [each["tool"] for each in site.ledger(run, "start")].count("nap") == 1
    assert "an async tool blocks its event loop" in worker.said()
    assert view.steps == 2


@pytest.mark.parametrize("how", ["hog", "cling", "wall"])
async def test_a_worker_ends_in_its_time(how: str, site: Site, worker: WorkerProcess) -> None:
    crew = site.crew(
        {"a": [calls((how, {"name": "g"})), {"text": "A"}]},
        tools={how: tool(how, heartbeat=30)},
        flow=["a"],
    )
    run = await site.start(crew, queue=QUEUE)
    await until(lambda: site.ledger(run, "start"), "the call")
    began = time.monotonic()
    worker.process.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(worker.process.wait, 20) == 0
    assert time.monotonic() - began < 15
    assert how == "wall" or "its call is abandoned" in worker.said()
    await run.terminate("seen")
