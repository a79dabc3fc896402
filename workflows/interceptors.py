"""Interceptors of the workflow: the number of start arguments, and the details in the Web UI.

The SDK passes all arguments of a start to the run method. A number other than one would fail the
workflow task again and again, so an interceptor checks it and fails the run instead.

The details are made when a client asks for them, not at every workflow task.
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
    """Fails a run that was started without an argument or with several."""

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
                f"the input of a run must be one JSON object, not {len(input.args)} arguments",
                "InvalidStart",
                FailureDetails(remedy="docs/wire.md has the fields."),
            )
        return await super().execute_workflow(input)


METADATA = "__temporal_workflow_metadata"
"""The SDK's query for the details in the Web UI."""


class CurrentDetailsInterceptor(Interceptor):
    """Adds the details of a run to the result of the metadata query."""

    def workflow_interceptor_class(
        self,
        input: WorkflowInterceptorClassInput,
    ) -> type[WorkflowInboundInterceptor]:
        """The interceptor of each execution."""
        return _DetailsInbound


class _DetailsInbound(WorkflowInboundInterceptor):
    async def handle_query(self, input: HandleQueryInput) -> Any:
        result = await super().handle_query(input)
        # The workflow does not set them: after a replay it would have none.
        if input.query == METADATA and isinstance(result, WorkflowMetadata):
            run: Any = workflow.instance()
            result.current_details = run.details()
        return result
