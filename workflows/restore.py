"""Rollback, fork, reopen and split run, in the workflow: an activity loads the state.

The loop prepares and applies a rollback. The others are starts of a run from a state.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

from crewlog.authority.principals import CommandAuthorization
from crewlog.errors import (
    CommandRejected,
    CrewlogError,
    InternalError,
    NotPermitted,
    UsageError,
)
from crewlog.failure_details import failure_details, non_retryable_copy
from crewlog.graph import restore
from crewlog.graph.engine import Engine
from crewlog.graph.plan import GraphPlan
from crewlog.graph.swap import live_change
from crewlog.graph.swap.report import swap_report
from crewlog.ids import ContentHash, RunId, StepId
from crewlog.model import Json
from crewlog.state.calls import (
    DELETE_REPLACED_RUN,
    PREPARE_CHANGE,
    RESTORE_STATE,
    DeleteReplacedRun,
    PrepareChange,
    PrepareChangeResult,
    RestoreState,
    RestoreStateResult,
    SignedStart,
)
from crewlog.state.model import CrewState
from crewlog.state.recorder import Journal
from crewlog.state.restore import ReopenPoint
from crewlog.wire import Command, ForkSource, Rollback, SplitSource, StartRun, TagCommand
from crewlog.workflows import authorization
from crewlog.workflows.activity_options import LOCAL_OPTIONS, RESTORE_OPTIONS, SPLIT_OPTIONS
from crewlog.workflows.commands.queue import (
    NotPrepared,
    Preparation,
    QueuedCommand,
    RefusedCommand,
)
from crewlog.workflows.local_activity import execute_local_activity


async def prepare(engine: Engine, command: Rollback) -> Preparation:
    """Loads the state of a rollback's checkpoint, or refuses the rollback."""
    return await _load(engine, command, command.position)


async def prepare_tag(engine: Engine, incoming: QueuedCommand) -> None:
    """Checks in the store that a tag's position is a checkpoint, if an earlier execution wrote it.

    The loop waits for the activity: a signal whose preparation is in flight would be lost when the
    run continues as new.
    """
    if incoming.name != "tag" or incoming.known_outcome is not None:
        return
    try:
        command = incoming.parse()
    except CommandRejected:
        return  # the loop rejects it when it applies it
    if isinstance(command, TagCommand) and command.checkpoint < engine.journal.first:
        incoming.preparation = await _load(engine, command, command.checkpoint)


async def _load(engine: Engine, command: Command, position: int) -> Preparation:
    if command.id in engine.state.commands or engine.state.is_ended:
        return NotPrepared()
    task = RestoreState(
        run=engine.state.run,
        position=position,
        batch=engine.journal.batch(),
        against=engine.plan.definition,
    )
    try:
        loaded: RestoreStateResult = await workflow.execute_activity(
            RESTORE_STATE, task, result_type=RestoreStateResult, **RESTORE_OPTIONS
        )
    except ActivityError as error:
        return RefusedCommand(_load_error(error))
    return loaded


def _load_error(error: ActivityError) -> CrewlogError:
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        return CommandRejected(
            f"the checkpoint could not be loaded: {cause or error}",
            remedy="Send the command again with a new id.",
        )
    return CommandRejected(cause.message, remedy=failure_details(cause).remedy)


async def delete_replaced_run(start: StartRun, data: dict[str, Json], at: int) -> None:
    """Deletes the run that had this run's id, before anything is recorded.

    Args:
        start: The input of this run.
        data: The same, as it was sent.
        at: When it was started, in milliseconds since the epoch.

    Raises:
        ApplicationError: the policy of that run does not permit it, or another run needs its
            journal.
    """
    run, use = RunId(workflow.info().workflow_id), authorization.signed_start(start, data, at)
    task = DeleteReplacedRun(
        run=run, executions=start.replaced_executions, start=data, at=at, use=use
    )
    try:
        await workflow.execute_local_activity(DELETE_REPLACED_RUN, task, **LOCAL_OPTIONS)
    except ActivityError as error:
        cause = error.cause
        refusals = {NotPermitted.__name__, UsageError.__name__}
        if not isinstance(cause, ApplicationError) or cause.type not in refusals:
            raise
        raise non_retryable_copy(cause) from error


async def restore_run(
    start: StartRun, data: dict[str, Json], at: int
) -> tuple[Engine, RestoreStateResult]:
    """The engine of a fork, or of a reopened run.

    Another definition is a change like any other: the loop swaps the graph before anything starts.

    Args:
        start: The input of the run.
        data: The same, as it was sent.
        at: When it was started, in milliseconds since the epoch.

    Raises:
        ApplicationError: there is no such checkpoint, nothing to continue, or no such crew; or the
            policy of the original run does not permit it.
    """
    run = RunId(workflow.info().workflow_id)
    task = _restore_input(start, run, authorization.signed_start(start, data, at))
    loaded = await execute_local_activity(RESTORE_STATE, task, RestoreStateResult)
    start, _ = authorization.authorize_start(start, data, loaded.policy, run, at)
    plan, restored = GraphPlan.from_json(loaded.plan), CrewState.from_json(loaded.state)
    last = CrewState.from_json(loaded.last) if start.reopen else restored
    change = _change_input(start, run, restored, last)
    # Before anything is recorded: an invalid change must leave no run behind.
    prepared = (
        await execute_local_activity(PREPARE_CHANGE, change, PrepareChangeResult)
        if change
        else None
    )
    _check_authority(start, loaded, prepared, plan, restored)
    if prepared is not None:
        restored = restore.with_returning_logs(
            restored, loaded.former_logs, GraphPlan.from_json(prepared.plan)
        )
    if start.fork is not None:
        checkpoint = start.fork.position
        engine = restore.fork(plan, restored, run, by=start.by, at=at, checkpoint=checkpoint)
    else:
        journal = Journal(last)
        point = ReopenPoint(loaded.position, StepId(loaded.decision) if loaded.decision else None)
        engine = restore.reopen(
            plan,
            journal,
            restored,
            point,
            by=start.by,
            at=at,
            reason=start.reason,
            claimed=prepared.claimed if prepared is not None else {},
        )
    if prepared is not None:
        new = GraphPlan.from_json(prepared.plan)
        report = swap_report(engine.plan, new, engine.state)
        has_operations = start.fork is not None and start.fork.operations
        basis = ContentHash(restored.definition if has_operations else "")
        live_change.accept_change(engine, new, report, what=prepared.what, by=start.by, basis=basis)
    return engine, loaded


async def start_split_run(
    start: StartRun, split: SplitSource, at: int
) -> tuple[Engine, RestoreStateResult]:
    """The engine of a split run, once the journal of the original run records the split.

    Args:
        start: The input of the split run.
        split: The original run, of the same input.
        at: When it was started, in milliseconds since the epoch.

    Raises:
        ApplicationError: the original run continued without the split.
    """
    run = RunId(workflow.info().workflow_id)
    use = SignedStart(execution=workflow.info().original_execution_run_id, at=at)
    task = RestoreState(run=split.run, split_after=split.after, use=use)
    loaded = await execute_local_activity(RESTORE_STATE, task, RestoreStateResult, SPLIT_OPTIONS)
    plan, restored = GraphPlan.from_json(loaded.plan), CrewState.from_json(loaded.state)
    parent = workflow.info().parent
    if start.queue and (parent is None or parent.workflow_id != split.run):
        _check_split_queue(start, loaded)
    if restored.run != run:
        raise InternalError(f"the split run of {split.run!r} is {restored.run!r}, not {run!r}")
    engine = restore.start_split_run(
        plan, restored, split.run, by=loaded.by, at=at, split=loaded.split
    )
    return engine, loaded


def _check_authority(
    start: StartRun,
    loaded: RestoreStateResult,
    prepared: PrepareChangeResult | None,
    plan: GraphPlan,
    restored: CrewState,
) -> None:
    """Checks that a principal has the rights for what a fork or a reopen widens and touches.

    Raises:
        ApplicationError: the run would start with more authority than the original run had.
    """
    policy = loaded.policy
    if policy is None or not policy.signed:
        return
    rights = policy.principals[start.by].rights
    principal = CommandAuthorization(
        allowed=True, reason="", principal=start.by, verified=True, rights=rights
    )
    try:
        if prepared is not None and (start.fork is not None or start.crew):
            what = "a fork with changes" if start.fork is not None else "a reopen with another crew"
            authorization.check_right(principal, "change", what)
        _check_task_queue(start, principal)
        what = "the start from this state"
        authorization.check_widening(principal, loaded.widens, what)
        authorization.check_touches(principal, plan, restored, loaded.touches, f"{what}:")
        if prepared is not None:
            authorization.check_widening(principal, prepared.widens, "the changed definition")
    except NotPermitted as error:
        raise authorization.start_error(error) from error


def _check_task_queue(start: StartRun, principal: CommandAuthorization) -> None:
    """Checks that a principal without the right `grant` moves no activities to other workers.

    Raises:
        NotPermitted: the task queue of the activities is not that of the workflow.
    """
    if start.queue not in ("", workflow.info().task_queue):
        what = f"a start with its activities on the queue {start.queue!r}"
        authorization.check_right(principal, "grant", what)


def _check_split_queue(start: StartRun, loaded: RestoreStateResult) -> None:
    """Checks that only the original run moves the activities of a split run to other workers.

    Raises:
        ApplicationError: the task queue of the activities is not that of the workflow.
    """
    is_signed = loaded.policy is not None and loaded.policy.signed
    if is_signed and start.queue != workflow.info().task_queue:
        raise authorization.start_error(
            NotPermitted(
                "only the original run may start a split run whose activities are on the queue "
                f"{start.queue!r}",
                remedy="Leave `queue` out.",
            )
        )


def _restore_input(start: StartRun, run: RunId, use: SignedStart) -> RestoreState:
    source: ForkSource | None = start.fork
    if source is not None:
        return RestoreState(run=source.run, position=source.position, use=use)
    is_recipe = start.reopen == "recipe"
    return RestoreState(
        run=run, reopen=True, recipe=is_recipe, executions=start.replaced_executions, use=use
    )


def _change_input(
    start: StartRun, run: RunId, restored: CrewState, last: CrewState
) -> PrepareChange | None:
    """The change that a fork or a reopen makes; None if it makes none."""
    fork = start.fork
    if fork is not None and (fork.operations or fork.definition is not None):
        return PrepareChange(
            run=run,
            base=restored.definition,
            definition=fork.definition,
            operations=tuple({"op": each.op, **each.to_json()} for each in fork.operations),
        )
    if start.reopen == "recipe" and (start.crew or restored.recipe != restored.definition):
        return PrepareChange(
            run=run,
            base=restored.recipe,
            recipe=True,
            definition=start.crew or None,
            against=ContentHash(restored.definition),
            after=last.position,
        )
    return None
