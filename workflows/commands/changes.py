"""The command `change`: its preparation by an activity, and its effect on the run.

prepare  an activity makes the changed definition and its plan
apply    reports their effect on the run; unless it is a dry run, records that the change is
         accepted, or that only permissions and settings changed
"""

from __future__ import annotations

from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError

from crewlog.canonical_json import hash_json
from crewlog.definition.operations import Connect, Wire
from crewlog.errors import (
    ChangeConflict,
    CommandRejected,
    ComponentConflict,
    CrewlogError,
    InternalError,
)
from crewlog.failure_details import failure_details
from crewlog.graph.engine import Engine
from crewlog.graph.plan import GraphPlan
from crewlog.graph.prompt_compilation import COMPILER
from crewlog.graph.swap import live_change
from crewlog.graph.swap.report import SwapReport
from crewlog.ids import RESERVED, AgentName, CommandId, ContentHash, RunId, ToolName
from crewlog.reporting.wire_views import change_report
from crewlog.state import journal as j
from crewlog.state.calls import (
    PREPARE_CHANGE,
    PREPARE_MERGE,
    PrepareChange,
    PrepareChangeResult,
    PrepareMerge,
    PrepareMergeResult,
)
from crewlog.state.model import CommandOutcome
from crewlog.state.run_merge.protocol import (
    RunSize,
    check_may_request,
    check_no_merge,
    merge_request,
)
from crewlog.state.run_merge.surviving_state import removed_agents
from crewlog.wire import Change, ChangeResult, Rollback
from crewlog.workflows import authorization
from crewlog.workflows.activity_options import PREPARE_BY_PROMPT_OPTIONS, PREPARE_CHANGE_OPTIONS
from crewlog.workflows.commands.queue import QueuedCommand
from crewlog.workflows.local_activity import execute_local_activity_or_fallback

SPLIT_AT_START = f"{RESERVED}split"
"""The command of a run that is split because it starts with several components. `/` and the number
of the execution follow, since each such execution starts split runs of its own."""


async def prepare(
    incoming: QueuedCommand, command: Change, engine: Engine, queue: str
) -> PrepareChangeResult | PrepareMergeResult:
    """Prepares a change: an activity makes the changed definition and its plan.

    Args:
        incoming: The change; it gets the `rounds` of models that read its prompt.
        command: The same, parsed.
        engine: The engine of the run, which continues meanwhile.
        queue: The task queue of the run's activities; empty: the workflow's own.

    Raises:
        CrewlogError: the change is rejected.
    """
    check(engine, command)
    operation = merge_operation(command)
    if operation is not None:
        return await _prepare_merge(engine, operation)
    return await _prepare_change(incoming, engine, command, queue)


def check(engine: Engine, command: Change) -> None:
    """Checks a change before its preparation.

    Raises:
        CommandRejected: the run has no crew yet, or has ended.
        ChangeConflict: it was made against another graph, or the run has a pending run merge.
    """
    state = engine.state
    if state.is_ended or state.status == "stopping":
        raise CommandRejected(
            f"cannot change the run: it is {state.status}",
            remedy="Start another run: a run that ends or has ended cannot be changed.",
        )
    if engine.prompt.is_active:
        raise CommandRejected(
            "cannot change the run: it has no crew yet",
            remedy="Answer its interrupt with `edit`, which replaces the definition.",
        )
    if command.graph_version not in (None, state.graph_version):
        raise ChangeConflict(
            f"the change was made against graph v{command.graph_version}, and the run has "
            f"v{state.graph_version}",
            remedy="Make a dry run on the current graph, and send it as a new change.",
        )
    check_no_merge(state)


def check_pending_change(engine: Engine, command: Change | Rollback) -> None:
    """Checks whether a command may wait for a pending change.

    It may wait if it names no graph version, or the one after the pending change. A command against
    the current graph would only succeed if the pending change failed.

    Raises:
        ChangeConflict: it was made against the current graph.
    """
    pending = engine.state.pending_change
    if pending is None or isinstance(command, Rollback):
        return
    if command.graph_version not in (None, pending.graph_version):
        check_no_pending_change(engine, command)


def may_need_no_swap(engine: Engine, incoming: QueuedCommand, command: Change) -> bool:
    """Whether a change may take effect while another one is pending, as far as that is known.

    Operations are made to the definition in force and to that of the pending change. A split or a
    whole definition is not.
    """
    pending = engine.state.pending_change
    return (
        pending is not None
        and not pending.nodes
        and bool(command.operations)
        and command.graph_version in (None, engine.state.graph_version)
        and not incoming.waits_for_swap
        and merge_operation(command) is None
    )


def check_no_pending_change(engine: Engine, command: Change | Rollback) -> None:
    """Checks that no change is pending, unless the command has an outcome already.

    Raises:
        ChangeConflict: a change is pending.
    """
    pending = engine.state.pending_change
    if pending is None or command.id in engine.state.commands:
        return
    by = f" by {pending.by}" if pending.by else ""
    what = "roll back" if isinstance(command, Rollback) else "send the change again"
    raise ChangeConflict(
        f"another change{by} is pending, to graph v{pending.graph_version}: "
        f"{pending.what or pending.command}",
        remedy="It waits for the calls in flight. Once the run has the new graph, "
        f"{what} with a new id.",
    )


async def _prepare_change(
    incoming: QueuedCommand, engine: Engine, command: Change, queue: str
) -> PrepareChangeResult:
    """Prepares a change; in several rounds if a model reads its prompt."""
    prompt = engine.state.prompt
    task = PrepareChange(
        run=engine.state.run,
        base=engine.plan.definition,
        command=command.id,
        definition=command.definition,
        operations=tuple({"op": each.op, **each.to_json()} for each in command.operations),
        pending=pending.definition if (pending := engine.state.pending_change) else ContentHash(""),
        prompt=command.prompt,
        registry=command.registry or (prompt.registry if prompt else ""),
        reader=command.reader,
        model=command.model,
        permissions=_live_permissions(engine) if command.prompt else {},
        basis=engine.state.basis if command.prompt else ContentHash(""),
    )
    needs_model = bool(command.prompt) and command.reader != "forms"
    options: dict[str, Any] = (
        {**PREPARE_BY_PROMPT_OPTIONS, "task_queue": queue or None}
        if needs_model
        else PREPARE_CHANGE_OPTIONS
    )
    while True:
        try:
            result: PrepareChangeResult = await workflow.execute_activity(
                PREPARE_CHANGE, task, result_type=PrepareChangeResult, **options
            )
        except ActivityError as error:
            raise _preparation_error(error) from error
        if result.reply is not None:
            incoming.rounds.append(result)
            task = task.model_copy(update={"replies": (*task.replies, result.reply)})
        if result.refused:
            raise _invalid_change(result.refused)
        if not result.again:
            return result


def merge_operation(command: Change) -> Connect | Wire | None:
    """The operation of a change that requests a run merge; none if it changes this run only.

    Raises:
        CommandRejected: the change has other operations, too.
    """
    operations = [
        each
        for each in command.operations
        if isinstance(each, Connect | Wire) and each.other is not None
    ]
    if operations and len(command.operations) > 1:
        raise CommandRejected(
            f"cannot merge this run with {operations[0].other!r} in a change with other operations",
            remedy="Send the other operations as a change of their own, before or after it.",
        )
    return operations[0] if operations else None


async def _prepare_merge(engine: Engine, operation: Connect | Wire) -> PrepareMergeResult:
    """Prepares a run merge with the current state of the other run."""
    state = engine.state
    other = RunId(operation.other or "")
    check_may_request(state, other)
    task = PrepareMerge(
        run=state.run,
        base=engine.plan.definition,
        other=other,
        operation={"op": operation.op, **operation.to_json()},
        asks=state.run,
        removed=removed_agents(state, engine.plan.agents),
        decide=True,
        merged=tuple(op for op, merge in state.merges.items() if merge.outcome == "merged"),
    )
    try:
        return await execute_local_activity_or_fallback(
            PREPARE_MERGE, task, PrepareMergeResult, PREPARE_CHANGE_OPTIONS
        )
    except ActivityError as error:
        raise _preparation_error(error) from error


async def prepare_split_at_start(engine: Engine) -> PrepareChangeResult:
    """Prepares the split of a run that starts with several components."""
    task = PrepareChange(
        run=engine.state.run,
        base=engine.plan.definition,
        recipe=True,
        command=f"{SPLIT_AT_START}/{engine.state.execution}",
    )
    result: PrepareChangeResult = await workflow.execute_activity(
        PREPARE_CHANGE, task, result_type=PrepareChangeResult, **PREPARE_CHANGE_OPTIONS
    )
    return result.model_copy(update={"base": engine.plan.definition})


def _live_permissions(engine: Engine) -> dict[str, tuple[AgentName, ...]]:
    """The permissions that people set on the live run: the agents that may call each tool."""
    defined, now = engine.plan.permissions, engine.state.tool_permissions
    return {
        tool: agents
        for tool, agents in now.items()
        if agents is not None and agents != defined.get(ToolName(tool))
    }


def _preparation_error(error: ActivityError) -> CrewlogError | ActivityError:
    """The error of a change whose preparation failed."""
    cause = error.cause
    if isinstance(cause, CancelledError):
        return error
    if not isinstance(cause, ApplicationError):
        return CommandRejected(
            f"the change could not be prepared: {cause or error}",
            remedy="Send it as a new change.",
        )
    remedy = failure_details(cause).remedy
    if cause.type == "ChangeConflict":
        return ChangeConflict(cause.message, remedy=remedy)
    return _invalid_change(cause.message, remedy)


def _invalid_change(faults: str, remedy: str = "") -> CommandRejected:
    return CommandRejected(
        f"the change makes no crew:\n{faults}",
        remedy=remedy or "The run is unchanged: correct the change, and send it as a new one.",
    )


class AppliedChange(NamedTuple):
    """A change that was applied, or reported for a dry run."""

    result: ChangeResult
    """The result of the command."""
    report: SwapReport
    """What the change does to the run."""


def apply(engine: Engine, incoming: QueuedCommand, command: Change) -> AppliedChange | None:
    """Applies a change, or reports it for a dry run; none if it must be prepared again.

    Raises:
        CommandRejected: the change does not fit the run.
        ChangeConflict: the change was made against another graph, or the changed definition is not
            the expected one.
    """
    prepared, state = incoming.preparation, engine.state
    check(engine, command)
    if isinstance(prepared, PrepareMergeResult):
        return _request_merge(engine, incoming, command, prepared)
    if not isinstance(prepared, PrepareChangeResult):
        return None
    pending = state.pending_change
    if pending is not None and (
        prepared.pending is None or prepared.pending.base != pending.definition
    ):
        return None  # another change came first: this one applies to the graph after it
    if prepared.base not in ("", state.definition):
        return None  # it was prepared for another definition
    if incoming.authorization is not None and prepared.compared != state.definition:
        return None  # its widenings refer to another definition
    abandon = command.running == "abandon"
    report, plan = live_change.change_report(
        engine,
        prepared,
        graph_version=command.graph_version,
        expect=command.expect,
        abandon=abandon,
        is_pending_changed=pending is not None,
    )
    if pending is not None and (report.swap or report.at_once):
        incoming.waits_for_swap = True
        return None
    report = report.model_copy(update={"warnings": prepared.warnings})
    authorization.check_widening(incoming.authorization, prepared.widens, "the change")
    touches = live_change.change_touches(engine, plan, report)
    authorization.check_touches(incoming.authorization, plan, state, touches, "the change:")
    fields: dict[str, Any] = {
        "id": command.id,
        "detail": prepared.what,
        "graph_version": report.graph_version,
        "swap": report.swap,
        "definition": plan.definition,
        "report": change_report(report),
        "remarks": tuple(map(str, prepared.diagnostics)),
        "hash": incoming.command_hash,
    }
    if command.dry_run:
        result = ChangeResult(position=state.position, plan=plan.to_json(), **fields)
        return AppliedChange(result, report)
    live_change.accept_change(
        engine,
        plan,
        report,
        what=prepared.what,
        by=command.by,
        reason=command.reason,
        command=command.id,
        abandon=abandon,
        split_runs=prepared.split_runs,
        basis=_basis(engine, command, prepared),
        pending_plan=GraphPlan.from_json(prepared.pending.plan)
        if pending is not None and prepared.pending is not None
        else None,
    )
    position = engine.state.commands[command.id].position
    return AppliedChange(ChangeResult(position=position, **fields), report)


def _basis(engine: Engine, command: Change, prepared: PrepareChangeResult) -> ContentHash:
    """The definition that operations or a prompt change; empty for a whole definition."""
    if command.operations:
        return engine.state.basis or engine.state.definition
    return hash_json(prepared.basis) if prepared.basis else ContentHash("")


def _request_merge(
    engine: Engine, incoming: QueuedCommand, command: Change, prepared: PrepareMergeResult
) -> AppliedChange:
    """Requests a run merge, or reports it for a dry run.

    Raises:
        ComponentConflict: the runs cannot be merged.
        ChangeConflict: the run has a pending run merge or change, or the definition of both is not
            the expected one.
    """
    if prepared.refused:
        raise ComponentConflict(prepared.refused, remedy=prepared.remedy)
    authorization.check_widening(incoming.authorization, prepared.widens, "the merge")
    operation = merge_operation(command)
    if operation is None:
        raise InternalError("a run merge was prepared for a change that requests none")
    definition = hash_json(prepared.definition)
    live_change.check_expected(command.expect, definition)
    what = _edge_text(operation)
    request = merge_request(
        engine.state,
        RunId(operation.other or ""),
        command.id,
        survives=prepared.merged_run != engine.state.run,
        at=engine.at,
        operation={"op": operation.op, **operation.to_json()},
        what=what,
        size=RunSize.of(engine.plan.component),
        request=incoming.data if "proof" in incoming.data else None,
        expect=command.expect,
        by=command.by,
        reason=command.reason,
    )
    report = SwapReport(
        graph_version=engine.state.graph_version,
        swap=False,
        component_change=prepared.change,
        warnings=prepared.warnings,
    )
    fields: dict[str, Any] = {
        "id": command.id,
        "detail": what,
        "graph_version": engine.state.graph_version,
        "definition": definition,
        "merge": request.merge,
        "hash": incoming.command_hash,
        "report": change_report(report),
    }
    if command.dry_run:
        position = engine.state.position
        return AppliedChange(ChangeResult(position=position, plan=prepared.plan, **fields), report)
    engine.record(request)
    return AppliedChange(ChangeResult(position=engine.state.position, **fields), report)


def _edge_text(operation: Connect | Wire) -> str:
    """The operation that connects two runs, for people."""
    if isinstance(operation, Wire):
        return f"wires {operation.name} to {operation.to} of {operation.other}"
    over = f" over {operation.channel}" if operation.channel else ""
    return f"connects {operation.sender} to {operation.listener} of {operation.other}{over}"


def repeated_result(engine: Engine, command: str, known: CommandOutcome) -> ChangeResult:
    """The result of a change that was sent again."""
    state = engine.state
    return ChangeResult(
        id=CommandId(command),
        position=known.position,
        detail="applied before",
        graph_version=known.graph_version or state.graph_version,
        swap=known.graph_version > 0,
        hash=known.hash,
    )


def record_usage(engine: Engine, incoming: QueuedCommand) -> None:
    """Records the usage of the models that read a change's prompt, whatever its outcome."""
    for number, each in enumerate(incoming.rounds, 1):
        engine.record(j.PromptRead(agent=COMPILER, round=number, usage=each.usage))
    incoming.rounds.clear()
