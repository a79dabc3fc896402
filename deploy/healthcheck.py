"""Whether this container's worker polls its task queue: exit code 0, or 1 and why not.

A process that is alive may still be cut off from the server. So the server is asked who polls the
queue, and a poller of this host must be among them; by default its identity is `PID@HOSTNAME`.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.client import Client
from temporalio.envconfig import ClientConfigProfile

LIMIT = timedelta(seconds=10)
"""For the whole question."""
RECENT = timedelta(seconds=150)
"""A poll lasts up to a minute; one that began longer ago than this is a dead worker's."""


async def check() -> str:
    """Who polls, as a sentence.

    Raises:
        LookupError: where no worker of this host does.
    """
    queue = os.environ.get("CREWLOG_TASK_QUEUE", "crewlog")
    config = ClientConfigProfile.load().to_client_connect_config()
    config.setdefault("target_host", "localhost:7233")
    client = await Client.connect(**config)
    answer = await client.workflow_service.describe_task_queue(
        DescribeTaskQueueRequest(
            namespace=client.namespace,
            task_queue=TaskQueue(name=queue),
            task_queue_type=TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
        )
    )
    host = f"@{socket.gethostname()}"
    now = datetime.now(UTC)
    for poller in answer.pollers:
        seen = poller.last_access_time.ToDatetime(tzinfo=UTC)
        if poller.identity.endswith(host) and now - seen < RECENT:
            return f"{poller.identity} polls {queue!r}"
    raise LookupError(f"no worker of {socket.gethostname()!r} polls {queue!r}")


def main() -> int:
    """Asks once, within the limit."""
    try:
        said = asyncio.run(asyncio.wait_for(check(), LIMIT.total_seconds()))
    except Exception as error:  # noqa: BLE001 - whatever it is, the worker cannot be reached
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    sys.stdout.write(f"{said}\n")
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # without waiting for the connection's threads
