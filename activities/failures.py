"""The conversion of errors to Temporal failures, for all activities; see `FailureDetails`."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from crewlog import errors
from crewlog.activities.clock import Clock
from crewlog.definition.delays import retry_delay
from crewlog.errors import (
    ChangeConflict,
    CrewlogError,
    InternalError,
    InvalidDefinition,
    ModelRateLimited,
    ModelUnavailable,
    ServiceError,
    UsageError,
    error_text,
    flat_errors,
)
from crewlog.failure_details import FailureDetails, application_error
from crewlog.redaction import redacted_text
from crewlog.store.missing_rows import MissingRows

log: structlog.stdlib.BoundLogger = structlog.get_logger("crewlog.worker")
CHANGE_REJECTED = "a change was rejected"
"""The log line about a change whose definition is not valid."""


class Effect:
    """Whether the effect of an activity has begun."""

    started = False


def to_failure(
    error: CrewlogError,
    *,
    effect_started: bool = False,
    is_final: bool = True,
    failed_at: int = 0,
    is_benign: bool = False,
) -> ApplicationError:
    """Returns the failure that reports an error to the workflow.

    Args:
        error: The error. A user's subclass is reported as its closest base class in Crewlog.
        effect_started: Whether the effect may have begun.
        is_final: Whether an error that is not retryable ends the activity.
        failed_at: When it failed, in milliseconds since the epoch; 0: unknown.
        is_benign: Whether the error is an expected result, for which the SDK logs no traceback.
    """
    kind = next(c for c in type(error).__mro__ if c.__module__ == errors.__name__)
    # A call that a rate limit rejects has not begun.
    effect_started = effect_started and not isinstance(error, ModelRateLimited)
    message, place, remedy = error.message, error.place, error.remedy
    if isinstance(error, InvalidDefinition):  # report all diagnostics, not only the first
        message, place, remedy = str(error), "", ""
    call_again = error.call_again and not effect_started
    retry_after = error.retry_after if isinstance(error, ModelUnavailable) else None
    wait = _next_attempt_seconds(error) if isinstance(error, ModelUnavailable) else None
    return application_error(
        redacted_text(message),
        kind.__name__,
        FailureDetails(
            place=redacted_text(place),
            remedy=redacted_text(remedy),
            effect_started=effect_started,
            failed_at=failed_at,
            call_again=call_again,
            retry_after_seconds=retry_after if call_again else None,
        ),
        non_retryable=is_final and not error.retryable,
        next_retry_delay=None if wait is None else timedelta(seconds=wait),
        is_benign=is_benign,
    )


def _next_attempt_seconds(error: ModelUnavailable) -> float | None:
    """Returns the wait before the next attempt; None: the retry policy decides."""
    policy = activity.info().retry_policy if activity.in_activity() else None
    if policy is None:
        return error.retry_after
    return retry_delay(
        activity.info().attempt,
        first=policy.initial_interval.total_seconds(),
        backoff=policy.backoff_coefficient,
        longest=(policy.maximum_interval or 100 * policy.initial_interval).total_seconds(),
        asked=error.retry_after or 0.0,
        chance=random.random(),  # noqa: S311 - jitter needs no secure source
    )


@contextmanager
def convert_errors(
    *, is_final: bool = True, rejection_log: str = ""
) -> Generator[Effect, None, None]:
    """Converts the errors of the block to failures; a cancellation passes unchanged.

    Args:
        is_final: Whether an error that is not retryable ends the activity. False for activities
            that store a journal: the run waits until people have repaired the store.
        rejection_log: The log line for invalid input, without a traceback; its sender gets the
            whole error. Empty: such errors are not logged.
    """
    effect = Effect()
    clock = Clock() if activity.in_activity() else None
    run = (activity.info().workflow_id or "") if activity.in_activity() else ""

    def convert(error: CrewlogError, *, is_benign: bool = False) -> ApplicationError:
        return to_failure(
            error,
            effect_started=effect.started,
            is_final=is_final,
            failed_at=clock.now() if clock is not None else 0,
            is_benign=is_benign,
        )

    try:
        yield effect
    except ApplicationError:
        raise
    except MissingRows as error:
        raise convert(error.for_run(run) if clock is not None else error) from error
    except ServiceError as error:
        # Without a cause: the failure shows people why the run waits, and the server drops the
        # failure of a pending activity if it is longer than 4 KB.
        raise convert(error) from None
    except CrewlogError as error:
        is_input = isinstance(error, InvalidDefinition | UsageError | ChangeConflict)
        is_rejection = bool(rejection_log) and is_input
        if is_rejection:
            log.info(rejection_log, run=run, why=redacted_text(str(error)).partition("\n")[0])
        raise convert(error, is_benign=is_rejection) from error
    except Exception as error:
        causes = flat_errors(error)
        known = [each for each in causes if isinstance(each, CrewlogError)]
        if len(known) == len(causes):  # several tasks failed: an error that is final decides
            raise convert(next((e for e in known if not e.retryable), known[0])) from error
        bug = InternalError(
            error_text(error),
            remedy="This is a bug in Crewlog: please report it with the worker's log.",
        )
        raise convert(bug) from error
