"""Thousands of signals over continue-as-news and swaps: each has one outcome.

`CREWLOG_SIGNALS` says how many; Temporal refuses the 10,001st of an execution.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from datetime import timedelta

import pytest

from acceptance.harness import LIMIT, Site
from acceptance.test_change import cut, gated

from .measure import figure

SIGNALS = int(os.environ.get("CREWLOG_SIGNALS", "4000"))
SENDERS = 16
CHANGES = 10
QUEUE = "signals"
pytestmark = pytest.mark.size


@pytest.mark.timeout(900)
async def test_signals_and_swaps(site: Site) -> None:
    await site.start_worker(QUEUE)
    crew = gated(site)
    ask = {"ask": "Begin?"}
    ways = [cut(crew, ask, "b"), cut(crew, ask, "b", "c")]
    run = await site.start(ways[0], queue=QUEUE, within=timedelta(minutes=15))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    began = time.monotonic()

    async def talk(sender: int) -> None:
        for number in range(sender, SIGNALS, SENDERS):
            await run.message(f"{number}", id=f"m{number}")

    talks = [asyncio.create_task(talk(sender)) for sender in range(SENDERS)]
    for number in range(1, CHANGES + 1):
        await run.change(definition=ways[number % 2], timeout=LIMIT * 3)
    await asyncio.gather(*talks)
    await run.answer("i1", "approve")
    result = await run.result(LIMIT * 4)
    seconds = time.monotonic() - began
    figure(
        f"{SIGNALS:,} signals and {CHANGES} changes, signals per second",
        f"{SIGNALS / seconds:,.0f}",
    )
    entries = await site.entries(run, "MessageAdded", "GraphSwapped", "CommandRejected")
    said = Counter(e.command for e in entries if e.kind == "MessageAdded" and e.command)
    assert said == {f"m{number}": 1 for number in range(SIGNALS)}
    kinds = Counter(e.kind for e in entries)
    assert (kinds["GraphSwapped"], kinds["CommandRejected"]) == (CHANGES, 0)
    assert result.executions > CHANGES
    assert max(kinds.values()) >= SIGNALS
