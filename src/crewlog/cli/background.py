"""Workers in the background, and whether anybody polls a task queue."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from temporalio.service import RPCError

from crewlog.cli.hands import Assignment, Hand, remember, start_worker
from crewlog.client import Client
from crewlog.dev.processes import Guard, ProcessRecord
from crewlog.dev.services import Services


@dataclass(frozen=True)
class Background:
    """A worker that outlives the command."""

    process: ProcessRecord
    log: Path
    start: int
    """Where its own words begin in the log."""

    def watched(self, guard: Guard) -> Hand:
        """The worker as one that ends with this command."""
        guard.watch(self.process)
        return Hand(self.process, self.log, self.start, guard)


async def background_worker(assignment: Assignment) -> Background:
    """Start a worker in the background and record it, so that `crewlog dev --stop` ends it."""
    remember(assignment)
    process, log, start = await start_worker(assignment.queue, assignment.directory)
    Services().register_worker(process.pid, task_queue=assignment.queue, log=log)
    return Background(process, log, start)


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
