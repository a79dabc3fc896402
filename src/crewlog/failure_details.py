"""The details of a Temporal failure: one model, which one function writes and one function reads.

Crewlog raises its failures in activities, in updates and where a run ends. The type of a failure is
the name of a class of `crewlog.errors`, its message is the message of the error, and its only
detail is a `FailureDetails` as JSON. A failure without details, or with details of another shape,
was raised by other code; it reads as a `FailureDetails` with the defaults.
"""

from __future__ import annotations

from datetime import timedelta

from pydantic import ValidationError
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from crewlog import errors
from crewlog.model import Model


class FailureDetails(Model):
    """The details of a failure, besides its type and its message."""

    place: str = ""
    """The place: a node, a tool, an address."""
    remedy: str = ""
    """The remedy as a sentence."""
    effect_started: bool = True
    """Whether the effect of the activity may have begun. If it has not, even a call with the retry
    mode `never` may be made again. True where that is not known."""
    failed_at: int = 0
    """When it failed, in milliseconds since the epoch; 0: unknown. The activity sets it, since the
    journal must not depend on when the run handles the failure."""
    call_again: bool = False
    """Whether the run makes the call again by itself. The server retries only a rate limit of
    these, since its retries count against the attempts of the tool."""
    retry_after_seconds: float | None = None
    """The wait that a service asked for before the next call."""
    command_hash: str = ""
    """Of a rejected command whose outcome is remembered: the hash of what it asked for."""


def application_error(
    message: str,
    kind: str,
    details: FailureDetails | None = None,
    *,
    non_retryable: bool = True,
    next_retry_delay: timedelta | None = None,
    is_benign: bool = False,
) -> ApplicationError:
    """Create a failure.

    Args:
        message: The message of the error.
        kind: The name of the error's class.
        details: Its details, if it has any.
        non_retryable: Whether the server must not retry the activity.
        next_retry_delay: The wait before the next attempt, instead of that of the retry policy.
        is_benign: Whether the failure is an expected result: the SDK logs no traceback of it.
    """
    data = details.to_json() if details is not None else {}
    return ApplicationError(
        message,
        *([data] if data else []),
        type=kind,
        non_retryable=non_retryable,
        next_retry_delay=next_retry_delay,
        category=ApplicationErrorCategory.BENIGN
        if is_benign
        else ApplicationErrorCategory.UNSPECIFIED,
    )


def failure_details(error: BaseException | None) -> FailureDetails:
    """Return the details of a failure; the defaults for a failure of other code."""
    if not isinstance(error, ApplicationError) or not error.details:
        return FailureDetails()
    try:
        return FailureDetails.model_validate(error.details[0], strict=True, extra="ignore")
    except ValidationError:
        return FailureDetails()


def non_retryable_copy(error: ApplicationError) -> ApplicationError:
    """Return the same failure, for a workflow to fail with."""
    return ApplicationError(error.message, *error.details, type=error.type, non_retryable=True)


def timeout_error(what: str, owner: str, kind: str) -> tuple[str, str, str]:
    """The type, the message and the remedy of the error of a call that Temporal timed out.

    The activity of a model call has a timeout of its own, which is as long: whichever ends first,
    the error has the same type.

    Args:
        what: What was called: `the model of 'writer'`.
        owner: Whose setting applies, `the agent` or `the tool`; empty: there is none.
        kind: Temporal's type of the timeout: `HEARTBEAT`, `START_TO_CLOSE`.
    """
    error = errors.ModelUnavailable.__name__ if owner == "the agent" else "Timeout"
    if kind == "HEARTBEAT":
        error, setting = "Timeout", "heartbeat"
        message = f"the worker that called {what} sent no heartbeat in time"
        cause = "Its worker ended or was busy: look at the workers' logs."
    else:
        setting, cause = "timeout", ""
        message = f"{what} did not answer in time"
    remedy = f"A longer `{setting}` of {owner} may help." if owner else ""
    return error, message, " ".join(filter(None, [cause, remedy]))
