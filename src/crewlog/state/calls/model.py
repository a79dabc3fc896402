"""Model calls."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import override

from crewlog.ids import AgentName, ContentHash, StepId, ToolName
from crewlog.model import Json, Model
from crewlog.state.agent_inputs import WindowResult
from crewlog.state.body_metadata import body_usage, model_name, requested_tool_calls
from crewlog.state.calls.call import CallInput, CallResult, NamedOutcome
from crewlog.state.calls.output import StructuredOutput
from crewlog.state.finish_reason import BadEnding, BadFinishReason
from crewlog.state.model import Item, WakingMessage
from crewlog.usage import Usage

CALL_MODEL = "call_model"


class CallModel(CallInput):
    """Calls the model of an agent on its view."""

    tools: tuple[ToolName, ...] = ()
    """The tools that the model may call now."""
    item: Item | None = None
    """The item of a child step; none for any other step."""
    unresolved: tuple[int, ...] = ()
    """Calls of the step with artifact operations of which it is not known which apply."""
    waking_message: WakingMessage | None = None
    """The message that woke the agent; none if no message started the step."""
    cut: int = 0
    """The replies in a row that the output limit cut off: the next one may be longer."""


class RequestedToolCall(Model):
    """A tool call that a model asked for."""

    id: str
    """The model's id of the call."""
    tool: str
    """The tool, as the model spelled it."""
    excerpt: str = ""
    """The start of the arguments, for people: at most 80 characters."""


class RefusedOperations(Model):
    """The artifact operations of a call that did not apply."""

    call: int
    artifact: str
    refused: int
    """How many."""
    reasons: tuple[str, ...] = ()
    """The first of them, each with its reason."""


def requested_calls(body: dict[str, Json]) -> tuple[RequestedToolCall, ...]:
    """The tool calls that a message asks for, in order."""
    return tuple(map(RequestedToolCall.from_json, requested_tool_calls(body)))


class ToolCallsRequested(Model):
    """The message asks for tool calls, and the turn continues."""

    kind: Literal["tool_calls"] = "tool_calls"
    calls: tuple[RequestedToolCall, ...] = Field(min_length=1)
    """The calls, in order."""
    draft: ContentHash | None = None
    """The message that has its text alone, with which the turn may end. The store has the draft if
    it has the body."""


class FinalMessage(Model):
    """The message calls no tool, and ends the turn."""

    kind: Literal["final"] = "final"
    output: StructuredOutput | None = None
    """Its structured output; none if the worker knew of no schema."""


class FinalMessageInvalid(NamedOutcome):
    """The message calls no tool, and does not satisfy the schema of its structured output."""

    kind: Literal["invalid"] = "invalid"
    errors: tuple[str, ...] = Field(min_length=1)
    """Why not."""


class MessageUnusable(NamedOutcome):
    """The message is no usable answer, by its finish reason; it calls no tool."""

    kind: Literal["unusable"] = "unusable"
    ending: BadFinishReason
    accepted: FinalMessage | FinalMessageInvalid = FinalMessage()
    """The outcome if its agent accepts such messages."""


MessageOutcome = Annotated[
    ToolCallsRequested | FinalMessage | FinalMessageInvalid | MessageUnusable,
    Field(discriminator="kind"),
]
"""The outcome of a model call. As JSON it leaves out the metadata that the body has."""


class CallModelResult(CallResult):
    """The message of a model, and the outcome of the call."""

    outcome: MessageOutcome = FinalMessage()
    model: str = ""
    """The model that replied, by the name that it gives itself."""
    usage: Usage = Usage()
    """The usage of this call: `calls` is 1, and one more for each summary that was made for it."""
    window: WindowResult | None = None
    """What the window left out of the transcript; none if it left out nothing."""
    refused_operations: tuple[RefusedOperations, ...] = ()
    """Of the `unresolved` calls, those of which some operations did not apply."""

    @classmethod
    @override
    def _metadata(cls, body: dict[str, Json]) -> dict[str, Json]:
        calls = requested_tool_calls(body)
        return {
            "outcome": {"kind": "tool_calls", "calls": calls} if calls else {"kind": "final"},
            "model": model_name(body),
            "usage": body_usage(body),
        }

    @property
    def ending(self) -> BadEnding:
        """The finish reason that makes the message unusable; empty for a usable one."""
        return self.outcome.ending if self.outcome.kind == "unusable" else ""


class Chunk(Model):
    """Text that a model is writing: the heartbeat details of its call."""

    step: StepId
    call: int
    """The number of the call in the step."""
    agent: AgentName
    attempt: int = 1
    """The attempt of the activity: each attempt begins a new reply."""
    offset: int = 0
    """Where `text` begins in the reply, in characters. Earlier chunks have what is before it."""
    text: str = ""
    """The part of the reply from `offset` on."""
