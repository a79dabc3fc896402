"""Outcomes of calls: a class for each, and the translation of failures to outcomes.

`CallSucceeded`, `GraphChangeRequested`, `CallFailed` and `CallOutcomeUnknown` end a call. After
every other outcome the loop makes the call again, if the run still needs it.
"""

from __future__ import annotations

from dataclasses import dataclass

from temporalio.exceptions import ApplicationError, CancelledError, TimeoutError  # noqa: A004 - Temporal's own name

from crewlog import errors
from crewlog.failure_details import FailureDetails, failure_details, timeout_error
from crewlog.graph.run_context import CallRequest
from crewlog.state.calls import (
    CallModelResult,
    CallToolResult,
    CompilePromptResult,
    PrepareRunResult,
)
from crewlog.state.excerpt import excerpt
from crewlog.wire import STORE_WAIT
from crewlog.workflows.group_tools import GroupToolChange

WAIT_LIMIT = 800
"""The longest text, in characters, about what a call waits for."""

CallResult = CallModelResult | CallToolResult | CompilePromptResult | PrepareRunResult


@dataclass(frozen=True)
class CallSucceeded:
    """The activity returned a result."""

    result: CallResult


@dataclass(frozen=True)
class GraphChangeRequested:
    """A group tool returned operations on the graph of its agent, and the change is prepared."""

    result: CallToolResult
    change: GroupToolChange


@dataclass(frozen=True)
class CallFailed:
    """The call failed for good; the agent's `on_error` decides what follows."""

    error: str
    error_type: str
    """The name of the error's class, or `Timeout`."""


@dataclass(frozen=True)
class CallOutcomeUnknown:
    """The call began and did not answer, and must not be made again: people decide."""

    error: str


@dataclass(frozen=True)
class CallCancelled:
    """The run cancelled the call."""


@dataclass(frozen=True)
class LocalCallFailed:
    """The local activity failed, and a retry may help: make the call as an ordinary activity."""


@dataclass(frozen=True)
class CallDeferred:
    """The call has not begun. It waits for something, and then it is made again."""

    wait: str
    """What it waits for, for people."""


@dataclass(frozen=True)
class PermissionRecheck(CallDeferred):
    """Permissions or readers changed since it was scheduled: it is authorized again at once."""


@dataclass(frozen=True)
class StoreWait(CallDeferred):
    """It waits for the store."""


@dataclass(frozen=True)
class WorkerWait(CallDeferred):
    """It waits for a worker that has its tool or its secret, or for an MCP server."""


@dataclass(frozen=True)
class ApprovalWait(CallDeferred):
    """It waits until people approve the description of a tool of an MCP server."""

    question: str


@dataclass(frozen=True)
class RateLimitWait(CallDeferred):
    """It waits for the provider of its model, for a limited number of rounds."""

    retry_after_seconds: float | None
    """The wait that the provider asked for."""
    failure: CallFailed
    """The outcome after the last round."""


CallOutcome = (
    CallSucceeded
    | GraphChangeRequested
    | CallFailed
    | CallOutcomeUnknown
    | CallCancelled
    | LocalCallFailed
    | CallDeferred
)


@dataclass(frozen=True)
class CallCompletion:
    """The end of one call, or of one round of it."""

    request: CallRequest
    outcome: CallOutcome
    at: int
    """When it ended, as the result or the failure says, in milliseconds; 0: unknown."""
    stored: int
    """The journal position up to which the activity stored, if it succeeded."""


def failure_outcome(
    cause: BaseException, request: CallRequest, *, is_local: bool, is_repeatable: bool
) -> CallOutcome:
    """The outcome of a call that failed.

    Args:
        cause: The failure, without the `ActivityError` around it.
        request: The call.
        is_local: Whether the call was a local activity.
        is_repeatable: Whether the call may be made again after it has begun.
    """
    if isinstance(cause, CancelledError):
        return CallCancelled()
    is_final = isinstance(cause, ApplicationError) and cause.non_retryable
    if is_local and not is_final:
        return LocalCallFailed()
    if isinstance(cause, TimeoutError):
        return _timeout_outcome(cause, request, is_repeatable=is_repeatable)
    if not isinstance(cause, ApplicationError):
        return CallFailed(str(cause), "ActivityError")
    details = failure_details(cause)
    if not details.effect_started and (deferred := _deferred_outcome(cause, details)) is not None:
        return deferred
    if cause.type == errors.OutcomeUnknown.__name__:
        return CallOutcomeUnknown(_error_text(cause, details))
    return _failed_outcome(cause, details)


def _timeout_outcome(
    cause: TimeoutError, request: CallRequest, *, is_repeatable: bool
) -> CallFailed | CallOutcomeUnknown:
    tool = request.call.tool
    what, owner = (tool, "the tool") if tool else (f"the model of {request.agent!r}", "the agent")
    error, *lines = timeout_error(what, owner, cause.type.name if cause.type else "")
    text = "\n".join(lines)
    return CallFailed(text, error) if is_repeatable else CallOutcomeUnknown(text)


def _deferred_outcome(cause: ApplicationError, details: FailureDetails) -> CallDeferred | None:
    """The outcome of a call that has not begun and is to be made again; None for other calls."""
    why = f"{cause.message}. {details.remedy}" if details.remedy else cause.message
    place = details.place
    if cause.type == errors.StoreUnavailable.__name__:
        return StoreWait(excerpt(f"{STORE_WAIT}{why}", WAIT_LIMIT))
    if cause.type == errors.PermissionsChanged.__name__:
        return PermissionRecheck(excerpt(cause.message, WAIT_LIMIT))
    if not details.call_again:
        return None
    if cause.type == errors.ModelRateLimited.__name__:
        return RateLimitWait(
            _wait_text(place, why), details.retry_after_seconds, _failed_outcome(cause, details)
        )
    if cause.type == errors.ToolNotApproved.__name__:
        return ApprovalWait(
            _wait_text(f"a person to approve the {place}", why),
            f"May agents use the {place} as its server describes it now?",
        )
    if place.startswith("MCP server"):
        return WorkerWait(_wait_text(f"the {place}", why))
    return WorkerWait(_wait_text(f"a worker that has the {place}", why))


def _wait_text(what: str, why: str) -> str:
    return excerpt(f"waits for {what}: {why}", WAIT_LIMIT)


def _failed_outcome(cause: ApplicationError, details: FailureDetails) -> CallFailed:
    return CallFailed(_error_text(cause, details), cause.type or "ApplicationError")


def _error_text(cause: ApplicationError, details: FailureDetails) -> str:
    return "\n".join(filter(None, [cause.message, details.place, details.remedy]))
