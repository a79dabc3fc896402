"""Splits and merges: from the command until the part answers, or the other run is taken in.

Beside them, a bare workflow that an update tells to start a child and to continue as new. All are
timed by the client's clock, and by the same queries: asked again after a moment until the answer is
there. Nobody is at work in a run meanwhile.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from functools import partial
from operator import eq
from statistics import fmean
from typing import Any

from temporalio.client import WorkflowHandle, WorkflowQueryFailedError, WorkflowUpdateFailedError
from temporalio.service import RPCError

from bench.cases import Bench
from bench.crews import Crew, agent
from bench.history import is_idle
from bench.pairs import Figure, figure, ratio, rounds
from bench.peers import bare
from bench.site import Site
from crewlog.client import Run
from crewlog.definition.operations import Connect, Disconnect
from crewlog.ids import AgentName, LogName, RunId
from crewlog.state.components import split_run_id
from crewlog.wire import InitialMessage, InitialState

AGAIN = 4
"""Splits, or merges, of a round."""
PAUSE = 0.005
"""Seconds between two queries."""
LIMIT = 60.0
MESSAGES = 1_000
LARGE = 10_000
"""Bytes of a message: a thousand of them make a transcript of 10 MB. One of 1 KB has one."""
_NUMBERS = itertools.count(1)

Timed = Callable[[], Awaitable[float]]


async def run(bench: Bench, again: int = AGAIN, messages: int = MESSAGES) -> list[Figure]:
    """Beside the bare workflow; and with transcripts of two sizes."""
    site = bench.site
    systems = {
        "split": partial(mean, again, partial(split, site)),
        "merge": partial(mean, again, partial(merge, site)),
        "bare": partial(floor, site, "bare", again),
        "tuned": partial(floor, site, "tuned", again),
    }
    found = await rounds(systems, bench.pairs, told=bench.told("graphs"))
    large, small = texts(messages, LARGE), texts(1, 1_000)
    sizes = {
        f"{what} {size}": partial(mean, again, partial(measure, site, given))
        for what, measure in (("split", split), ("merge", merge))
        for size, given in (("10 MB", large), ("1 KB", small))
    }
    both = await rounds(sizes, bench.pairs, told=bench.told("graphs"))
    return [
        figure("split_ms", found["split"]),
        figure("merge_ms", found["merge"]),
        figure("bare_part_ms", found["bare"]),
        *(
            ratio(f"{what}_vs_bare{more}", found[what], found[floor])
            for what in ("split", "merge")
            for more, floor in (("", "bare"), ("_same_process", "tuned"))
        ),
        *(
            ratio(f"{what}_10mb_vs_1kb", both[f"{what} 10 MB"], both[f"{what} 1 KB"])
            for what in ("split", "merge")
        ),
    ]


def texts(count: int, size: int) -> InitialState:
    """Messages that a channel has when a run begins."""
    return InitialState(
        messages=tuple(
            InitialMessage(
                body={"type": "human", "content": f"{number} ".ljust(size, "x")},
                log=LogName("channel:talk"),
            )
            for number in range(count)
        )
    )


def bridged() -> Crew:
    """Two creatures that a channel ties; the second one hears another channel, too."""
    return {
        "crew": "graph-of-two-halves",
        "agents": {"ann": agent(send=["bridge"]), "bob": agent(listen=["bridge", "talk"])},
        "graph": {},
    }


def hosts() -> Crew:
    """Three creatures that hear one channel."""
    names = ("ann", "bob", "cid")
    return {
        "crew": "graph-of-three",
        "agents": {name: agent(listen=["work"]) for name in names},
        "graph": {},
    }


def guests() -> Crew:
    """Two creatures that hear one channel: fewer, so that these join."""
    return {
        "crew": "graph-of-two",
        "agents": {name: agent(listen=["talk"]) for name in ("dan", "eve")},
        "graph": {},
    }


async def mean(times: int, once: Timed) -> float:
    """The mean of several, one after the other."""
    return fmean([await once() for _ in range(times)])


async def begun(site: Site, crew: Crew, given: InitialState | None = None) -> Run:
    """A run at rest: all of it is stored, and no worker has anything to do for it."""
    peer = await site.peer("engine")
    client = site.client(peer.queue)
    run = await client.start(await site.register(crew), "", by="bench", initial_state=given)
    view = await run.wait_until(lambda view: view.is_idle, LIMIT)
    async with asyncio.timeout(LIMIT):
        while not await _settled(site, run, view.position):  # noqa: ASYNC110 - another process
            await asyncio.sleep(PAUSE)
    return run


async def _settled(site: Site, run: Run, position: int) -> bool:
    id = RunId(run.id)
    if not await site.store.read_journal(id, position - 1):
        return False
    return await is_idle(site, id)


async def split(site: Site, given: InitialState | None = None) -> float:
    """How long a split takes, in milliseconds; the part has what was said."""
    run = await begun(site, bridged(), given)
    part = split_run_id(RunId(run.id), "cut", AgentName("bob"))
    began = time.perf_counter()
    await run.change(
        operations=[Disconnect(sender=AgentName("ann"), listener=AgentName("bob"))],
        id="cut",
        by="bench",
        wait=False,
    )
    await answers(site, part, "status")
    took = time.perf_counter() - began
    for each in (run.id, part):
        await site.temporal.get_workflow_handle(each).terminate("measured")
    return took * 1000


async def merge(site: Site, given: InitialState | None = None) -> float:
    """How long a merge takes, in milliseconds; the run that joins has what was said."""
    stays, joins = await begun(site, hosts()), await begun(site, guests(), given)
    tie = Connect(
        sender=AgentName("bob"),
        listener=AgentName("eve"),
        channel="tie",
        other=RunId(joins.id),
    )
    before = (await stays.status()).graph_version
    began = time.perf_counter()
    changed = await stays.change(operations=[tie], id="tie", by="bench", wait=False)
    await answers(site, stays.id, "status", lambda view: view["graph_version"] > before)
    took = time.perf_counter() - began
    assert await stays.merged(changed) == stays.id
    await joins.result(LIMIT)
    await stays.terminate("measured")
    return took * 1000


async def floor(site: Site, peer: str, times: int) -> float:
    """The mean time of a bare workflow's child start and continue-as-new, in milliseconds."""
    handle = await site.start(
        await site.peer(peer), bare.TYPE, bare.Order(steps=2, continues=times)
    )
    current = site.temporal.get_workflow_handle(handle.id)
    took: list[float] = []
    children: list[str] = []
    await answers(site, handle.id, "left", lambda left: left == times)
    for left in reversed(range(times)):
        children.append(f"{handle.id}-part-{left}")
        began = time.perf_counter()
        await _update(current, children[-1])
        await answers(site, children[-1], "left")
        await answers(site, handle.id, "left", partial(eq, left))
        took.append(time.perf_counter() - began)
    for each in (handle.id, *children):
        await site.temporal.get_workflow_handle(each).signal("over")
    await current.result()
    return fmean(took) * 1000


async def _update(handle: WorkflowHandle[Any, Any], child: str) -> None:
    deadline = time.monotonic() + LIMIT
    while True:
        try:
            await handle.execute_update("part", child)
        except (RPCError, WorkflowUpdateFailedError):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(PAUSE)
        else:
            return


async def answers(
    site: Site, id: str, query: str, holds: Callable[[Any], bool] = lambda _: True
) -> None:
    """Asks a workflow until it answers, and what it answers holds.

    Raises:
        TimeoutError: it did not in time.
    """
    handle = site.temporal.get_workflow_handle(id)
    async with asyncio.timeout(LIMIT):
        while True:
            try:
                if holds(await handle.query(query)):
                    return
            except (RPCError, WorkflowQueryFailedError):
                pass  # it has not begun
            await asyncio.sleep(PAUSE)
