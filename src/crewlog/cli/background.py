"""Workers in the background, and whether anybody polls a task queue."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from temporalio.service import RPCError

from crewlog.cli.hands import Assignment, Hand, assigned, remember, start_worker
from crewlog.cli.screen import Screen, plain
from crewlog.client import Client, RunSummary
from crewlog.client.session import no_worker
from crewlog.dev.processes import ProcessRecord, Watchdog
from crewlog.dev.services import Services
from crewlog.run_status import OPEN


@dataclass(frozen=True)
class Background:
    """A worker that outlives the command."""

    process: ProcessRecord
    log: Path
    start: int
    """Where its own words begin in the log."""

    def watched(self, watchdog: Watchdog) -> Hand:
        """The worker as one that ends with this command."""
        watchdog.watch(self.process)
        return Hand(self.process, self.log, self.start, watchdog)


async def background_worker(assignment: Assignment) -> Background:
    """Start a worker in the background and record it, so that `crewlog dev --stop` ends it."""
    remember(assignment)
    process, log, start = await start_worker(assignment.queue, assignment.directory)
    Services().register_worker(process.pid, task_queue=assignment.queue, log=log)
    return Background(process, log, start)


def mention(screen: Screen, worker: Background) -> None:
    """Tells of a worker that is left in the background."""
    screen.line(
        ("▸ ", "green"),
        f"worker (pid {worker.process.pid})",
        (" …… ", "dim"),
        "in the background",
        ("     crewlog dev --stop ends it", "dim"),
    )


async def leave_to_workers(screen: Screen, client: Client, queue: str) -> bool:
    """See to it that somebody works on a run that is left on a queue, and say so if nobody does.

    A queue that belongs to a directory of this machine gets a worker in the background; of any
    other it is only told that no worker polls it.

    Returns:
        Whether somebody polls it.

    Raises:
        WorkerMissing: the worker that was started ended by itself.
    """
    assignment = assigned(queue)
    if assignment.own:
        worker = await background_worker(assignment)
        mention(screen, worker)
        await _at_work(client, worker, queue)
        return True
    if assignment.worker is not None or await polled(client, queue):
        return True
    screen.note(("▸ ", "yellow"), no_worker(plain(queue)))
    return False


async def _at_work(client: Client, worker: Background, queue: str) -> None:
    """Wait until a worker polls its queue, or has taken longer than workers take."""
    own = Hand(worker.process, worker.log, worker.start, Watchdog())
    deadline = time.monotonic() + COME_UP
    while not await polled(client, queue, worker.process.pid) and time.monotonic() < deadline:
        own.check()
        await asyncio.sleep(0.2)


async def unpolled(client: Client, runs: Sequence[RunSummary]) -> set[str]:
    """The task queues of runs under way that no worker polls."""
    queues = sorted({each.task_queue for each in runs if each.ended is None and each.task_queue})
    answers = await asyncio.gather(*(polled(client, queue) for queue in queues))
    return {queue for queue, answer in zip(queues, answers, strict=True) if not answer}


async def tell_others(screen: Screen, client: Client, queue: str) -> None:
    """Tells of runs that wait for a worker of another task queue than the one that has it now.

    Those of this machine's directories alone: others are other people's business.
    """
    runs = await client.list(statuses=LIVE, limit=_MOST)
    others = [r for r in runs if r.task_queue != queue and assigned(r.task_queue).own]
    alone = await unpolled(client, others)
    for each in [r for r in others if r.task_queue in alone][:_NAMED]:
        screen.note(
            ("▸ ", "yellow"),
            f"{plain(each.run)} waits for a worker of its own task queue "
            f"'{plain(each.task_queue)}': crewlog watch {plain(each.run)} brings it one",
        )


LIVE = tuple(sorted(OPEN))
"""The statuses of runs that are under way."""
_MOST = 200
"""Runs that are looked through."""
_NAMED = 3
"""Runs that are told of."""
COME_UP = 40.0
"""Seconds for a worker to come up."""


async def polled(client: Client, queue: str, pid: int | None = None) -> bool:
    """Whether a worker asked for this queue's work lately; yes where the server does not say.

    Args:
        client: Whose server is asked.
        queue: The task queue.
        pid: Only a worker with this process id; the SDK names itself `pid@host`.
    """
    try:
        return await client.gateway.polled(queue, pid)
    except RPCError:
        return True
