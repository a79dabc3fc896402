"""Authorisation of commands: the principal of a command, and whether the policy permits it.

The loop authorises each command once, before anything is done for it. It does so again only if the
policy changed while the command was prepared. An open policy costs nothing here.

An expiry is compared with the time at which a command arrived. Updates arrive with a workflow task,
whose time is the same in each replay. Signals do not (`command_queue.now`): for a signal with a
valid signature, a local activity records the time in the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from crewlog.authority.principals import (
        CommandAuthorization,
        authorize_command,
        authorize_right,
        signature_hash,
    )
    from crewlog.authority.signatures import START, Signature
    from crewlog.canonical_json import hash_json
    from crewlog.definition.policy import Policy, Right
    from crewlog.encryption.codec import nonce_text
    from crewlog.errors import CommandRejected, NotPermitted
    from crewlog.failure_details import FailureDetails, application_error, non_retryable_copy
    from crewlog.graph import bypasses
    from crewlog.graph.engine import Engine
    from crewlog.graph.plan import GraphPlan
    from crewlog.graph.wakes import check_log
    from crewlog.ids import RESERVED, CommandId, LogName, RunId
    from crewlog.reporting.wire_views import initial_state
    from crewlog.state.calls import (
        READ_TIME,
        RECORD_USE,
        RecordUse,
        RestoreStateResult,
        SignedStart,
    )
    from crewlog.state.excerpt import excerpt
    from crewlog.state.model import CrewState, Interrupt
    from crewlog.wire import Command, EditState, Redirect, Rollback, StartRun, spoken

from crewlog.workflows.activity_options import LOCAL
from crewlog.workflows.command_queue import QueuedCommand

SHOWN = 10
"""Ways in which a change widens authority that a refusal names."""
_NEVER = -1
"""A time at which nothing has expired."""


def look(engine: Engine, incoming: QueuedCommand) -> CommandAuthorization | None:
    """Who a command is of, and whether it is let in; none where nobody asks.

    What has no object as its content is not looked at: nothing can come of it.
    """
    policy: Policy | None = engine.plan.policy
    if policy is None or not policy.signed or not isinstance(incoming.data, dict):
        return None
    data: dict[str, Any] = incoming.data  # pyright: ignore[reportUnknownVariableType]
    if str(data.get("id", "")).startswith(RESERVED):
        return None  # the run's own: from outside, there is none of these
    at = _NEVER if incoming.arrived is None else incoming.arrived
    found: CommandAuthorization | None = None
    run, proof = engine.state.run, _signature(data)
    if first := original_run(engine, incoming):
        run, data = first, {key: value for key, value in data.items() if key != "original_run"}
    for name in _names(incoming):
        tried = _check_sender(policy, name, data, proof, run=run, at=at)
        if tried.verified:
            return tried
        found = found or tried
    return found


def original_run(engine: Engine, incoming: QueuedCommand) -> RunId | None:
    """The run that a message was said to, where that is part of this one by now; else none.

    It names that run itself, and only so far as this run's own state says that it took it in: of
    any other, the signature does not fit. What else was signed for that run is not handed on.
    """
    data: Any = incoming.data
    first = data.get("original_run") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if incoming.name != "message" or not isinstance(first, str):
        return None
    return RunId(first) if RunId(first) in engine.state.merged_runs else None


def _check_sender(
    policy: Policy | None,
    name: str,
    data: dict[str, Any],
    proof: Signature | None,
    *,
    run: str,
    at: int,
) -> CommandAuthorization:
    place = workflow.info().namespace if workflow.in_workflow() else ""
    return authorize_command(policy, name, data, proof, run=run, at=at, namespace=place)


async def authorize(engine: Engine, incoming: QueuedCommand) -> None:
    """Determines the principal and the rights of a command, by the policy in force.

    For a signal whose signature is valid, it records the time of arrival first. Whether it does
    depends on the signature alone, so a replay does the same.
    """
    if _is_judged(engine, incoming):
        return
    _judge(engine, incoming)
    if (
        incoming.arrived is None
        and incoming.authorization is not None
        and incoming.authorization.allowed
    ):
        incoming.arrived = await tell()
        _judge(engine, incoming)


def check(engine: Engine, incoming: QueuedCommand) -> None:
    """Checks that the policy in force permits a command, before it is applied.

    Raises:
        NotPermitted: it does not.
    """
    if not _is_judged(engine, incoming):
        _judge(engine, incoming)
    if incoming.authorization is not None and not incoming.authorization.allowed:
        raise refusal(incoming.authorization)


def _is_judged(engine: Engine, incoming: QueuedCommand) -> bool:
    return incoming.is_judged and incoming.judged_by is engine.plan.policy


def _judge(engine: Engine, incoming: QueuedCommand) -> None:
    incoming.authorization = look(engine, incoming)
    incoming.is_judged, incoming.judged_by = True, engine.plan.policy


async def tell() -> int:
    """The time, as the history has it from then on."""
    at: int = await workflow.execute_local_activity(READ_TIME, result_type=int, **LOCAL)
    return at


def refusal(found: CommandAuthorization) -> NotPermitted:
    """The error for a command that the policy does not let in."""
    return NotPermitted(found.reason, remedy=found.remedy)


def check_widening(
    found: CommandAuthorization | None, ways: Sequence[str] | None, what: str
) -> None:
    """Checks that who may not grant widens nobody's authority, by whatever way.

    Args:
        found: Whose command it is; none: nobody asks.
        ways: What becomes wider; none: it was not compared with the definition in force, which
            counts as wider.
        what: What does it: `the change`.

    Raises:
        NotPermitted: it does.
    """
    if found is None or not found.verified or (ways is not None and not ways):
        return
    told = ways or ("it was not compared with the definition in force",)
    more = f"; and {len(told) - SHOWN} more" if len(told) > SHOWN else ""
    widens = "; ".join(excerpt(each, 200) for each in told[:SHOWN])
    asked = authorize_right(
        found.principal, found.rights, "grant", f"{what} (it widens authority: {widens}{more})"
    )
    if not asked.allowed:
        raise refusal(asked)


def check_manual_command(
    engine: Engine,
    incoming: QueuedCommand,
    command: Command,
) -> None:
    """Checks that who steers a run lifts no rule by that, and answers no question.

    Args:
        engine: The run's.
        incoming: The command, with whose it is.
        command: The same, read.

    Raises:
        NotPermitted: it does, and who sends it has not the right to that.
    """
    found = incoming.authorization
    if found is not None and found.verified:
        steered = _side_effects(engine, incoming, command)
        _check_side_effects(found, engine.plan, engine.state, steered)


_Deed = tuple[Right, str, Iterable[str]]
"""What a command does besides: the right that this needs, what it is in words, and what it touches.
Where it touches nothing, it is not done."""


def _check_side_effects(
    found: CommandAuthorization, plan: GraphPlan, now: CrewState, deeds: Iterable[_Deed]
) -> None:
    for right, what, ways in deeds:
        told = "; ".join(excerpt(each, 200) for each in [*ways][:SHOWN])
        if not told:
            continue
        asked = authorize_right(found.principal, found.rights, right, f"{what} {told}")
        if not asked.allowed:
            raise refusal(asked)
        others = bypasses.other_people_asked(plan, now, found.principal)
        if right == "answer" and others:
            told = f"{told} (that is asked of {', '.join(others)})"
            asked = authorize_right(found.principal, found.rights, "grant", f"{what} {told}")
            if not asked.allowed:
                raise refusal(asked)


def check_answer(engine: Engine, incoming: QueuedCommand, asked: Interrupt, decision: str) -> None:
    """Checks that who answers that a requirement is met lifts no rule by that.

    What the crew's own questions set is theirs to answer: the crew says so.

    Args:
        engine: The run's.
        incoming: The command, with whose it is.
        asked: The question.
        decision: The answer.

    Raises:
        NotPermitted: it sets what the condition of a rule reads, and who answers may not grant.
    """
    found, flag = incoming.authorization, bypasses.answer_output(asked, decision)
    if found is None or not found.verified or flag is None:
        return
    for told in bypasses.permission_condition_edits(engine.plan, [f"flags.{flag}"]):
        able = authorize_right(
            found.principal, found.rights, "grant", f"an answer that sets {told},"
        )
        if not able.allowed:
            raise refusal(able)


def _side_effects(engine: Engine, incoming: QueuedCommand, command: Command) -> Iterator[_Deed]:
    """What a command does besides steering, with the right that this needs."""
    plan, now = engine.plan, engine.state
    match command:
        case EditState():
            yield from _edited(plan, now, [*command.set, *command.delete], "an edit of")
        case Redirect():
            past = [command.node] * bypasses.is_behind_question(plan, command.node)
            yield "answer", "a redirect past a question, to", past
            leads = () if past else bypasses.redirect_bypasses(plan, now, command.node)
            yield "answer", "a redirect past a question, to", leads
            step = bypasses.redirected_step(now, command.step)
            yield (
                "answer",
                f"a redirect of {step}, which asks",
                bypasses.interrupts_of_step(now, step),
            )
        case Rollback() if isinstance(incoming.prepared, RestoreStateResult):
            loaded = incoming.prepared
            then, there = CrewState.from_json(loaded.state), GraphPlan.from_json(loaded.plan)
            read = bypasses.permission_condition_names(plan)
            yield "grant", "a rollback:", bypasses.restored_permission_conditions(read, now, then)
            yield "answer", "a rollback:", bypasses.restored_answers(there, now, then)
            yield "answer", "a rollback:", bypasses.reused_answers(there, now, then)
            yield "answer", "a rollback:", bypasses.restored_guard_conditions(there, now, then)
        case _:
            pass


def _edited(plan: GraphPlan, now: CrewState, paths: Sequence[str], what: str) -> Iterator[_Deed]:
    """What values that are put into a state do besides, whichever way they come."""
    yield "grant", what, bypasses.permission_condition_edits(plan, paths)
    yield "answer", what, bypasses.answer_edits(plan, paths)
    yield "answer", what, bypasses.flow_condition_edits(plan, paths)
    yield "answer", what, bypasses.requirement_edits(plan, now, paths)


def starter(start: StartRun, data: Any, policy: Policy | None, run: str, at: int) -> StartRun:
    """A start with who it is of, where a policy asks for that.

    Args:
        start: What the run is started with.
        data: The same, as it was sent.
        policy: The policy of its crew; none: open.
        run: The run.
        at: When it was started.

    Raises:
        ApplicationError: the policy does not let it in; of the type `NotPermitted`.
    """
    found = _check_sender(policy, START, data, start.proof, run=run, at=at)
    if not found.allowed:
        raise start_error(refusal(found))
    return start.model_copy(update={"by": found.principal}) if found.verified else start


def check_initial_state(
    start: StartRun,
    data: Any,
    plan: GraphPlan,
    run: RunId,
    at: int,
) -> None:
    """Checks what a run begins with as if it were edited and said: it is, only earlier.

    In a signed crew nothing of it is said in the name of somebody else: what agents and tools say
    has no signature.

    Args:
        start: What the run is started with, by whom the policy lets in.
        data: The same, as it was sent.
        plan: The run's.
        run: The run.
        at: When it was started.

    Raises:
        ApplicationError: a log has no reader (`InvalidStart`), or who starts the run has not the
            right to what it is given (`NotPermitted`).
    """
    if start.given is None:
        return
    given = initial_state(start.given)
    found = _check_sender(plan.policy, START, data, start.proof, run=run, at=at)
    try:
        for place, log in given.named_logs:
            _check_log(plan, log, place)
        if found.verified:
            paths = [*given.values]
            deeds = _edited(plan, CrewState(run=run), paths, "a start that is given")
            _check_side_effects(found, plan, CrewState(run=run), deeds)
            given.check_senders(found.principal)
    except CommandRejected as error:
        raise start_error(error) from error


def _check_log(plan: GraphPlan, log: LogName, place: str) -> None:
    try:
        check_log(plan, log)
    except CommandRejected as error:
        raise CommandRejected(f"{place}: {error.message}", remedy=error.remedy) from error


def use_of(start: StartRun, data: dict[str, Any], at: int) -> SignedStart:
    """This execution's use of a start.

    Args:
        start: What the run is started with.
        data: The same, as it was sent.
        at: When it was started.
    """
    info = workflow.info()
    proof, digest = start.proof, ""
    if proof is not None:
        digest = signature_hash(proof, info.workflow_id, START, data, info.namespace)
    return SignedStart(
        start=digest,
        execution=info.original_execution_run_id,
        content=data if digest else {},
        at=at,
    )


async def use_encrypted_start(payload: Payload) -> None:
    """Uses a start that came encrypted: whoever can read the history could send it once more.

    Args:
        payload: The start, decoded.

    Raises:
        ApplicationError: another execution has used it, of a run that was deleted perhaps.
    """
    seal, info = nonce_text(payload), workflow.info()
    if seal and not await _use(seal, info.original_execution_run_id):
        raise start_error(
            NotPermitted(
                "this start was encrypted for one execution, which has used it",
                remedy="Start the run again by a client that has the encryption keys.",
            )
        )


async def use_command(engine: Engine, incoming: QueuedCommand) -> None:
    """Uses a command that gives authority, where it is signed or came encrypted.

    A run knows its own commands by their ids. One that gets the id of a deleted run does not know
    the commands of that one.

    Args:
        engine: The run's.
        incoming: The command, one of `USED_ONCE`, which the policy lets in.
    """
    data: Any = incoming.data
    if engine.state.is_ended or incoming.refusal is not None or not isinstance(data, dict):
        return
    told: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
    command = told.get("id")
    if not isinstance(command, str) or told.get("dry_run") is True:
        return
    known = engine.state.commands.get(CommandId(command))
    if known is not None and known.error_type != NotPermitted.__name__:
        return  # it has its outcome
    used = _used(engine, incoming, told)
    if used and not await _use(used, workflow.info().first_execution_run_id):
        incoming.refusal = NotPermitted(
            f"this {spoken(incoming.name)} was given to another run of this id, which has used it",
            remedy="Send it again by a client: each signature, and each encryption, is for one.",
        )


USED_ONCE = frozenset({"answer", "change", "edit_state", "redirect", "rollback", "set_permission"})
"""Commands that give authority or stand for a person's decision."""


def _used(engine: Engine, incoming: QueuedCommand, data: dict[str, Any]) -> str:
    """What a command is known by that nobody can make again; empty where anybody can."""
    policy, proof = engine.plan.policy, _signature(data)
    if policy is not None and policy.signed and proof is not None:
        place = workflow.info().namespace
        return signature_hash(proof, engine.state.run, incoming.name, data, place)
    return nonce_text(incoming.args[0].payload) if incoming.args else ""


async def _use(used: str, owner: str) -> bool:
    # A schedule encrypts once for all of its runs.
    task = RecordUse(used=hash_json([workflow.info().workflow_id, used]), owner=owner)
    mine: bool = await workflow.execute_local_activity(RECORD_USE, task, result_type=bool, **LOCAL)
    return mine


def foreign_execution_error(error: FailureError) -> ApplicationError | None:
    """What an execution fails with that is none of its run's, as an activity found; else none."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if not isinstance(cause, ApplicationError) or cause.type != NotPermitted.__name__:
        return None
    return non_retryable_copy(cause)


def start_error(error: CommandRejected) -> ApplicationError:
    """What a run fails with whose start is not let in, or asks for what cannot be."""
    kind = NotPermitted.__name__ if isinstance(error, NotPermitted) else "InvalidStart"
    return application_error(error.message, kind, FailureDetails(remedy=error.remedy))


def _names(incoming: QueuedCommand) -> tuple[str, ...]:
    """The names under which a command may have been signed.

    What an `ask` says is a message; where the run continued as new before that was taken, nothing
    else is known of it any more.
    """
    if incoming.sent:
        return (incoming.sent,)
    return ("message", "ask") if incoming.name == "message" else (incoming.name,)


def _signature(data: dict[str, Any]) -> Signature | None:
    try:
        return Signature.model_validate(data["proof"])
    except (KeyError, ValidationError):
        return None
