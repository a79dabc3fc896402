"""What must be true of a start before `CrewRun` can look at it: it has one argument.

The SDK hands a run method whatever arguments came; any other number than it declares fails the
workflow task, for ever. So the number is looked at here, where it can fail the run instead.

What the web UI shows beside a run: made when somebody looks, and not at every task.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.worker import (
    ExecuteWorkflowInput,
    HandleQueryInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

with workflow.unsafe.imports_passed_through():
    from crewlog.failure_details import FailureDetails, application_error


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
            raise application_error(
                f"a run takes one JSON object, not {len(input.args)} arguments",
                "InvalidStart",
                FailureDetails(remedy="docs/wire.md has the fields."),
            )
        return await super().execute_workflow(input)


METADATA = "__temporal_workflow_metadata"
"""The SDK's query for what the web UI shows."""


class CurrentDetailsInterceptor(Interceptor):
    """Adds a run's details to the answer of the metadata query."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,
    ) -> type[WorkflowInboundInterceptor]:
        """The interceptor of each execution."""
        return _DetailsInbound


class _DetailsInbound(WorkflowInboundInterceptor):
    async def handle_query(self, input: HandleQueryInput) -> Any:
        found = await super().handle_query(input)
        # Not kept by the workflow: an execution that was read from its history again has none.
        if input.query == METADATA and isinstance(found, WorkflowMetadata):
            run: Any = workflow.instance()
            found.current_details = run.details()
        return found
