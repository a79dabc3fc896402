"""Local activities: short work that the worker of the workflow does within its workflow task.

An ordinary activity adds three events and two workflow tasks. Work that only reads can be a local
activity: the history has its result before the run acts on it, and a repeated workflow task may
repeat the read. Ordinary activities store the entries that the run then records.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, FailureError

from crewlog.failure_details import non_retryable_copy
from crewlog.model import Model
from crewlog.workflows.activity_options import LOCAL_OPTIONS, SHORT_LOCAL_OPTIONS

M = TypeVar("M", bound=Model)


async def execute_local_activity_or_fallback(
    name: str, task: Model, result_type: type[M], options: Mapping[str, Any]
) -> M:
    """Executes a local activity; if it takes long or fails, an ordinary activity instead.

    Args:
        name: The activity.
        task: Its input.
        result_type: The type of its result.
        options: The options of the ordinary activity.

    Raises:
        ActivityError: the ordinary activity failed.
        FailureError: the caller was cancelled.
    """
    try:
        result: M = await workflow.execute_local_activity(
            name,
            task,
            result_type=result_type,
            summary=options.get("summary"),
            **SHORT_LOCAL_OPTIONS,
        )
    except FailureError as error:  # a local activity may fail without an `ActivityError`
        cause = error.cause if isinstance(error, ActivityError) else error
        if isinstance(cause, CancelledError):
            raise
        return await execute_activity(name, task, result_type, options)
    return result


async def execute_activity(
    name: str, task: Model, result_type: type[M], options: Mapping[str, Any]
) -> M:
    """Executes an ordinary activity.

    Args:
        name: The activity.
        task: Its input.
        result_type: The type of its result.
        options: Its options.

    Raises:
        ActivityError: it failed, or the caller was cancelled.
    """
    result: M = await workflow.execute_activity(name, task, result_type=result_type, **options)
    return result


async def execute_local_activity(
    name: str, task: Model, result_type: type[M], options: Mapping[str, Any] = LOCAL_OPTIONS
) -> M:
    """Executes a local activity whose error fails the run.

    Args:
        name: The activity.
        task: Its input.
        result_type: The type of its result.
        options: Its options.

    Raises:
        ApplicationError: the error of the activity, without the `ActivityError` around it.
    """
    try:
        result: M = await workflow.execute_local_activity(
            name, task, result_type=result_type, **options
        )
    except ActivityError as error:
        cause = error.cause
        if not isinstance(cause, ApplicationError):
            raise
        raise non_retryable_copy(cause) from error
    return result
