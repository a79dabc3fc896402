"""The trace of a run as a typed view: its steps, their calls, and changes of the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, cast

from crewlog.ids import (
    AgentName,
    ContentHash,
    InterruptId,
    LogName,
    NodeName,
    StepId,
)
from crewlog.model import Json
from crewlog.state.finish_reason import BadEnding
from crewlog.state.model import CallDelay
from crewlog.usage import Usage

Fate = Literal["reached", "running", "parked", "completed", "skipped", "cancelled", "undone"]
"""What became of a step: `reached` has not begun; `parked` is kept aside, as a change took its node
away; `undone` was under way when the run went back to an earlier checkpoint."""


@dataclass
class Asked:
    """A question to people."""

    id: InterruptId
    kind: str
    question: str
    raised: int
    """Milliseconds since the epoch, as all times here."""
    answered: int | None = None
    decision: str = ""
    """`withdrawn` where nobody needed the answer any more."""
    by: str = ""


@dataclass
class CallTrace:
    """A model call or a tool call."""

    call: int
    """Its number in the step, from 1."""
    tool: str | None
    """None of a model call."""
    start: int
    """When it was asked for."""
    arguments: str = ""
    """The start of a tool's arguments."""
    end: int | None = None
    ms: int | None = None
    """How long it took by itself: a tool where it ran, a model from being asked for to its answer,
    without its `delay`; one that was asked again, from then on: what people took to say so is not
    the model's."""
    delay: CallDelay | None = None
    """What it took before the attempt that answered: failed attempts with the waits between them,
    and the wait for a worker; none where that is little."""
    ok: bool | None = None
    """None where it has no answer."""
    result: str = ""
    """The start of what came back."""
    body: ContentHash | None = None
    """The message that came back."""
    message: ContentHash | None = None
    """Of a tool call: the message that asks for it, with all of its arguments."""
    model: str = ""
    usage: Usage = field(default_factory=Usage)
    errors: list[str] = field(default_factory=list[str])
    """Why earlier tries failed, or this one."""
    denied: str = ""
    """Why it was refused."""
    retries: int = 0
    """How often people or a policy had it made again."""
    accepted: BadEnding = ""
    """How a reply ended that is no good answer and was taken as it is; empty: it is a good one, or
    was refused."""
    composed: bool = False
    """Whether no model was asked: its agent has none, and what its tools said is put together."""


@dataclass
class StepTrace:
    """A visit to a node, or the step of an item."""

    step: StepId
    node: NodeName
    agent: AgentName | None = None
    reached: int = 0
    started: int | None = None
    ended: int | None = None
    position: int = 0
    """Where it was reached, or an item's step began."""
    began: int | None = None
    """The position of its beginning."""
    checkpoint: int | None = None
    """The position of its end."""
    fate: Fate = "reached"
    because: str = ""
    waited_for: str = ""
    """The requirement that it had to wait for."""
    reads: dict[LogName, int] = field(default_factory=dict[LogName, int])
    """What it could read when it began: how many messages of each log, its agent's own included."""
    calls: list[CallTrace] = field(default_factory=list[CallTrace])
    asked: list[Asked] = field(default_factory=list[Asked])
    errors: list[str] = field(default_factory=list[str])
    retries: int = 0
    of: int = 0
    """How many items it has a step for each of."""
    items: list[StepTrace] = field(default_factory=list["StepTrace"])
    went: tuple[str, ...] = ()
    """The nodes that its end reached."""
    sets: dict[str, Json] = field(default_factory=dict[str, Json])
    """Flags by name and outputs by `agent.key` that it set; `{"body": hash}` of large ones."""

    @property
    def within(self) -> str:
        """The part that it is in, where its node's name says so: `writer` of `writer.reviewer`."""
        return self.node.rpartition(".")[0]

    @property
    def accepted(self) -> BadEnding:
        """How the last reply ended, where that is no good answer and was taken as it is."""
        replies = [call for call in self.calls if call.tool is None]
        return replies[-1].accepted if replies else ""

    @property
    def usage(self) -> Usage:
        """What its calls used, those of its items included."""
        used = sum((call.usage for call in self.calls), Usage())
        tools = sum(call.tool is not None and call.end is not None for call in self.calls)
        used += Usage(tool_calls=tools)
        return sum((item.usage for item in self.items), used)


@dataclass
class Mark:
    """Something that happened to the run as a whole: a swap, a rollback, an edit, a pause."""

    position: int
    at: int
    kind: str
    entry: dict[str, Json]
    """The journal entry."""


@dataclass
class Trace:
    """A run's execution."""

    run: str = ""
    crew: str = ""
    started: int = 0
    ended: int | None = None
    status: str = "running"
    error: str = ""
    position: int = 0
    steps: list[StepTrace] = field(default_factory=list[StepTrace])
    """In the order in which they were reached; those of items are in their visits."""
    marks: list[Mark] = field(default_factory=list[Mark])
    asked: list[Asked] = field(default_factory=list[Asked])
    """Questions about the whole run."""

    def all_steps(self) -> Iterator[StepTrace]:
        """Every step, each visit before its items."""
        for step in self.steps:
            yield step
            yield from step.items


def body_of(value: Json) -> str:
    """The body that holds a large value that was set; empty where the value is there itself."""
    body = cast("dict[str, Json]", value).get("body") if isinstance(value, dict) else None
    return body if isinstance(body, str) and value == {"body": body} else ""
