"""The command `change`: its preparation by an activity, and its effect on the run.

prepare   an activity makes the definition and the plan that the change leads to
apply     compares that with the run as it is by then; a dry run ends here, else one entry
records that the change is accepted, or that only permissions and settings changed
"""

from __future__ import annotations

from typing import Any, NamedTuple

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, CancelledError

with workflow.unsafe.imports_passed_through():
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
    from crewlog.state.run_merge.protocol import check_may_request, check_no_merge, merge_request
    from crewlog.state.run_merge.surviving_state import removed_agents
    from crewlog.wire import Change, ChangeResult, Rollback

from crewlog.workflows import authorization
from crewlog.workflows.activity_options import PREPARING, READING
from crewlog.workflows.command_queue import QueuedCommand
from crewlog.workflows.local_activity import locally

PIECES = f"{RESERVED}pieces"
"""The command of a run that parts what is in several pieces when it begins: `/` and the number of
the execution follow, since each that begins so parts into runs of its own."""


async def prepare(incoming: QueuedCommand, command: Change, engine: Engine, queue: str) -> None:
    """Has an activity make the definition and the plan that a change leads to.

    Args:
        incoming: The change; it gets `prepared`.
        command: The same, parsed.
        engine: The run's engine; the run goes on meanwhile.
        queue: The task queue of the run's activities; empty: the workflow's own.

    Raises:
        CrewlogError: the change is refused.
    """
    checked = check(engine, command)
    joins = joining(command)
    if joins is not None:
        incoming.prepared = await _joined(checked, joins)
    else:
        incoming.prepared = await _made(incoming, checked, command, queue)


def check(engine: Engine, command: Change) -> Engine:
    """What can be said of a change before anything is made: the engine that it is for.

    Raises:
        CommandRejected: the run has no crew yet, or has ended.
        ChangeConflict: it was made against another graph, or the run is about to be one with
            another run.
    """
    state = engine.state
    if state.is_ended or state.status == "stopping":
        raise CommandRejected(
            f"the run is {state.status}: its graph stays as it is",
            remedy="Nothing can be changed in a run that ends or has ended.",
        )
    if engine.prompt.is_active:
        raise CommandRejected(
            "the run has no crew yet that could be changed",
            remedy="Answer its question with `edit`: that puts another definition in its place.",
        )
    if command.graph_version not in (None, state.graph_version):
        raise ChangeConflict(
            f"the change was made against graph v{command.graph_version}, and the run has "
            f"v{state.graph_version}",
            remedy="Look at what it would do now, by a dry run, and send it as a new change.",
        )
    check_no_merge(state)
    return engine


def check_pending_change(engine: Engine, command: Change | Rollback) -> None:
    """Checks whether a command may wait a moment for a change that is under way.

    It may, where it takes any graph, or the one that the change leads to. Made against the graph
    that goes, it would only hold if the change failed: it is not kept waiting for that.

    Raises:
        ChangeConflict: it was made against the graph that goes.
    """
    under_way = engine.state.pending_change
    if under_way is None or isinstance(command, Rollback):
        return
    if command.graph_version not in (None, under_way.graph_version):
        check_no_pending_change(engine, command)


def check_no_pending_change(engine: Engine, command: Change | Rollback) -> None:
    """Checks that no change is under way, unless the command has an outcome already.

    Raises:
        ChangeConflict: one is.
    """
    under_way = engine.state.pending_change
    if under_way is None or command.id in engine.state.commands:
        return
    what, again = "yours would do", "send it as a new change"
    if isinstance(command, Rollback):
        what, again = "the run does", "roll back with a new id"
    who = f" by {under_way.by}" if under_way.by else ""
    raise ChangeConflict(
        f"another change{who} is under way, to graph v{under_way.graph_version}: "
        f"{under_way.what or under_way.command}",
        remedy=f"It waits for what runs now. Look at what {what} once it is there, and {again}.",
    )


async def _made(
    incoming: QueuedCommand, engine: Engine, command: Change, queue: str
) -> PrepareChangeResult:
    """The rounds of preparing: more than one only where a model reads a prompt."""
    prompt = engine.state.prompt
    task = PrepareChange(
        run=engine.state.run,
        base=engine.plan.definition,
        command=command.id,
        definition=command.definition,
        operations=tuple({"op": each.op, **each.to_json()} for each in command.operations),
        prompt=command.prompt,
        registry=command.registry or (prompt.registry if prompt else ""),
        reader=command.reader,
        model=command.model,
        permissions=_live_permissions(engine) if command.prompt else {},
        basis=engine.state.basis if command.prompt else ContentHash(""),
    )
    reads = bool(command.prompt) and command.reader != "forms"
    options: dict[str, Any] = {**READING, "task_queue": queue or None} if reads else PREPARING
    while True:
        try:
            made: PrepareChangeResult = await workflow.execute_activity(
                PREPARE_CHANGE, task, result_type=PrepareChangeResult, **options
            )
        except ActivityError as error:
            raise _refusal(error) from error
        if made.reply is not None:
            incoming.rounds.append(made)
            task = task.model_copy(update={"replies": (*task.replies, made.reply)})
        if made.refused:
            raise _no_crew(made.refused)
        if not made.again:
            return made


def joining(command: Change) -> Connect | Wire | None:
    """The operation of a change that makes two runs one; none where it is about the run alone.

    Raises:
        CommandRejected: it has others, too.
    """
    found = [
        each
        for each in command.operations
        if isinstance(each, Connect | Wire) and each.other is not None
    ]
    if found and len(command.operations) > 1:
        raise CommandRejected(
            f"what makes this run and {found[0].other!r} one stands alone in a change",
            remedy="Send the other operations as a change of their own, before or after it.",
        )
    return found[0] if found else None


async def _joined(engine: Engine, operation: Connect | Wire) -> PrepareMergeResult:
    """What a merge would lead to, as the other run is by now."""
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
        merged=tuple(op for op, word in state.merges.items() if word.outcome == "merged"),
    )
    try:
        return await locally(PREPARE_MERGE, task, PrepareMergeResult, PREPARING)
    except ActivityError as error:
        raise _refusal(error) from error


async def whole(engine: Engine) -> PrepareChangeResult:
    """What becomes of a run's crew whose graph is in several pieces, where nothing is changed."""
    task = PrepareChange(
        run=engine.state.run,
        base=engine.plan.definition,
        recipe=True,
        command=f"{PIECES}/{engine.state.execution}",
    )
    made: PrepareChangeResult = await workflow.execute_activity(
        PREPARE_CHANGE, task, result_type=PrepareChangeResult, **PREPARING
    )
    return made.model_copy(update={"base": engine.plan.definition})


def _live_permissions(engine: Engine) -> dict[str, tuple[AgentName, ...]]:
    """Who may call a tool, where people have said so while the run lived."""
    written, now = engine.plan.permissions, engine.state.tool_permissions
    return {
        tool: named
        for tool, named in now.items()
        if named is not None and named != written.get(ToolName(tool))
    }


def _refusal(error: ActivityError) -> CrewlogError | ActivityError:
    """What a failed preparation says, with all faults."""
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
    return _no_crew(cause.message, remedy)


def _no_crew(faults: str, remedy: str = "") -> CommandRejected:
    return CommandRejected(
        f"the change makes no crew:\n{faults}",
        remedy=remedy or "The run goes on as it was: correct the change, and send it as a new one.",
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
        CommandRejected: it cannot be.
        ChangeConflict: the run has another graph than it was made against, or another definition
            than is expected comes out.
    """
    prepared = incoming.prepared
    checked = check(engine, command)
    if isinstance(prepared, PrepareMergeResult):
        return _ask(checked, incoming, command, prepared)
    if checked.state.pending_change is not None or not isinstance(prepared, PrepareChangeResult):
        return None  # another change was first: this one meets the graph that comes of it
    if prepared.base not in ("", checked.state.definition):
        return None  # what it was made of is not the run's definition any more
    if incoming.authorization is not None and prepared.compared != checked.state.definition:
        return None  # what it widens was looked at for another one
    abandon = command.running == "abandon"
    report, plan = live_change.change_report(
        checked,
        prepared,
        graph_version=command.graph_version,
        expect=command.expect,
        abandon=abandon,
    )
    report = report.model_copy(update={"warnings": prepared.warnings})
    if prepared.widens is not None and incoming.authorization is not None:
        ways = (*prepared.widens, *live_change.widened_tools(checked, plan, report))
        authorization.check_widening(incoming.authorization, ways, "the change")
    else:
        authorization.check_widening(incoming.authorization, prepared.widens, "the change")
    told: dict[str, Any] = {
        "id": command.id,
        "detail": prepared.what,
        "graph_version": report.graph_version,
        "swap": report.swap,
        "definition": plan.definition,
        "report": change_report(report),
        "remarks": tuple(map(str, prepared.diagnostics)),
        "digest": incoming.digest,
    }
    if command.dry_run:
        position = checked.state.position
        return AppliedChange(ChangeResult(position=position, plan=plan.to_json(), **told), report)
    live_change.accept_change(
        checked,
        plan,
        report,
        what=prepared.what,
        by=command.by,
        reason=command.reason,
        command=command.id,
        abandon=abandon,
        parts=prepared.split_runs,
        basis=_basis(checked, command, prepared),
    )
    if checked.state.pending_change is not None:
        incoming.drain = command.drain_timeout
    position = checked.state.commands[command.id].position
    return AppliedChange(ChangeResult(position=position, **told), report)


def _basis(engine: Engine, command: Change, prepared: PrepareChangeResult) -> ContentHash:
    """The crew that was changed while the run lives; empty where the change gives a whole one."""
    if command.operations:
        return engine.state.basis or engine.state.definition
    return hash_json(prepared.basis) if prepared.basis else ContentHash("")


def _ask(
    engine: Engine, incoming: QueuedCommand, command: Change, prepared: PrepareMergeResult
) -> AppliedChange:
    """Asks another run to be one graph with this one, or tells what would come of that.

    Raises:
        ComponentConflict: nothing can.
        ChangeConflict: the run is in a merge, or about to change its graph.
    """
    if prepared.refused:
        raise ComponentConflict(prepared.refused, remedy=prepared.remedy)
    authorization.check_widening(incoming.authorization, prepared.widens, "the merge")
    operation, topology = joining(command), engine.plan.topology
    if operation is None:
        raise InternalError("a merge was prepared for a change that is none")
    what = _edge_text(operation)
    request = merge_request(
        engine.state,
        RunId(operation.other or ""),
        command.id,
        at=engine.at,
        operation={"op": operation.op, **operation.to_json()},
        what=what,
        creatures=len(topology.creatures) if topology is not None else 0,
        flow=bool(topology is not None and topology.flow),
        by=command.by,
        reason=command.reason,
    )
    report = SwapReport(
        graph_version=engine.state.graph_version,
        swap=False,
        topology=prepared.change,
        warnings=prepared.warnings,
    )
    told: dict[str, Any] = {
        "id": command.id,
        "detail": what,
        "graph_version": engine.state.graph_version,
        "definition": hash_json(prepared.definition),
        "merge": request.merge,
        "digest": incoming.digest,
        "report": change_report(report),
    }
    if command.dry_run:
        position = engine.state.position
        return AppliedChange(ChangeResult(position=position, plan=prepared.plan, **told), report)
    engine.record(request)
    return AppliedChange(ChangeResult(position=engine.state.position, **told), report)


def _edge_text(operation: Connect | Wire) -> str:
    """What ties two runs, for people."""
    if isinstance(operation, Wire):
        return f"wires {operation.name} to {operation.to} of {operation.other}"
    over = f" over {operation.channel}" if operation.channel else ""
    return f"connects {operation.sender} to {operation.listener} of {operation.other}{over}"


def repeated(engine: Engine, command: str, known: CommandOutcome) -> ChangeResult:
    """The recorded outcome of a change, for who sends it again."""
    state = engine.state
    return ChangeResult(
        id=CommandId(command),
        position=known.position,
        detail="applied before",
        graph_version=known.graph_version or state.graph_version,
        swap=known.graph_version > 0,
        digest=known.hash,
    )


def spent(engine: Engine, incoming: QueuedCommand) -> None:
    """Records what models cost that read the change's prompt, whatever becomes of it."""
    for number, each in enumerate(incoming.rounds, 1):
        engine.record(j.PromptRead(agent=COMPILER, round=number, usage=each.usage))
    incoming.rounds.clear()
