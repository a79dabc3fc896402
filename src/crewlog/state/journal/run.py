"""The start, the executions and the end of a run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.ids import AgentName, CommandId, ContentHash, CrewName, FlagName, RunId
from crewlog.model import Json
from crewlog.run_status import EndReason
from crewlog.state.journal.entry import Entry

__all__ = [
    "CommandRejected",
    "ExecutionContinuedAsNew",
    "Paused",
    "RunCompleted",
    "RunEntry",
    "RunFailed",
    "RunResumed",
    "RunStarted",
    "RunStopped",
    "StopRequested",
]


class RunStarted(Entry):
    """The run started."""

    kind: Literal["RunStarted"] = "RunStarted"
    run: RunId
    crew: CrewName
    definition: ContentHash
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """The initial run outputs."""
    permissions: dict[str, tuple[AgentName, ...] | None] = Field(
        default_factory=dict[str, tuple[AgentName, ...] | None]
    )
    """The agents that may call a tool."""
    coordination_rules: tuple[str, ...] = ()
    """The joins, conditions and branches of the crew, as text."""
    by: str = ""
    """The principal."""
    started_at: int = 0
    """When it was started with a prompt, in milliseconds since the epoch; 0: now."""


class ExecutionContinuedAsNew(Entry):
    """The run continues in a new execution."""

    kind: Literal["ExecutionContinuedAsNew"] = "ExecutionContinuedAsNew"
    execution: int
    """The number of the new one, from 2."""
    because: str = ""


class Paused(Entry):
    """Nothing new starts; calls in flight complete."""

    kind: Literal["Paused"] = "Paused"
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class RunResumed(Entry):
    """A paused run continues."""

    kind: Literal["RunResumed"] = "RunResumed"
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class StopRequested(Entry):
    """The run ends with the results that it has."""

    kind: Literal["StopRequested"] = "StopRequested"
    by: str = ""
    reason: str = ""
    end_reason: EndReason = "stopped"
    """Why the run ends, for programs; see `RunStopped`."""
    command: CommandId | None = None


class RunCompleted(Entry):
    """The run completed."""

    kind: Literal["RunCompleted"] = "RunCompleted"
    exchanges: int = 0
    """Of a conversation: the number of its exchanges. It may be reopened."""
    end_reason: EndReason = "completed"
    """Why, for programs: the last limit that ended something, or `completed`."""


class RunStopped(Entry):
    """People ended the run."""

    kind: Literal["RunStopped"] = "RunStopped"
    because: str = ""
    end_reason: EndReason = "stopped"
    """Why, for programs: the limit about which people were asked, or `stopped`."""


class RunFailed(Entry):
    """The run failed."""

    kind: Literal["RunFailed"] = "RunFailed"
    error: str
    error_type: str = ""
    """The type of the failure, if it has one: `InvalidPrompt`."""
    end_reason: EndReason = "failed"
    """Why, for programs: the limit that it reached, or `failed`."""


class CommandRejected(Entry):
    """A command was rejected; nothing else changed."""

    kind: Literal["CommandRejected"] = "CommandRejected"
    name: str
    reason: str
    by: str = ""
    command: CommandId | None = None
    error_type: str = ""
    """The type of the error, for rejections that have one: `ChangeConflict`."""
    interrupt: str = ""
    """Of an answer: the interrupt."""
    answer_excerpt: str = ""
    """Of an answer: the start of its decision or edited arguments."""


RunEntry = (
    RunStarted
    | ExecutionContinuedAsNew
    | Paused
    | RunResumed
    | StopRequested
    | RunCompleted
    | RunStopped
    | RunFailed
    | CommandRejected
)
