"""Whose orders activities take: those of the run that they are about, and of no other workflow.

A server lets any workflow schedule any activity on any task queue. So what a task says of its run
is held against the workflow that sent it, which the server attests.
"""

from __future__ import annotations

from typing import Any

from temporalio import activity
from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from crewlog.errors import NotPermitted
from crewlog.state.calls import LOAD_STATE
from crewlog.wire import WORKFLOW_TYPE


class OwnRunInterceptor(Interceptor):
    """Refuses activities that no run of ours asks for, or one for another."""

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's own name
    ) -> ActivityInboundInterceptor:
        """The interceptor of a worker's activities."""
        return _Inbound(next)


class _Inbound(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        info = activity.info()
        fault = foreign(
            info.activity_type,
            input.args,
            info.workflow_type,
            info.workflow_id,
            local=info.is_local,
        )
        if fault:
            raise ApplicationError(
                fault,
                "",
                "Activities of crews are scheduled by their runs alone.",
                type=NotPermitted.__name__,
                non_retryable=True,
            )
        return await super().execute_activity(input)


def foreign(
    name: str,
    args: Any,
    workflow_type: str | None,
    workflow_id: str | None,
    *,
    local: bool = False,
) -> str:
    """Why an activity is none of the workflow's that asks for it; empty where it is.

    Args:
        name: The activity's type.
        args: Its arguments: a task of ours says which run it is about, or leaves it out.
        workflow_type: The workflow's type; none where no workflow asks.
        workflow_id: The workflow's id.
        local: Whether the worker that runs the workflow asks, which no other workflow can have.
    """
    if workflow_type != WORKFLOW_TYPE:
        asks = f"a workflow of the type {workflow_type!r}" if workflow_type else "no workflow"
        return f"{name} is asked for by {asks}, which is no run"
    about = getattr(args[0], "run", "") if args else ""
    begins = local and name == LOAD_STATE  # a fork, or a part, with another run's state
    if about not in ("", workflow_id) and not begins:
        return f"{name} is about the run {about!r}, and the run {workflow_id!r} asks for it"
    return ""
