"""The Temporal server, as the activities of a worker ask it."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

from temporalio.client import (
    Client,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError
from typing_extensions import override

from crewlog.activities.server import ExecutionStart, Server
from crewlog.encryption import purposes
from crewlog.encryption.codec import encrypt_for
from crewlog.errors import StoreUnavailable
from crewlog.ids import RunId
from crewlog.state.calls import AskOtherRun, AskOtherRunResult, MergeNotification
from crewlog.temporal_service.errors import is_execution_not_found
from crewlog.wire import BUSY, CLOSING, NOTIFY_MERGE, REQUEST_MERGE, WORKFLOW_TYPE

_TIMEOUT = timedelta(seconds=10)
_NOTIFICATION_TIMEOUT = timedelta(seconds=2)
"""Short, since the workflow sends a notification again that may not have arrived."""
_CLOSING_PAUSE = 0.2
"""Seconds until another update is sent to a run that continues as new."""


class TemporalServer(Server):
    """The server that a client is connected to.

    Args:
        client: The client.
        has_search_attributes: Whether the server knows Crewlog's search attributes.
    """

    def __init__(self, client: Client, *, has_search_attributes: bool = False) -> None:
        self._client = client
        self._has_search_attributes = has_search_attributes

    @override
    async def has_search_attributes(self) -> bool:
        return self._has_search_attributes

    @override
    async def find_execution(self, run: RunId, execution: str) -> ExecutionStart | None:
        handle = self._client.get_workflow_handle(run, run_id=execution)
        try:
            async for event in handle.fetch_history_events(page_size=1, rpc_timeout=_TIMEOUT):
                started = event.workflow_execution_started_event_attributes
                return ExecutionStart(
                    workflow=started.workflow_type.name,
                    queue=started.task_queue.name,
                    first=started.first_execution_run_id,
                    original=started.original_execution_run_id,
                    continued=started.continued_execution_run_id,
                    at=event.event_time.ToMilliseconds(),
                )
        except RPCError as error:
            if not is_execution_not_found(error):
                what = f"how an execution of {run!r} began"
                raise _unavailable(what, error) from error
        return None

    @override
    async def find_last_executions(self, run: RunId) -> tuple[str, ...] | None:
        workflow = await self._describe(run, f"whether {run!r} has ended")
        if workflow is None:
            return ()
        if workflow.status is WorkflowExecutionStatus.RUNNING:
            return None
        return (workflow.run_id,) if workflow.run_id else ()

    @override
    async def is_open(self, run: RunId) -> bool:
        workflow = await self._describe(run, f"whether {run!r} has begun")
        return (
            workflow is not None
            and workflow.status is WorkflowExecutionStatus.RUNNING
            and workflow.workflow_type == WORKFLOW_TYPE
        )

    async def _describe(self, run: RunId, what: str) -> WorkflowExecutionDescription | None:
        try:
            return await self._client.get_workflow_handle(run).describe(rpc_timeout=_TIMEOUT)
        except RPCError as error:
            if is_execution_not_found(error):
                return None
            raise _unavailable(what, error) from error

    @override
    async def find_task_queue(self, run: RunId) -> str:
        try:
            workflow = await self._client.get_workflow_handle(run).describe(rpc_timeout=_TIMEOUT)
        except RPCError:
            return ""
        return workflow.task_queue

    @override
    async def send_notification(self, run: RunId, notification: MergeNotification) -> bool:
        handle = self._client.get_workflow_handle(notification.to)
        try:
            with encrypt_for(purposes.signal(NOTIFY_MERGE)):
                await handle.signal(
                    NOTIFY_MERGE,
                    {"op": notification.merge, "run": run},
                    rpc_timeout=_NOTIFICATION_TIMEOUT,
                )
        except RPCError as error:
            return is_execution_not_found(error)
        return True

    @override
    async def ask_run(self, task: AskOtherRun) -> AskOtherRunResult | None:
        """Sends the update of a run merge, and waits for its answer.

        An attempt of the activity continues to wait for the update of the attempt before it. A run
        that continues as new refuses the update with `CLOSING`: then another update is sent.
        """
        handle = self._client.get_workflow_handle(task.other)
        content = {"merge": task.merge, "run": task.run, "request": task.request}
        number = 0
        while True:
            number += 1
            try:
                id_ = f"{task.merge}/{task.to}/{number}"
                with encrypt_for(purposes.update(REQUEST_MERGE, id_)):
                    answer: dict[str, Any] = await handle.execute_update(
                        REQUEST_MERGE, content, id=id_
                    )
            except WorkflowUpdateFailedError as error:
                cause = error.cause
                if not isinstance(cause, ApplicationError) or cause.type not in (CLOSING, BUSY):
                    # The update was not permitted, or the run ended before it answered.
                    reason = f"{task.other!r} refused: {getattr(cause, 'message', '') or cause}"
                    return AskOtherRunResult(refused=reason)
                await asyncio.sleep(_CLOSING_PAUSE)
            except RPCError as error:
                if is_execution_not_found(error):
                    return None
                raise StoreUnavailable(
                    f"the server does not reach the run {task.other!r}: {error.message}"
                ) from error
            else:
                return AskOtherRunResult.from_json(answer)


def _unavailable(what: str, error: RPCError) -> StoreUnavailable:
    # Retried as if the store were unavailable: the activity has had no effect yet.
    return StoreUnavailable(f"the server does not say {what}: {error.message}")
