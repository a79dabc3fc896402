"""What must be true of a start before `CrewRun` can look at it: it has one argument.

The SDK hands a run method whatever arguments came; any other number than it declares fails the
workflow task, for ever. So the number is looked at here, where it can fail the run instead.
"""

from __future__ import annotations

from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    ExecuteWorkflowInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)


class StartArgumentInterceptor(Interceptor):
    """Fails a run that was started with none or with several arguments."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,
    ) -> type[WorkflowInboundInterceptor]:
        """The interceptor of each execution."""
        return _StartInbound


class _StartInbound(WorkflowInboundInterceptor):
    async def execute_workflow(self, input: ExecuteWorkflowInput) -> Any:
        if len(input.args) != 1:
            raise ApplicationError(
                f"a run takes one JSON object, not {len(input.args)} arguments",
                "docs/wire.md has the fields.",
                type="InvalidStart",
                non_retryable=True,
            )
        return await super().execute_workflow(input)
