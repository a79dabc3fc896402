"""Every error that Crewlog raises on purpose, as one tree.

    CrewlogError
    ├── DefinitionError              the author of the crew must change the definition
    │   └── InvalidDefinition        one or more diagnostics with their places
    ├── UsageError                   the caller must change an argument, an id, a version
    │   ├── NamespaceNotFound        the Temporal server does not have the namespace
    │   ├── RunNotFound
    │   ├── RunAlreadyExists
    │   ├── InterruptNotOpen
    │   ├── RemoteAgentConflict      two runs would have the same agent
    │   └── CommandRejected          the run rejected a command
    │       ├── ApprovalMismatch     the answer is for another definition
    │       ├── CommandConflict      the id was used for another command
    │       ├── ChangeConflict       the change was made against another graph
    │       ├── ComponentConflict    agents or channels cannot be merged or split like that
    │       ├── ConversationBusy     the message queue is full
    │       ├── InvalidArguments     edited arguments do not fit the tool
    │       ├── NotPermitted         the policy does not permit the command
    │       └── RunAlreadyMerged     the surviving run takes the command
    ├── ServiceError                 a service is unavailable: a retry may help
    │   ├── EncryptionKeyMissing     this process does not have the key
    │   ├── RunBusy                  the run waits for a call and takes no command
    │   ├── StoreIncomplete          rows are missing; the history still has them
    │   ├── StoreUnavailable
    │   ├── TemporalUnavailable
    │   └── WorkerMissing            no worker polls the task queue
    ├── StepError                    the step fails; the agent's `on_error` decides
    │   ├── LogAccessDenied          the call would show the agent a log that it may not read
    │   ├── SecretMissing            this worker does not have a secret
    │   ├── ModelError
    │   │   ├── ModelRequestRejected     key, quota, content policy: a retry does not help
    │   │   └── ModelUnavailable         timeout, 5xx: a retry may help
    │   │       └── ModelRateLimited     a later retry helps
    │   └── ToolError
    │       ├── OutcomeUnknown       started, did not answer, and must not be repeated
    │       ├── PermissionsChanged   permissions changed after the call was scheduled
    │       ├── ToolFailed           the tool raised; the model may repair the call
    │       │   └── NotInAllowlist       a path, a URL or an address that is not allowed
    │       ├── ToolMissing          no such module, function or tool on this worker
    │       │   └── ToolNotApproved      its description is not the approved one
    │       └── ToolUnusable         its MCP server does not offer it in a usable form
    ├── DecryptionFailed             an encrypted value was changed or moved
    │   └── NotEncrypted             a value is plain, and plain values are refused
    ├── SplitNotRecorded             the original run does not record the split yet
    │   └── SplitNeverRecorded       the original run continued without the split
    ├── WaitTimeout                  the caller's wait timed out; the run continues
    │   └── AnswerRequired           the run waits for people
    ├── RunFailed                    the run ended without success
    │   └── InvalidPrompt            the prompt of the run makes no crew
    └── InternalError                a bug in Crewlog
        └── HistoryConflict          two histories claim the rows of one run

An error has a `message` (what is wrong, with which thing), a `remedy` (what to do) and a `place`
(file:line:column, a node, a tool, an address). The command line prints the three and an exit code,
never a traceback.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal


class CrewlogError(Exception):
    """The base class of all errors that Crewlog raises on purpose.

    Args:
        message: What is wrong, with which thing: `tool 'git_lgo' is not defined`.
        remedy: What the reader can do, as a sentence; may be empty.
        place: Where: `crew.yaml:9:29`, `node 'audio'`, an address; may be empty.
    """

    exit_code: ClassVar[int] = 1
    """The exit code of the command line; `docs/cli.md` lists them."""
    retryable: ClassVar[bool] = False
    """Whether an activity that raises it is retried."""
    call_again: ClassVar[bool] = False
    """Whether the run makes the call again until it succeeds: a failed attempt does not count."""

    def __init__(self, message: str, *, remedy: str = "", place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.place = place

    def __str__(self) -> str:
        head = f"{self.place}: {self.message}" if self.place else self.message
        return f"{head}\n    {self.remedy}" if self.remedy else head


class DefinitionError(CrewlogError):
    """The definition, or a module that it names, is wrong; its author must change it."""

    exit_code = 2


@dataclass(frozen=True)
class Diagnostic:
    """One error or warning about a definition, with its place and remedy."""

    message: str
    """What is wrong, and with which thing."""
    path: tuple[str | int, ...] = ()
    """The path in the data: `("agents", "checker", "tools", 0)`."""
    remedy: str = ""
    """What to do: `Did you mean 'git_log'?`."""
    file: str = ""
    """The file's name as the user gave it; empty if there is none."""
    line: int = 0
    """From 1; 0 if there is no text."""
    column: int = 0
    """From 1; 0 if there is no text."""
    length: int = 1
    """How many characters to underline."""
    excerpt: str = ""
    """The source line; of a long line, the part around the error."""
    caret: int = 0
    """The column of the underline in the excerpt, from 1; 0: that of `column`."""
    severity: Literal["error", "warning"] = "error"
    """A crew with an error cannot run; one with a warning can."""

    @property
    def place(self) -> str:
        """`crew.yaml:9:29`, or `agents.checker.tools[0]` if there is no text."""
        if self.line:
            return f"{self.file or '<text>'}:{self.line}:{self.column}"
        path = ""
        for part in self.path:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
        return path or (self.file or "definition")

    def render(self) -> str:
        """The diagnostic as text: place and message, the underlined source line, remedy."""
        lines = [f"{self.place}  {self.message}"]
        if self.excerpt:
            indent = " " * ((self.caret or self.column) - 1)
            lines += [f"    {self.excerpt}", f"    {indent}{'^' * self.length}"]
        if self.remedy:
            lines.append(f"    {self.remedy}")
        return "\n".join(lines)


class InvalidDefinition(DefinitionError):
    """A definition with one or more errors, in document order.

    Args:
        diagnostics: The errors.
        more_may_follow: Whether these errors prevented other checks: only a definition with a valid
            shape is checked further.
    """

    def __init__(self, diagnostics: list[Diagnostic], *, more_may_follow: bool = False) -> None:
        first = diagnostics[0]
        super().__init__(first.message, remedy=first.remedy, place=first.place)
        self.diagnostics = diagnostics
        self.more_may_follow = more_may_follow
        self.hint = ""
        """A line after the diagnostics: a remedy for all of them."""

    @property
    def note(self) -> str:
        """A line after the diagnostics; may be empty."""
        if not self.more_may_follow:
            return self.hint
        which = "this one is" if len(self.diagnostics) == 1 else "these are"
        return f"More errors may follow once {which} corrected: not everything could be checked."

    def __str__(self) -> str:
        lines = [each.render() for each in self.diagnostics]
        return "\n".join([*lines, self.note] if self.note else lines)


class UsageError(CrewlogError):
    """The caller's request is not valid or not possible."""

    exit_code = 2


class NamespaceNotFound(UsageError):
    """The Temporal server does not have the namespace."""


class RunNotFound(UsageError):
    """Neither the server nor the store has a run with this id."""

    exit_code = 4


class RunAlreadyExists(UsageError):
    """A run with this id exists, and the caller did not say what to do with it."""


class InterruptNotOpen(UsageError):
    """The interrupt is not open: it never was, or it has an answer."""


class CommandRejected(UsageError):
    """The run rejected a command; its journal has the reason, too."""


class ApprovalMismatch(CommandRejected):
    """The answer is for another definition than the interrupt."""


class CommandConflict(CommandRejected):
    """The id was used for another command; this command was not applied."""


class ChangeConflict(CommandRejected):
    """The change was made against another graph than the run has now."""


class ComponentConflict(CommandRejected):
    """Agents and channels cannot be merged or split like that; nothing was done."""


class RunAlreadyMerged(CommandRejected):
    """The run was merged into another run; the remedy ends with its id."""


class SplitNotRecorded(CrewlogError):
    """A split run starts, and the journal of the original run does not record the split yet."""

    retryable = True


class SplitNeverRecorded(SplitNotRecorded):
    """A split run cannot start: the original run continued without the split."""

    retryable = False


class ConversationBusy(CommandRejected):
    """The message queue of the conversation is full."""


class InvalidArguments(CommandRejected):
    """The edited arguments of a call do not fit the tool; the interrupt stays open."""


class NotPermitted(CommandRejected):
    """The crew's policy does not permit the command to its sender; nothing was done.

    The signature is missing, has expired, or is for another command or run; or the principal does
    not have the right.
    """


class RemoteAgentConflict(UsageError):
    """The new rows would leave an agent in two runs or in none; nothing was done."""


class ServiceError(CrewlogError):
    """A service that Crewlog needs is unavailable. Nothing is lost, and a retry may help."""

    exit_code = 5
    retryable = True


class TemporalUnavailable(ServiceError):
    """The Temporal server does not answer, or cannot be started."""


class StoreUnavailable(ServiceError):
    """Postgres does not answer, or cannot be started."""


class StoreIncomplete(ServiceError):
    """The store lacks rows that the run refers to; `crewlog rebuild` restores them."""


class EncryptionKeyMissing(ServiceError):
    """A value is encrypted with a key that this process does not have."""


class WorkerMissing(ServiceError):
    """No worker polls the task queue; the run waits for one."""


class RunBusy(ServiceError):
    """The run waits for a long call and takes no command; the client has stopped retrying."""


class StepError(CrewlogError):
    """A step failed; the agent's `on_error` decides what follows."""


class LogAccessDenied(StepError):
    """A call would show its agent a log or an item that it may not read. A retry does not help."""


class ModelError(StepError):
    """A model call failed."""


class ModelRequestRejected(ModelError):
    """The provider rejected the request: key, quota or content policy. A retry does not help."""


class ModelUnavailable(ModelError):
    """The provider did not answer in time, or failed. A retry may help."""

    retryable = True

    def __init__(
        self, message: str, *, remedy: str = "", place: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, remedy=remedy, place=place)
        self.retry_after = retry_after
        """The wait that the provider asked for, in seconds; None if it did not."""


class ModelRateLimited(ModelUnavailable):
    """The provider's rate limit rejected the call, which has not begun.

    If all retries come too early, the run makes the call again, a limited number of times.
    """

    call_again = True


class SecretMissing(StepError):
    """This worker does not have the secret that a reference names.

    The call has not begun. The run makes it again until a worker with the secret takes it.
    """

    exit_code = 5
    call_again = True


class ToolError(StepError):
    """A tool call failed."""


class ToolMissing(ToolError):
    """This worker does not have the tool: its module, its function or its type is wrong.

    The call has not begun. The run makes it again until a worker with the tool takes it.
    """

    exit_code = 5
    call_again = True


class ToolNotApproved(ToolMissing):
    """The description of a tool of an MCP server is not approved: the tool is blocked until it is.

    The call has not begun. The run makes it again until it succeeds.
    """


class ToolUnusable(ToolError):
    """An MCP server does not offer the tool, or describes it in a form that no worker can use.

    No other worker could use it, so the step fails, and the agent's `on_error` decides.
    """

    exit_code = 2


class ToolFailed(ToolError):
    """The tool raised an error. The model reads the message and may repair the call."""


class PermissionsChanged(ToolError):
    """Permissions changed after the call was scheduled, or its approval expired: check again."""


class NotInAllowlist(ToolFailed):
    """A tool may not use this path, URL or address."""


class OutcomeUnknown(ToolError):
    """The call started and did not answer, and it must not be repeated: people decide."""


class DecryptionFailed(CrewlogError):
    """An encrypted value was changed or moved."""

    exit_code = 5


class NotEncrypted(DecryptionFailed):
    """A value is plain, and encryption is on; a process that accepts plain values reads it."""


class WaitTimeout(CrewlogError, TimeoutError):
    """The wait timed out; the run continues."""

    exit_code = 3


class AnswerRequired(WaitTimeout):
    """The wait timed out, since the run waits for people."""


class RunFailed(CrewlogError):
    """The run ended without success; the message is the error of the run."""

    exit_code = 1


class InvalidPrompt(RunFailed):
    """The prompt of the run makes no crew; the message has all diagnostics."""

    exit_code = 2


class InternalError(CrewlogError):
    """A bug in Crewlog. Report it with the message and the journal of the run."""

    exit_code = 70


class HistoryConflict(InternalError):
    """A journal position has another entry: the run was reset, or its id was used again."""

    def __init__(self, run: str, position: int) -> None:
        super().__init__(
            f"journal position {position} of run {run!r} already holds a different entry",
            remedy="The run was reset, or its id was used again. "
            f"`crewlog rebuild {run} --replace` restores the rows from the valid history.",
        )
        self.position = position


def flat_errors(exc: BaseException) -> list[BaseException]:
    """The errors in an exception group and its subgroups, in order; any other error is alone.

    The text of a group says only how many errors it has, so callers need its members.
    """
    if not isinstance(exc, BaseExceptionGroup):
        return [exc]
    group: BaseExceptionGroup[BaseException] = exc  # pyright: ignore[reportUnknownVariableType]
    return [member for each in group.exceptions for member in flat_errors(each)]


def joined_error_text(exc: BaseException, describe: Callable[[BaseException], str]) -> str:
    """The text of an error or of the members of a group, each once.

    Args:
        exc: The error.
        describe: Makes the text of one error.
    """
    texts = list(dict.fromkeys(map(describe, flat_errors(exc))))
    return texts[0] if len(texts) == 1 else f"{len(texts)} errors: {'; '.join(texts)}"


def error_text(exc: BaseException) -> str:
    """The text of an error or of the members of a group, with types and messages."""
    return joined_error_text(exc, _type_and_message)


def _type_and_message(exc: BaseException) -> str:
    return f"{type(exc).__name__}: {exc}" if str(exc) else type(exc).__name__


def check_ineffective_options(
    command: str, options: Mapping[str, object], reason: str, remedy: str
) -> None:
    """Checks that no option without effect is set.

    Args:
        command: The command.
        options: The values of options without effect; an empty value, None or False is not set.
        reason: Why they have no effect, as a clause: `a registered crew has its models`.
        remedy: What to do instead, as a sentence.

    Raises:
        UsageError: one is set.
    """
    names = [option for option, value in options.items() if value]
    if names:
        verb = "has" if len(names) == 1 else "have"
        message = f"{' and '.join(names)} {verb} no effect: {reason}"
        raise UsageError(message, remedy=remedy, place=command)
