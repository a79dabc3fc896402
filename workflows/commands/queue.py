"""The queue of commands: signals and updates that an execution has received and not applied.

Signal handlers only append here and never await, so that no signal is lost when the run continues
as new: the queue is carried. Handlers of updates append, too, and wait for the outcome.

The SDK makes a coroutine, and much else, for each signal. That costs more than the work for a
signal that is only counted. So the workflow runner hands over the signals of one activation as one
signal, `TOGETHER`; a client cannot send one of that name, since each signal of the activation is
wrapped. The handler never awaits, so the order is the same either way.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from temporalio import workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from pydantic import ValidationError

    from crewlog.authority.principals import CommandAuthorization
    from crewlog.canonical_json import check_depth
    from crewlog.definition.policy import Policy
    from crewlog.encryption.codec import (
        FILE_MISSING,
        KEY_MISSING,
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
    from crewlog.errors import CommandRejected, CrewlogError, EncryptionKeyMissing
    from crewlog.ids import RESERVED
    from crewlog.payload_storage.external_storage import unavailable_payload_error
    from crewlog.state.calls import (
        PrepareChangeResult,
        PrepareMergeResult,
        PrepareRunResult,
        RestoreStateResult,
    )
    from crewlog.state.model import CommandOutcome
    from crewlog.validation_errors import faults_of
    from crewlog.wire import COMMANDS, SIGNALS, Command, CommandResult, spoken


@dataclass(frozen=True)
class CheckedArguments:
    """The edited arguments of an answer fit the tool, or nothing waits for them any more."""


@dataclass(frozen=True)
class NotPrepared:
    """The run ended, or the command got its outcome, before the preparation began."""


@dataclass(frozen=True)
class RefusedEdit:
    """The edit of an answer is not valid. Other reasons to refuse the answer come first."""

    error: CommandRejected


@dataclass(frozen=True)
class RefusedCommand:
    """The command is refused before it is applied."""

    error: CrewlogError


Preparation = (
    PrepareChangeResult
    | PrepareMergeResult
    | RestoreStateResult
    | PrepareRunResult
    | CheckedArguments
    | NotPrepared
    | RefusedEdit
    | RefusedCommand
)
"""What the preparation of a command led to: the result of its activity, or a refusal."""


@dataclass
class QueuedCommand:
    """A signal or an update, from its handler to its outcome."""

    name: str
    data: Any
    """The content as JSON, or an `InvalidPayload`."""
    at: int = 0
    """When it arrived, by `now`."""
    arrived: int | None = None
    """When it arrived, as the history has it: expiries are compared with it. Updates come with a
    workflow task and have it; for a proven signal it is recorded, see `authorization.authorize`."""
    sent: str = ""
    """The name under which it was sent and signed, where that differs from `name`."""
    is_update: bool = False
    """Whether a client waits for its outcome."""
    args: Sequence[RawValue] = ()
    """The payloads, decoded; none where an earlier execution received it."""
    plain: bool = False
    """Whether it arrived unencrypted at a worker that encrypts."""

    authorization: CommandAuthorization | None = None
    """Its principal, and whether the policy permits the command; none where the policy is open."""
    is_judged: bool = False
    """Whether `authorization` was determined, by `judged_by`."""
    judged_by: Policy | None = None
    known: CommandOutcome | None = None
    """The outcome that its id has already, where the state does not remember it any more."""

    preparation: Preparation | None = None
    """What its preparation led to; none before that, and where it needs none."""
    rounds: list[PrepareChangeResult] = field(default_factory=list[PrepareChangeResult])
    """The replies of models that read its prompt."""

    done: bool = False
    """Whether it has its outcome, or was returned."""
    is_returned: bool = False
    """Whether the run continues as new before it was applied: the client sends it again."""
    result: CommandResult | None = None
    error: CrewlogError | None = None
    digest: str = ""
    """The digest of the command whose outcome this is."""
    drain: float | None = None
    """Of an accepted change: the seconds that calls in flight may take."""
    dry: bool = False
    """Whether it is a dry run."""
    unfit: bool = False
    """Whether its content is no command."""
    late: bool = False
    """Whether the run changed since it was prepared: it is prepared again."""
    _parsed: Command | CommandRejected | None = None

    def parse(self) -> Command:
        """The command, parsed once.

        Raises:
            CommandRejected: the content is no command of this name; it names each fault.
        """
        if self._parsed is None:
            try:
                self._parsed = parse(self.name, self.data)
            except CommandRejected as error:
                self._parsed = error
        if isinstance(self._parsed, CommandRejected):
            self.unfit = True
            raise self._parsed
        return self._parsed

    def prepare_again(self) -> None:
        """Forgets the preparation for a graph that the run does not have any more."""
        self.late = self.done = False
        self.preparation = None


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
        why = FILE_MISSING if key is None else KEY_MISSING
        return InvalidPayload(why) if is_given_up(payload) else Lost(why, file, key)
    if is_given_up(payload):
        return InvalidPayload(FILE_MISSING)
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
    command_type = COMMANDS.get(name)
    if command_type is None:
        raise CommandRejected(
            f"there is no signal {name!r}", remedy=f"Signals: {', '.join(SIGNALS)}."
        )
    if isinstance(data, InvalidPayload):
        raise CommandRejected(f"{spoken(name)}: {data.reason}")
    try:
        return command_type.content.model_validate(data)
    except ValidationError as error:
        faults = faults_of(error, "its content")
        raise CommandRejected(
            f"{spoken(name)}: {faults}", remedy="docs/wire.md has the fields."
        ) from error


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
