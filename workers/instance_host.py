"""The requests of a workflow instance to its worker.

An instance runs in its own thread. A workflow task that makes no progress for two seconds counts as
a deadlock, so the event loop of the worker does the work. One request waits for its answer, at most
`ANSWER_LIMIT` seconds: `is_task_completed`, after a query. The answer decides whether the instance
is kept, and the SDK may give it the next task at once.
"""

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

from crewlog.payload_storage.external_storage import request_payload

ANSWER_LIMIT = 1.0
"""Seconds to wait for the server."""


class Host(Protocol):
    """The worker of an instance."""

    def evict(self, execution: str) -> None:
        """Evicts an execution once it has answered the query.

        Args:
            execution: Temporal's id of the execution.
        """

    def request_payload(self, file: str) -> None:
        """Requests the missing payload of a command, without waiting; see `external_storage`.

        Args:
            file: The file of the payload.
        """

    def is_task_completed(self, workflow: str, execution: str, began: int) -> bool:
        """Whether the server has completed the workflow task that began at a time.

        Args:
            workflow: The workflow's id.
            execution: Temporal's id of the execution.
            began: When the task began, in nanoseconds since the epoch.
        """
        ...


class NoHost:
    """A host without a worker, for replays, in which all tasks are completed."""

    def evict(self, execution: str) -> None:
        """Evicts nothing."""

    def request_payload(self, file: str) -> None:
        """Requests nothing."""

    def is_task_completed(self, workflow: str, execution: str, began: int) -> bool:
        """True."""
        del workflow, execution, began
        return True


class WorkerHost:
    """A running worker. Its methods are called in the threads of workflow tasks.

    The SDK has no public call for evictions, only its bridge.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self, worker: Worker) -> None:
        """Uses this worker, and the event loop that runs now."""
        self._worker, self._loop = worker, asyncio.get_running_loop()

    def evict(self, execution: str) -> None:
        """Evicts an execution."""
        if self._worker is not None:
            bridge = self._worker._bridge_worker  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            bridge.request_workflow_eviction(execution)

    def request_payload(self, file: str) -> None:
        """Requests the missing payload of a command, in a thread of the worker's event loop."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(lambda: loop.run_in_executor(None, request_payload, file))

    def is_task_completed(self, workflow: str, execution: str, began: int) -> bool:
        """Whether a task is completed; False if the server does not answer in time."""
        if self._worker is None or self._loop is None or self._loop.is_closed():
            return False
        request = asyncio.run_coroutine_threadsafe(
            _describe(self._worker, workflow, execution), self._loop
        )
        try:
            return has_no_pending_task(request.result(ANSWER_LIMIT), began)
        except (RPCError, TimeoutError):
            request.cancel()
            return False


async def _describe(
    worker: Worker, workflow: str, execution: str
) -> DescribeWorkflowExecutionResponse:
    client = worker.client
    return await client.workflow_service.describe_workflow_execution(
        DescribeWorkflowExecutionRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=workflow, run_id=execution),
        )
    )


def has_no_pending_task(description: DescribeWorkflowExecutionResponse, began: int) -> bool:
    """Whether the task that began at a time is completed, in nanoseconds since the epoch.

    While the task is in flight, it is the pending task. If its worker is lost, its next attempt is
    pending. Otherwise no task is pending, or a later one.
    """
    if not description.HasField("pending_workflow_task"):
        return True
    pending = description.pending_workflow_task
    return pending.attempt <= 1 and pending.scheduled_time.ToNanoseconds() > began
