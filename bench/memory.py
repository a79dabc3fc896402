"""Memory of a cached run: a fresh worker's resident memory before and after runs that wait.

Each has made one step and waits for people. The runs come in batches of fifty, and each batch is a
value of its own, so that what an allocator does in steps shows as spread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psutil
from temporalio.client import WorkflowHandle
from temporalio.common import SearchAttributeKey

from bench.cases import Bench
from bench.crews import waiting
from bench.pairs import Figure, figure
from bench.peers import bare
from bench.site import Peer

BATCH = 50
LIMIT = 60.0
STATUS = SearchAttributeKey.for_keyword("CrewlogStatus")

Handle = WorkflowHandle[Any, Any]
Begin = Callable[[Peer], Awaitable[Handle]]
Rests = Callable[[Handle], Awaitable[bool]]


async def run(bench: Bench, batch: int = BATCH) -> list[Figure]:
    """The engine's worker, then a bare one."""
    site = bench.site
    crew = await site.register(waiting())

    async def asks(handle: Handle) -> bool:
        # Not by a query: the worker would answer hundreds while it works.
        found = await handle.describe()
        return found.typed_search_attributes.get(STATUS) == "waiting"

    async def idle(handle: Handle) -> bool:
        found = await handle.describe()
        return not found.raw_description.pending_activities and found.history_length >= 9

    ours = await _batches(
        bench, "engine", lambda peer: site.start_crew(crew, peer=peer), asks, batch
    )
    order = bare.Order(steps=1, waits=True)
    theirs = await _batches(
        bench, "bare", lambda peer: site.start(peer, bare.TYPE, order), idle, batch
    )
    return [figure("rss_per_run_kb", ours), figure("bare_rss_per_run_kb", theirs)]


async def _batches(bench: Bench, name: str, begin: Begin, rests: Rests, batch: int) -> list[float]:
    peer = await bench.site.spawn(name, "bench.peers.worker", name)
    handles: list[Handle] = []

    async def one() -> None:
        handle = await begin(peer)
        handles.append(handle)
        async with asyncio.timeout(LIMIT):
            while not await rests(handle):  # noqa: ASYNC110 - another process is waited for
                await asyncio.sleep(0.2)

    try:
        process = psutil.Process(peer.process.pid)
        # What is imported and allocated once comes with the first runs.
        await asyncio.gather(*(one() for _ in range(10)))
        found: list[float] = []
        for number in range(1, bench.pairs + 1):
            before = process.memory_info().rss
            await asyncio.gather(*(one() for _ in range(batch)))
            found.append((process.memory_info().rss - before) / 1024 / batch)
            bench.told(f"memory {name}", "KiB")(number, {"a run": found[-1]})
        return found
    finally:
        await asyncio.gather(*(handle.terminate("measured") for handle in handles))
        await peer.end()
