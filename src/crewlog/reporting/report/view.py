"""The report of a run as a typed view."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, cast

from pydantic import Field

from crewlog.ids import (
    AgentName,
    ContentHash,
    FlagName,
    InterruptId,
    NodeName,
    RunId,
    StepId,
)
from crewlog.model import Json, Model
from crewlog.run_status import EndReason
from crewlog.state.finish_reason import BadEnding
from crewlog.usage import Usage

DecisionKind = Literal["reply", "refused", "route", "person", "denied", "conflict", "change"]
"""What was decided: `reply`: a structured output of a model. `refused`: one that did not satisfy
its schema. `route`: a branch of the flow. `person`: an answer. `denied`: a tool call that was not
permitted. `conflict`: a write that a reducer refused. `change`: of the definition or the state."""


class Value(Model):
    """A value, or the hash of the body that holds it."""

    value: Json = None
    body: ContentHash | None = None
    """The hash of the body, for a large value. `value` is null until a client has read the body."""
    parts: tuple[Value, ...] = ()
    """The values of a list that several steps appended to."""

    @property
    def bodies(self) -> Iterator[ContentHash]:
        """The hashes of the bodies that hold it."""
        if self.body is not None:
            yield self.body
        for part in self.parts:
            yield from part.bodies

    @property
    def plain(self) -> Json:
        """The value as JSON; null if its body was not read."""
        return [part.plain for part in self.parts] if self.parts else self.value


class StepReport(Model):
    """A step, or the child step of an item."""

    step: StepId
    node: NodeName
    agent: AgentName | None = None
    status: str = ""
    """As in `StepTrace`: `completed`, `skipped`, `cancelled`, …"""
    because: str = ""
    """Why the step was skipped, or why its end reached other nodes."""
    accepted_ending: BadEnding = ""
    """Why its last AI message was used although incomplete; empty if it was complete."""
    started_at: int = 0
    """Milliseconds since the epoch; 0: not started."""
    ms: int = 0
    """Its duration."""
    tools: tuple[str, ...] = ()
    """The tools of its calls, in order."""
    errors: tuple[str, ...] = ()
    """The errors of all attempts, also if the step was completed."""
    retries: int = 0
    values: dict[str, Value] = Field(default_factory=dict[str, Value])
    """The values that it set: run outputs by name, outputs by `agent.key`."""
    usage: Usage = Usage()
    items: tuple[StepReport, ...] = ()
    """Its child steps, by item number."""


class ItemListReport(Model):
    """A list with a child step for each item."""

    step: StepId
    """The parent step."""
    source: str
    """The output that holds the list: `agent.output`."""
    item_count: int
    """The number of items."""
    items: Value = Value()
    """The list at the start of the parent step."""
    statuses: tuple[str, ...] = ()
    """The status of each child step; empty for one that was not reached."""


class DecisionReport(Model):
    """A decision of a model, the flow, a person or a permission."""

    position: int
    at: int = 0
    """Milliseconds since the epoch."""
    kind: DecisionKind
    by: str = ""
    """An agent, a node or a principal; empty if unknown."""
    step: StepId | None = None
    decision: str
    """What was decided, in words."""
    reason: str = ""


class ErrorReport(Model):
    """A step or a run that failed."""

    position: int
    step: StepId | None = None
    agent: AgentName | None = None
    error: str
    type: str = ""
    """The class of the error in `crewlog.errors`, or of the tool."""


class AgentReport(Model):
    """What an agent did in all of its steps."""

    steps: int = 0
    errors: int = 0
    retries: int = 0
    usage: Usage = Usage()
    tools: dict[str, int] = Field(default_factory=dict[str, int])
    """The number of its calls, by tool."""
    values: dict[str, Value] = Field(default_factory=dict[str, Value])
    """The values that it set last: run outputs by name, outputs by `agent.key`."""
    artifacts: dict[str, int] = Field(default_factory=dict[str, int])
    """The number of its operations that were applied, by artifact."""
    final_message: Value = Value()
    """Its last final message."""


class ArtifactReport(Model):
    """The history of an artifact in numbers."""

    versions: int = 0
    operations: int = 0
    refused_operations: int = 0
    """Operations that could not be applied."""
    agents: tuple[AgentName, ...] = ()
    """The agents that changed it, in the order of their first operations."""


class ExchangeReport(Model):
    """An exchange of a conversation."""

    exchange: int
    """Its number, from 1."""
    at: int = 0
    """When it started, in milliseconds since the epoch."""
    by: str = ""
    """The sender of the message."""
    message: Value = Value()
    end_position: int = 0
    """The position at which it ended; 0: not ended."""
    agent: AgentName | None = None
    """The agent that responded; none if the run itself did."""
    response: Value = Value()
    error: str = ""
    warning: str = ""
    """The last limit that it reached."""
    end_reason: EndReason = ""
    """Empty until it ends."""


class OpenInterrupt(Model):
    """A question that is not answered."""

    id: InterruptId
    step: StepId | None = None
    question: str
    answer_command: str = ""
    """The command line that answers it; empty if only a client knows."""


class ReportView(Model):
    """What a run planned, decided, produced and used, at its end or at a position."""

    run: RunId
    crew: str = ""
    definition: ContentHash = ContentHash("")
    """The live definition at the position."""
    status: str = "running"
    """As in `RunView`."""
    error: str = ""
    """Why the run failed."""
    end_reason: EndReason = ""
    """Why it ended, as in `RunResult`; empty: not ended."""
    position: int = 0
    """The journal position that the report is about."""
    started_at: int = 0
    """Milliseconds since the epoch, as `ended_at`."""
    ended_at: int = 0
    """0: not ended."""
    input: Value = Value()
    """The run input."""
    summary: Value = Value()
    """The last final message of the run."""
    summary_agent: AgentName | None = None
    """The agent of that message."""
    summary_ending: BadEnding = ""
    """Why that message was used although incomplete; empty if it was complete."""
    step_count: int = 0
    """The number of started steps, as `RunResult.steps`: child steps, but not their parents."""
    steps: tuple[StepReport, ...] = ()
    """In the order in which they were reached."""
    item_lists: tuple[ItemListReport, ...] = ()
    decisions: tuple[DecisionReport, ...] = ()
    agents: dict[AgentName, AgentReport] = Field(default_factory=dict[AgentName, AgentReport])
    outputs: dict[AgentName, dict[str, Value]] = Field(
        default_factory=dict[AgentName, dict[str, Value]]
    )
    """The outputs at the position, by agent and key, without final messages."""
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """The run outputs at the position."""
    artifacts: dict[str, ArtifactReport] = Field(default_factory=dict[str, ArtifactReport])
    errors: tuple[ErrorReport, ...] = ()
    interrupts: tuple[OpenInterrupt, ...] = ()
    exchanges: tuple[ExchangeReport, ...] = ()
    """Of a conversation."""
    usage: Usage = Usage()
    merged_runs: tuple[ReportView, ...] = ()
    """The reports of the runs that were merged into this one, in the order of the merges."""

    @property
    def bodies(self) -> tuple[ContentHash, ...]:
        """The hashes of the bodies that hold its values."""
        return tuple(dict.fromkeys(h for value in _values(self) for h in value.bodies))


def _values(data: Any) -> Iterator[Value]:
    if isinstance(data, Value):
        yield data
    elif isinstance(data, Model):
        for name in type(data).model_fields:
            yield from _values(getattr(data, name))
    elif isinstance(data, dict):
        for value in cast("dict[str, Any]", data).values():
            yield from _values(value)
    elif isinstance(data, tuple):
        parts: tuple[Any, ...] = data  # pyright: ignore[reportUnknownVariableType]
        for value in parts:
            yield from _values(value)
