"""`python -m crewlog.cli.worker_process`: the worker process that a command starts.

Where no Temporal server is configured, it uses the local one, and starts it again where it ends.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog
from temporalio.client import Client

from crewlog.client import connect
from crewlog.store.protocol import Store
from crewlog.workers.process import run_process
from crewlog.workers.settings import WorkerSettings


@asynccontextmanager
async def connect_locally(settings: WorkerSettings) -> AsyncGenerator[tuple[Client, Store]]:
    """Connects as the command line does: to the configured servers, or to the local ones.

    Raises:
        TemporalUnavailable: No Temporal server answers.
        StoreUnavailable: No database answers.
        UsageError: The Temporal configuration cannot be read.
    """
    async with await connect(task_queue=settings.task_queue) as client:
        client.report = structlog.get_logger("crewlog.worker").warning
        yield client.temporal, await client.store()


if __name__ == "__main__":
    run_process(connect_locally)
