"""Every error that Crewlog raises on purpose, as one tree.

    CrewlogError
    ├── DefinitionError            the crew's author: the file and what it names
    │   └── InvalidDefinition      one or more located diagnostics
    ├── UsageError                 the caller: an argument, an id, a version
    │   ├── NamespaceNotFound      the Temporal server does not have the namespace
    │   ├── RunNotFound
    │   ├── RunAlreadyExists
    │   ├── InterruptNotOpen
    │   └── CommandRejected        the run answered no, and says why
    │       ├── ApprovalMismatch   it was asked about another definition
    │       ├── CommandConflict    the command's id was used for another command
    │       ├── ChangeConflict     the run has another graph than the change was made against
    │       ├── InvalidArguments   edited arguments do not fit the tool
    │       └── NotPermitted       the crew's policy does not let this principal do it
    ├── ServiceError               the surroundings: they may come back
    │   ├── TemporalUnavailable
    │   ├── StoreUnavailable
    │   ├── StoreIncomplete        rows are gone; the history still has them
    │   ├── EncryptionKeyMissing             encrypted with a key that this process does not have
    │   └── WorkerMissing          nobody polls the task queue
    ├── StepError                  the run: ends the step, not the worker
    │   ├── ModelError
    │   │   ├── ModelRequestRejected       key, quota, content policy: a retry does not help
    │   │   └── ModelUnavailable   timeout, 5xx: a retry may help
    │   │       └── ModelRateLimited   rate limit: a later try will do
    │   ├── LogAccessDenied             an agent may not see what its call would show it
    │   ├── SecretMissing          this worker does not have what a secret's reference names
    │   └── ToolError
    │       ├── ToolMissing        no such module, function or tool on this worker
    │       │   └── ToolNotApproved    what it says of itself is not what was approved
    │       ├── ToolUnusable       its MCP server does not offer it, or not in a usable form
    │       ├── ToolFailed         raised; the model may see it and repair
    │       │   └── NotInAllowlist     a path, a URL or an address that it may not touch
    │       ├── PermissionsChanged         people ruled of calls since this one was scheduled: ask
    again │       └── OutcomeUnknown     started, never answered, and must not be repeated
    ├── DecryptionFailed                 what was encrypted was changed, moved, or never encrypted
    ├── WaitTimeout                  it was waited for in vain
    │   └── AnswerRequired           the run waits for people
    ├── RunFailed                  how a run ended, as its client sees it
    │   └── InvalidPrompt          its prompt makes no crew
    └── InternalError              a bug of ours; carries what to report
        └── HistoryConflict        two histories claim one run's rows

An error carries `message` (what and which), `remedy` (what to do) and `place` (file:line:column,
a node, a tool, an address). The command line prints the three and an exit code, never a traceback.

What is in a group of errors, as tasks that run side by side fail.

A group says of itself only how many errors it holds. So whoever tells or judges an error asks here
for its causes: they are told, and they decide what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal


class CrewlogError(Exception):
    """The root. Catch it to catch everything that Crewlog raises on purpose.

    Args:
        message: What went wrong and with which thing, e.g. `tool 'git_lgo' is not defined`.
        remedy: What the reader can do about it, as a sentence; may be empty.
        place: Where: `crew.yaml:9:29`, `node 'audio'`, an address; may be empty.
    """

    exit_code: ClassVar[int] = 1
    """What the command line exits with; `docs/cli.md` lists them."""
    retryable: ClassVar[bool] = False
    """Whether an activity that raises it should be tried again."""
    again: ClassVar[bool] = False
    """Whether the run itself makes the call again, for as long as it takes: a try that raised it
    counts for none."""

    def __init__(self, message: str, *, remedy: str = "", place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.place = place

    def __str__(self) -> str:
        head = f"{self.place}: {self.message}" if self.place else self.message
        return f"{head}\n    {self.remedy}" if self.remedy else head


class DefinitionError(CrewlogError):
    """The definition, or a module that it names, is wrong: its author must change it."""

    exit_code = 2


@dataclass(frozen=True)
class Diagnostic:
    """One thing that is wrong in a definition, where, and what to do."""

    message: str
    """What is wrong, and with which thing."""
    path: tuple[str | int, ...] = ()
    """Where in the data: `("agents", "checker", "tools", 0)`."""
    remedy: str = ""
    """What to do, e.g. `Did you mean 'git_log'?`."""
    file: str = ""
    """The file's name as the user gave it; empty where there is none."""
    line: int = 0
    """From 1; 0 where there is no text."""
    column: int = 0
    """From 1; 0 where there is no text."""
    length: int = 1
    """How many characters to underline."""
    excerpt: str = ""
    """The source line, or the part of a long one around the fault."""
    caret: int = 0
    """Where in the excerpt the underline begins, from 1; 0 means at `column`."""
    severity: Literal["error", "warning"] = "error"
    """An error keeps the crew from running; a warning does not."""

    @property
    def place(self) -> str:
        """`crew.yaml:9:29`, or `agents.checker.tools[0]` where there is no text."""
        if self.line:
            return f"{self.file or '<text>'}:{self.line}:{self.column}"
        out = ""
        for part in self.path:
            out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
        return out or (self.file or "definition")

    def render(self) -> str:
        """The diagnostic as text: place and message, the line with the fault underlined, remedy."""
        lines = [f"{self.place}  {self.message}"]
        if self.excerpt:
            indent = " " * ((self.caret or self.column) - 1)
            lines += [f"    {self.excerpt}", f"    {indent}{'^' * self.length}"]
        if self.remedy:
            lines.append(f"    {self.remedy}")
        return "\n".join(lines)


class InvalidDefinition(DefinitionError):
    """A definition with one or more faults, in document order.

    Args:
        diagnostics: All that were found.
        more_may_follow: Whether these kept other checks from being made: what has no shape has no
            meaning that could be checked.
    """

    def __init__(self, diagnostics: list[Diagnostic], *, more_may_follow: bool = False) -> None:
        first = diagnostics[0]
        super().__init__(first.message, remedy=first.remedy, place=first.place)
        self.diagnostics = diagnostics
        self.more_may_follow = more_may_follow
        self.ways = ""
        """A line after the faults: what can be done about all of them."""

    @property
    def note(self) -> str:
        """What is said after the faults; empty where they are all."""
        if not self.more_may_follow:
            return self.ways
        which = "this is" if len(self.diagnostics) == 1 else "these are"
        return f"More faults may follow once {which} mended: not everything could be checked."

    def __str__(self) -> str:
        told = [d.render() for d in self.diagnostics]
        return "\n".join([*told, self.note] if self.note else told)


class UsageError(CrewlogError):
    """The caller asked for something that cannot be."""

    exit_code = 2


class NamespaceNotFound(UsageError):
    """The Temporal server answers, and does not have the namespace."""


class RunNotFound(UsageError):
    """No run of that id on this server and in this store."""

    exit_code = 4


class RunAlreadyExists(UsageError):
    """A run of that id is open, or was, and the caller did not say what to do about it."""


class InterruptNotOpen(UsageError):
    """The question is not open: it never was, or somebody has answered it."""


class CommandRejected(UsageError):
    """The run refused a command; the journal has the reason too."""


class ApprovalMismatch(CommandRejected):
    """The answer names another definition than the question is about."""


class CommandConflict(CommandRejected):
    """The command's id was used for another command: that one has the outcome, this one none."""


class ChangeConflict(CommandRejected):
    """A change was made against another graph than the run has now: look again, and decide anew."""


class ComponentConflict(CommandRejected):
    """Creatures and channels cannot be joined or parted like that; nothing was done."""


class RunAlreadyMerged(CommandRejected):
    """The run is part of another one by now, which the remedy names last: send it there."""


class SplitNotRecorded(CrewlogError):
    """A run begins as a part of another one whose journal does not say so yet."""

    retryable = True


class SplitNeverRecorded(SplitNotRecorded):
    """A run was to begin as a part of another one, and nothing came of that: nobody lives there."""

    retryable = False


class ConversationBusy(CommandRejected):
    """As many messages wait for their turns as the conversation allows."""


class InvalidArguments(CommandRejected):
    """The arguments that people put in the place of a call's do not fit the tool; it waits on."""


class NotPermitted(CommandRejected):
    """The crew's policy does not take the command from who sent it; nothing was done.

    Its signature is missing, expired, or not of this command and run; or who signed it has not the
    right.
    """


class RemoteAgentConflict(UsageError):
    """Rows are not replaced by which creatures live in one run and no other: nothing was done."""


class ServiceError(CrewlogError):
    """Something that Crewlog stands on is away. Nothing is lost; it may come back."""

    exit_code = 5
    retryable = True


class TemporalUnavailable(ServiceError):
    """The Temporal server does not answer, or cannot be started."""


class StoreUnavailable(ServiceError):
    """Postgres does not answer, or cannot be started."""


class StoreIncomplete(ServiceError):
    """The store lacks rows that the run refers to: `crewlog rebuild` makes them again."""


class EncryptionKeyMissing(ServiceError):
    """A value is encrypted with a key that this process does not have: it may get it yet."""


class WorkerMissing(ServiceError):
    """Nobody polls the task queue: the run is safe and waits."""


class RunBusy(ServiceError):
    """The run takes no command for longer than commands are repeated: it waits for a long call."""


class StepError(CrewlogError):
    """A step cannot go on; the run decides by the agent's `on_error`."""


class LogAccessDenied(StepError):
    """A call would show its agent a log, or an item, that it may not see. A retry does not help."""


class ModelError(StepError):
    """The model's side of a step."""


class ModelRequestRejected(ModelError):
    """The model's service refused: a bad key, no quota, a policy. A retry does not help."""


class ModelUnavailable(ModelError):
    """The model's service did not answer, or not in time. A retry may help."""

    retryable = True

    def __init__(
        self, message: str, *, remedy: str = "", place: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, remedy=remedy, place=place)
        self.retry_after = retry_after
        """Seconds that the service asked to be left alone; none where it did not say."""


class ModelRateLimited(ModelUnavailable):
    """The model's service takes no more calls at the moment; this one has not begun.

    Its retries may all come too early. Then the run makes the call again, some times.
    """

    again = True


class SecretMissing(StepError):
    """This worker does not have what the reference to a secret names.

    Nothing has begun. The run makes the call again until a worker that has it takes it.
    """

    exit_code = 5
    again = True


class ToolError(StepError):
    """A tool's side of a step."""


class ToolMissing(ToolError):
    """This worker has no such tool: its module, its function, or its type is wrong.

    Nothing has begun. The run makes the call again until a worker that has the tool takes it.
    """

    exit_code = 5
    again = True


class ToolNotApproved(ToolMissing):
    """A server's tool says of itself what nobody has approved: it is blocked until somebody does.

    Nothing has begun. The run makes the call again, for as long as it takes.
    """


class ToolUnusable(ToolError):
    """An MCP server does not offer the tool, or describes it in a form that no worker can use.

    Every worker would find the same, so the run does not wait for one: the step fails, and the
    agent's `on_error` decides.
    """

    exit_code = 2


class ToolFailed(ToolError):
    """The tool raised. The model sees the message and may repair the call."""


class PermissionsChanged(ToolError):
    """Something was ruled since a call was scheduled, or the yes to it has expired: look again."""


class NotInAllowlist(ToolFailed):
    """A path, a URL or an address that a tool may not touch."""


class OutcomeUnknown(ToolError):
    """The call started and never answered, and the tool must not be repeated: people decide."""


class DecryptionFailed(CrewlogError):
    """A value that must be encrypted was changed, belongs elsewhere, or never was encrypted."""

    exit_code = 5


class WaitTimeout(CrewlogError, TimeoutError):
    """What was waited for did not come in time; the run goes on."""

    exit_code = 3


class AnswerRequired(WaitTimeout):
    """What was waited for did not come in time, since the run waits for people."""


class RunFailed(CrewlogError):
    """The run ended without success; the message is the run's own."""

    exit_code = 1


class InvalidPrompt(RunFailed):
    """The prompt that the run was started with makes no crew; the message has every remark."""

    exit_code = 2


class InternalError(CrewlogError):
    """A bug in Crewlog. Please report it with the message and the run's journal."""

    exit_code = 70


class HistoryConflict(InternalError):
    """A journal position already holds a different entry: a run was reset, or its id used again."""

    def __init__(self, run: str, position: int) -> None:
        super().__init__(
            f"journal position {position} of run {run!r} already holds a different entry",
            remedy="Two histories claim one run: was it reset, or started again under the same id? "
            f"`crewlog rebuild {run} --replace` makes the rows again from the history that counts.",
        )
        self.position = position


def flat_errors(exc: BaseException) -> list[BaseException]:
    """The errors in a group, in order, of groups in it as well; of any other error, itself."""
    if not isinstance(exc, BaseExceptionGroup):
        return [exc]
    group: BaseExceptionGroup[BaseException] = exc  # pyright: ignore[reportUnknownVariableType]
    return [cause for each in group.exceptions for cause in flat_errors(each)]


def joined_error_text(exc: BaseException, told: Callable[[BaseException], str]) -> str:
    """The causes of an error for people or a model, each once.

    Args:
        exc: The error.
        told: What is said of one cause.
    """
    said = list(dict.fromkeys(map(told, flat_errors(exc))))
    return said[0] if len(said) == 1 else f"{len(said)} errors: {'; '.join(said)}"


def in_words(exc: BaseException) -> str:
    """An error's causes by type and message."""
    return joined_error_text(exc, _named)


def _named(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
