"""A model's reply as it is kept: the same for the same reply, and fit to be shown again."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, cast

from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    InvalidToolCall,
    ToolCall,
)
from langchain_core.outputs import ChatGeneration, ChatResult, Generation, LLMResult
from pydantic import BaseModel

from crewlog.content import hash_json, scrubbed, scrubbed_text
from crewlog.ids import AgentName, StepId

NAMELESS = "unknown"
"""What a tool call without a name is called."""
_USUAL_ENDS = ("stop", "tool_calls")
_CALL_BLOCKS = frozenset({"tool_call", "tool_use", "function_call", "invalid_tool_call"})
"""Types of content blocks that spell a tool call once more."""


def message_of(reply: Any) -> BaseMessage:
    """What a model gave, as a message, whichever of LangChain's forms it has.

    A text is a piece, so that several of them add up; data are their JSON, as with models that
    were made to answer so.

    Raises:
        TypeError: it is none of them.
    """
    match reply:
        case BaseMessage():
            return reply
        case str():
            return AIMessageChunk(content=reply)
        case ChatGeneration():
            return reply.message
        case Generation():
            return AIMessageChunk(content=reply.text)
        case ChatResult() if reply.generations:
            return message_of(reply.generations[0])
        case LLMResult() if reply.generations and reply.generations[0]:
            return message_of(reply.generations[0][0])
        case BaseModel():
            return AIMessage(reply.model_dump_json())
        case dict():
            said: dict[str, Any] = cast("dict[str, Any]", reply)
            content = said.get("content", said.get("text"))
            if isinstance(content, str | list):
                return AIMessage(cast("Any", content))
            return AIMessage(json.dumps(said, default=str))
        case _:
            raise TypeError(f"a model gave {type(reply).__name__}, which is no message")


def kept(reply: BaseMessage, agent: AgentName, step: StepId, call: int, *, model: str) -> AIMessage:
    """The message to keep of a reply: named, numbered, and without what differs by chance.

    Ids of tool calls are made anew: unique in the run, the same for the same reply, and no longer
    than the 40 characters that OpenAI takes.

    A call whose arguments could not be parsed stays among `invalid_tool_calls`: the tool activity
    finds it there and answers it, so that the model may repair it.

    Args:
        reply: The reply.
        agent: Whose model it is.
        step: The step.
        call: The call's number in the step.
        model: What the model is called where it does not say so itself.
    """
    source = reply if isinstance(reply, AIMessage) else AIMessage(reply.content)
    number = itertools.count(1)
    renamed: dict[str, list[str]] = {}

    def fresh(id_: str | None) -> str:
        # Services may number `call_0` in every reply, and a transcript is one space of ids.
        new = f"c_{hash_json([step, call, next(number)])[:24]}"
        if id_:
            renamed.setdefault(id_, []).append(new)
        return new

    calls = [
        ToolCall(
            name=scrubbed_text(c["name"] or NAMELESS),
            args=_scrubbed_args(c["args"]),
            id=fresh(c["id"]),
        )
        for c in source.tool_calls
    ]
    invalid = [
        InvalidToolCall(
            type="invalid_tool_call",
            name=scrubbed_text(i["name"] or NAMELESS),
            args=scrubbed_text(i["args"] or ""),
            id=fresh(i["id"]),
            error=None,
        )
        for i in source.invalid_tool_calls
    ]
    kept_metadata = _metadata(source, model)
    usage = source.usage_metadata
    return AIMessage(
        content=_content(source, renamed),
        id=f"{step}/{call}",
        name=agent,
        tool_calls=calls,
        invalid_tool_calls=invalid,
        response_metadata=kept_metadata,
        usage_metadata=None
        if usage is None
        else {
            "input_tokens": usage["input_tokens"],
            "output_tokens": usage["output_tokens"],
            "total_tokens": usage["total_tokens"],
        },
    )


def _metadata(reply: AIMessage, model: str) -> dict[str, Any]:
    """The model that answered, and why it stopped where that is worth a word."""
    found = {"model_name": scrubbed(reply.response_metadata.get("model_name")) or model}
    reason: Any = scrubbed(reply.response_metadata.get("finish_reason"))
    if reason and reason not in _USUAL_ENDS:
        found["finish_reason"] = reason
    return found


def _content(reply: AIMessage, renamed: Mapping[str, list[str]]) -> Any:
    refusal: Any = reply.additional_kwargs.get("refusal")
    # A refusal is what the model said: the agent's text, like any other.
    content: Any = refusal if refusal and not reply.content else reply.content
    if not isinstance(content, list):
        return content
    left = {old: list(new) for old, new in renamed.items()}
    blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
    return [_renamed(block, left) for block in blocks]


def _renamed(block: Any, left: Mapping[str, list[str]]) -> Any:
    """A block of content; one that is a tool call has the call's new id."""
    if not isinstance(block, dict):
        return block
    found: dict[str, Any] = dict(block)  # pyright: ignore[reportUnknownArgumentType]
    if found.get("type") not in _CALL_BLOCKS:
        return found
    for key in ("call_id", "id"):  # where there are both, `id` is the block's own
        old = found.get(key)
        if isinstance(old, str) and old in left:
            new = left[old]
            return {**found, key: new.pop(0) if len(new) > 1 else new[0]}
    return found


def _scrubbed_args(args: dict[str, Any]) -> dict[str, Any]:
    return {scrubbed_text(key): scrubbed(value) for key, value in args.items()}
