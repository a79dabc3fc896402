"""Rollback, fork and reopening, in the workflow: the state comes from an activity.

A rollback is prepared by its update's handler and applied by the loop. A fork, and a run that goes
on after its end, begin with the state instead of a crew.
"""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from crewlog.authority.principals import CommandAuthorization, authorize_right
    from crewlog.errors import CommandRejected, CrewlogError, InternalError, NotPermitted
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
from crewlog.workflows.activity_options import LOADING, LOCAL, PARTING
from crewlog.workflows.command_queue import QueuedCommand
from crewlog.workflows.local_activity import made


async def prepare(engine: Engine, incoming: QueuedCommand, command: Rollback) -> None:
    """Has the state of a rollback's checkpoint loaded; what is wrong with it becomes a refusal."""
    await _load(engine, incoming, command, command.position)


async def prepare_tag(engine: Engine, incoming: QueuedCommand) -> None:
    """Has it looked up whether a position of an earlier execution is a checkpoint, to tag it.

    What a tag of any other position needs is known here. The loop waits for it: where the run
    continues as new, what was found out by a signal's handler would be lost.
    """
    if incoming.name != "tag" or incoming.known is not None:
        return
    try:
        command = incoming.parse()
    except CommandRejected:
        return  # said when it is taken
    if isinstance(command, TagCommand) and command.checkpoint < engine.ledger.first:
        await _load(engine, incoming, command, command.checkpoint)


async def _load(engine: Engine, incoming: QueuedCommand, command: Command, position: int) -> None:
    if command.id in engine.state.commands or engine.state.is_ended:
        return
    task = RestoreState(
        run=engine.state.run,
        position=position,
        batch=engine.ledger.batch(),
        against=engine.plan.definition,
    )
    try:
        incoming.prepared = await workflow.execute_activity(
            RESTORE_STATE, task, result_type=RestoreStateResult, **LOADING
        )
    except ActivityError as error:
        incoming.refusal = _refusal(error)


def _refusal(error: ActivityError) -> CrewlogError:
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        return CommandRejected(
            f"the checkpoint could not be loaded: {cause or error}", remedy="Use a new id."
        )
    return CommandRejected(cause.message, remedy=failure_details(cause).remedy)


async def forget(start: StartRun, data: dict[str, Json], at: int) -> None:
    """Has the rows removed of the run that had this one's id, before anything is recorded.

    Args:
        start: What this one is started with.
        data: The same, as it was sent.
        at: When.

    Raises:
        ApplicationError: that run's policy does not let who starts this one do it.
    """
    run, use = RunId(workflow.info().workflow_id), authorization.use_of(start, data, at)
    task = DeleteReplacedRun(run=run, executions=start.replaced, start=data, at=at, use=use)
    try:
        await workflow.execute_local_activity(DELETE_REPLACED_RUN, task, **LOCAL)
    except ActivityError as error:
        cause = error.cause
        if not isinstance(cause, ApplicationError) or cause.type != NotPermitted.__name__:
            raise
        raise non_retryable_copy(cause) from error


async def begin(
    start: StartRun, data: dict[str, Json], at: int
) -> tuple[Engine, RestoreStateResult]:
    """The engine of a run that begins as a fork, or goes on after its end.

    Where it is to go on with another definition, that is a change like any other: the loop swaps
    the graph before anything starts.

    Args:
        start: What it is started with.
        data: The same, as it was sent.
        at: When.

    Raises:
        ApplicationError: there is no such checkpoint, nothing to go on with, or no such crew; or
            the policy of the run that it comes of does not let it in.
    """
    run = RunId(workflow.info().workflow_id)
    task = _task(start, run, authorization.use_of(start, data, at))
    loaded = await made(RESTORE_STATE, task, RestoreStateResult)
    start = authorization.starter(start, data, loaded.policy, run, at)
    plan, then = GraphPlan.from_json(loaded.plan), CrewState.from_json(loaded.state)
    last = CrewState.from_json(loaded.last) if start.reopen else then
    change = _change(start, run, then, last)
    # Before anything is recorded: what is wrong with it must not leave a run behind.
    prepared = await made(PREPARE_CHANGE, change, PrepareChangeResult) if change else None
    _check_widening(start, loaded, prepared)
    if prepared is not None:
        then = restore.with_returning_logs(
            then, loaded.former_logs, GraphPlan.from_json(prepared.plan)
        )
    if start.fork is not None:
        place = start.fork.position
        engine = restore.fork(plan, then, run, by=start.by, at=at, checkpoint=place)
    else:
        ledger = Journal(last)
        found = ReopenPoint(loaded.position, StepId(loaded.decision) if loaded.decision else None)
        engine = restore.reopen(
            plan,
            ledger,
            then,
            found,
            by=start.by,
            at=at,
            reason=start.reason,
            claimed=prepared.claimed if prepared is not None else {},
        )
    if prepared is not None:
        wanted = GraphPlan.from_json(prepared.plan)
        report = swap_report(engine.plan, wanted, engine.state)
        edited = start.fork is not None and start.fork.operations
        basis = ContentHash(then.definition if edited else "")
        live_change.accept_change(
            engine, wanted, report, what=prepared.what, by=start.by, basis=basis
        )
    return engine, loaded


async def begin_part(
    start: StartRun, split: SplitSource, at: int
) -> tuple[Engine, RestoreStateResult]:
    """The engine of a run that begins as a part of another one, as that one's journal says.

    Args:
        start: What it is started with.
        split: The same: whose part.
        at: When.

    Raises:
        ApplicationError: that journal does not say so, however long one waits.
    """
    run = RunId(workflow.info().workflow_id)
    use = SignedStart(execution=workflow.info().original_execution_run_id, at=at)
    task = RestoreState(run=split.run, split_after=split.after, use=use)
    loaded = await made(RESTORE_STATE, task, RestoreStateResult, PARTING)
    plan, then = GraphPlan.from_json(loaded.plan), CrewState.from_json(loaded.state)
    parent = workflow.info().parent
    if start.queue and (parent is None or parent.workflow_id != split.run):
        _check_split_queue(start, loaded)
    if then.run != run:
        raise InternalError(f"the part of {split.run!r} is {then.run!r}, and not {run!r}")
    engine = restore.start_split_run(plan, then, split.run, by=loaded.by, at=at, split=loaded.split)
    return engine, loaded


def _check_widening(
    start: StartRun, loaded: RestoreStateResult, prepared: PrepareChangeResult | None
) -> None:
    """Checks that nobody sheds a policy, or gains by going back, who may not grant.

    Raises:
        ApplicationError: the run would begin with more authority than it had come to.
    """
    policy = loaded.policy
    if policy is None or not policy.signed:
        return
    rights = policy.principals[start.by].rights
    found = CommandAuthorization(
        allowed=True, reason="", principal=start.by, verified=True, rights=rights
    )
    try:
        if prepared is not None and (start.fork is not None or start.crew):
            what = "a fork with changes" if start.fork is not None else "going on with another crew"
            asked = authorize_right(start.by, rights, "change", what)
            if not asked.allowed:
                raise authorization.refusal(asked)
        _check_queue(start, found)
        authorization.check_widening(found, loaded.widens, "going on from there")
        if prepared is not None:
            authorization.check_widening(found, prepared.widens, "what it goes on with")
    except NotPermitted as error:
        raise authorization.start_error(error) from error


def _check_queue(start: StartRun, found: CommandAuthorization) -> None:
    """Checks that who may not grant moves a run's activities to nobody else's workers.

    Raises:
        NotPermitted: they are to be done on another queue than the workflow itself.
    """
    if start.queue in ("", workflow.info().task_queue):
        return
    what = f"going on with its activities on the queue {start.queue!r}"
    asked = authorize_right(start.by, found.rights, "grant", what)
    if not asked.allowed:
        raise authorization.refusal(asked)


def _check_split_queue(start: StartRun, loaded: RestoreStateResult) -> None:
    """Checks that nobody but the run that is parted moves a part's activities to other workers.

    Raises:
        ApplicationError: they are to be done on another queue than the workflow itself.
    """
    signed = loaded.policy is not None and loaded.policy.signed
    if signed and start.queue != workflow.info().task_queue:
        raise authorization.start_error(
            NotPermitted(
                f"a part whose activities are on the queue {start.queue!r} is begun by the run "
                "that it is a part of, and by nobody else",
                remedy="Leave `queue` out.",
            )
        )


def _task(start: StartRun, run: RunId, use: SignedStart) -> RestoreState:
    source: ForkSource | None = start.fork
    if source is not None:
        return RestoreState(run=source.run, position=source.position, use=use)
    recipe = start.reopen == "recipe"
    return RestoreState(run=run, reopen=True, recipe=recipe, executions=start.replaced, use=use)


def _change(start: StartRun, run: RunId, then: CrewState, last: CrewState) -> PrepareChange | None:
    """What is to be otherwise than it was there; none where nothing is."""
    fork = start.fork
    if fork is not None and (fork.operations or fork.definition is not None):
        return PrepareChange(
            run=run,
            base=then.definition,
            definition=fork.definition,
            operations=tuple({"op": each.op, **each.to_json()} for each in fork.operations),
        )
    if start.reopen == "recipe" and (start.crew or then.recipe != then.definition):
        return PrepareChange(
            run=run,
            base=then.recipe,
            recipe=True,
            definition=start.crew or None,
            against=ContentHash(then.definition),
            after=last.position,
        )
    return None
