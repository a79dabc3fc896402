"""The inbox: what came from outside and is not applied yet.

Signal handlers only append here and never await, so that nothing is lost when the run continues as
new: what is still in the inbox is carried. Handlers of updates append too, and wait until the loop
has applied what they brought.

The signals of one activation as one: the SDK makes a coroutine, and much else, for each.

That costs more than all that is done for a signal which is only counted. So the runner hands over
what came together as one signal of this name, which no client can send: one that is named so is
handed over within another. The handler never waits, so that the order is the same either way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

from crewlog.workflows import authorization, changes

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from crewlog.authority.principals import CommandAuthorization
    from crewlog.authority.widening import regained_permissions
    from crewlog.canonical_json import check_depth
    from crewlog.encryption.codec import (
        LOST_FILE,
        LOST_KEY,
        MissingKey,
        is_given_up,
        is_plain,
        is_refused,
        is_scheduled,
        is_unavailable,
        missing_file,
        missing_key,
        refusal_reason,
    )
    from crewlog.errors import (
        ChangeConflict,
        CommandConflict,
        CommandRejected,
        ConversationBusy,
        CrewlogError,
        EncryptionKeyMissing,
        InterruptNotOpen,
        InvalidArguments,
        NotPermitted,
        UsageError,
    )
    from crewlog.graph.answers import answer, check_may_answer, find_interrupt
    from crewlog.graph.engine import Engine
    from crewlog.graph.interrupts import ACTION, StopAnswer, check_answer, decided
    from crewlog.graph.permission_commands import set_agent_permission, set_permission
    from crewlog.graph.plan import GraphPlan
    from crewlog.graph.prompt_compilation import check_answer_hash, edit_rejection
    from crewlog.graph.redirect import redirect
    from crewlog.graph.restore import roll_back
    from crewlog.graph.state_edit import edit_state
    from crewlog.graph.tags import tag
    from crewlog.graph.wakes import check_log
    from crewlog.ids import PUBLIC, RESERVED, CommandId
    from crewlog.payload_storage.external_storage import unavailable_payload_error
    from crewlog.state import journal as j
    from crewlog.state.body_metadata import arguments_excerpt
    from crewlog.state.calls import (
        PrepareChangeResult,
        PrepareMergeResult,
        PrepareRunResult,
        RestoreStateResult,
    )
    from crewlog.state.command_outcomes import may_be_older, outcome_of
    from crewlog.state.excerpt import brief
    from crewlog.state.model import CommandOutcome, CrewState, Interrupt
    from crewlog.state.run_merge.renames import renamed_log
    from crewlog.validation_errors import faults_of
    from crewlog.wire import (
        SIGNALS,
        AskRun,
        Change,
        Command,
        CommandResult,
        Decision,
        EditState,
        InterruptCommand,
        MessageCommand,
        Redirect,
        Respond,
        Rollback,
        SetPermission,
        TagCommand,
        spoken,
    )


COMMAND_MODELS: dict[str, type[Command]] = {
    "pause": Command,
    "resume": Command,
    "stop": Command,
    "interrupt": InterruptCommand,
    "message": MessageCommand,
    "tag": TagCommand,
    "respond": Respond,
    "ask": AskRun,
    "change": Change,
    "edit_state": EditState,
    "redirect": Redirect,
    "rollback": Rollback,
    "set_permission": SetPermission,
}


_CONFLICTS = (
    ChangeConflict,
    CommandConflict,
    ConversationBusy,
    InterruptNotOpen,
    InvalidArguments,
    NotPermitted,
)
"""Refusals that are of a kind of their own."""
LONGEST_BY = 200
"""Characters of a name that a refusal keeps."""


@dataclass
class QueuedCommand:
    """A signal or an update on its way to the loop."""

    name: str
    data: Any
    """The content as JSON, or an `InvalidPayload`."""
    at: int = 0
    """When it came, by `now`."""
    arrived: int | None = None
    """When it came, for its proof; none of a signal, until that is asked: see `gate`."""
    sent: str = ""
    """The name under which it was sent and signed, where that is another one."""
    authorization: CommandAuthorization | None = None
    """Whose command it is, where the policy asks for that."""
    done: bool = False
    result: CommandResult | None = None
    error: CrewlogError | None = None
    edited: PrepareRunResult | CommandRejected | None = None
    """Of an answer that edits a definition: the definition, checked, or what is wrong with it."""
    fault: CrewlogError | None = None
    """Of an answer that edits a call's arguments: why they are not accepted, once checked."""
    checked: bool = False
    """Whether these arguments have been checked."""
    prepared: PrepareChangeResult | PrepareMergeResult | RestoreStateResult | None = None
    """What its handler had made by an activity, for the loop to apply."""
    refusal: CrewlogError | None = None
    """What its handler found wrong with it."""
    rounds: list[PrepareChangeResult] = field(default_factory=list[PrepareChangeResult])
    """What models answered that read its prompt."""
    drain: float | None = None
    """Of a change that was accepted: the seconds that it gives to what is in flight."""
    digest: str = ""
    """The digest of the command whose outcome this is."""
    dry: bool = False
    """Whether nothing may come of it but an answer."""
    known: CommandOutcome | None = None
    """The outcome that its id has already, where the state does not remember that any more."""
    plain: bool = False
    """Whether it came without encryption, to workers that have it on and accept that."""
    asked: bool = False
    """Whether somebody waits for what becomes of it, by an update: then it may be `late`."""
    unfit: bool = False
    """Whether it is none of the commands, as its content shows."""
    late: bool = False
    """Whether the run has moved on since it was prepared: it is neither applied nor refused, and
    its handler prepares it anew."""
    args: Sequence[RawValue] = ()
    """What came, as it was decoded; none where the run was told by its execution before."""


@dataclass(frozen=True)
class InvalidPayload:
    """A payload that is not JSON, or not one value."""

    reason: str


@dataclass(frozen=True)
class Lost(InvalidPayload):
    """A payload whose file or key is missing: no run acts on it, see `payload_storage`."""

    file: str = ""
    """Where it would be."""
    key: MissingKey | None = None
    """The key that is missing; none: it is the file."""


@dataclass(frozen=True)
class UndecodedPayload(InvalidPayload):
    """What a signal brought, until the loop takes it: there may be thousands, of no use."""

    args: Sequence[RawValue] = ()

    @property
    def is_unsigned(self) -> bool:
        """Whether it cannot have a proof, as its bytes show: JSON names one, or escapes that."""
        if len(self.args) != 1:
            return True
        data = self.args[0].payload.data
        return b"proof" not in data and b"\\u" not in data

    def may_be_replaced(self, *, encrypted: bool) -> bool:
        """Whether something may stand for it, by the worker's settings and what it finds.

        Args:
            encrypted: Whether what comes without encryption is refused.
        """
        return any(
            is_refused(each.payload)
            or is_given_up(each.payload)
            or (encrypted and is_plain(each.payload))
            for each in self.args
        )

    @property
    def size(self) -> int:
        """Bytes of it."""
        return sum(len(each.payload.data) for each in self.args)


def present(incoming: QueuedCommand) -> QueuedCommand:
    """What came, read, where its content is there.

    Not asked in its handler: all that came with a task are noted before that task fails.

    Raises:
        EncryptionKeyMissing: it is encrypted, and this worker has not the key. The task is done
        again. StoreIncomplete: it is not there. The task is done again, when it is, or is given up.
    """
    if isinstance(incoming.data, UndecodedPayload):
        incoming.args = incoming.data.args
        incoming.plain = _came_unencrypted(incoming.data.args)
        incoming.data = read_client_args(incoming.data.args)
    if isinstance(incoming.data, Lost):
        raise unavailable_payload_error(incoming.data.file, incoming.data.key)
    return incoming


def now() -> int:
    """The workflow's clock, in milliseconds; read where something comes in from the history.

    Not where a result or a failure is handled that says when it came about. The end of a local
    activity has one time when it runs, and may have another when it is replayed. And a worker that
    first reads a run to answer a query handles results whose workflow task has not begun, at the
    time of the task before. A journal that is made again must be the same.

    Signals and the server's timeouts come without a time of their own, and what a client says of
    the time is not to be trusted. A worker that was asked before the task of one of them began
    would give it the time of the task before: it forgets what it has made for the query, see
    `crewlog.workers.sandbox`. Updates only come with a task.
    """
    return int(workflow.time() * 1000)


def read_args(args: Sequence[RawValue]) -> Any:
    """The one JSON value of a signal or an update, or an `InvalidPayload`.

    Raises:
        EncryptionKeyMissing: it is encrypted, and this worker has not the key. The task is done
        again.
    """
    if len(args) != 1:
        return InvalidPayload(f"it takes one JSON object, not {len(args)} arguments")
    payload = args[0].payload
    if is_unavailable(payload):
        file, key = missing_file(payload), missing_key(payload)
        why = LOST_FILE if key is None else LOST_KEY
        return InvalidPayload(why) if is_given_up(payload) else Lost(why, file, key)
    if is_given_up(payload):
        return InvalidPayload(LOST_FILE)
    if is_refused(args[0].payload):
        return InvalidPayload(refusal_reason(args[0].payload)[0])
    try:
        value = workflow.payload_converter().from_payload(args[0].payload)
        # Bytes, protobufs and NaN come through the converter, and could not be carried on.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        check_depth(value)
    except EncryptionKeyMissing:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a stranger sends must not fail the task
        return InvalidPayload(f"the content is not JSON: {error}")
    return value


def read_client_args(args: Sequence[RawValue]) -> Any:
    """`read_args` of what a client sent, who may not use the run's own command ids."""
    data = read_args(args)
    command = data.get("id") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(command, str) and command.startswith(RESERVED):
        return InvalidPayload(f"ids that begin with {RESERVED!r} are the run's own")
    if any(is_scheduled(each.payload) for each in args):
        return InvalidPayload("a payload is refused: it is what a schedule starts its runs with")
    return data  # pyright: ignore[reportUnknownVariableType]


def receive_command(name: str, args: Sequence[RawValue]) -> QueuedCommand:
    """What a client sent, on its way to the loop."""
    return QueuedCommand(
        name, read_client_args(args), now(), plain=_came_unencrypted(args), args=args
    )


def unread(name: str, args: Sequence[RawValue]) -> QueuedCommand:
    """A signal on its way to the loop, which reads it."""
    if any(is_unavailable(each.payload) for each in args):
        return receive_command(name, args)  # the worker has requested its content
    return QueuedCommand(name, UndecodedPayload("it is not read yet", args), now())


def _came_unencrypted(args: Sequence[RawValue]) -> bool:
    # What is given up is refused as that, also where its file came late and is plain.
    return any(is_plain(each.payload) and not is_given_up(each.payload) for each in args)


def parse(name: str, data: Any) -> Command:
    """The command that `data` is.

    Raises:
        CommandRejected: with what is wrong, field by field.
    """
    model = COMMAND_MODELS.get(name)
    if model is None:
        raise CommandRejected(
            f"there is no signal {name!r}", remedy=f"Signals: {', '.join(SIGNALS)}."
        )
    if isinstance(data, InvalidPayload):
        raise CommandRejected(f"{spoken(name)}: {data.reason}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = faults_of(error, "its content")
        raise CommandRejected(
            f"{spoken(name)}: {faults}", remedy="docs/wire.md has the fields."
        ) from error


def id_of(incoming: QueuedCommand) -> str:
    """The command's id; empty where it has none that can be used."""
    data: Any = incoming.data
    command = data.get("id") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return command if isinstance(command, str) and 0 < len(command) <= 200 else ""


def doubtful(engine: Engine, incoming: QueuedCommand) -> str:
    """The id of a command that may have an outcome which the state does not remember; else empty.

    What no activity has stored yet is looked at here, so that the store can tell the rest.
    """
    command = id_of(incoming)
    state = engine.state
    if not command or command in state.commands or command.startswith(RESERVED):
        return ""
    if not may_be_older(state.older_commands, command):
        return ""
    batch = engine.ledger.whole()
    for position, entry in zip(batch.positions(), batch.entries, strict=True):
        if entry.get("command") == command:
            incoming.known = outcome_of(j.entry_from_json(entry), position)
    return "" if incoming.known else command


async def take(engine: Engine, incoming: QueuedCommand) -> None:
    """Applies one command, and records its outcome, whatever that is, except for a dry run.

    Args:
        engine: The run's.
        incoming: The command.
    """
    try:
        incoming.result = await _apply(engine, incoming)
    except CrewlogError as error:
        incoming.error = error
        refused = isinstance(error, NotPermitted)
        if incoming.dry and not refused:
            return
        by = _sender(incoming)
        who = {"by": by} if by else {}
        engine.record(
            j.CommandRejected(
                name=(incoming.sent or incoming.name)[:200],
                reason=str(error)[:2000],
                command=id_of(incoming) if _is_free(engine, incoming, refused=refused) else None,
                error_type=type(error).__name__ if isinstance(error, _CONFLICTS) else "",
                **who,
                **_tried(incoming),
            )
        )
    finally:
        incoming.done = True
        engine.digest = ""


def _sender(incoming: QueuedCommand) -> str:
    """Whose command is refused: the principal of a signed policy, else whom its `by` names."""
    if incoming.authorization is not None:
        return incoming.authorization.principal
    data: Any = incoming.data
    by = data.get("by") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return by[:LONGEST_BY] if isinstance(by, str) else ""


def _tried(incoming: QueuedCommand) -> dict[str, str]:
    """Which question an answer is to that is refused, and what it says; of an edit, with what."""
    if incoming.name != "respond":
        return {}
    try:
        command = parse(incoming.name, incoming.data)
    except CommandRejected:
        return {}
    if not isinstance(command, Respond):
        return {}
    decision = command.decisions[0]
    said = arguments_excerpt(decision.edited_action.args) if decision.edited_action else ""
    words = f"{decision.type} {said or decision.message}"
    return {"interrupt": command.interrupt[:LONGEST_BY], "tried": brief(words)}


def _is_free(engine: Engine, incoming: QueuedCommand, *, refused: bool) -> bool:
    """Whether a command that is rejected gets an outcome: by an id that can be used, and is not.

    Who is not permitted uses up no id: the outcome of one that had none is only lent.
    """
    command, state = id_of(incoming), engine.state
    if not command or incoming.known is not None or (refused and _is_dry_run(incoming.data)):
        return False
    if refused and may_be_older(state.older_commands, command):
        return False
    known = state.commands.get(CommandId(command))
    return known is None or (_is_provisional(known) and not refused)


def _is_provisional(known: CommandOutcome) -> bool:
    """Whether an outcome only says that somebody was not permitted: the id is still free."""
    return known.error_type == NotPermitted.__name__


async def _apply(engine: Engine, incoming: QueuedCommand) -> CommandResult | None:
    authorization.check(engine, incoming)
    try:
        command = parse(incoming.name, incoming.data)
    except CommandRejected:
        incoming.unfit = True
        raise
    incoming.dry = isinstance(command, Change) and command.dry_run
    if incoming.authorization is not None:
        command = command.model_copy(update={"by": incoming.authorization.principal})
    incoming.digest = engine.digest = command.digest(incoming.name)
    known = engine.state.commands.get(command.id) or incoming.known
    if known is not None and not _is_provisional(known):
        if not known.is_duplicate(incoming.digest):
            raise CommandConflict(
                f"the id {command.id!r} was used for another command",
                remedy="Give each command an id of its own; an id is there to repeat a command.",
            )
        incoming.digest = known.digest
        if not known.ok:
            kinds = {each.__name__: each for each in _CONFLICTS}
            raise kinds.get(known.error_type, CommandRejected)(known.detail)
        if isinstance(command, Change):
            return changes.repeated(engine, command.id, known)
        return CommandResult(
            id=command.id, position=known.position, detail="applied before", digest=known.digest
        )
    if engine.state.closed:
        raise UsageError(f"the run has ended: it is {engine.state.status}")
    changes.spent(engine, incoming)
    if incoming.refusal is not None:
        raise incoming.refusal
    if isinstance(command, Change):
        if not incoming.asked:
            raise CommandRejected(
                "a change is sent as an update, and this came as a signal",
                remedy="Send the update 'change': it is answered by what becomes of it.",
            )
        changed = changes.apply(engine, incoming, command)
        incoming.late = changed is None
        return changed
    authorization.check_manual_command(engine, incoming, command)
    detail = await _record_effect(engine, incoming, command)
    outcome = engine.state.commands[command.id]
    return CommandResult(
        id=command.id, position=outcome.position, detail=detail, digest=outcome.digest
    )


def _is_dry_run(data: Any) -> bool:
    return isinstance(data, dict) and data.get("dry_run") is True  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


async def _record_effect(engine: Engine, incoming: QueuedCommand, command: Command) -> str:
    who: dict[str, Any] = {"by": command.by, "reason": command.reason, "command": command.id}
    match incoming.name, command:
        case "pause", _:
            if engine.state.status != "running":
                raise CommandRejected(
                    f"the run is {engine.state.status}; only a running one pauses"
                )
            engine.record(j.Paused(**who))
        case "resume", _:
            if engine.state.status != "paused":
                raise _not_paused(engine.state)
            engine.record(j.RunResumed(**who))
        case "stop", _:
            engine.record(j.StopRequested(**who))
        case "interrupt", InterruptCommand():
            if command.node != "*" and command.node not in engine.plan.nodes:
                raise CommandRejected(
                    f"there is no node {command.node!r}",
                    remedy=f"Nodes: {', '.join(engine.plan.nodes)}.",
                )
            engine.record(j.BreakpointSet(node=command.node, **who))
        case "message", MessageCommand():
            return await _hear(engine, command)
        case "rollback", Rollback():
            _roll_back(engine, incoming, command)
        case "respond", Respond():
            if engine.prompt.is_active:
                return _answer_draft(engine, command, incoming)
            return await _respond(engine, command, incoming)
        case _:
            return await _by_hand(engine, incoming.name, command, who)
    return ""


async def _hear(engine: Engine, said: MessageCommand) -> str:
    """A message: to a conversation it begins a turn, or waits for one."""
    said = _with_new_name(engine.state, said)
    if said.to == PUBLIC and engine.talks.talks:
        return await engine.talks.hear(said.text, by=said.by, command=said.id, files=said.files)
    check_log(engine.plan, said.to, engine.state.frontier.values())
    body = engine.say(
        said.text,
        by=said.by,
        to=said.to,
        message_id=said.id,
        command=said.id,
        files=said.files,
    )
    engine.listening.said(said.to, body, said.by)
    return ""


def _with_new_name(state: CrewState, said: MessageCommand) -> MessageCommand:
    """A message that was said to a run which is part of this one, to whom that run meant."""
    if said.said_to is None:
        return said
    renamed = state.took_in.get(said.said_to)
    if renamed is None:
        raise CommandRejected(
            f"it was said to the run {said.said_to!r}, which is no part of this one",
            remedy=f"Send it to {said.said_to}, without `said_to`.",
        )
    return said.model_copy(update={"to": renamed_log(said.to, renamed)})


async def _by_hand(engine: Engine, name: str, command: Command, who: dict[str, Any]) -> str:
    """What people do to a run besides changing its graph."""
    match command:
        case TagCommand():
            return tag(engine, command.checkpoint, command.tag, by=command.by, command=command.id)
        case EditState():
            return edit_state(_crew(engine), command.set, command.delete, **who)
        case Redirect():
            return await redirect(_crew(engine), command.node, command.step, cut=command.cut, **who)
        case SetPermission() if command.graph_version not in (None, engine.state.graph_version):
            raise ChangeConflict(
                f"it was decided for graph v{command.graph_version}, and the run has "
                f"v{engine.state.graph_version}",
                remedy=f"Look at what holds now: `crewlog permissions {engine.state.run}`.",
            )
        case SetPermission() if command.do is not None:
            do = None if command.do == "inherit" else command.do
            return set_agent_permission(_crew(engine), command.tool, command.agent, do, **who)
        case SetPermission():
            return set_permission(_crew(engine), command.tool, command.agents, **who)
        case _:
            raise CommandRejected(f"{name!r} is not understood")


def _not_paused(state: CrewState) -> CommandRejected:
    """Why a run is not resumed, and what it waits for instead."""
    if state.status == "stopping":
        return CommandRejected(
            "the run is stopping", remedy=f"Once it has: `crewlog resume {state.run}`."
        )
    if not state.interrupts:
        return CommandRejected(
            "the run is not paused: it goes on", remedy=f"`crewlog watch {state.run}` follows it."
        )
    first = next(iter(state.interrupts.values()))
    others = len(state.interrupts) - 1
    more = f" and {others} more" if others else ""
    return CommandRejected(
        f"the run is not paused: it waits for an answer to {first.id}{more}: "
        f"{brief(first.question, 200)}",
        remedy=f"`crewlog answer {state.run}` gives it.",
    )


def _crew(engine: Engine) -> Engine:
    """The run's engine, for what needs a crew.

    Raises:
        CommandRejected: its prompt is not approved yet.
    """
    if engine.prompt.is_active:
        raise CommandRejected(
            "the run has no crew yet", remedy="Send it again once its crew is approved."
        )
    return engine


def _roll_back(engine: Engine, incoming: QueuedCommand, command: Rollback) -> None:
    loaded = incoming.prepared
    if not isinstance(loaded, RestoreStateResult):
        raise CommandRejected("the checkpoint was not loaded", remedy="Send it with a new id.")
    then, plan = CrewState.from_json(loaded.state), GraphPlan.from_json(loaded.plan)
    ways = loaded.widens if loaded.compared == engine.plan.definition else None
    if ways is not None:
        ways += tuple(
            regained_permissions(engine.state.tool_permissions, then.tool_permissions, plan.agents)
        )
    authorization.check_widening(incoming.authorization, ways, "the rollback")
    roll_back(
        engine,
        command.position,
        then,
        plan,
        by=command.by,
        reason=command.reason,
        command=command.id,
    )


async def _respond(engine: Engine, command: Respond, incoming: QueuedCommand) -> str:
    interrupt = find_interrupt(engine, command.interrupt)
    given = command.decisions[0]
    check_answer_hash(interrupt, command.hash)
    check_may_answer(engine, interrupt, command.by)
    who: dict[str, Any] = {"by": command.by, "command": command.id}
    if given.type == "edit":
        args = _edited(interrupt, given, incoming)
        await answer(engine, interrupt, "edit", args=args, reason=command.reason, **who)
        return "edit"
    if interrupt.kind == "tool_approval":
        decision, reason = decided(interrupt, given.type, given.message, command.reason)
    else:
        decision = _decision(interrupt, given)
        reason = command.reason or (given.message if given.type != "respond" else "")
    check_answer(interrupt, decision)
    authorization.check_answer(engine, incoming, interrupt, decision)
    try:
        await answer(engine, interrupt, decision, reason=reason, **who)
    except StopAnswer:
        reason, end_reason = f"answered {decision!r}", interrupt.bound or "stopped"
        engine.record(j.StopRequested(by=command.by, reason=reason, end_reason=end_reason))
    return decision


def _edited(interrupt: Interrupt, given: Decision, incoming: QueuedCommand) -> dict[str, Any]:
    """The arguments that an answer puts in the place of a call's.

    Raises:
        CommandRejected: the question takes no edit, they are another tool's, or do not fit.
    """
    action = given.edited_action
    if action is None or interrupt.kind != "tool_approval":
        raise edit_rejection(interrupt)
    if action.name != interrupt.tool:
        raise CommandRejected(
            f"{interrupt.id!r} asks about {interrupt.tool!r}, and the edit is of {action.name!r}",
            remedy=f"Edit the arguments of {interrupt.tool!r}, or reject the call.",
        )
    if incoming.fault is not None:
        raise incoming.fault
    if not incoming.checked:
        _check_is_update(incoming)
        raise edit_rejection(interrupt)
    return action.args


def _check_is_update(incoming: QueuedCommand) -> None:
    """Refuses an edit that came as a signal: what an update has checked is not.

    Raises:
        CommandRejected: it did.
    """
    if not incoming.asked:
        raise CommandRejected(
            "an answer that edits is sent as an update, and this came as a signal",
            remedy="Send the update 'respond': what it says is checked, and it is answered.",
        )


def _decision(interrupt: Interrupt, given: Decision) -> str:
    chosen = {"approve": interrupt.approval, "reject": interrupt.refusal}
    return chosen.get(given.type, given.message)


def _answer_draft(engine: Engine, command: Respond, incoming: QueuedCommand) -> str:
    edited = incoming.edited
    interrupt = find_interrupt(engine, command.interrupt)
    given = command.decisions[0]
    check_answer_hash(interrupt, command.hash)
    if given.type == "edit":
        if isinstance(edited, CommandRejected):
            raise edited
        if edited is None:
            _check_is_update(incoming)
            raise edit_rejection(interrupt)
        return engine.prompt.edit(interrupt, edited, by=command.by, command=command.id)
    decision = _decision(interrupt, given)
    reason = given.message if given.type == "reject" and given.message else command.reason
    try:
        engine.prompt.answer(interrupt, decision, by=command.by, command=command.id, reason=reason)
    except StopAnswer:
        engine.record(j.StopRequested(by=command.by, reason=f"answered {decision!r}"))
    return decision


def edited_definition(engine: Engine, data: Any) -> dict[str, Any] | None:
    """The definition that an answer to an open question puts in place of ours, to be checked."""
    try:
        command = parse("respond", data)
    except CommandRejected:
        return None
    if not isinstance(command, Respond) or command.id in engine.state.commands:
        return None
    interrupt = engine.state.interrupts.get(command.interrupt)
    action = command.decisions[0].edited_action
    if interrupt is None or interrupt.kind != "approval":
        return None
    if action is None or action.name != ACTION:
        return None
    definition = action.args.get("definition")
    return definition if isinstance(definition, dict) else {}


TOGETHER = "crewlog:together"
"""The name of the one signal."""


def contents(names: Sequence[tuple[str, int]]) -> Payload:
    """The first argument of the one signal; those of all signals follow, in order.

    Args:
        names: Each signal's name, and how many arguments it has.
    """
    return Payload(metadata={"encoding": b"json/plain"}, data=json.dumps(names).encode())


def apart(args: Sequence[RawValue]) -> Iterator[tuple[str, Sequence[RawValue]]]:
    """The signals that came as one, with the arguments of each."""
    at = 1
    for name, count in json.loads(args[0].payload.data):
        yield name, args[at : at + count]
        at += count
