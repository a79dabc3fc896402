"""What activities ask of the server: how executions began and ended, and to hint to a run.

Nobody else can say otherwise how an execution began.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RPCError

from crewlog.activities.executions import Look, Origin
from crewlog.activities.run_merge import Begun, Came, Ended, Ending, Hinted, QueueOf
from crewlog.errors import StoreUnavailable
from crewlog.ids import RunId
from crewlog.state.calls import MergeNotification
from crewlog.temporal_service.errors import is_execution_not_found
from crewlog.wire import NOTIFY_MERGE, WORKFLOW_TYPE

_LIMIT = timedelta(seconds=10)
_HINT_LIMIT = timedelta(seconds=2)
"""A hint is not worth more: what it is about is stored, and the workflow gives it then."""


def looks(client: Client) -> Look:
    """What asks the server of a client about executions: one request for each."""

    async def look(run: RunId, execution: str) -> Origin | None:
        handle = client.get_workflow_handle(run, run_id=execution)
        try:
            async for event in handle.fetch_history_events(page_size=1, rpc_timeout=_LIMIT):
                began = event.workflow_execution_started_event_attributes
                return Origin(
                    workflow=began.workflow_type.name,
                    queue=began.task_queue.name,
                    first=began.first_execution_run_id,
                    original=began.original_execution_run_id,
                    continued=began.continued_execution_run_id,
                    at=event.event_time.ToMilliseconds(),
                )
        except RPCError as error:
            if not is_execution_not_found(error):
                # As where the store is away: whatever needs it has not begun, and is done later.
                raise StoreUnavailable(
                    f"the server does not say how an execution of {run!r} began: {error.message}"
                ) from error
        return None

    return look


def endings(client: Client) -> Ended:
    """What asks the server of a client whether a run's workflow has ended: one request."""

    async def ended(run: RunId) -> Ending | None:
        try:
            told = await client.get_workflow_handle(run).describe(rpc_timeout=_LIMIT)
        except RPCError as error:
            if is_execution_not_found(error):
                return Ending()
            raise StoreUnavailable(
                f"the server does not say whether {run!r} has ended: {error.message}"
            ) from error
        if told.status is WorkflowExecutionStatus.RUNNING:
            return None
        return Ending((told.run_id,) if told.run_id else ())

    return ended


def beginnings(client: Client) -> Begun:
    """What asks the server of a client whether a run's workflow is open: one request."""

    async def begun(run: RunId) -> bool:
        try:
            told = await client.get_workflow_handle(run).describe(rpc_timeout=_LIMIT)
        except RPCError as error:
            if is_execution_not_found(error):
                return False
            raise StoreUnavailable(
                f"the server does not say whether {run!r} has begun: {error.message}"
            ) from error
        return (
            told.status is WorkflowExecutionStatus.RUNNING and told.workflow_type == WORKFLOW_TYPE
        )

    return begun


def queues(client: Client) -> QueueOf:
    """What asks the server of a client which task queue a run's workflow has: one request."""

    async def queue(run: RunId) -> str:
        try:
            told = await client.get_workflow_handle(run).describe(rpc_timeout=_LIMIT)
        except RPCError:
            return ""
        return told.task_queue

    return queue


def hints(client: Client) -> Hinted:
    """What gives runs' hints by the server of a client: a signal each."""

    async def hint(run: RunId, what: MergeNotification) -> Came:
        handle = client.get_workflow_handle(what.to)
        try:
            await handle.signal(
                NOTIFY_MERGE, {"op": what.merge, "run": run}, rpc_timeout=_HINT_LIMIT
            )
        except RPCError as error:
            return "gone" if is_execution_not_found(error) else "untold"
        return "given"

    return hint
