"""A split, in the workflow: the run begins one of its own for each part of its graph."""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ChildWorkflowError, WorkflowAlreadyStartedError

with workflow.unsafe.imports_passed_through():
    from crewlog.ids import RunId
    from crewlog.state.model import CrewState
    from crewlog.wire import WORKFLOW_TYPE, SplitSource, StartRun


async def begin_part(state: CrewState, graph: RunId, by: str, queue: str) -> str:
    """Begins the run of a part. It waits until this one's journal says that it is one.

    Args:
        state: This run.
        graph: The part's id.
        by: Who parts them.
        queue: The task queue of its activities; empty: the workflow's own.

    Returns:
        Why it could not; empty where it began.
    """
    split = SplitSource(run=state.run, after=state.position)
    try:
        await workflow.start_child_workflow(
            WORKFLOW_TYPE,
            StartRun(split=split, by=by, queue=queue).to_json(),
            id=graph,
            task_timeout=workflow.info().task_timeout,
            execution_timeout=workflow.info().execution_timeout,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            static_summary=f"a part of {state.run}",
        )
    except WorkflowAlreadyStartedError:
        return f"there is a run {graph} already: send the change again, with a new id"
    except ChildWorkflowError as error:
        return f"the run {graph} could not be started: {error.cause or error}"
    return ""
