"""What an instance of a workflow asks of the worker that it is in."""

from __future__ import annotations

import asyncio
from typing import Protocol

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import (
    DescribeWorkflowExecutionRequest,
    DescribeWorkflowExecutionResponse,
)
from temporalio.service import RPCError
from temporalio.worker import Worker

ANSWER_LIMIT = 1.0
"""Seconds for which it is waited for the server; an instance that does nothing for two is taken
for a deadlock."""


class Host(Protocol):
    """The worker of an instance."""

    def evict(self, execution: str) -> None:
        """Has an execution forgotten, by Temporal's id of it, once what it is asked is answered."""

    def has_done(self, workflow: str, execution: str, began: int) -> bool:
        """Whether the workflow task that began at a time is completed, as the server says.

        Args:
            workflow: The workflow's id.
            execution: Temporal's id of the execution.
            began: When the task began, in nanoseconds since the epoch.
        """


class Nobody:
    """Where there is no worker, as in a replay: there all tasks are done."""

    def evict(self, execution: str) -> None:
        """Forgets none."""

    def has_done(self, workflow: str, execution: str, began: int) -> bool:
        """They all are."""
        del workflow, execution, began
        return True


class WorkerHost:
    """A worker, once it runs; it is asked in the threads that workflow tasks are done in.

    Of evictions the SDK has its bridge only, which it shows nowhere else.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def serve(self, worker: Worker) -> None:
        """Asks this worker from now on, in the loop that runs."""
        self._worker, self._loop = worker, asyncio.get_running_loop()

    def evict(self, execution: str) -> None:
        """Has an execution forgotten."""
        if self._worker is not None:
            self._worker._bridge_worker.request_workflow_eviction(execution)  # noqa: SLF001

    def has_done(self, workflow: str, execution: str, began: int) -> bool:
        """Whether a task is completed; where that cannot be found out, it is not."""
        if self._worker is None or self._loop is None or self._loop.is_closed():
            return False
        asked = asyncio.run_coroutine_threadsafe(
            _described(self._worker, workflow, execution), self._loop
        )
        try:
            return has_no_pending_task(asked.result(ANSWER_LIMIT), began)
        except (RPCError, TimeoutError):
            asked.cancel()
            return False


async def _described(
    worker: Worker, workflow: str, execution: str
) -> DescribeWorkflowExecutionResponse:
    client = worker.client
    return await client.workflow_service.describe_workflow_execution(
        DescribeWorkflowExecutionRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=workflow, run_id=execution),
        )
    )


def has_no_pending_task(described: DescribeWorkflowExecutionResponse, began: int) -> bool:
    """Whether the task that began at a time is completed, in nanoseconds since the epoch.

    While it is under way it is the pending one. Where its worker died, the pending one is its next
    attempt. Else there is none, or one that was scheduled later.
    """
    if not described.HasField("pending_workflow_task"):
        return True
    pending = described.pending_workflow_task
    return pending.attempt <= 1 and pending.scheduled_time.ToNanoseconds() > began
