"""The union of all entries, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, TypeAdapter

from crewlog.model import Json
from crewlog.state.journal.call import (
    CompletionBuffered,
    ModelCallCompleted,
    PermissionDenied,
    QuotaConsumed,
    QuotaReleased,
    StructuredOutputParsed,
    StructuredOutputRejected,
    ToolCallCompleted,
    TurnLimitReached,
)
from crewlog.state.journal.change import (
    AgentPermissionSet,
    ChangeAccepted,
    DefinitionChanged,
    GraphSwapped,
    SwapFailed,
    ToolPermissionSet,
)
from crewlog.state.journal.checkpoint import CheckpointTagged, RunForked, RunReopened, RunRolledBack
from crewlog.state.journal.component import (
    ComponentChanged,
    LogsMerged,
    MergeAccepted,
    MergeFailed,
    MergeOffered,
    MergeRequested,
    RunEndedByMerge,
    RunMerged,
)
from crewlog.state.journal.conversation import (
    AgentsWoken,
    ExchangeEnded,
    ExchangeStarted,
    IdleDeadlineSet,
    IdleStarted,
    MessageAdded,
    MessageQueued,
)
from crewlog.state.journal.interrupt import (
    BreakpointSet,
    InterruptAnswered,
    InterruptDeadlineSet,
    InterruptRaised,
)
from crewlog.state.journal.output import (
    AddressedItemUndelivered,
    ArtifactOperationsApplied,
    ArtifactOperationsRefused,
    OutputSet,
    RunOutputSet,
    StateEdited,
    WriteRefused,
)
from crewlog.state.journal.prompt import (
    DefinitionApproved,
    DefinitionEdited,
    DefinitionRejected,
    PromptCompiled,
    PromptCompileFailed,
    PromptRead,
    PromptReceived,
)
from crewlog.state.journal.run import (
    CommandRejected,
    ExecutionContinuedAsNew,
    Paused,
    RunCompleted,
    RunFailed,
    RunResumed,
    RunStarted,
    RunStopped,
    StopRequested,
)
from crewlog.state.journal.step import (
    BranchTargetRefused,
    ItemsRefused,
    NodesReached,
    ParentStepStarted,
    RequirementMet,
    StepCancelled,
    StepCompleted,
    StepFailed,
    StepRedirected,
    StepRetried,
    StepStarted,
    TimerFired,
    TimerStarted,
)

JournalEntry = Annotated[
    RunStarted
    | PromptReceived
    | PromptRead
    | PromptCompiled
    | PromptCompileFailed
    | DefinitionEdited
    | DefinitionApproved
    | DefinitionRejected
    | MessageAdded
    | NodesReached
    | BranchTargetRefused
    | AgentsWoken
    | IdleStarted
    | MessageQueued
    | ExchangeStarted
    | ExchangeEnded
    | IdleDeadlineSet
    | StepStarted
    | ParentStepStarted
    | ItemsRefused
    | RequirementMet
    | ModelCallCompleted
    | StructuredOutputParsed
    | StructuredOutputRejected
    | TurnLimitReached
    | ToolCallCompleted
    | CompletionBuffered
    | PermissionDenied
    | QuotaConsumed
    | QuotaReleased
    | RunOutputSet
    | OutputSet
    | AddressedItemUndelivered
    | WriteRefused
    | ArtifactOperationsApplied
    | ArtifactOperationsRefused
    | StepCompleted
    | StepFailed
    | StepRetried
    | InterruptRaised
    | InterruptAnswered
    | InterruptDeadlineSet
    | BreakpointSet
    | Paused
    | RunResumed
    | StopRequested
    | StepCancelled
    | CommandRejected
    | ExecutionContinuedAsNew
    | ChangeAccepted
    | GraphSwapped
    | ComponentChanged
    | RunMerged
    | MergeRequested
    | MergeAccepted
    | MergeOffered
    | MergeFailed
    | RunEndedByMerge
    | SwapFailed
    | DefinitionChanged
    | ToolPermissionSet
    | AgentPermissionSet
    | StateEdited
    | StepRedirected
    | TimerStarted
    | TimerFired
    | CheckpointTagged
    | RunRolledBack
    | RunForked
    | LogsMerged
    | RunReopened
    | RunCompleted
    | RunStopped
    | RunFailed,
    Field(discriminator="kind"),
]
"""One fact of a run."""
_ADAPTER: TypeAdapter[JournalEntry] = TypeAdapter(JournalEntry)
_validate = _ADAPTER.validator.validate_python


def entry_to_json(entry: JournalEntry) -> dict[str, Json]:
    """An entry as plain JSON: its kind, and what differs from the defaults."""
    return {"kind": entry.kind, **entry.to_json()}


def entry_from_json(data: Json) -> JournalEntry:
    """Parses an entry. Inverse of `entry_to_json`.

    Raises:
        pydantic.ValidationError: `data` is no entry.
    """
    entry: JournalEntry = _validate(data)
    return entry


def entry_position(entry: Mapping[str, Json], before: int) -> int:
    """The position of an entry in JSON, if the one before it is at `before`."""
    position: int = entry["position"] if entry.get("kind") == "RunMerged" else before + 1
    return position


def preceding_position(entry: Mapping[str, Json], position: int) -> int:
    """The position of the entry before one in JSON."""
    before: int = entry["previous_position"] if entry.get("kind") == "RunMerged" else position - 1
    return before


def is_contiguous(entry: Mapping[str, Json], position: int, after: int) -> bool:
    """Whether an entry in JSON at `position` comes right after those up to `after`."""
    return preceding_position(entry, position) <= after < position
