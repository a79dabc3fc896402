"""Postgres and the Temporal server go away in mid-run and come back; runs go on."""

from __future__ import annotations

import asyncio
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crewlog.client import Run
from crewlog.dev import postgres
from crewlog.dev.processes import end
from crewlog.dev.registry import ServiceRecord

from .harness import LIMIT, SHARED, Given, Site, WorkerProcess, calls, make_site, tool, until
from .test_change import at_gate, cut, gated, outputs


@pytest.fixture(scope="module")
async def whole_site(whole_site: Site) -> AsyncIterator[Site]:
    """A site whose servers may be stopped: the session's, unless they are somebody else's."""
    if not isinstance(whole_site.places, Given):
        yield whole_site
        return
    root = Path(tempfile.mkdtemp(prefix="crewlog-outages-"))
    try:
        async with make_site(root, own_services=True) as site:
            yield site
    finally:
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
async def shared_workers(whole_site: Site) -> list[WorkerProcess]:
    if not whole_site.has_worker(SHARED):
        await whole_site.start_worker(SHARED)
    return whole_site.workers[SHARED]


def record(site: Site, name: str) -> ServiceRecord:
    return next(r for r in site.services.services.records() if r.name == name)


async def at_the_gate(site: Site) -> Run:
    crew = site.crew(
        {"a": [calls(("gate", {"name": "g"})), {"text": "A"}], "b": [{"text": "B"}]},
        tools={"gate": tool("gate", heartbeat=30)},
        rules={"a": {"heartbeat": 30}, "b": {"heartbeat": 30}},
    )
    run = await site.start(crew)
    await until(lambda: site.ledger(run, "start"), "the gate")
    return run


@pytest.mark.timeout(400)
async def test_postgres_is_away_for_a_while(crews: Site) -> None:
    run = await at_the_gate(crews)
    crew = crews.crew(
        {"a": [{"text": "A"}]}, rules={"a": {"heartbeat": 30}}, flow=[{"ask": "Begin?"}, "a"]
    )
    asking = await crews.start(crew)
    await asking.wait_until(lambda view: bool(view.interrupts), LIMIT)
    assert await asyncio.to_thread(postgres.stop, record(crews, "postgres").process)
    try:
        crews.open_gate(run, "g")  # the tool ends while there is no store
        await until(lambda: crews.ledger(run, "end"), "the tool's end")
        # Commands and queries need no store.
        await asking.pause(id="p")
        await asking.wait_until(lambda view: view.status == "paused", LIMIT)
        await asking.resume(id="r")  # while what the pause is remembered by cannot be stored
        await asking.wait_until(lambda view: view.status == "waiting", LIMIT)
    finally:
        await crews.services.services.ensure()  # it is every other test's, too
    await asking.answer("i1", "approve")
    assert (await run.result(LIMIT)).outputs["b"]["text"] == "B"
    assert (await asking.result(LIMIT)).outputs["a"]["text"] == "A"
    assert len(crews.ledger(run, "start")) == 1


async def tool_ends_without_temporal(crews: Site, run: Run) -> None:
    """Kills the server and starts it again on the same data; meanwhile the run's tool ends."""
    services = crews.services.services
    old = record(crews, "temporal")
    await asyncio.to_thread(end, old.process, gently=signal.SIGKILL)
    crews.open_gate(run, "g")
    await until(lambda: crews.ledger(run, "end"), "the tool's end")
    await services.ensure()
    assert record(crews, "temporal").address == old.address


@pytest.mark.timeout(400)
async def test_the_temporal_server_is_killed_and_started_again(crews: Site) -> None:
    run = await at_the_gate(crews)
    await tool_ends_without_temporal(crews, run)
    result = await run.result(LIMIT)
    assert {a: o["text"] for a, o in result.outputs.items()} == {"a": "A", "b": "B"}
    assert len(crews.ledger(run, "start")) == 1


@pytest.mark.timeout(400)
async def test_the_temporal_server_is_killed_in_the_middle_of_a_change(crews: Site) -> None:
    crew = gated(crews)
    crew["tools"]["gate"]["heartbeat"] = 30
    run = await at_gate(crews, cut(crew, "a", "b"))
    changed = await run.change(definition=crew, id="once", wait=False)
    await tool_ends_without_temporal(crews, run)
    assert await outputs(run) == {"a": "A", "b": "B", "c": "C"}
    assert len(crews.ledger(run, "start")) == 1
    assert (await run.change(definition=crew, id="once")).position == changed.position
    kinds = [e.kind for e in await crews.entries(run, "ChangeAccepted", "GraphSwapped")]
    assert kinds == ["ChangeAccepted", "GraphSwapped"]
