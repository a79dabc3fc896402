"""The requests of activities to the server: about executions and runs, and merge notifications."""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from crewlog.activities.executions import ExecutionStart, FindExecution
from crewlog.activities.run_merge import (
    Delivery,
    EndedRun,
    FindEndedRun,
    FindTaskQueue,
    IsOpen,
    SendNotification,
)
from crewlog.encryption import purposes
from crewlog.encryption.codec import encrypt_for
from crewlog.errors import StoreUnavailable
from crewlog.ids import RunId
from crewlog.state.calls import MergeNotification
from crewlog.temporal_service.errors import is_execution_not_found
from crewlog.wire import NOTIFY_MERGE, WORKFLOW_TYPE

_TIMEOUT = timedelta(seconds=10)
_NOTIFICATION_TIMEOUT = timedelta(seconds=2)
"""Short, since the workflow sends a notification again that may not have arrived."""


def execution_lookup(client: Client) -> FindExecution:
    """Returns a function that asks the server how an execution began, with one request."""

    async def find_execution(run: RunId, execution: str) -> ExecutionStart | None:
        handle = client.get_workflow_handle(run, run_id=execution)
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
                # Retried as if the store were unavailable: the activity has had no effect yet.
                raise StoreUnavailable(
                    f"the server does not say how an execution of {run!r} began: {error.message}"
                ) from error
        return None

    return find_execution


def ended_run_lookup(client: Client) -> FindEndedRun:
    """Returns a function that asks the server whether a run's workflow has ended."""

    async def find_ended_run(run: RunId) -> EndedRun | None:
        try:
            workflow = await client.get_workflow_handle(run).describe(rpc_timeout=_TIMEOUT)
        except RPCError as error:
            if is_execution_not_found(error):
                return EndedRun()
            raise StoreUnavailable(
                f"the server does not say whether {run!r} has ended: {error.message}"
            ) from error
        if workflow.status is WorkflowExecutionStatus.RUNNING:
            return None
        return EndedRun((workflow.run_id,) if workflow.run_id else ())

    return find_ended_run


def open_run_lookup(client: Client) -> IsOpen:
    """Returns a function that asks the server whether a run's workflow is open."""

    async def is_open(run: RunId) -> bool:
        try:
            workflow = await client.get_workflow_handle(run).describe(rpc_timeout=_TIMEOUT)
        except RPCError as error:
            if is_execution_not_found(error):
                return False
            raise StoreUnavailable(
                f"the server does not say whether {run!r} has begun: {error.message}"
            ) from error
        is_running = workflow.status is WorkflowExecutionStatus.RUNNING
        return is_running and workflow.workflow_type == WORKFLOW_TYPE

    return is_open


def task_queue_lookup(client: Client) -> FindTaskQueue:
    """Returns a function that asks the server for the task queue of a run's workflow."""

    async def find_task_queue(run: RunId) -> str:
        try:
            workflow = await client.get_workflow_handle(run).describe(rpc_timeout=_TIMEOUT)
        except RPCError:
            return ""
        return workflow.task_queue

    return find_task_queue


def notification_sender(client: Client) -> SendNotification:
    """Returns a function that sends a merge notification as a signal."""

    async def send_notification(run: RunId, notification: MergeNotification) -> Delivery:
        handle = client.get_workflow_handle(notification.to)
        try:
            with encrypt_for(purposes.signal(NOTIFY_MERGE)):
                await handle.signal(
                    NOTIFY_MERGE,
                    {"op": notification.merge, "run": run},
                    rpc_timeout=_NOTIFICATION_TIMEOUT,
                )
        except RPCError as error:
            return "not_found" if is_execution_not_found(error) else "unknown"
        return "delivered"

    return send_notification
