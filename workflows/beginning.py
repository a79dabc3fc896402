"""Local activities that a run begins with: what is wrong with its start is its own failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from crewlog.model import Model

from crewlog.workflows.activity_options import LOCAL

M = TypeVar("M", bound=Model)


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
        raise ApplicationError(
            cause.message, *cause.details, type=cause.type, non_retryable=True
        ) from error
    return found
