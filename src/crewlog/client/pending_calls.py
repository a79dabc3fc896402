"""The calls of a run that wait: for their next attempt, for a worker, for the store.

The server makes a failed attempt again by itself, and gives a call to whichever worker asks: the
run knows of neither. A description of its execution has both, with the last failure. Which step a
call is of has the history alone, in the event that scheduled the call, near its end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Literal

from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import ValidationError
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, PendingActivityState
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import WorkflowExecutionDescription
from temporalio.converter import DataConverter, WorkflowSerializationContext
from temporalio.exceptions import (
    ApplicationError,
    TimeoutError,  # noqa: A004 - Temporal's own name
)
from temporalio.service import RPCError

from crewlog.client.gateway import CALL_LIMIT, Gateway
from crewlog.errors import CrewlogError, ModelRateLimited, StoreUnavailable
from crewlog.failure_details import failure_details, timeout_error
from crewlog.ids import RunId, node_of
from crewlog.reporting.trace.view import PendingCall, PendingReason
from crewlog.state.calls import (
    CALL_MODEL,
    CALL_TOOL,
    COMPILE_PROMPT,
    PREPARE_RUN,
    CallInput,
    CallModel,
    CallTool,
)

CALLS: Mapping[str, type[CallInput] | None] = {
    CALL_MODEL: CallModel,
    CALL_TOOL: CallTool,
    COMPILE_PROMPT: None,
    PREPARE_RUN: None,
}
"""The activities that are calls, with the inputs that name their steps."""
_TIMED = {CALL_MODEL: ("the model", "the agent"), CALL_TOOL: ("the tool", "the tool")}
"""What is called, and whose settings bound it."""
QUEUED = 2000
"""Milliseconds that a call has waited for a worker when that is told."""
AT_ONCE = 16
"""Runs of a list that the server describes at a time."""
_PAGES = 10
_PAGE = 100
"""Events of a history that are looked through for where calls were scheduled, from its end."""


async def pending_calls(
    gateway: Gateway, run: RunId, description: WorkflowExecutionDescription | None = None
) -> list[PendingCall]:
    """The calls of a run that have not answered, with the steps of those that wait.

    Args:
        gateway: The server.
        run: The run.
        description: What the server told of the run; by default it is asked.

    Raises:
        RunNotFound: there is no such run.
        TemporalUnavailable: the server is away.
    """
    description = description or await gateway.describe(run)
    found = await _calls_of(gateway, run, description)
    ids = {pending.activity_id for pending, call in found if call.is_waiting}
    if not ids:
        return [call for _, call in found]
    queues = {call.task_queue for _, call in found if call.reason == "worker"}
    named, has_pollers = await asyncio.gather(
        _inputs(gateway, run, description, ids), _find_pollers(gateway, queues)
    )
    calls: list[PendingCall] = []
    for pending, call in found:
        more: dict[str, Any] = {}
        if (known := named.get(pending.activity_id)) is not None:
            task, scheduled_at = known
            more = {"step": task.step, "call": task.call, "scheduled_at": scheduled_at}
            more["agent"] = task.agent or str(node_of(task.step))
            more["tool"] = task.tool if isinstance(task, CallTool) else ""
        if call.reason == "worker":
            more["has_pollers"] = has_pollers.get(call.task_queue)
        calls.append(replace(call, **more))
    return calls


async def descriptions_of(
    gateway: Gateway, runs: Sequence[RunId]
) -> dict[RunId, WorkflowExecutionDescription]:
    """What the server tells of some runs; a run that it cannot describe is left out."""
    room = asyncio.Semaphore(AT_ONCE)

    async def of(run: RunId) -> tuple[RunId, WorkflowExecutionDescription] | None:
        async with room:
            with suppress(CrewlogError, RPCError):
                return run, await gateway.describe(run)
        return None

    found = await asyncio.gather(*map(of, runs))
    return dict(each for each in found if each is not None)


async def calls_of(
    gateway: Gateway, run: RunId, description: WorkflowExecutionDescription
) -> list[PendingCall]:
    """All calls of a run that have not answered, without their steps."""
    return [call for _, call in await _calls_of(gateway, run, description)]


def doing(calls: Iterable[PendingCall]) -> Literal["running", "retrying", "waiting"]:
    """What a run does whose calls these are: `running` where one of them is under way at first try.

    Args:
        calls: All of its calls that have not answered.
    """
    found = [*calls]
    if not found or not all(call.is_waiting for call in found):
        return "running"
    return "retrying" if any(call.attempt > 1 for call in found) else "waiting"


async def failure_of(
    gateway: Gateway, run: RunId, pending: PendingActivityInfo
) -> tuple[str, str, str]:
    """The last failure of an activity: its type, its message and its remedy.

    Where it is encrypted with a key that is not here, that is what is said.
    """
    failure = type(pending.last_failure)()
    told = pending.last_failure
    # Of a failure that is too large for it, the server keeps a part, behind one of its own.
    part = told.HasField("server_failure_info") and told.HasField("cause")
    failure.CopyFrom(told.cause if part else told)  # it is decoded in place
    try:
        error = await _converter(gateway, run).decode_failure(failure)
    except CrewlogError as unread:
        return type(unread).__name__, unread.message, unread.remedy
    if isinstance(error, TimeoutError):
        what, owner = _TIMED.get(pending.activity_type.name, ("it", ""))
        kind = error.type.name if error.type else ""
        return timeout_error(what, owner, kind)
    if not isinstance(error, ApplicationError):
        return "", str(error), ""
    details = failure_details(error)
    message = f"{details.place}: {error.message}" if details.place else error.message
    return error.type or "", message, details.remedy


async def _calls_of(
    gateway: Gateway, run: RunId, description: WorkflowExecutionDescription
) -> list[tuple[PendingActivityInfo, PendingCall]]:
    found = [
        pending
        for pending in description.raw_description.pending_activities
        if pending.activity_type.name in CALLS
    ]
    calls = await asyncio.gather(*(_call(gateway, run, each, description) for each in found))
    return sorted(zip(found, calls, strict=True), key=lambda each: each[1].attempt_at)


async def _call(
    gateway: Gateway,
    run: RunId,
    pending: PendingActivityInfo,
    description: WorkflowExecutionDescription,
) -> PendingCall:
    kind = message = remedy = ""
    if pending.HasField("last_failure"):
        kind, message, remedy = await failure_of(gateway, run, pending)
    now = int(time.time() * 1000)
    started = pending.state != PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
    next_at = _ms(pending.next_attempt_schedule_time)
    later = not started and next_at is not None and next_at > now
    ready = next_at or _ms(pending.scheduled_time) or now
    reason: PendingReason = ""
    if later:
        reason = _why(kind)
    elif not started and now - ready > QUEUED:
        reason = "worker"
    return PendingCall(
        activity=pending.activity_type.name,
        reason=reason,
        attempt=pending.attempt,
        max_attempts=pending.maximum_attempts,
        attempt_at=ready,
        next_at=next_at if later else None,
        task_queue=pending.activity_options.task_queue.name or description.task_queue,
        error_type=kind,
        error=message,
        remedy=remedy,
    )


def _why(kind: str) -> PendingReason:
    if kind == StoreUnavailable.__name__:
        return "store"
    return "rate_limit" if kind == ModelRateLimited.__name__ else "failure"


async def _inputs(
    gateway: Gateway, run: RunId, description: WorkflowExecutionDescription, ids: Collection[str]
) -> dict[str, tuple[CallInput, int | None]]:
    """What activities were scheduled with and when, by their ids, as far as it can be read here."""
    found: dict[str, tuple[CallInput, int | None]] = {}
    async for event in _scheduled(gateway, run, description, ids):
        told = event.activity_task_scheduled_event_attributes
        model = CALLS[told.activity_type.name]
        with suppress(ValidationError, ValueError, CrewlogError, ApplicationError, OSError):
            (task,) = await _converter(gateway, run).decode(told.input.payloads)
            if model is not None:
                found[told.activity_id] = model.model_validate(task), _ms(event.event_time)
    return found


async def _scheduled(
    gateway: Gateway, run: RunId, description: WorkflowExecutionDescription, ids: Collection[str]
) -> AsyncGenerator[HistoryEvent]:
    """The events that scheduled some activities, the newest first."""
    left, token = {*ids}, b""
    for _ in range(_PAGES):
        request = GetWorkflowExecutionHistoryReverseRequest(
            namespace=gateway.temporal.namespace,
            execution=WorkflowExecution(workflow_id=run, run_id=description.run_id or ""),
            maximum_page_size=_PAGE,
            next_page_token=token,
        )
        service = gateway.temporal.workflow_service
        try:
            page = await service.get_workflow_execution_history_reverse(
                request, timeout=timedelta(seconds=CALL_LIMIT)
            )
        except RPCError:
            return
        for event in page.history.events:
            id_ = event.activity_task_scheduled_event_attributes.activity_id
            if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED and id_ in left:
                left.discard(id_)
                yield event
        token = page.next_page_token
        if not left or not token:
            return


async def _find_pollers(gateway: Gateway, queues: Iterable[str]) -> dict[str, bool]:
    """Whether workers ask for the calls of task queues; of those of which the server says so."""
    found: dict[str, bool] = {}
    for queue in sorted(queues):
        with suppress(RPCError):
            found[queue] = await gateway.polled(queue, activities=True)
    return found


def _converter(gateway: Gateway, run: RunId) -> DataConverter:
    context = WorkflowSerializationContext(gateway.temporal.namespace, run)
    return gateway.temporal.data_converter.with_context(context)


def _ms(at: Timestamp) -> int | None:
    return at.ToMilliseconds() or None
