"""Model calls."""

from __future__ import annotations

from typing_extensions import override

from crewlog.ids import AgentName, ContentHash, StepId, ToolName
from crewlog.model import Json, Model
from crewlog.state.agent_inputs import WindowResult
from crewlog.state.body_metadata import body_usage, model_name, requested_tool_calls
from crewlog.state.calls.call import CallInput, CallResult
from crewlog.state.calls.output import StructuredOutput
from crewlog.state.finish_reason import BadEnding
from crewlog.state.model import Item, WakingMessage
from crewlog.usage import Usage

CALL_MODEL = "call_model"


class CallModel(CallInput):
    """Call an agent's model on its view."""

    tools: tuple[ToolName, ...] = ()
    """The tools that the model is offered, as permitted now."""
    item: Item | None = None
    """The item that the step is for, where its phase has a step for each."""
    unresolved: tuple[int, ...] = ()
    """Calls of the step of whose operations it is not known which apply."""
    waking_message: WakingMessage | None = None
    """The message that the step is for, where its agent heard one."""
    cut: int = 0
    """Replies in a row that the limit of output cut: the next one may be longer."""


class RequestedToolCall(Model):
    """A tool call that a model asked for."""

    id: str
    """The model's id of the call."""
    tool: str
    """The tool's name, as the model spelled it."""
    excerpt: str = ""
    """The start of the arguments, for people: at most 80 characters."""


class RefusedOperations(Model):
    """Operations of a call of which some turned out not to apply."""

    call: int
    artifact: str
    refused: int
    """How many."""
    reasons: tuple[str, ...] = ()
    """The first of them, each with its reason."""


class CallModelResult(CallResult):
    """A model's reply."""

    tools: tuple[RequestedToolCall, ...] = ()
    """The tool calls it asks for, in order; empty where the turn is over."""
    model: str = ""
    """The model that answered, as it names itself."""
    usage: Usage = Usage()
    """This call's usage; `calls` is 1, and one more for every summary that it had made."""
    ending: BadEnding = ""
    """How it ended, where it is no good answer: then it asks for no tool."""
    window: WindowResult | None = None
    """What a window left out of its prompt; none where nothing."""
    reply: StructuredOutput | None = None
    """What it says, where it is the last of the turn and must be of a form."""
    errors: tuple[str, ...] = ()
    """Why it is not of that form."""
    draft: ContentHash | None = None
    """Of a reply that calls tools, where its text may be what the turn ends with: the message that
    has the text alone. The store has it where it has the body."""
    refused_operations: tuple[RefusedOperations, ...] = ()
    """What became of operations that were not settled: those of which some do not apply."""

    @classmethod
    @override
    def _metadata(cls, body: dict[str, Json]) -> dict[str, Json]:
        return {
            "tools": requested_tool_calls(body),
            "model": model_name(body),
            "usage": body_usage(body),
        }


class Chunk(Model):
    """What a model has written of a reply that is not done: details of its call's heartbeats."""

    step: StepId
    call: int
    """The call's number in the step."""
    agent: AgentName
    attempt: int = 1
    """The activity's attempt: another one begins anew."""
    offset: int = 0
    """Where in the reply `text` begins, in characters: what came before was told before."""
    text: str = ""
    """The end of what is written."""
