"""Authorization of commands: the principal of a command, and whether the policy permits it.

The loop verifies the signature of each command once, before anything is done for it. It does so
again only if the policy changed while the command was prepared. An open policy costs nothing here.

An expiry is compared with the time at which a command arrived. Updates arrive with a workflow task,
whose time is the same in each replay. Signals do not (`commands.queue.now`): for a signal with a
valid signature, a local activity records the time in the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.exceptions import ActivityError, ApplicationError, FailureError

from crewlog.authority.principals import (
    CommandAuthorization,
    authorize_at,
    authorize_command,
    authorize_right,
    signature_hash,
)
from crewlog.authority.rights import HIGHEST, TOUCHES, Touch
from crewlog.authority.signatures import START, Signature
from crewlog.authority.widening import WIDENINGS_IN_ERROR, widening_text
from crewlog.canonical_json import hash_json
from crewlog.definition.policy import Policy, Right
from crewlog.encryption.codec import unique_text
from crewlog.errors import CommandRejected, NotPermitted
from crewlog.failure_details import FailureDetails, application_error, non_retryable_copy
from crewlog.graph.answers import answer_output
from crewlog.graph.engine import Engine
from crewlog.graph.plan import GraphPlan
from crewlog.graph.touches import (
    edit_touches,
    other_people_asked,
    permission_condition_names,
    redirect_touches,
    restore_touches,
)
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
from crewlog.wire import UPDATES, Command, EditState, Redirect, Rollback, StartRun
from crewlog.workflows.activity_options import LOCAL_OPTIONS
from crewlog.workflows.commands.queue import CheckedAuthorization, QueuedCommand, RefusedCommand

_NEVER = -1
"""A time at which nothing has expired."""


def authenticate(engine: Engine, incoming: QueuedCommand) -> CommandAuthorization | None:
    """The principal of a command and whether the policy permits it; none if the policy is open.

    Also none if the content is no JSON object: such a command is rejected later.
    """
    policy: Policy | None = engine.plan.policy
    if policy is None or not policy.signed or not isinstance(incoming.data, dict):
        return None
    data: dict[str, Any] = incoming.data  # pyright: ignore[reportUnknownVariableType]
    if str(data.get("id", "")).startswith(RESERVED):
        return None  # a command of the run itself: clients cannot send such ids
    at = _NEVER if incoming.arrived_at is None else incoming.arrived_at
    first_failure: CommandAuthorization | None = None
    run, signature = engine.state.run, _signature(data)
    if original := original_run(engine, incoming):
        run, data = original, {key: value for key, value in data.items() if key != "original_run"}
    for name in _signed_names(incoming):
        checked = _check_signature(policy, name, data, signature, run=run, at=at)
        if checked.verified:
            return checked
        first_failure = first_failure or checked
    return first_failure


def authenticate_request(
    engine: Engine, name: str, content: dict[str, Any], *, run: RunId, at: int | None
) -> CommandAuthorization | None:
    """The principal of a command to another run, by the policy of this one; None: it is open.

    Args:
        engine: The engine of this run.
        name: The name of the command.
        content: The command as it was sent.
        run: The run that it was sent to.
        at: When it arrived here, in milliseconds since the epoch; None: it cannot expire.
    """
    policy = engine.plan.policy
    if policy is None or not policy.signed:
        return None
    at = _NEVER if at is None else at
    return _check_signature(policy, name, content, _signature(content), run=run, at=at)


def original_run(engine: Engine, incoming: QueuedCommand) -> RunId | None:
    """The run that a message was sent to, if it was merged into this run; else none.

    The message names that run. If the state of this run does not have it, the signature is not
    valid. Messages are the only commands that a merged run forwards.
    """
    data: Any = incoming.data
    original = data.get("original_run") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if incoming.name != "message" or not isinstance(original, str):
        return None
    return RunId(original) if RunId(original) in engine.state.merged_runs else None


def _check_signature(
    policy: Policy | None,
    name: str,
    data: dict[str, Any],
    signature: Signature | None,
    *,
    run: str,
    at: int,
) -> CommandAuthorization:
    namespace = workflow.info().namespace if workflow.in_workflow() else ""
    return authorize_command(policy, name, data, signature, run=run, at=at, namespace=namespace)


async def authorize(engine: Engine, incoming: QueuedCommand) -> None:
    """Finds the principal of a command, and whether the policy in force permits it.

    For a signal whose signature is valid, it records the time of arrival first. Whether it does
    depends on the signature alone, so a replay does the same.
    """
    if _is_authorization_current(engine, incoming):
        return
    _determine_authorization(engine, incoming)
    policy, authorization = engine.plan.policy, incoming.authorization
    if incoming.arrived_at is None and authorization is not None and authorization.allowed:
        incoming.arrived_at = await record_time()
        checked = authorize_at(
            authorization,
            incoming.sent_name or incoming.name,
            incoming.data,
            _signature(incoming.data),
            incoming.arrived_at,
        )
        # If the policy changed meanwhile, `check` verifies the command again.
        incoming.checked = CheckedAuthorization(policy, checked)


def check(engine: Engine, incoming: QueuedCommand) -> None:
    """Checks that the policy in force permits a command, before it is applied.

    Raises:
        NotPermitted: the policy does not permit it.
    """
    if not _is_authorization_current(engine, incoming):
        _determine_authorization(engine, incoming)
    if incoming.authorization is not None and not incoming.authorization.allowed:
        raise not_permitted(incoming.authorization)


def _is_authorization_current(engine: Engine, incoming: QueuedCommand) -> bool:
    return incoming.checked is not None and incoming.checked.policy is engine.plan.policy


def _determine_authorization(engine: Engine, incoming: QueuedCommand) -> None:
    incoming.checked = CheckedAuthorization(engine.plan.policy, authenticate(engine, incoming))


async def record_time() -> int:
    """Records the current time in the history, and returns it."""
    at: int = await workflow.execute_local_activity(READ_TIME, result_type=int, **LOCAL_OPTIONS)
    return at


def not_permitted(authorization: CommandAuthorization) -> NotPermitted:
    """The error for a command that the policy does not permit."""
    return NotPermitted(authorization.reason, remedy=authorization.remedy)


def check_right(authorization: CommandAuthorization, right: Right, what: str) -> None:
    """Checks that a principal has a right.

    Raises:
        NotPermitted: the principal does not have it.
    """
    result = authorize_right(authorization.principal, authorization.rights, right, what)
    if not result.allowed:
        raise not_permitted(result)


def check_widening(
    authorization: CommandAuthorization | None, widenings: Sequence[str] | None, what: str
) -> None:
    """Checks that a principal without the right `grant` widens nothing.

    Args:
        authorization: The authorization of the command; none: the policy is open.
        widenings: What becomes wider. None: the change was not compared with the definition in
            force, which counts as a widening.
        what: What widens, for the error: `the change`.

    Raises:
        NotPermitted: the command widens, and its principal may not grant.
    """
    if authorization is None or not authorization.verified:
        return
    if widenings is None:
        widenings = ("it was not compared with the definition in force",)
    if widenings:
        check_right(authorization, HIGHEST, widening_text(widenings, what))


def check_touches(
    authorization: CommandAuthorization | None,
    plan: GraphPlan,
    state: CrewState,
    touches: Iterable[Touch],
    what: str,
) -> None:
    """Checks that a principal has the rights for what a command touches.

    Args:
        authorization: The authorization of the command; none: the policy is open.
        plan: The plan of the run.
        state: The state of the run.
        touches: What it touches.
        what: The command, for the error: `a redirect of`.

    Raises:
        NotPermitted: it touches something, and its principal does not have the right.
    """
    if authorization is None or not authorization.verified:
        return
    texts: dict[Right, list[str]] = {}
    for touch in touches:
        texts.setdefault(TOUCHES[touch.kind], []).append(touch.text)
    for right, found in texts.items():
        text = "; ".join(excerpt(each, 200) for each in found[:WIDENINGS_IN_ERROR])
        check_right(authorization, right, f"{what} {text}")
        others = other_people_asked(plan, state, authorization.principal)
        if right == "answer" and others:
            only = f"(only {', '.join(others)} may answer)"
            check_right(authorization, HIGHEST, f"{what} {text} {only}")


def check_manual_command(engine: Engine, incoming: QueuedCommand, command: Command) -> None:
    """Checks that a principal has the rights for what its manual command touches.

    Args:
        engine: The engine of the run.
        incoming: The command, authorized.
        command: The same, parsed.

    Raises:
        NotPermitted: its principal does not have the right.
    """
    if incoming.authorization is None:
        return
    plan, state = engine.plan, engine.state
    touches: Iterable[Touch]
    match command:
        case EditState():
            what = "an edit of"
            touches = edit_touches(plan, state, [*command.set, *command.delete])
        case Redirect():
            what, touches = "a redirect of", redirect_touches(plan, state, command.step)
        case Rollback() if isinstance(incoming.preparation, RestoreStateResult):
            what = "a rollback of"
            touches = restore_touches(
                permission_condition_names(plan),
                GraphPlan.from_json(incoming.preparation.plan),
                state,
                CrewState.from_json(incoming.preparation.state),
            )
        case _:
            return
    check_touches(incoming.authorization, plan, state, touches, what)


def check_answer(
    engine: Engine, incoming: QueuedCommand, interrupt: Interrupt, decision: str
) -> None:
    """Checks that an answer to a requirement sets no flag that the condition of a permission reads.

    Answers to other interrupts may set one, since the definition declares it.

    Args:
        engine: The engine of the run.
        incoming: The command, authorized.
        interrupt: The interrupt.
        decision: The answer.

    Raises:
        NotPermitted: it sets one, and its principal does not have the right.
    """
    flag = answer_output(interrupt, decision)
    if flag is None:
        return
    touches = edit_touches(engine.plan, engine.state, [f"flags.{flag}"])
    found = (each for each in touches if each.kind == "permission condition")
    what = "an answer that sets"
    check_touches(incoming.authorization, engine.plan, engine.state, found, what)


def authorize_start(
    start: StartRun, data: Any, policy: Policy | None, run: str, at: int
) -> tuple[StartRun, CommandAuthorization]:
    """Authorizes a start; returns it with its principal if it is signed, and the authorization.

    Args:
        start: The input of the run.
        data: The same, as it was sent.
        policy: The policy of its crew; none if it is open.
        run: The run.
        at: When it was started, in milliseconds since the epoch.

    Raises:
        ApplicationError: the policy does not permit it. The type is `NotPermitted`.
    """
    checked = _check_signature(policy, START, data, start.proof, run=run, at=at)
    if not checked.allowed:
        raise start_error(not_permitted(checked))
    if checked.verified:
        start = start.model_copy(update={"by": checked.principal})
    return start, checked


def check_initial_state(
    start: StartRun, checked: CommandAuthorization, plan: GraphPlan, run: RunId
) -> None:
    """Checks the initial state of a run as a state edit and messages are checked.

    In a crew with a policy, the principal must be the sender of all messages, since messages of
    agents and tools have no signature.

    Args:
        start: The input of the run.
        checked: Its authorization.
        plan: The plan of the run.
        run: The run.

    Raises:
        ApplicationError: a log has no reader (`InvalidStart`), or the principal does not have the
            right to the values (`NotPermitted`).
    """
    if start.initial_state is None:
        return
    initial = initial_state(start.initial_state)
    try:
        for place, log in initial.named_logs:
            _check_log(plan, log, place)
        if checked.verified:
            empty = CrewState(run=run)
            touches = edit_touches(plan, empty, [*initial.values])
            check_touches(checked, plan, empty, touches, "a start with")
            initial.check_senders(checked.principal)
    except CommandRejected as error:
        raise start_error(error) from error


def _check_log(plan: GraphPlan, log: LogName, place: str) -> None:
    try:
        check_log(plan, log)
    except CommandRejected as error:
        raise CommandRejected(f"{place}: {error.message}", remedy=error.remedy) from error


def signed_start(start: StartRun, data: dict[str, Any], at: int) -> SignedStart:
    """The start of this execution, by its signature.

    Args:
        start: The input of the run.
        data: The same, as it was sent.
        at: When it was started, in milliseconds since the epoch.
    """
    info = workflow.info()
    signature, start_hash = start.proof, ""
    if signature is not None:
        start_hash = signature_hash(signature, info.workflow_id, START, data, info.namespace)
    return SignedStart(
        start=start_hash,
        execution=info.original_execution_run_id,
        content=data if start_hash else {},
        at=at,
    )


async def use_encrypted_start(payload: Payload) -> None:
    """Records the use of an encrypted start, so that nobody can copy it from a history and use it.

    Args:
        payload: The start, decoded.

    Raises:
        ApplicationError: another execution has used it, which may be one of a deleted run.
    """
    key, info = unique_text(payload), workflow.info()
    if key and not await _record_use(key, info.original_execution_run_id):
        raise start_error(
            NotPermitted(
                "cannot start the run: another execution has used this encrypted start",
                remedy="Start the run again by a client that has the encryption keys.",
            )
        )


async def use_command(engine: Engine, incoming: QueuedCommand) -> None:
    """Records the use of a command that gives authority, if it is signed or encrypted.

    The state of a run has the ids of its own commands, but not those of a deleted run of its id.

    Args:
        engine: The engine of the run.
        incoming: The command, one of `USED_ONCE`, which the policy permits.
    """
    content: Any = incoming.data
    is_refused = isinstance(incoming.preparation, RefusedCommand)
    if engine.state.is_ended or is_refused or not isinstance(content, dict):
        return
    data: dict[str, Any] = content  # pyright: ignore[reportUnknownVariableType]
    command = data.get("id")
    if not isinstance(command, str) or data.get("dry_run") is True:
        return
    known = engine.state.commands.get(CommandId(command))
    if known is not None and known.error_type != NotPermitted.__name__:
        return  # it has an outcome
    key = _unique_key(engine, incoming, data)
    if key and not await _record_use(key, workflow.info().first_execution_run_id):
        incoming.preparation = RefusedCommand(
            NotPermitted(
                f"another run of this id has used this {incoming.name}",
                remedy="Send it by a client, which makes a new signature and encrypts it again.",
            )
        )


USED_ONCE = frozenset(UPDATES) - {"ask"}
"""The commands that only one run may use: an update gives authority, or is a decision of a person;
an `ask` only sends a message."""


def _unique_key(engine: Engine, incoming: QueuedCommand, data: dict[str, Any]) -> str:
    """A text that only the sender of a command can make: its signature or encryption; or empty."""
    policy, signature = engine.plan.policy, _signature(data)
    if policy is not None and policy.signed and signature is not None:
        namespace = workflow.info().namespace
        return signature_hash(signature, engine.state.run, incoming.name, data, namespace)
    return unique_text(incoming.args[0].payload) if incoming.args else ""


async def _record_use(key: str, owner: str) -> bool:
    """Records the owner of a unique key; returns whether no other owner has used it."""
    # The encryption of a schedule is the same for all of its runs.
    task = RecordUse(used=hash_json([workflow.info().workflow_id, key]), owner=owner)
    is_first: bool = await workflow.execute_local_activity(
        RECORD_USE, task, result_type=bool, **LOCAL_OPTIONS
    )
    return is_first


def foreign_execution_error(error: FailureError) -> ApplicationError | None:
    """The error of an activity that found that the execution is not one of its run; else none."""
    cause = error.cause if isinstance(error, ActivityError) else error
    if not isinstance(cause, ApplicationError) or cause.type != NotPermitted.__name__:
        return None
    return non_retryable_copy(cause)


def start_error(error: CommandRejected) -> ApplicationError:
    """The error of a run whose start is not permitted or not valid."""
    type_ = NotPermitted.__name__ if isinstance(error, NotPermitted) else "InvalidStart"
    return application_error(error.message, type_, FailureDetails(remedy=error.remedy))


def _signed_names(incoming: QueuedCommand) -> tuple[str, ...]:
    """The names with which a command may have been signed.

    An `ask` is queued as a message, and the carry does not keep its first name.
    """
    if incoming.sent_name:
        return (incoming.sent_name,)
    return ("message", "ask") if incoming.name == "message" else (incoming.name,)


def _signature(data: dict[str, Any]) -> Signature | None:
    try:
        return Signature.model_validate(data["proof"])
    except (KeyError, ValidationError):
        return None
