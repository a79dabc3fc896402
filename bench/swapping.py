"""A swap: from the task that accepts a change to the first task of the new execution.

Beside it, a bare workflow that an update tells to continue as new. Both wait for people at that
time, so that nothing but the swap is measured; both are driven by updates of a client. A change
is prepared while the run goes on: that time is not in it, and is told by itself.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from statistics import fmean
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle, WorkflowUpdateFailedError
from temporalio.service import RPCError

from bench.cases import Bench
from bench.crews import Crew, agent
from bench.history import executions_of, ms_between
from bench.pairs import Figure, figure, ratio, rounds
from bench.peers import bare
from bench.site import Site
from crewlog.client import Run
from crewlog.state.carry import read_carry

SWAPS = 6
"""Swaps of a run in a round."""
AGENTS = 20
COMMANDS = 1_000
"""Commands that the run has had whose carry is measured."""
AT_ONCE = 20
LARGE, SMALL = 1_000_000, 100
"""Bytes of a message: ten of them make a transcript of 10 MB, and one of 1 KB."""
SPEAKERS = 10

_ANSWERED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_COMPLETED
_TASK_DONE = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED


async def run(bench: Bench, swaps: int = SWAPS) -> list[Figure]:
    """Beside the bare workflow; with transcripts of two sizes; and what is carried."""
    site = bench.site
    systems = {
        "engine": partial(engine, site, crew_of(2), swaps),
        "bare": partial(floor, site, "bare", swaps),
        "tuned": partial(floor, site, "tuned", swaps),
    }
    found = await rounds(systems, bench.pairs, told=bench.told("swap"))
    large, small = await talked(site, LARGE), await talked(site, SMALL)
    sizes = {
        "10 MB": partial(again, site, large, swaps),
        "1 KB": partial(again, site, small, swaps),
    }
    both = await rounds(sizes, bench.pairs, told=bench.told("swap"))
    carried = await carry_bytes(site)
    for ended in (large, small):
        await ended.terminate("measured")
    return [
        figure("swap_ms", found["engine"]),
        figure("can_ms", found["bare"]),
        ratio("swap_vs_can", found["engine"], found["bare"]),
        ratio("swap_vs_can_same_process", found["engine"], found["tuned"]),
        ratio("swap_10mb_vs_1kb", both["10 MB"], both["1 KB"]),
        figure("carry_bytes_20_agents", [carried]),
    ]


def crew_of(count: int, size: int = 0) -> Crew:
    """Agents one after the other, then a question that nobody answers."""
    names = [f"agent{number}" for number in range(count)]
    model = f"bench:large-{size}" if size else "bench:say"
    return {
        "crew": f"asking-{count}-{size}",
        "agents": {name: agent(model) for name in names},
        "flow": [*names, {"ask": "Go on?"}],
    }


def longer(crew: Crew) -> Crew:
    """The crew with one more agent, whose phase is not reached."""
    return {
        **crew,
        "agents": {**crew["agents"], "extra": agent()},
        "flow": [*crew["flow"], "extra"],
    }


def shorter(crew: Crew) -> Crew:
    """The crew without that agent."""
    agents = {name: rules for name, rules in crew["agents"].items() if name != "extra"}
    return {**crew, "agents": agents, "flow": [p for p in crew["flow"] if p != "extra"]}


async def engine(site: Site, crew: Crew, swaps: int) -> float:
    """The mean time of a swap of a new run, in milliseconds."""
    run = await begun(site, crew)
    try:
        return await again(site, run, swaps, crew)
    finally:
        await run.terminate("measured")


async def begun(site: Site, crew: Crew) -> Run:
    """A run that waits for people."""
    peer = await site.peer("engine")
    run = await site.client(peer.queue).start(crew, "go", by="bench")
    await run.wait_until(lambda view: bool(view.interrupts))
    return run


async def talked(site: Site, size: int) -> Run:
    """A run that waits for people, after ten messages of that size."""
    return await begun(site, crew_of(SPEAKERS, size))


async def again(site: Site, run: Run, swaps: int, crew: Crew | None = None) -> float:
    """The mean time of further swaps of a run, in milliseconds."""
    base = crew or (await definition_of(site, run))
    version = (await run.status()).graph_version
    short = shorter(base)
    for number in range(swaps):
        wanted = longer(short) if (version + number) % 2 else short
        changed = await run.change(definition=wanted, by="bench")
        assert changed.swap
    handle = site.temporal.get_workflow_handle(run.id)
    return fmean(seams(await executions_of(site, handle))[-swaps:])


async def definition_of(site: Site, run: Run) -> Crew:
    """The definition that a run has."""
    return await site.store.get_definition((await run.state()).definition)


async def floor(site: Site, peer: str, swaps: int) -> float:
    """The mean time of a bare workflow's continue-as-new, in milliseconds."""
    handle = await site.start(
        await site.peer(peer), bare.TYPE, bare.Order(steps=2, continues=swaps)
    )
    while await told(handle):  # one execution may take two of them
        pass
    await handle.signal("over")
    await handle.result()
    current = site.temporal.get_workflow_handle(handle.id)
    return fmean(seams(await executions_of(site, current)))


async def told(handle: WorkflowHandle[Any, Any]) -> int:
    """Tells a bare workflow to continue as new; how often it had to."""
    current = handle._client.get_workflow_handle(handle.id)  # noqa: SLF001 - of no execution
    deadline = time.monotonic() + 30
    while True:
        try:
            left: int = await current.execute_update("again")
        except (RPCError, WorkflowUpdateFailedError):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.005)
        else:
            return left


def seams(executions: Sequence[Sequence[HistoryEvent]]) -> list[float]:
    """For each execution but the last: from its last answer to the next one's first task."""
    return [
        ms_between(_last(before, _ANSWERED), _first(after, _TASK_DONE))
        for before, after in pairwise(executions)
    ]


async def _command(run: Run, number: int) -> None:
    if number % 2:
        await run.message("Hello", id=f"command-{number:032}")
    else:
        await run.interrupt("nowhere" * 100, id=f"command-{number:032}")


def _last(events: Sequence[HistoryEvent], kind: Any) -> HistoryEvent:
    return [event for event in events if event.event_type == kind][-1]


def _first(events: Sequence[HistoryEvent], kind: Any) -> HistoryEvent:
    return next(event for event in events if event.event_type == kind)


async def carry_bytes(site: Site) -> float:
    """What a run of twenty agents carries over a swap; bytes of JSON.

    After a message of each, and after people's commands, of which every other one is refused.
    """
    run = await begun(site, crew_of(AGENTS - 1, LARGE // 100))
    try:
        for first in range(0, COMMANDS, AT_ONCE):
            await asyncio.gather(*(_command(run, n) for n in range(first, first + AT_ONCE)))
        await again(site, run, 1)
        executions = await executions_of(site, site.temporal.get_workflow_handle(run.id))
        started = executions[-1][0].workflow_execution_started_event_attributes
        [value] = await site.temporal.data_converter.decode(started.input.payloads)
        assert read_carry(value["carry"]).state["graph_version"] == 2
        return float(len(json.dumps(value, separators=(",", ":")).encode()))
    finally:
        await run.terminate("measured")
