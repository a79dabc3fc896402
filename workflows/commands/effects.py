"""The effects of commands: each is applied once, and gets one outcome in the journal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from crewlog.errors import (
    ChangeConflict,
    CommandConflict,
    CommandRejected,
    ConversationBusy,
    CrewlogError,
    InterruptNotOpen,
    InvalidArguments,
    NotPermitted,
    UsageError,
)
from crewlog.graph.answers import answer, check_may_answer, find_interrupt
from crewlog.graph.engine import Engine
from crewlog.graph.interrupts import StopAnswer, call_decision, check_answer
from crewlog.graph.permission_commands import set_agent_permission, set_permission
from crewlog.graph.plan import GraphPlan
from crewlog.graph.prompt_compilation import check_answer_hash, edit_rejection
from crewlog.graph.redirect import redirect
from crewlog.graph.restore import roll_back
from crewlog.graph.state_edit import edit_state
from crewlog.graph.tags import tag
from crewlog.graph.wakes import check_log
from crewlog.ids import ANY_NODE, PUBLIC, RESERVED, CommandId
from crewlog.state import journal as j
from crewlog.state.body_metadata import arguments_excerpt
from crewlog.state.calls import PrepareRunResult, RestoreStateResult
from crewlog.state.command_outcomes import may_be_older, outcome_of
from crewlog.state.excerpt import excerpt
from crewlog.state.model import CommandOutcome, CrewState, Interrupt
from crewlog.state.run_merge.renames import renamed_log
from crewlog.wire import (
    Answer,
    Change,
    Command,
    CommandResult,
    Decision,
    EditState,
    InterruptCommand,
    MessageCommand,
    Redirect,
    Rollback,
    SetPermission,
    TagCommand,
)
from crewlog.workflows import authorization
from crewlog.workflows.commands import changes
from crewlog.workflows.commands.queue import (
    Applied,
    CheckedArguments,
    Failed,
    QueuedCommand,
    RefusedCommand,
    RefusedEdit,
)

_CONFLICTS = (
    ChangeConflict,
    CommandConflict,
    ConversationBusy,
    InterruptNotOpen,
    InvalidArguments,
    NotPermitted,
)
"""Errors whose type a rejection records."""
MAX_NAME_LENGTH = 200
"""Characters of a name that a rejection keeps."""

Effect = Callable[[Engine, QueuedCommand, Any], Awaitable[str]]
"""Applies and records a command; returns the detail of the result. The last argument is the
command, a model of `COMMANDS`."""
EFFECTS: dict[str, Effect] = {}
"""The effects by the names of their commands. `ask` records nothing, and `changes.apply` applies a
change."""


def _effect(name: str) -> Callable[[Effect], Effect]:
    """Registers the effect of a command.

    Args:
        name: The name of the command.
    """

    def register(function: Effect) -> Effect:
        EFFECTS[name] = function
        return function

    return register


def _origin(command: Command) -> dict[str, Any]:
    """The sender, the reason and the id of a command, as its entry has them."""
    return {"by": command.by, "reason": command.reason, "command": command.id}


def usable_id(incoming: QueuedCommand) -> str:
    """The id of a command; empty if it has none, or one that is too long."""
    data: Any = incoming.data
    command = data.get("id") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return command if isinstance(command, str) and 0 < len(command) <= 200 else ""


def id_to_look_up(engine: Engine, incoming: QueuedCommand) -> str:
    """The id of a command whose outcome only the store may have; else empty.

    If the batch, which is not stored yet, has the outcome, it becomes `known_outcome`.
    """
    command = usable_id(incoming)
    state = engine.state
    if not command or command in state.commands or command.startswith(RESERVED):
        return ""
    if not may_be_older(state.older_commands, command):
        return ""
    batch = engine.journal.unpacked_batch()
    for position, entry in zip(batch.positions(), batch.entries, strict=True):
        if entry.get("command") == command:
            incoming.known_outcome = outcome_of(j.entry_from_json(entry), position)
    return "" if incoming.known_outcome else command


async def apply_command(engine: Engine, incoming: QueuedCommand) -> None:
    """Applies a command, and records its outcome, except that of a dry run.

    The command gets no outcome if the run changed since its preparation, which must be repeated.
    """
    try:
        with engine.journal.transaction:
            try:
                result = await _apply(engine, incoming)
            except CrewlogError as error:
                _reject(engine, incoming, error)
            else:
                incoming.outcome = Applied(result) if result is not None else None
    finally:
        engine.command_hash = ""


def _reject(engine: Engine, incoming: QueuedCommand, error: CrewlogError) -> None:
    """Records the rejection of a command, except of a dry run that is permitted."""
    incoming.outcome = Failed(error, incoming.command_hash)
    is_permitted = not isinstance(error, NotPermitted)
    if incoming.is_dry_run and is_permitted:
        return
    sender = _sender(incoming)
    uses_id = _can_use_id(engine, incoming, is_permitted=is_permitted)
    fields: dict[str, Any] = {
        **({"by": sender} if sender else {}),
        **_rejected_answer_fields(incoming),
    }
    engine.record(
        j.CommandRejected(
            name=(incoming.sent_name or incoming.name)[:MAX_NAME_LENGTH],
            reason=str(error)[:2000],
            command=CommandId(usable_id(incoming)) if uses_id else None,
            error_type=type(error).__name__ if isinstance(error, _CONFLICTS) else "",
            **fields,
        )
    )


def _sender(incoming: QueuedCommand) -> str:
    """The sender of a rejected command: its principal, or without a signed policy its `by`."""
    if incoming.authorization is not None:
        return incoming.authorization.principal
    data: Any = incoming.data
    by = data.get("by") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return by[:MAX_NAME_LENGTH] if isinstance(by, str) else ""


def _rejected_answer_fields(incoming: QueuedCommand) -> dict[str, str]:
    """The interrupt of a rejected answer, and an excerpt of the answer or of its edit."""
    if incoming.name != "answer":
        return {}
    try:
        command = incoming.parse()
    except CommandRejected:
        return {}
    if not isinstance(command, Answer):
        return {}
    decision = command.decisions[0]
    edit = arguments_excerpt(decision.edited_action.args) if decision.edited_action else ""
    text = f"{decision.type} {edit or decision.message}"
    return {"interrupt": command.interrupt[:MAX_NAME_LENGTH], "answer_excerpt": excerpt(text)}


def _can_use_id(engine: Engine, incoming: QueuedCommand, *, is_permitted: bool) -> bool:
    """Whether a rejection becomes the outcome of the command's id, which must have none yet.

    A command that is not permitted must not use up an id. Its outcome is provisional: that of a
    permitted command with the same id replaces it.
    """
    command, state = usable_id(incoming), engine.state
    if not command or incoming.known_outcome is not None:
        return False
    if not is_permitted and _is_dry_run(incoming.data):
        return False
    if not is_permitted and may_be_older(state.older_commands, command):
        return False
    known = state.commands.get(CommandId(command))
    return known is None or (_is_provisional(known) and is_permitted)


def _is_provisional(known: CommandOutcome) -> bool:
    """Whether an outcome is that of a command that was not permitted."""
    return known.error_type == NotPermitted.__name__


async def _apply(engine: Engine, incoming: QueuedCommand) -> CommandResult | None:
    authorization.check(engine, incoming)
    command = incoming.parse()
    if incoming.authorization is not None:
        command = command.model_copy(update={"by": incoming.authorization.principal})
    incoming.command_hash = engine.command_hash = command.content_hash(incoming.name)
    known = engine.state.commands.get(command.id) or incoming.known_outcome
    if known is not None and not _is_provisional(known):
        if not known.is_duplicate(incoming.command_hash):
            raise CommandConflict(
                f"the id {command.id!r} was used for another command",
                remedy="Give each command an id of its own; only a repeated command has the same.",
            )
        incoming.command_hash = known.hash
        if not known.ok:
            kinds = {each.__name__: each for each in _CONFLICTS}
            raise kinds.get(known.error_type, CommandRejected)(known.detail)
        if isinstance(command, Change):
            return changes.repeated_result(engine, command.id, known)
        return CommandResult(
            id=command.id, position=known.position, detail="applied before", hash=known.hash
        )
    if engine.state.is_ended:
        raise UsageError(
            f"the run has ended: it is {engine.state.status}",
            remedy=f"`crewlog show {engine.state.run}` shows how. `crewlog resume` reopens a run "
            "that was stopped or has failed; `crewlog fork` continues any run in another one.",
        )
    changes.record_usage(engine, incoming)
    if isinstance(incoming.preparation, RefusedCommand):
        raise incoming.preparation.error
    if isinstance(command, Change):
        if not incoming.is_update:
            raise CommandRejected(
                "a change must be sent as an update, not as a signal",
                remedy="Send the update 'change': its result says what the change did.",
            )
        applied = changes.apply(engine, incoming, command)
        return applied.result if applied is not None else None
    authorization.check_manual_command(engine, incoming, command)
    detail = await EFFECTS[incoming.name](engine, incoming, command)
    outcome = engine.state.commands[command.id]
    return CommandResult(id=command.id, position=outcome.position, detail=detail, hash=outcome.hash)


def _is_dry_run(data: Any) -> bool:
    return isinstance(data, dict) and data.get("dry_run") is True  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


@_effect("pause")
async def _pause(engine: Engine, _: QueuedCommand, command: Command) -> str:
    if engine.state.status != "running":
        raise CommandRejected(
            f"the run is {engine.state.status}; only a run with the status running can be paused",
            remedy=f"`crewlog show {engine.state.run}` shows the status of the run and its reason.",
        )
    engine.record(j.Paused(**_origin(command)))
    return ""


@_effect("resume")
async def _resume(engine: Engine, _: QueuedCommand, command: Command) -> str:
    if engine.state.status != "paused":
        raise _not_paused(engine.state)
    engine.record(j.RunResumed(**_origin(command)))
    return ""


@_effect("stop")
async def _stop(engine: Engine, _: QueuedCommand, command: Command) -> str:
    engine.record(j.StopRequested(**_origin(command)))
    return ""


@_effect("interrupt")
async def _interrupt(engine: Engine, _: QueuedCommand, command: InterruptCommand) -> str:
    if command.node != ANY_NODE and command.node not in engine.plan.nodes:
        raise CommandRejected(
            f"there is no node {command.node!r}",
            remedy=f"Nodes: {', '.join(engine.plan.nodes)}.",
        )
    engine.record(j.BreakpointSet(node=command.node, **_origin(command)))
    return ""


@_effect("message")
async def _message(engine: Engine, _: QueuedCommand, command: MessageCommand) -> str:
    """Adds a message. In a conversation it starts an exchange, or waits for the current one."""
    message = _with_new_name(engine.state, command)
    if message.to == PUBLIC and engine.exchanges.is_conversation:
        return await engine.exchanges.receive(
            message.text, by=message.by, command=message.id, files=message.files
        )
    check_log(engine.plan, message.to, engine.state.frontier.values())
    body = engine.say(
        message.text,
        by=message.by,
        to=message.to,
        message_id=message.id,
        command=message.id,
        files=message.files,
    )
    engine.wakes.wake_readers(message.to, body, message.by)
    return ""


def _with_new_name(state: CrewState, message: MessageCommand) -> MessageCommand:
    """The message, with the new name of its log if it was sent to a run merged into this one."""
    if message.original_run is None:
        return message
    renamed = state.merged_runs.get(message.original_run)
    if renamed is None:
        raise CommandRejected(
            f"the run {message.original_run!r} was not merged into this one",
            remedy=f"Send the message to {message.original_run}, without `original_run`.",
        )
    return message.model_copy(update={"to": renamed_log(message.to, renamed)})


@_effect("tag")
async def _tag(engine: Engine, _: QueuedCommand, command: TagCommand) -> str:
    return tag(engine, command.checkpoint, command.tag, by=command.by, command=command.id)


@_effect("edit_state")
async def _edit_state(engine: Engine, _: QueuedCommand, command: EditState) -> str:
    return edit_state(_crew(engine), command.set, command.delete, **_origin(command))


@_effect("redirect")
async def _redirect(engine: Engine, _: QueuedCommand, command: Redirect) -> str:
    return await redirect(
        _crew(engine), command.node, command.step, cut=command.cut, **_origin(command)
    )


@_effect("set_permission")
async def _set_permission(engine: Engine, _: QueuedCommand, command: SetPermission) -> str:
    if command.graph_version not in (None, engine.state.graph_version):
        raise ChangeConflict(
            f"the permission was decided for graph v{command.graph_version}, and the run has "
            f"v{engine.state.graph_version}",
            remedy=f"Read the current permissions: `crewlog permissions {engine.state.run}`.",
        )
    if command.do is None:
        return set_permission(_crew(engine), command.tool, command.agents, **_origin(command))
    do = None if command.do == "inherit" else command.do
    return set_agent_permission(_crew(engine), command.tool, command.agent, do, **_origin(command))


def _not_paused(state: CrewState) -> CommandRejected:
    """The error for `resume` of a run that is not paused, with what it waits for."""
    if state.status == "stopping":
        return CommandRejected(
            "the run is stopping",
            remedy=f"Resume it once it has stopped: `crewlog resume {state.run}`.",
        )
    if not state.interrupts:
        return CommandRejected(
            "the run is not paused", remedy=f"Follow it with `crewlog watch {state.run}`."
        )
    first = next(iter(state.interrupts.values()))
    others = len(state.interrupts) - 1
    more = f" and {others} more" if others else ""
    return CommandRejected(
        f"the run is not paused: it waits for an answer to {first.id}{more}: "
        f"{excerpt(first.question, 200)}",
        remedy=f"Answer it with `crewlog answer {state.run}`.",
    )


def _crew(engine: Engine) -> Engine:
    """The engine, for commands that need a crew.

    Raises:
        CommandRejected: the run has no crew yet, since its definition is not approved.
    """
    if engine.prompt.is_active:
        raise CommandRejected(
            "the run has no crew yet", remedy="Send the command again once the crew is approved."
        )
    return engine


@_effect("rollback")
async def _roll_back(engine: Engine, incoming: QueuedCommand, command: Rollback) -> str:
    loaded = incoming.preparation
    if not isinstance(loaded, RestoreStateResult):
        raise CommandRejected(
            "the checkpoint was not loaded", remedy="Send the rollback again with a new id."
        )
    restored, plan = CrewState.from_json(loaded.state), GraphPlan.from_json(loaded.plan)
    widenings = loaded.widens if loaded.compared == engine.plan.definition else None
    authorization.check_widening(incoming.authorization, widenings, "the rollback")
    roll_back(
        engine,
        command.position,
        restored,
        plan,
        by=command.by,
        reason=command.reason,
        command=command.id,
    )
    return ""


@_effect("answer")
async def _answer(engine: Engine, incoming: QueuedCommand, command: Answer) -> str:
    if engine.prompt.is_active:
        return _answer_draft(engine, command, incoming)
    return await _answer_crew(engine, command, incoming)


async def _answer_crew(engine: Engine, command: Answer, incoming: QueuedCommand) -> str:
    interrupt = find_interrupt(engine, command.interrupt)
    decision = command.decisions[0]
    check_answer_hash(interrupt, command.hash)
    check_may_answer(engine, interrupt, command.by)
    origin: dict[str, Any] = {"by": command.by, "command": command.id}
    if decision.type == "edit":
        args = _edited_arguments(interrupt, decision, incoming)
        await answer(engine, interrupt, "edit", args=args, reason=command.reason, **origin)
        return "edit"
    if interrupt.kind == "tool_approval":
        text, reason = call_decision(interrupt, decision.type, decision.message, command.reason)
    else:
        text = _decision_text(interrupt, decision)
        reason = command.reason or (decision.message if decision.type != "respond" else "")
    check_answer(interrupt, text)
    authorization.check_answer(engine, incoming, interrupt, text)
    try:
        await answer(engine, interrupt, text, reason=reason, **origin)
    except StopAnswer:
        reason, end_reason = f"answered {text!r}", interrupt.limit_reached or "stopped"
        engine.record(j.StopRequested(by=command.by, reason=reason, end_reason=end_reason))
    return text


def _edited_arguments(
    interrupt: Interrupt, decision: Decision, incoming: QueuedCommand
) -> dict[str, Any]:
    """The arguments of an edit, which replace those of the call.

    Raises:
        CommandRejected: the interrupt takes no edit, or the edit is for another tool, or its
            arguments do not fit the tool.
    """
    action = decision.edited_action
    if action is None or interrupt.kind != "tool_approval":
        raise edit_rejection(interrupt)
    if action.name != interrupt.tool:
        raise CommandRejected(
            f"{interrupt.id!r} asks about {interrupt.tool!r}, but the edit is for {action.name!r}",
            remedy=f"Edit the arguments of {interrupt.tool!r}, or reject the call.",
        )
    match incoming.preparation:
        case RefusedEdit(error):
            raise error
        case CheckedArguments():
            return action.args
        case _:
            _check_is_update(incoming)
            raise edit_rejection(interrupt)


def _check_is_update(incoming: QueuedCommand) -> None:
    """Checks that an edit was sent as an update: the edits of signals are not prepared.

    Raises:
        CommandRejected: it was sent as a signal.
    """
    if not incoming.is_update:
        raise CommandRejected(
            "an answer with an edit must be sent as an update, not as a signal",
            remedy="Send the update 'answer', which checks the edit and returns a result.",
        )


def _decision_text(interrupt: Interrupt, decision: Decision) -> str:
    options = {"approve": interrupt.approval, "reject": interrupt.refusal}
    return options.get(decision.type, decision.message)


def _answer_draft(engine: Engine, command: Answer, incoming: QueuedCommand) -> str:
    interrupt = find_interrupt(engine, command.interrupt)
    decision = command.decisions[0]
    check_answer_hash(interrupt, command.hash)
    if decision.type == "edit":
        match incoming.preparation:
            case RefusedEdit(error):
                raise error
            case PrepareRunResult() as edited:
                return engine.prompt.edit(interrupt, edited, by=command.by, command=command.id)
            case _:
                _check_is_update(incoming)
                raise edit_rejection(interrupt)
    text = _decision_text(interrupt, decision)
    reason = decision.message if decision.type == "reject" and decision.message else command.reason
    try:
        engine.prompt.answer(interrupt, text, by=command.by, command=command.id, reason=reason)
    except StopAnswer:
        engine.record(j.StopRequested(by=command.by, reason=f"answered {text!r}"))
    return text
