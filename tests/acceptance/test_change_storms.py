"""Changes in the middle of everything else: killed workers, a server that goes away, many commands.

Whatever happens between a change's acceptance and the new execution, there is one right state.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from crewlog.client import Run
from crewlog.errors import ChangeConflict, CommandRejected, CrewlogError, InterruptNotOpen

from .harness import LIMIT, Site
from .test_change import at_gate, cut, gated, outputs

QUEUE = "changed-and-killed"
UPDATES, AT_ONCE = 100, 10
MESSAGES = 300


@pytest.fixture
async def own_worker(site: Site) -> AsyncIterator[Site]:
    await site.start_worker(QUEUE)
    yield site
    await asyncio.to_thread(site.end_workers, QUEUE)


@pytest.mark.timeout(400)
async def test_the_worker_is_killed_between_the_change_and_the_new_execution(
    own_worker: Site,
) -> None:
    site = own_worker
    crew = gated(site)
    run = await at_gate(site, cut(crew, "a", "b"), queue=QUEUE)
    changed = await run.change(definition=crew, id="once", wait=False)
    (victim,) = site.workers[QUEUE]
    victim.kill()
    site.open_gate(run, "g")  # who drains is another worker
    await site.start_worker(QUEUE)
    assert await outputs(run) == {"a": "A", "b": "B", "c": "C"}
    again = await run.change(definition=crew, id="once", wait=False)
    assert again.position == changed.position
    entries = await site.entries(run)
    kinds = Counter(entry.kind for entry in entries)
    assert (kinds["ChangeAccepted"], kinds["GraphSwapped"], kinds["SwapFailed"]) == (1, 1, 0)
    assert kinds["StepStarted"] == kinds["StepCompleted"] == 3


@pytest.mark.timeout(400)
async def test_the_worker_is_killed_again_and_again_while_it_is_changed(own_worker: Site) -> None:
    """Kills at any moment of the way: as it prepares, accepts, drains, stores and leaves."""
    site = own_worker
    crew = gated(site)
    ways = [cut(crew, {"ask": "Begin?"}, "b"), cut(crew, {"ask": "Begin?"}, "b", "c")]
    run = await site.start(ways[0], queue=QUEUE)
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    pauses = (0.0, 0.02, 0.05, 0.1)
    for number, pause in enumerate(pauses, 1):
        changing = asyncio.create_task(
            run.change(definition=ways[number % 2], id=f"change-{number}", wait=False)
        )
        await asyncio.sleep(pause)  # not a wait: where the kill hits is what is tried
        site.workers[QUEUE].pop().kill()
        await site.start_worker(QUEUE)
        outcome = (await asyncio.gather(changing, return_exceptions=True))[0]
        if isinstance(outcome, CrewlogError):  # nobody answered for a while: the same once more
            await run.change(definition=ways[number % 2], id=f"change-{number}")
        await run.wait_until(lambda view, want=number + 1: view.graph_version == want, LIMIT)
    await run.answer("i1", "approve")
    assert await outputs(run) == {"b": "B"}
    accepted = [e.command for e in await site.entries(run, "ChangeAccepted")]
    assert accepted == [f"change-{number}" for number in range(1, len(pauses) + 1)]
    swapped = [e.graph_version for e in await site.entries(run, "GraphSwapped")]
    assert swapped == list(range(2, len(pauses) + 2))


class Storm:
    """Updates of every kind that a run takes, ten at a time, over many swaps."""

    def __init__(self, site: Site, run: Run, crew: dict[str, Any]) -> None:
        self._run = run
        ask = {"ask": "Go on?", "phase": "gatekeeper"}
        self._ways = [cut(crew, ask, "b"), cut(crew, ask, "b", "c")]
        self.outcomes: dict[str, str] = {}

    async def send(self, number: int) -> None:
        command = f"u{number}"
        try:
            await self._one(number, command)
        except ChangeConflict:
            self.outcomes[command] = "conflict"
        except (InterruptNotOpen, CommandRejected):
            self.outcomes[command] = "refused"
        else:
            self.outcomes[command] = "applied"

    async def _one(self, number: int, command: str) -> None:
        kind = number % 4
        if kind == 0:
            await self._run.change(definition=self._ways[number // 4 % 2], id=command, wait=False)
        elif kind == 1:
            version = (await self._run.status()).graph_version
            await self._run.change(
                definition=self._ways[number // 4 % 2],
                graph_version=version,
                id=command,
                wait=False,
            )
        elif kind == 2:
            await self._run.answer("i1", "perhaps", id=command)
        else:
            await self._run.answer("i99", "approve", id=command)


@pytest.mark.timeout(400)
async def test_of_many_updates_over_swaps_each_has_one_outcome(crews: Site) -> None:
    crew = gated(crews)
    run = await crews.start(cut(crew, {"ask": "Go on?", "phase": "gatekeeper"}, "b"))
    await run.wait_until(lambda view: bool(view.interrupts), LIMIT)
    storm = Storm(crews, run, crew)
    numbers = iter(range(UPDATES))

    async def sender() -> None:
        for number in numbers:
            await storm.send(number)

    async def talk() -> None:
        for number in range(MESSAGES):
            await run.message(f"{number}", id=f"m{number}")

    await asyncio.wait_for(asyncio.gather(talk(), *(sender() for _ in range(AT_ONCE))), LIMIT * 3)
    assert len(storm.outcomes) == UPDATES
    await run.answer("i1", "approve", id="close")
    result = await run.result(LIMIT)
    assert result.outputs["b"]["text"] == "B"
    entries = await crews.entries(run)
    recorded = Counter(e.command for e in entries if getattr(e, "command", None) in storm.outcomes)
    assert recorded == dict.fromkeys(storm.outcomes, 1)
    refused = {e.command for e in entries if e.kind == "CommandRejected"} & {*storm.outcomes}
    assert refused == {c for c, outcome in storm.outcomes.items() if outcome != "applied"}
    by_kind = Counter(e.kind for e in entries)
    swaps = by_kind["GraphSwapped"]
    assert swaps == by_kind["ChangeAccepted"] > 5
    assert by_kind["SwapFailed"] == 0
    assert result.executions >= swaps + 1
    said = [e.command for e in entries if e.kind == "MessageAdded" and e.command]
    assert said == [f"m{number}" for number in range(MESSAGES)]
