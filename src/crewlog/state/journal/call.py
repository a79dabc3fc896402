"""Model calls and tool calls."""

from __future__ import annotations

from typing import Literal

from typing_extensions import override

from crewlog.ids import AgentName, NodeName, StepId
from crewlog.model import Json
from crewlog.state.agent_inputs import WindowResult
from crewlog.state.finish_reason import BadEnding
from crewlog.state.journal.entry import Entry, MessageRef
from crewlog.state.model import Call, CallDelay, Draft, ListedCallResult
from crewlog.usage import Usage

__all__ = [
    "CallEntry",
    "CompletionBuffered",
    "ModelCallCompleted",
    "PermissionDenied",
    "QuotaConsumed",
    "QuotaReleased",
    "StructuredOutputParsed",
    "StructuredOutputRejected",
    "ToolCallCompleted",
    "TurnLimitReached",
]


class ModelCallCompleted(Entry):
    """A model replied."""

    kind: Literal["ModelCallCompleted"] = "ModelCallCompleted"
    step: StepId
    call: int
    agent: AgentName
    ref: MessageRef
    model: str = ""
    calls: tuple[Call, ...] = ()
    """The tool calls that it asked for."""
    usage: Usage = Usage()
    excerpt: str = ""
    """The start of the reply, for people."""
    append: bool = False
    """Whether a final message is added to the agent's texts, instead of replacing them."""
    refused: bool = False
    """Whether a final message is not usable: then it is not the agent's text."""
    ending: BadEnding = ""
    """Why the reply is not usable; empty for a usable one."""
    draft: Draft | None = None
    """Its text, with which the turn ends at its agent's `max_calls`; none if the text is not usable
    for that."""
    window: WindowResult | None = None
    """What the window left out of the transcript; none if it left out nothing."""
    without_model: bool = False
    """Whether no model was called: the agent has none, and its definition lists its calls."""
    delay: CallDelay | None = None
    """What the call took before the attempt that answered; none if that is negligible."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class StructuredOutputParsed(Entry):
    """A final message satisfies its schema; its fields follow as outputs of the agent."""

    kind: Literal["StructuredOutputParsed"] = "StructuredOutputParsed"
    step: StepId
    call: int
    """The model call with the message; of a fallback, the last one."""
    agent: AgentName
    decision: str = ""
    """The decision kind; empty for a schema."""
    how: Literal["json", "lenient", "fallback"] = "json"
    """`json`: the message is the JSON that was asked for. `lenient`: the JSON was found in other
    text. `fallback`: every attempt failed, and the definition has a default."""
    attempt: int = 1
    """The number of the attempt in the turn."""
    excerpt: str = ""
    """A summary for people: `next = billing`."""
    confidence: float | None = None
    """The confidence of the agent, if it is asked for."""


class StructuredOutputRejected(Entry):
    """A final message does not satisfy its schema, or is not usable."""

    kind: Literal["StructuredOutputRejected"] = "StructuredOutputRejected"
    step: StepId
    call: int
    agent: AgentName
    decision: str = ""
    attempt: int
    """The number of the attempt in the turn, from 1."""
    of: int
    """The most attempts."""
    errors: tuple[str, ...]
    """What is wrong, each with its place."""
    ref: MessageRef | None = None
    """The message with the errors for the model, which is called again; none before a fallback."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class TurnLimitReached(Entry):
    """A turn reached its agent's `max_calls`, and ends with what it has."""

    kind: Literal["TurnLimitReached"] = "TurnLimitReached"
    step: StepId
    agent: AgentName
    calls: int
    """The number of its model calls."""
    ref: MessageRef | None = None
    """The text of the last usable reply, which is final; none if there is none."""
    append: bool = False
    """Whether it is added to the agent's texts, instead of replacing them."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class ToolCallCompleted(Entry):
    """A tool call returned a result, or an error that the model sees."""

    kind: Literal["ToolCallCompleted"] = "ToolCallCompleted"
    step: StepId
    call: int
    agent: AgentName
    tool: str
    ref: MessageRef
    ok: bool = True
    excerpt: str = ""
    """The start of the result or the error, for people."""
    ms: int = 0
    """How long the tool took, in milliseconds."""
    confidence: float | None = None
    """The confidence that the agent stated by this call, if it is asked for."""
    goto: tuple[NodeName, ...] = ()
    """The nodes that it hands off to, instead of what depends on the step."""
    model_next: bool = False
    """Whether it was the last call of the reply, and the model is called next."""
    result: ListedCallResult | None = None
    """Of an agent without a model: the result for its final message."""
    delay: CallDelay | None = None
    """What the call took before the attempt that answered; none if that is negligible."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class CompletionBuffered(Entry):
    """A tool call completed before an earlier one of its turn; it is applied after that."""

    kind: Literal["CompletionBuffered"] = "CompletionBuffered"
    step: StepId
    call: int
    entries: tuple[dict[str, Json], ...]
    """The entries of the completion, in order."""


class PermissionDenied(Entry):
    """A call was denied, or a part of what a call wrote.

    The run denies a call before it is scheduled, the activity before it begins. Of a call that ran,
    the run denies single flags, outputs, messages to channels, nodes to go to, and operations.
    """

    kind: Literal["PermissionDenied"] = "PermissionDenied"
    step: StepId
    call: int
    agent: AgentName
    tool: str
    reason: str
    """Why, for people."""
    rule: str = ""
    """What denied it, for programs: a key of the definition (`tools`, `permissions`, `approvals`,
    `rules[1]`), `live_permission`, `parent`, `privileged` of group tools; `arguments` (they are not
    JSON) or `checks` (the tool's own) of how it is called; empty: the call ran, or it was another
    check."""


class QuotaConsumed(Entry):
    """Quotas per run count a call."""

    kind: Literal["QuotaConsumed"] = "QuotaConsumed"
    step: StepId
    call: int
    quotas: tuple[str, ...]
    """Their keys."""


class QuotaReleased(Entry):
    """A counted call is not made: its quotas do not count it any more."""

    kind: Literal["QuotaReleased"] = "QuotaReleased"
    step: StepId
    call: int
    quotas: tuple[str, ...]


CallEntry = (
    ModelCallCompleted
    | StructuredOutputParsed
    | StructuredOutputRejected
    | TurnLimitReached
    | ToolCallCompleted
    | CompletionBuffered
    | PermissionDenied
    | QuotaConsumed
    | QuotaReleased
)
