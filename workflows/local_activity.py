"""Short work of a run that its own worker does, within the workflow's task.

An ordinary activity is three events, and a task of the workflow before it and after it. What only
reads is as good as a local one: its result is in the history before anything follows from it, and
where the task is done again, so is the work. What is recorded from it is stored by ordinary ones.

Local activities that a run begins with: what is wrong with its start is its own failure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError, FailureError

from crewlog.workflows.activity_options import LOCAL, LOOKING

with workflow.unsafe.imports_passed_through():
    from crewlog.failure_details import non_retryable_copy
    from crewlog.model import Model


M = TypeVar("M", bound=Model)


async def locally(name: str, task: Model, kind: type[M], options: Mapping[str, Any]) -> M:
    """Does a task at once, or as an ordinary activity, where that takes long or fails.

    Args:
        name: The activity.
        task: The task.
        kind: What comes of it.
        options: How the ordinary activity is scheduled.

    Raises:
        ActivityError: the ordinary one failed.
        FailureError: whoever waits was cancelled.
    """
    try:
        found: M = await workflow.execute_local_activity(
            name, task, result_type=kind, summary=options.get("summary"), **LOOKING
        )
    except FailureError as error:  # that of a local one may come as its cause, without an envelope
        cause = error.cause if isinstance(error, ActivityError) else error
        if isinstance(cause, CancelledError):
            raise
        return await execute_activity(name, task, kind, options)
    return found


async def execute_activity(name: str, task: Model, kind: type[M], options: Mapping[str, Any]) -> M:
    """Does a task as an ordinary activity.

    Args:
        name: The activity.
        task: The task.
        kind: What comes of it.
        options: How it is scheduled.

    Raises:
        ActivityError: it failed, or whoever waits was cancelled.
    """
    found: M = await workflow.execute_activity(name, task, result_type=kind, **options)
    return found


with workflow.unsafe.imports_passed_through():
    from crewlog.model import Model


async def made(name: str, task: Model, kind: type[M], options: Mapping[str, Any] = LOCAL) -> M:
    """What a local activity makes of a task.

    Args:
        name: The activity.
        task: The task.
        kind: What comes of it.
        options: How it is scheduled.

    Raises:
        ApplicationError: what the activity found wrong; that it was one that said so is left out.
    """
    try:
        found: M = await workflow.execute_local_activity(name, task, result_type=kind, **options)
    except ActivityError as error:
        cause = error.cause
        if not isinstance(cause, ApplicationError):
            raise
        raise non_retryable_copy(cause) from error
    return found
