"""The queue of commands: signals and updates that an execution has received and not applied.

Signal handlers only append here and never await, so that no signal is lost when the run continues
as new: the queue is carried. Handlers of updates append, too, and wait for the outcome.

The signals of one activation come packed into one; see `PACKED_SIGNALS` of
`crewlog.workflows.sdk_workarounds`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RawValue

from crewlog.authority.principals import CommandAuthorization
from crewlog.canonical_json import check_depth
from crewlog.definition.policy import Policy
from crewlog.encryption.codec import (
    FILE_MISSING,
    KEY_MISSING,
    error_of,
    is_given_up,
    is_refused,
    is_unavailable,
)
from crewlog.errors import CommandRejected, CrewlogError, EncryptionKeyMissing
from crewlog.ids import RESERVED
from crewlog.state.calls import (
    PrepareChangeResult,
    PrepareMergeResult,
    PrepareRunResult,
    RestoreStateResult,
)
from crewlog.state.model import CommandOutcome
from crewlog.validation_errors import validation_error_text
from crewlog.wire import COMMANDS, SIGNALS, Change, Command, CommandResult


@dataclass(frozen=True)
class CheckedArguments:
    """The edited arguments of an answer fit the tool, or their call has ended."""


@dataclass(frozen=True)
class NotPrepared:
    """The run ended, or the command got its outcome, before the preparation began."""


@dataclass(frozen=True)
class RefusedEdit:
    """The edit of an answer is not valid. Any other reason to refuse the answer precedes it."""

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
"""The result of preparing a command: that of its activity, or a refusal."""


@dataclass(frozen=True)
class Applied:
    """The command was applied."""

    result: CommandResult


@dataclass(frozen=True)
class Failed:
    """The command was rejected, or is not permitted."""

    error: CrewlogError
    command_hash: str = ""
    """The hash of the command whose outcome this is."""


@dataclass(frozen=True)
class Returned:
    """The run continues as new before the command was applied: the client sends it again."""


@dataclass(frozen=True)
class Unrecorded:
    """The command leaves no entry: `ask` waits for a result, and some signals are only counted."""


Outcome = Applied | Failed | Returned | Unrecorded
"""The outcome of a command in this execution."""


class CheckedAuthorization(NamedTuple):
    """What a policy says of a command."""

    policy: Policy | None
    authorization: CommandAuthorization | None
    """The principal, and whether the policy permits the command; None if the policy is open."""


@dataclass
class QueuedCommand:
    """A signal or an update, from its handler to its outcome."""

    name: str
    data: Any
    """The content as JSON, or an `InvalidPayload`."""
    queued_at: int = 0
    """When it was queued, by `now`."""
    arrived_at: int | None = None
    """When it arrived, as the history records it: expiries are compared with it. An update has the
    time of its workflow task. For a signal with a valid signature `authorization.authorize` records
    the time; other signals have none."""
    sent_name: str = ""
    """The name under which it was sent and signed, if that is not `name`."""
    is_update: bool = False
    """Whether a client waits for its outcome."""
    args: Sequence[RawValue] = ()
    """The decoded payloads; empty if an earlier execution received it."""

    checked: CheckedAuthorization | None = None
    """None until it is authorized."""
    known_outcome: CommandOutcome | None = None
    """The outcome that its id has already, if only the store and the batch still have it."""

    preparation: Preparation | None = None
    """The result of its preparation; none before that, or if it needs none."""
    waits_for_swap: bool = False
    """Whether it is a change that needs a swap: it waits for a pending one."""
    rounds: list[PrepareChangeResult] = field(default_factory=list[PrepareChangeResult])
    """The replies of models that read its prompt."""

    outcome: Outcome | None = None
    """None until it is applied, rejected, or returned."""
    command_hash: str = ""
    """The hash of the command whose outcome this is."""
    _parsed: Command | CommandRejected | None = None

    @property
    def authorization(self) -> CommandAuthorization | None:
        """Its principal, and whether it is permitted; None if the policy is open, or not asked."""
        return self.checked.authorization if self.checked is not None else None

    @property
    def error(self) -> CrewlogError | None:
        """Why it was rejected; None if it was not."""
        return self.outcome.error if isinstance(self.outcome, Failed) else None

    @property
    def is_dry_run(self) -> bool:
        """Whether it is a change that is only reported; False until it is parsed."""
        return isinstance(self._parsed, Change) and self._parsed.dry_run

    @property
    def is_malformed(self) -> bool:
        """Whether its content is no command; False until it is parsed."""
        return isinstance(self._parsed, CommandRejected)

    def parse(self) -> Command:
        """The command, parsed once.

        Raises:
            CommandRejected: the content is no command of this name. It lists all errors.
        """
        if self._parsed is None:
            try:
                self._parsed = parse_command(self.name, self.data)
            except CommandRejected as error:
                self._parsed = error
        if isinstance(self._parsed, CommandRejected):
            raise self._parsed
        return self._parsed

    def discard_preparation(self) -> None:
        """Discards the preparation, which was for a graph that the run no longer has."""
        self.outcome = None
        self.preparation = None


@dataclass(frozen=True)
class InvalidPayload:
    """A payload that is not JSON, or not one value."""

    reason: str


@dataclass(frozen=True)
class UnavailablePayload(InvalidPayload):
    """A payload whose file or key is missing; see `payload_storage.external_storage`."""

    error: CrewlogError
    """What its reader raises."""


@dataclass(frozen=True)
class UndecodedPayload(InvalidPayload):
    """The arguments of a signal, until the loop takes it: most of thousands are never decoded."""

    args: Sequence[RawValue] = ()

    @property
    def is_unsigned(self) -> bool:
        r"""Whether its bytes exclude a signature: they have neither `proof` nor a `\u` escape."""
        if len(self.args) != 1:
            return True
        data = self.args[0].payload.data
        return b"proof" not in data and b"\\u" not in data

    @property
    def is_replaced(self) -> bool:
        """Whether the worker may have replaced a payload: one that it refuses or cannot read."""
        return any(is_refused(each.payload) or is_given_up(each.payload) for each in self.args)

    @property
    def size(self) -> int:
        """The number of bytes."""
        return sum(len(each.payload.data) for each in self.args)


def decode_payload(incoming: QueuedCommand) -> QueuedCommand:
    """Decodes the payload of a command, and returns the command.

    The loop calls it, not the handler: a missing payload fails the workflow task, and by then the
    worker must have requested the payloads of all commands in the task.

    Raises:
        EncryptionKeyMissing: this worker does not have the key. The workflow task is retried.
        StoreIncomplete: the payload is missing. The task is retried until it is available, or given
            up.
    """
    if isinstance(incoming.data, UndecodedPayload):
        incoming.args = incoming.data.args
        incoming.data = read_client_args(incoming.data.args)
    if isinstance(incoming.data, UnavailablePayload):
        raise incoming.data.error
    return incoming


def now() -> int:
    """The workflow's clock, in milliseconds since the epoch, for events without their own time.

    A replay must produce the same journal, and this clock may differ in a replay. So results and
    failures bring their own time: the end of a local activity may have another time in a replay,
    and a worker that first loads a run for a query handles results before their workflow task has
    started, at the time of the task before.

    Signals and timeouts of the server have no time of their own, and a client's clock is not
    trusted. A worker that handles them for a query, before their workflow task, gives them the time
    of the task before; so it evicts that instance after the query, see `Progress` of
    `crewlog.workers.sdk_workarounds`.
    Updates always come with a task.
    """
    return int(workflow.time() * 1000)


def read_args(args: Sequence[RawValue]) -> Any:
    """The one JSON value of a signal or an update, or an `InvalidPayload`.

    Raises:
        EncryptionKeyMissing: this worker does not have the key. The workflow task is retried.
    """
    if len(args) != 1:
        return InvalidPayload(f"it takes one JSON object, not {len(args)} arguments")
    payload = args[0].payload
    if is_unavailable(payload):
        error = error_of(payload)
        reason = KEY_MISSING if isinstance(error, EncryptionKeyMissing) else FILE_MISSING
        if is_given_up(payload):
            return InvalidPayload(reason)
        return UnavailablePayload(reason, error)
    if is_given_up(payload):
        return InvalidPayload(FILE_MISSING)
    if is_refused(payload):
        return InvalidPayload(error_of(payload).message)
    try:
        value = workflow.payload_converter().from_payload(args[0].payload)
        # The converter also returns bytes, protobufs and NaN, which a carry cannot hold.
        json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
        check_depth(value)
    except EncryptionKeyMissing:
        raise
    except Exception as error:  # noqa: BLE001 - no input of a client may fail the workflow task
        return InvalidPayload(f"the content is not JSON: {error}")
    return value


def read_client_args(args: Sequence[RawValue]) -> Any:
    """`read_args` for a client's command, whose id is none of the run's own."""
    data = read_args(args)
    command = data.get("id") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if isinstance(command, str) and command.startswith(RESERVED):
        return InvalidPayload(f"ids that begin with {RESERVED!r} are the run's own")
    return data  # pyright: ignore[reportUnknownVariableType]


def receive_command(name: str, args: Sequence[RawValue]) -> QueuedCommand:
    """Makes a queued command of an update."""
    return QueuedCommand(name, read_client_args(args), now(), args=args)


def receive_signal(name: str, args: Sequence[RawValue]) -> QueuedCommand:
    """Makes a queued command of a signal; the loop decodes it."""
    if any(is_unavailable(each.payload) for each in args):
        return receive_command(name, args)  # the worker has requested the payload
    return QueuedCommand(name, UndecodedPayload("it is not decoded yet", args), now())


def parse_command(name: str, data: Any) -> Command:
    """Parses the content of a command.

    Raises:
        CommandRejected: the content is not valid. It lists all errors, field by field.
    """
    command_type = COMMANDS.get(name)
    if command_type is None:
        raise CommandRejected(
            f"there is no signal {name!r}", remedy=f"Signals: {', '.join(SIGNALS)}."
        )
    if isinstance(data, InvalidPayload):
        raise CommandRejected(f"{name}: {data.reason}")
    try:
        return command_type.content.model_validate(data)
    except ValidationError as error:
        raise CommandRejected(
            f"{name}: {validation_error_text(error, 'its content')}",
            remedy="docs/wire.md has the fields.",
        ) from error
