"""Forking a run of 1,000 messages, and loading its checkpoints.

A fork's time is that from its start to the call of its first step; a run's that of the same crew
from the beginning. What a fork stores is what the rows of all tables take more than before.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

import asyncpg

from bench.cases import Bench
from bench.crews import Crew, ring
from bench.history import IS_STEP, events_of, ms_between, scheduled
from bench.pairs import Figure, figure, rounds
from bench.site import Site
from crewlog.client import Run
from crewlog.store import PostgresStore
from crewlog.store.journal_reader import load_state
from crewlog.workers.worker import tune_garbage_collector

MESSAGES = 1000
LOADS = 100
"""Checkpoints that are loaded in a round."""
LIMIT = 120.0


async def run(bench: Bench, messages: int = MESSAGES) -> list[Figure]:
    """A fork and a start by turns; what forks store; and loading checkpoints."""
    site = bench.site
    crew = asking_ring(messages)
    source = await begun(site, crew)
    places = [c.position for c in await checkpoints(source)]
    systems = {
        "fork": partial(forked_ms, site, source, places[-6]),
        "start": partial(started_ms, site, crew),
    }
    found = await rounds(systems, bench.pairs, told=bench.told("fork"))
    stored = [await stored_bytes(site, source, places[-1]) for _ in range(bench.pairs)]
    slowest = [await slowest_load(site, source, places, n) for n in range(bench.pairs)]
    await source.terminate("measured")
    over = [a - b for a, b in zip(found["fork"], found["start"], strict=True)]
    return [
        figure("fork_ms_over_start", over),
        figure("fork_stored_bytes", stored),
        figure("checkpoint_load_ms", slowest),
    ]


def asking_ring(messages: int) -> Crew:
    """A ring that says so many messages, then asks."""
    crew = ring(messages)
    return {**crew, "flow": [*crew["flow"], {"ask": "Go on?"}]}


async def begun(site: Site, crew: Crew) -> Run:
    """A run that has said all and waits for people."""
    peer = await site.peer("engine")
    run = await site.client(peer.queue).start(crew, "go", by="bench")
    await run.wait_until(lambda view: bool(view.interrupts), timeout=LIMIT)
    return run


async def checkpoints(run: Run) -> list[Any]:
    """All of a run's checkpoints."""
    found: list[Any] = []
    while True:
        page = await run.checkpoints(found[-1].position if found else 0, 1000)
        if not page.checkpoints:
            return found
        found += page.checkpoints


async def forked_ms(site: Site, source: Run, position: int) -> float:
    """From a fork's start to its first call."""
    return await _until_first_call(site, await source.fork(position, by="bench"))


async def started_ms(site: Site, crew: Crew) -> float:
    """From a run's start to its first call."""
    peer = await site.peer("engine")
    return await _until_first_call(
        site, await site.client(peer.queue).start(crew, "go", by="bench")
    )


async def _until_first_call(site: Site, run: Run) -> float:
    await run.wait_until(lambda view: view.position > 0 and bool(view.frontier))
    handle = site.temporal.get_workflow_handle(run.id)
    deadline = time.monotonic() + LIMIT
    while True:
        events = await events_of(site, handle)
        calls = scheduled(events, IS_STEP["engine"])
        if calls:
            await run.terminate("measured")
            return ms_between(events[0], events[calls[0]])
        assert time.monotonic() < deadline, f"{run.id} made no call"


async def stored_bytes(site: Site, source: Run, position: int) -> float:
    """What the rows of a fork take that only waits."""
    before = await _row_bytes(site)
    fork = await source.fork(position, by="bench")
    await fork.wait_until(lambda view: bool(view.interrupts))
    await fork.stop("measured", by="bench")
    await fork.result(LIMIT)
    return float(await _row_bytes(site) - before)


async def _row_bytes(site: Site) -> int:
    assert isinstance(site.store, PostgresStore)
    connection = await asyncpg.connect(site.environ["DATABASE_URL"])
    try:
        tables: Sequence[Any] = await connection.fetch(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'crewlog' ORDER BY tablename"
        )
        return sum(
            [
                await connection.fetchval(
                    f'SELECT coalesce(sum(pg_column_size(t.*)), 0) FROM crewlog."{name}" AS t'  # noqa: S608
                )
                for (name,) in tables
            ]
        )
    finally:
        await connection.close()


async def slowest_load(site: Site, source: Run, places: Sequence[int], seed: int) -> float:
    """The slowest load of some checkpoints, taken at random, in milliseconds.

    The garbage collector has a worker's settings: with the defaults, its passes are measured.
    """
    slowest, thresholds = 0.0, gc.get_threshold()
    tune_garbage_collector()
    try:
        for position in Random(seed).sample(list(places), min(LOADS, len(places))):  # noqa: S311
            began = time.perf_counter()
            await load_state(site.store, source.id, position)
            slowest = max(slowest, (time.perf_counter() - began) * 1000)
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
    return slowest
