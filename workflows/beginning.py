"""Local activities that a run begins with: what is wrong with its start is its own failure."""

from __future__ import annotations

from typing import TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from crewlog.model import Model

from crewlog.workflows.activity_options import LOCAL

M = TypeVar("M", bound=Model)


async def made(name: str, task: Model, kind: type[M]) -> M:
    """What a local activity makes of a task.

    Raises:
        ApplicationError: what the activity found wrong; that it was one that said so is left out.
    """
    try:
        found: M = await workflow.execute_local_activity(name, task, result_type=kind, **LOCAL)
    except ActivityError as error:
        cause = error.cause
        if not isinstance(cause, ApplicationError):
            raise
        raise ApplicationError(
            cause.message, *cause.details, type=cause.type, non_retryable=True
        ) from error
    return found
