"""Crewlog's errors as Temporal failures: the one place that maps them.

The failure's type is the name of the class in `crewlog.errors`, its message the error's message,
and its details are `[place, remedy, started, at, again, retry_after]`. `started` is false where the
effect has certainly not begun, so that even a call that must not be repeated may be made again.
`at` is when it failed, in milliseconds: the run's journal must not depend on when the failure is
handled. `again` is there, and true, where the run is to make the call once more by itself. The
server does not retry such a failure, other than one of a rate limit: its retries would count
against the tool's attempts. `retry_after` is there after `again`, where a service asked for a wait:
the seconds of it.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

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
    flat_errors,
    in_words,
)
from crewlog.redaction import redacted_text
from crewlog.store.missing_rows import MissingRows

log: structlog.stdlib.BoundLogger = structlog.get_logger("crewlog.worker")
REFUSED = "a change was refused"
"""The line of the worker's log about a change with faults."""


def to_application_error(
    exc: CrewlogError,
    *,
    started: bool = False,
    final: bool = True,
    at: int = 0,
    answer: bool = False,
) -> ApplicationError:
    """The failure that tells the workflow of `exc`.

    Args:
        exc: The error. A user's subclass travels under the name of the Crewlog class above it.
        started: Whether the effect may have happened.
        final: Whether an error that no retry helps ends the activity.
        at: When it failed; 0 where that is not known.
        answer: Whether it is what the activity was to find out: the SDK logs no traceback of it.
    """
    kind = next(c for c in type(exc).__mro__ if c.__module__ == errors.__name__)
    wait = _wait(exc) if isinstance(exc, ModelUnavailable) else None
    started = started and not isinstance(exc, ModelRateLimited)  # it was turned away
    message, place, remedy = exc.message, exc.place, exc.remedy
    if isinstance(exc, InvalidDefinition):
        # All diagnostics, with their places: nobody should mend a definition fault by fault.
        message, place, remedy = str(exc), "", ""
    return ApplicationError(
        redacted_text(message),
        redacted_text(place),
        redacted_text(remedy),
        started,
        at,
        *_again(exc, started=started),
        type=kind.__name__,
        non_retryable=final and not exc.retryable,
        next_retry_delay=None if wait is None else timedelta(seconds=wait),
        category=ApplicationErrorCategory.BENIGN
        if answer
        else ApplicationErrorCategory.UNSPECIFIED,
    )


def _again(exc: CrewlogError, *, started: bool) -> list[bool | float]:
    """The details of a failure that say that the run makes the call again, and after what wait."""
    if not exc.again or started:
        return []
    asked = exc.retry_after if isinstance(exc, ModelUnavailable) else None
    return [True] if asked is None else [True, asked]


def _wait(exc: ModelUnavailable) -> float | None:
    """Seconds until the next try of the activity; none: as its retry policy says."""
    policy = activity.info().retry_policy if activity.in_activity() else None
    if policy is None:
        return exc.retry_after
    return retry_delay(
        activity.info().attempt,
        first=policy.initial_interval.total_seconds(),
        backoff=policy.backoff_coefficient,
        longest=(policy.maximum_interval or 100 * policy.initial_interval).total_seconds(),
        asked=exc.retry_after or 0.0,
        chance=random.random(),  # noqa: S311 - no secret
    )


class Effect:
    """Whether the effect that an activity is for has begun."""

    started = False


def _now(clock: Clock | None) -> int:
    return clock.now() if clock is not None else 0


@contextmanager
def as_failures(*, final: bool = True, refuses: str = "") -> Generator[Effect, None, None]:
    """Turns errors that leave the block into failures; cancellation passes as it is.

    Args:
        final: Whether an error that no retry helps ends the activity. It does not where a run
            stores what it knows: the run stands still until people have mended the store.
        refuses: What it says in the worker's log, in a line, where something is wrong with what
            people sent: whoever did is told all of it.
    """
    effect = Effect()
    clock = Clock() if activity.in_activity() else None
    try:
        yield effect
    except ApplicationError:
        raise
    except MissingRows as exc:
        told = exc.of(activity.info().workflow_id or "") if activity.in_activity() else exc
        raise to_application_error(
            told, started=effect.started, final=final, at=_now(clock)
        ) from exc
    except ServiceError as exc:
        # Without what led to it: the server tells no failure of a pending activity that is longer
        # than 4 KB, and whoever looks at the run is to know why it waits.
        raise to_application_error(
            exc, started=effect.started, final=final, at=_now(clock)
        ) from None
    except CrewlogError as exc:
        answer = bool(refuses) and isinstance(exc, InvalidDefinition | UsageError | ChangeConflict)
        if answer:
            run = activity.info().workflow_id if activity.in_activity() else ""
            log.info(refuses, run=run, why=redacted_text(str(exc)).partition("\n")[0])
        raise to_application_error(
            exc, started=effect.started, final=final, at=_now(clock), answer=answer
        ) from exc
    except Exception as exc:
        causes = flat_errors(exc)
        ours = [each for each in causes if isinstance(each, CrewlogError)]
        if len(ours) == len(causes):  # tasks side by side met them: the worst one decides
            worst = next((each for each in ours if not each.retryable), ours[0])
            raise to_application_error(
                worst, started=effect.started, final=final, at=_now(clock)
            ) from exc
        bug = InternalError(
            in_words(exc),
            remedy="This is a bug in Crewlog: please report it with the worker's log.",
        )
        raise to_application_error(
            bug, started=effect.started, final=final, at=_now(clock)
        ) from exc
