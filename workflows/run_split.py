"""A split, in the workflow: the run starts a split run for each split component."""

from __future__ import annotations

from temporalio import workflow
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import ChildWorkflowError, WorkflowAlreadyStartedError

from crewlog.ids import RunId
from crewlog.state.model import CrewState
from crewlog.wire import WORKFLOW_TYPE, SplitSource, StartRun


async def start_split_run(state: CrewState, run: RunId, by: str, queue: str) -> str:
    """Starts a split run, which waits until the journal of this run records the split.

    Args:
        state: The state of this run.
        run: The id of the split run.
        by: The principal of the split.
        queue: The task queue of its activities; empty: the workflow's own.

    Returns:
        Why it could not be started; empty if it was started.
    """
    split = SplitSource(run=state.run, after=state.position)
    try:
        await workflow.start_child_workflow(
            WORKFLOW_TYPE,
            StartRun(split=split, by=by, queue=queue).to_json(),
            id=run,
            task_timeout=workflow.info().task_timeout,
            execution_timeout=workflow.info().execution_timeout,
            parent_close_policy=workflow.ParentClosePolicy.ABANDON,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            static_summary=f"split from {state.run}",
        )
    except WorkflowAlreadyStartedError:
        return f"there is a run {run} already: send the change again with a new id"
    except ChildWorkflowError as error:
        return f"the run {run} could not be started: {error.cause or error}"
    return ""
