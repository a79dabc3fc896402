"""Rest: what 500 creatures cost to whom nobody speaks, in 100 graphs, on a worker of their own.

Its resident memory is read once all of them rest. Then they are left alone for some time: what
their histories get meanwhile, and which connections of the store are used, is polling.
"""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import asyncpg
import psutil
from temporalio.client import WorkflowHandle

from bench.cases import Bench
from bench.crews import Crew, agent
from bench.memory import LIMIT, STATUS
from bench.pairs import Figure, figure
from bench.site import Site

GRAPHS, MEMBERS = 100, 5
AT_ONCE = 20
SECONDS = 20.0
SETTLES = 3.0
"""Seconds in which what the last of them has begun comes to its end."""
ROUNDS = 3
"""Most rounds: each takes a worker of its own, and little differs."""

Handle = WorkflowHandle[Any, Any]


async def run(bench: Bench, graphs: int = GRAPHS, seconds: float = SECONDS) -> list[Figure]:
    """On a fresh worker in each round."""
    found = [await _round(bench.site, graphs, seconds) for _ in range(min(bench.pairs, ROUNDS))]
    names = ("mb", "events", "queries", "cpu_ms")
    for number, each in enumerate(found, 1):
        bench.told("idle", "")(number, dict(zip(names, each, strict=True)))
    return [
        figure(f"idle_500_creatures_{name}", [each[place] for each in found])
        for place, name in enumerate(names)
    ]


def living(members: int = MEMBERS) -> Crew:
    """Creatures that hear one channel."""
    names = [f"agent{number}" for number in range(members)]
    return {
        "crew": f"resting-{members}",
        "agents": {name: agent(listen=["talk"], send=["talk"]) for name in names},
        "graph": {"root": names[0]},
    }


async def _round(site: Site, graphs: int, seconds: float) -> tuple[float, float, float, float]:
    crew = await site.register(living())
    peer = await site.spawn("engine", "bench.peers.worker", "engine")
    handles: list[Handle] = []
    room = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with room:
            handle = await site.start_crew(crew, peer=peer)
            handles.append(handle)
            async with asyncio.timeout(LIMIT):
                while not await _rests(handle):  # noqa: ASYNC110 - another process is waited for
                    await asyncio.sleep(0.2)

    try:
        await asyncio.gather(*(one() for _ in range(graphs)))
        await asyncio.sleep(SETTLES)
        megabytes = psutil.Process(peer.process.pid).memory_info().rss / 1e6
        events, used, cpu = await _events(handles), await used_at(site), peer.used_ms()
        await asyncio.sleep(seconds)
        after = await used_at(site)
        queries = newly_used(used, after)
        spent = peer.used_ms(cpu) or 0.0
        return megabytes, float(await _events(handles) - events), float(queries), spent
    finally:
        await asyncio.gather(*(handle.terminate("measured") for handle in handles))
        await peer.end()


async def _rests(handle: Handle) -> bool:
    # Not by a query: the worker would answer hundreds while it works.
    found = await handle.describe()
    waits = found.typed_search_attributes.get(STATUS) == "waiting"
    return waits and not found.raw_description.pending_activities


async def _events(handles: list[Handle]) -> int:
    return sum([(await handle.describe()).history_length for handle in handles])


async def used_at(site: Site) -> dict[int, datetime]:
    """When each connection to the store asked last, by its process; but for the one that looks."""
    connection = await asyncpg.connect(site.environ["DATABASE_URL"])
    try:
        rows = await connection.fetch(
            "SELECT pid, query_start FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND pid <> pg_backend_pid() "
            "AND query_start IS NOT NULL"
        )
    finally:
        await connection.close()
    return {row["pid"]: row["query_start"] for row in rows}


def newly_used(before: dict[int, datetime], after: dict[int, datetime]) -> int:
    """How many connections asked between two looks."""
    return sum(before.get(each) != at for each, at in after.items())
