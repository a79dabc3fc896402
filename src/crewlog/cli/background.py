"""Workers in the background, and whether anybody polls a task queue."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.service import RPCError

from crewlog.cli.hands import Assignment, Hand, remember, start_worker
from crewlog.client import Client
from crewlog.dev.processes import Guard, ProcessRecord
from crewlog.dev.services import Services

FRESH = 70
"""Seconds: a worker asks at least once a minute."""


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
    request = DescribeTaskQueueRequest(
        namespace=client.endpoints.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    )
    try:
        found = await client.temporal.workflow_service.describe_task_queue(
            request, timeout=timedelta(seconds=5)
        )
    except RPCError:
        return True
    since = time.time() - FRESH
    return any(
        poller.last_access_time.ToSeconds() > since
        and (pid is None or poller.identity.startswith(f"{pid}@"))
        for poller in found.pollers
    )
