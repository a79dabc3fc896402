"""Thousands of signals that prove nothing, to a run with a signed policy: it goes on beside them.

`CREWLOG_SIGNALS` says how many; Temporal refuses the 10,001st of an execution.
"""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from acceptance.harness import LIMIT, Site, calls, tool, until
from crewlog.client import Run, keys
from crewlog.workflows.commands.unauthenticated_signals import (
    MAX_REJECTIONS,
    PARSE_WORK,
    SIGNALS_PER_ENTRY,
    WORK_PER_PAUSE,
)

from .measure import assert_calm, executions, figure, pick

SIGNALS = int(os.environ.get("CREWLOG_SIGNALS", str(pick(4000, 9900))))
AT_ONCE = int(os.environ.get("CREWLOG_AT_ONCE", str(pick(2000, 9900))))
SENDERS = 16
TURNS = 20
QUEUE = "strangers"
pytestmark = [pytest.mark.size, pytest.mark.timeout(600)]

Content = Callable[[int], dict[str, Any]]


def bare(number: int) -> dict[str, Any]:
    """A command without a proof."""
    return {"id": f"s{number}", "by": f"stranger {number % 7}"}


async def started(site: Site, folder: Path, turns: list[Any]) -> Run:
    """A signed run whose agent calls these tools."""
    crew = site.crew(
        {"a": [*turns, {"text": "A"}]},
        tools={"nap": tool("nap"), "gate": tool("gate")},
        flow=["a"],
    )
    ada = {"key": keys.load("ada", folder).public, "rights": ["operate", "grant", "view"]}
    crew |= {
        "policy": {"mode": "signed", "principals": {"ada": ada}},
        "permissions": {"nap": ["a"], "gate": ["a"]},
        "limits": {"steps": 10 * TURNS},
    }
    owner = site.client(QUEUE)
    owner.use_key(str(folder / "ada.pem"))
    run = await owner.start(crew, "go", execution_timeout=timedelta(minutes=10))
    site.runs.append(run)
    await run.wait_until(lambda view: view.status == "running", LIMIT)
    return run


async def flood(site: Site, run: Run, signals: int, content: Content) -> None:
    """Sends them, many at a time; those that come when the run has ended are not taken."""
    handle = site.temporal.get_workflow_handle(run.id)

    async def send(sender: int) -> None:
        for number in range(sender, signals, SENDERS):
            await handle.signal("pause", content(number))

    await asyncio.gather(*(send(each) for each in range(SENDERS)), return_exceptions=True)


async def met(site: Site, run: Run) -> int:
    """How many signals the run was sent."""
    found = await executions(site, run)
    return sum(
        event.HasField("workflow_execution_signaled_event_attributes")
        for each in found
        for event in each.events
    )


async def assert_few(site: Site, run: Run, signals: int, *, all_told: bool) -> None:
    """Few of them have an entry, and the others are told, but for what comes while the run ends."""
    told = await site.entries(run, "CommandRejected")
    lives = len(await executions(site, run))
    assert len(told) <= lives * (MAX_REJECTIONS + 2) + signals // SIGNALS_PER_ENTRY
    more = [int(e.reason.split()[1].replace(",", "")) for e in told if e.name == "signals"]
    counted = sum(more) + len(told) - len(more)
    assert counted == signals if all_told else counted <= signals


async def turns(site: Site, folder: Path, signals: int) -> tuple[Run, float]:
    """A signed run of many turns that meets so many strangers, and how long it takes."""
    run = await started(site, folder, [calls(("nap", {"seconds": 0.1}))] * TURNS)
    began = time.monotonic()
    sending = asyncio.create_task(flood(site, run, signals, bare))
    assert (await run.result(LIMIT * 4)).status == "completed"
    seconds = time.monotonic() - began
    await sending
    return run, seconds


async def test_turns_beside_a_flood(site: Site, tmp_path: Path) -> None:
    keys.make("ada", tmp_path)
    await site.start_worker(QUEUE)
    _, alone = await turns(site, tmp_path, 0)
    run, flooded = await turns(site, tmp_path, SIGNALS)
    came = await met(site, run)
    figure(f"{TURNS} turns of a signed run, seconds", f"{alone:.1f}")
    figure(f"the same beside {came:,} unproven signals", f"{flooded:.1f}")
    figure("its executions' events", [len(e.events) for e in await executions(site, run)])
    await assert_few(site, run, came, all_told=False)
    await assert_calm(site, run)


@pytest.mark.parametrize("forged", [False, True])
async def test_a_worker_that_finds_a_flood(site: Site, tmp_path: Path, forged: bool) -> None:
    """They came while nobody was there: it is handed all of them at once, and so is the next."""
    keys.make("ada", tmp_path)
    public = keys.load("ada", tmp_path).public

    def signed(number: int) -> dict[str, Any]:
        signature = base64.b64encode(number.to_bytes(64)).decode()
        return bare(number) | {
            "proof": {"key": public, "expires": 2**50, "signature": signature},
        }

    await site.start_worker(QUEUE)
    run = await started(site, tmp_path, [calls(("gate", {"name": "g"}))])
    await until(lambda: site.ledger(run, "start"), "the gate")
    for worker in site.workers.pop(QUEUE):
        worker.kill()
    await flood(site, run, AT_ONCE, signed if forged else bare)
    for again in (False, True):  # the second replays what the first was handed
        began = time.monotonic()
        worker = await site.start_worker(QUEUE)
        assert (await run.status()).status == "running"
        kind = "forged" if forged else "bare"
        seconds = f"{time.monotonic() - began:.1f}"
        figure(f"a worker takes up {AT_ONCE:,} {kind} signals, seconds", seconds)
        assert "TMPRL1101" not in worker.said()
        if not again:
            worker.kill()
    site.open_gate(run, "g")
    assert (await run.result(LIMIT * 2)).status == "completed"
    await assert_few(site, run, AT_ONCE, all_told=True)
    if forged:  # each proof is looked at, but not all in one activation
        events = (await executions(site, run))[0].events
        markers = [each.marker_recorded_event_attributes.marker_name for each in events]
        assert markers.count("core_local_activity") > AT_ONCE * PARSE_WORK // WORK_PER_PAUSE
    await assert_calm(site, run)
