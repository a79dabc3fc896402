"""What the web UI shows beside a run: made when somebody looks, and not at every task."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.worker import (
    HandleQueryInput,
    Interceptor,
    WorkflowInboundInterceptor,
    WorkflowInterceptorClassInput,
)

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
