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

Kind = Literal["reply", "refused", "route", "person", "denied", "conflict", "change"]
"""What a decision is: `reply`, of a model, which was read; `refused`, one that was not; `route`, of
the flow; `person`, an answer; `denied`, a call that was not allowed; `conflict`, of values that do
not fit; `change`, of the crew or the state."""


class Value(Model):
    """A value, or the body that holds it."""

    value: Json = None
    """The value, where it is small, or somebody has got it."""
    body: ContentHash | None = None
    """The body that holds it."""
    parts: tuple[Value, ...] = ()
    """Of a list that several steps put together: its values."""

    @property
    def bodies(self) -> Iterator[ContentHash]:
        """The bodies that are needed for it."""
        if self.body is not None:
            yield self.body
        for part in self.parts:
            yield from part.bodies

    @property
    def plain(self) -> Json:
        """The value as it is; of one that nobody has got, nothing."""
        return [part.plain for part in self.parts] if self.parts else self.value


class StepReport(Model):
    """A step: what was done in it."""

    step: StepId
    node: NodeName
    agent: AgentName | None = None
    status: str = ""
    """`completed`, `skipped`, `cancelled`, or what it is about."""
    because: str = ""
    """Why it went as it did."""
    accepted: BadEnding = ""
    """How its last reply ended, where that is no good answer and was taken as it is."""
    started: int = 0
    """In milliseconds since the epoch; 0: it did not begin."""
    ms: int = 0
    """How long it took."""
    tools: tuple[str, ...] = ()
    """The tools that it called, in order."""
    errors: tuple[str, ...] = ()
    """What went wrong in it, also where it went well in the end."""
    retries: int = 0
    """How often something of it was tried again."""
    sets: dict[str, Value] = Field(default_factory=dict[str, Value])
    """The flags by name, and the outputs by `agent.key`, that it set."""
    usage: Usage = Usage()
    items: tuple[StepReport, ...] = ()
    """Its steps for items, in their order."""


class ItemListReport(Model):
    """A list that a phase had a step for each item of: what was planned, and became of it."""

    step: StepId
    """The visit."""
    source: str
    """The list, as `agent.output`."""
    of: int
    """How many items it had."""
    items: Value = Value()
    """The list itself, as far as it is the one that is there now."""
    statuses: tuple[str, ...] = ()
    """What became of each item."""


class DecisionReport(Model):
    """Something that was decided."""

    position: int
    at: int = 0
    kind: Kind
    who: str = ""
    """An agent, a node, or a person; empty: nobody who is named."""
    step: StepId | None = None
    what: str
    """What was decided."""
    why: str = ""
    """Why, as far as that was said."""


class ErrorReport(Model):
    """Something that went wrong."""

    position: int
    step: StepId | None = None
    agent: AgentName | None = None
    error: str
    type: str = ""


class AgentReport(Model):
    """What an agent did, and what there is now that was not there before."""

    steps: int = 0
    errors: int = 0
    retries: int = 0
    usage: Usage = Usage()
    tools: dict[str, int] = Field(default_factory=dict[str, int])
    """How often it called which tool."""
    sets: dict[str, Value] = Field(default_factory=dict[str, Value])
    """The flags and outputs that it set, with the value that it set last."""
    artifacts: dict[str, int] = Field(default_factory=dict[str, int])
    """How many operations it made on which artifact."""
    said: Value = Value()
    """Its last final message."""


class ArtifactReport(Model):
    """How an artifact came about."""

    versions: int = 0
    """How often it was changed."""
    operations: int = 0
    refused: int = 0
    """Operations that did not apply."""
    agents: tuple[AgentName, ...] = ()
    """Who changed it, in the order in which they first did."""


class ExchangeReport(Model):
    """A turn of a conversation."""

    turn: int
    at: int = 0
    """When it began."""
    by: str = ""
    """Who said the message."""
    said: Value = Value()
    ended: int = 0
    """The journal position that ended it, which `turn:N` names; 0: it goes on."""
    agent: AgentName | None = None
    """Who answered; none where the run did."""
    answer: Value = Value()
    error: str = ""
    warning: str = ""
    """The last bound that it came to."""
    end_reason: EndReason = ""
    """Why it ended; empty while it goes on."""


class OpenReport(Model):
    """A question that nobody has answered."""

    id: InterruptId
    step: StepId | None = None
    question: str
    answer: str = ""
    """The command that answers it; empty where it cannot be answered from there."""


class ReportView(Model):
    """What a run planned, decided, produced and used, at its end or at a position."""

    run: RunId
    crew: str = ""
    definition: ContentHash = ContentHash("")
    """The definition in force at the end."""
    status: str = "running"
    """As `RunView` has it: `waiting` while it waits, as far as that is known where it is told."""
    error: str = ""
    """Why the run failed."""
    end_reason: EndReason = ""
    """Why it ended, as `RunResult` has it; empty: it goes on."""
    position: int = 0
    """The journal position that it is about."""
    started: int = 0
    ended: int = 0
    """0: it goes on."""
    input: Value = Value()
    """What the run was given."""
    summary: Value = Value()
    """The final message that came last."""
    summarized_by: AgentName | None = None
    """Whose it is."""
    summary_ending: BadEnding = ""
    """How it ended, where it is no good answer and was taken as it is."""
    taken: int = 0
    """Steps that it began, as `RunResult.steps` counts: those of items, and not their visit."""
    steps: tuple[StepReport, ...] = ()
    """What was executed, in the order in which it was reached."""
    plans: tuple[ItemListReport, ...] = ()
    decisions: tuple[DecisionReport, ...] = ()
    agents: dict[AgentName, AgentReport] = Field(default_factory=dict[AgentName, AgentReport])
    outputs: dict[AgentName, dict[str, Value]] = Field(
        default_factory=dict[AgentName, dict[str, Value]]
    )
    """What is there in the end, but for texts."""
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    artifacts: dict[str, ArtifactReport] = Field(default_factory=dict[str, ArtifactReport])
    errors: tuple[ErrorReport, ...] = ()
    open: tuple[OpenReport, ...] = ()
    """Questions that nobody has answered."""
    turns: tuple[ExchangeReport, ...] = ()
    """Of a conversation: what was said, and what was answered."""
    usage: Usage = Usage()

    @property
    def bodies(self) -> tuple[ContentHash, ...]:
        """The bodies that its values are in."""
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
