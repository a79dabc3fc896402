"""Rollback, fork and reopening, in the workflow: the state comes from an activity.

A rollback is prepared by its update's handler and applied by the loop. A fork, and a run that goes
on after its end, begin with the state instead of a crew.
"""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from crewlog.errors import CommandRejected, CrewlogError
    from crewlog.graph import rewinding
    from crewlog.graph.drafting import Drafting
    from crewlog.graph.engine import Engine
    from crewlog.graph.plan import GraphPlan
    from crewlog.ids import RunId, StepId
    from crewlog.state.calls import LOAD_STATE, LoadedState, LoadState
    from crewlog.state.ledger import Ledger
    from crewlog.state.model import CrewState
    from crewlog.state.rewinding import Resumption
    from crewlog.wire import ForkFrom, Rollback, StartRun

from crewlog.workflows.activity_options import LOADING, LOCAL
from crewlog.workflows.inbox import Incoming


async def prepare(engine: Engine | Drafting, incoming: Incoming, command: Rollback) -> None:
    """Has the state of a rollback's checkpoint loaded; what is wrong with it becomes a refusal."""
    if command.id in engine.state.commands:
        return
    task = LoadState(run=engine.state.run, position=command.position, batch=engine.ledger.batch())
    try:
        incoming.prepared = await workflow.execute_activity(
            LOAD_STATE, task, result_type=LoadedState, **LOADING
        )
    except ActivityError as error:
        incoming.refusal = _refusal(error)


def _refusal(error: ActivityError) -> CrewlogError:
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        return CommandRejected(
            f"the checkpoint could not be loaded: {cause or error}", remedy="Use a new id."
        )
    remedies = [str(detail) for detail in cause.details[1:2] if detail]
    return CommandRejected(cause.message, remedy="".join(remedies))


async def begin(start: StartRun, at: int) -> tuple[Engine, LoadedState]:
    """The engine of a run that begins as a fork, or goes on after its end.

    Raises:
        ApplicationError: there is no such checkpoint, or nothing to go on with.
    """
    run = RunId(workflow.info().workflow_id)
    loaded = await _loaded(_task(start, run))
    plan, then = GraphPlan.from_json(loaded.plan), CrewState.from_json(loaded.state)
    if start.fork is not None:
        return rewinding.fork(plan, then, run, by=start.by, at=at), loaded
    ledger = Ledger(CrewState.from_json(loaded.last))
    found = Resumption(loaded.position, StepId(loaded.decision) if loaded.decision else None)
    return rewinding.reopen(plan, ledger, then, found, by=start.by, at=at), loaded


def _task(start: StartRun, run: RunId) -> LoadState:
    source: ForkFrom | None = start.fork
    if source is not None:
        return LoadState(run=source.run, position=source.position)
    return LoadState(run=run, reopen=True, recipe=start.reopen == "recipe")


async def _loaded(task: LoadState) -> LoadedState:
    try:
        loaded: LoadedState = await workflow.execute_local_activity(
            LOAD_STATE, task, result_type=LoadedState, **LOCAL
        )
    except ActivityError as error:
        cause: Any = error.cause
        if not isinstance(cause, ApplicationError):
            raise
        raise ApplicationError(
            cause.message, *cause.details, type=cause.type, non_retryable=True
        ) from error
    return loaded
