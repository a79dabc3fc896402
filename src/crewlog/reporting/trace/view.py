"""The trace of a run as a typed view: steps, their calls, and events of the run as a whole.

All times are milliseconds since the epoch by the workflow's clock, all durations milliseconds, and
all positions those of the journal. The models are not frozen: a trace grows entry by entry.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, cast

from pydantic import ConfigDict, Field

from crewlog.ids import AgentName, ContentHash, InterruptId, LogName, NodeName, StepId
from crewlog.model import Json, Model
from crewlog.reporting.diff.state import StateChange
from crewlog.reporting.events.view import EventView
from crewlog.state.finish_reason import BadEnding
from crewlog.state.model import CallDelay
from crewlog.usage import Usage

StepStatus = Literal[
    "reached", "running", "detached", "completed", "skipped", "cancelled", "undone"
]
"""`reached`: not started yet. `detached`: a change removed the node. `undone`: the step was not
completed when the run returned to an earlier checkpoint."""

PendingReason = Literal["", "failure", "rate_limit", "store", "worker"]
"""What a pending call waits for: the next attempt after a failure or a rate limit, the store, or a
worker. Empty: an attempt is under way."""


@dataclass(frozen=True)
class PendingCall:
    """A call that has not answered."""

    activity: str
    """`call_model`, `call_tool`, `compile_prompt` or `prepare_run`."""
    reason: PendingReason
    attempt: int
    """The number of the current or next attempt, from 1."""
    max_attempts: int
    """The number of attempts after which the call fails; 0: no limit."""
    attempt_at: int
    """When that attempt was or is due."""
    next_at: int | None = None
    """When the next attempt starts; none if one is under way or waits for a worker."""
    scheduled_at: int | None = None
    """When the call was scheduled; none if its step is not known."""
    task_queue: str = ""
    has_pollers: bool | None = None
    """Whether a worker polls the task queue; none if that was not checked."""
    error_type: str = ""
    """The class in `crewlog.errors` of the last failure; empty for another one, or none."""
    error: str = ""
    """Why the last attempt failed."""
    remedy: str = ""
    step: str = ""
    """Empty if not known."""
    call: int = 0
    """The number of the call in the step."""
    agent: str = ""
    tool: str = ""
    """Empty for a model call."""

    @property
    def is_waiting(self) -> bool:
        """Whether it waits, or is being retried."""
        return bool(self.reason) or self.attempt > 1


class _Growing(Model):
    """A part of a trace: the builder changes it as entries follow."""

    model_config = ConfigDict(frozen=False)


class InterruptTrace(_Growing):
    """A question to people."""

    id: InterruptId
    kind: str
    question: str
    raised_at: int
    answered_at: int | None = None
    decision: str = ""
    """The answer; `withdrawn` if none was needed any more."""
    by: str = ""


class CallTrace(_Growing):
    """A model call or a tool call."""

    call: int
    """The number of the call in the step, from 1."""
    tool: str | None = None
    """None for a model call."""
    scheduled_at: int
    """When it was scheduled."""
    arguments: str = ""
    """An excerpt of a tool's arguments."""
    ended_at: int | None = None
    ms: int | None = None
    """How long the tool ran or the model took to answer, without `delay`. A repeated call counts
    from its repetition, so that the time in which people decide is not the model's."""
    delay: CallDelay | None = None
    """Failed attempts and the wait for a worker before the attempt that answered; none if short."""
    ok: bool | None = None
    """Whether it succeeded; none while it has no result."""
    result: str = ""
    """An excerpt of the result."""
    body: ContentHash | None = None
    """The hash of the message with the result."""
    content: Json = None
    """That message, if it was asked for and the store has it."""
    message: ContentHash | None = None
    """The hash of the AI message that asks for a tool call, with all arguments."""
    model: str = ""
    usage: Usage = Field(default_factory=Usage)
    errors: list[str] = Field(default_factory=list[str])
    """Why attempts failed."""
    denial_reason: str = ""
    """Why the call was denied."""
    retries: int = 0
    """How often people or a policy had the call repeated."""
    accepted_ending: BadEnding = ""
    """Why an incomplete AI message was used all the same; empty if it was complete or refused."""
    without_model: bool = False
    """Whether no model was called: the final message of an agent without a model is made of the
    results of its tool calls."""


class StepTrace(_Growing):
    """A step, or the child step of an item."""

    step: StepId
    node: NodeName
    agent: AgentName | None = None
    reached_at: int = 0
    started_at: int | None = None
    ended_at: int | None = None
    position: int = 0
    """Where the step was reached; where a child step started."""
    start_position: int | None = None
    """The position of its start."""
    checkpoint: int | None = None
    """The position of its end."""
    status: StepStatus = "reached"
    because: str = ""
    requirement: str = ""
    """The requirement that the step waited for."""
    reads: dict[LogName, int] = Field(default_factory=dict[LogName, int])
    """The number of messages in each log that the agent could read at the start of the step."""
    calls: list[CallTrace] = Field(default_factory=list[CallTrace])
    interrupts: list[InterruptTrace] = Field(default_factory=list[InterruptTrace])
    errors: list[str] = Field(default_factory=list[str])
    retries: int = 0
    item_count: int = 0
    """The number of items that the step has child steps for."""
    items: list[StepTrace] = Field(default_factory=list["StepTrace"])
    """The child steps."""
    next_nodes: tuple[str, ...] = ()
    """The nodes that its end reached."""
    values: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The values that it set: run outputs by name, outputs by `agent.key`; `{"body": hash}` for a
    large one."""
    changes: tuple[StateChange, ...] | None = None
    """What the step changed in the state, if that was asked for."""

    @property
    def pattern_agent(self) -> str:
        """The agent whose pattern made the node: `writer` for `writer.reviewer`; else empty."""
        return self.node.rpartition(".")[0]

    @property
    def accepted_ending(self) -> BadEnding:
        """Why the last AI message was used although incomplete; empty if it was complete."""
        replies = [call for call in self.calls if call.tool is None]
        return replies[-1].accepted_ending if replies else ""

    @property
    def usage(self) -> Usage:
        """What its calls used, those of its child steps included."""
        used = sum((call.usage for call in self.calls), Usage())
        tools = sum(call.tool is not None and call.ended_at is not None for call in self.calls)
        used += Usage(tool_calls=tools)
        return sum((item.usage for item in self.items), used)


class TraceView(_Growing):
    """The trace of a run: what it did, step by step and call by call."""

    run: str = ""
    crew: str = ""
    started_at: int = 0
    ended_at: int | None = None
    status: str = "running"
    error: str = ""
    position: int = 0
    """The position up to which the journal was read."""
    steps: list[StepTrace] = Field(default_factory=list[StepTrace])
    """In the order in which they were reached; child steps are in the `items` of their parents."""
    events: list[EventView] = Field(default_factory=list[EventView])
    """What happened to the run as a whole: swaps, rollbacks, state edits, pauses."""
    interrupts: list[InterruptTrace] = Field(default_factory=list[InterruptTrace])
    """Questions about the whole run."""
    pending: tuple[PendingCall, ...] = ()
    """Calls that have not answered."""
    merged_runs: list[TraceView] = Field(default_factory=lambda: list[TraceView]())
    """The traces of the runs that were merged into this one, in the order of the merges."""

    def all_steps(self) -> Iterator[StepTrace]:
        """Every step, each before its child steps."""
        for step in self.steps:
            yield step
            yield from step.items


class StepPair(Model):
    """A step of two traces."""

    step: StepId
    one: StepTrace | None
    other: StepTrace | None
    differences: tuple[str, ...] = ()
    """The parts that differ: `status`, `agent`, `items`, `calls`, `results`, `values`, `answers`,
    `errors`, `next_nodes`; `only in one` for a step that one of the traces lacks."""


class TraceDiffView(Model):
    """Two traces side by side."""

    runs: tuple[str, str]
    first_difference: StepId | None = None
    """The first step that differs; none if no step does."""
    steps: tuple[StepPair, ...] = ()
    """The steps in the order of the first trace, then those that only the second one has."""


def body_of(value: Json) -> str:
    """The hash of the body that holds a large value; empty for a value that is there itself."""
    body = cast("dict[str, Json]", value).get("body") if isinstance(value, dict) else None
    return body if isinstance(body, str) and value == {"body": body} else ""
