"""A model's reply as it is kept: the same for the same reply, and fit to be shown again.

The tool calls of a reply, with their arguments read from the text that the model wrote.

A call whose arguments are no JSON object stays apart: it is never made, and its model is told why.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
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

from crewlog.canonical_json import hash_json, utf8_json, utf8_text
from crewlog.errors import ModelUnavailable
from crewlog.ids import AgentName, StepId
from crewlog.state.finish_reason import (
    CALL_BLOCKS,
    REASONING_KEYS,
    Ending,
    finish_reason,
    provider_finish_reason,
    without_blocks,
    without_reasoning,
)

Piece = Mapping[str, Any]
"""A tool call or a part of one: `index`, `id`, `name` and `args`, each of which may be None."""


def joined(pieces: Iterable[Piece]) -> list[Piece]:
    """The calls that pieces of a streamed reply add up to, in order.

    A piece belongs to the call of its number, or to the last call where it has no number. A piece
    without a name goes on with that call, whatever its id: some services give each piece an id.
    Some repeat the name and the id in each piece, and some give all calls one number. A call
    without a name is left where the piece that had it was lost.
    """
    calls: list[dict[str, Any]] = []
    by_number: dict[Any, dict[str, Any]] = {}
    for piece in pieces:
        number = piece.get("index")
        call = by_number.get(number) if number is not None else next(reversed(calls), None)
        if call is None or not _continues(piece, call):
            call = {"id": None, "name": "", "args": ""}
            calls.append(call)
        if number is not None:
            by_number[number] = call
        name = piece.get("name")
        call["id"] = call["id"] or piece.get("id")
        if name and name != call["name"]:
            call["name"] += name
        call["args"] += piece.get("args") or ""
    return list(calls)


def _continues(piece: Piece, call: Piece) -> bool:
    """Whether a piece is part of a call that has begun, and does not begin another one."""
    name, id_ = piece.get("name"), piece.get("id")
    if not name or (name == call["name"] and not call["args"]):
        return True
    if id_ and call["id"]:
        return bool(id_ == call["id"])
    return piece.get("index") is not None


def parse_tool_calls(calls: Iterable[Piece]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """The calls whose arguments are JSON objects, and the others.

    No text stands for no arguments, but not beside a call that cannot be read: that one may have
    the arguments.
    """
    given = [*calls]
    read = [_arguments(call["args"] or "") for call in given]
    lost = any(args is None or not call["name"] for call, args in zip(given, read, strict=True))
    well: list[ToolCall] = []
    ill: list[InvalidToolCall] = []
    for call, args in zip(given, read, strict=True):
        name, text, id_ = call["name"] or "", call["args"] or "", call["id"]
        if args is not None and name and (text.strip() or not lost):
            well.append(ToolCall(name=name, args=args, id=id_))
        else:
            ill.append(
                InvalidToolCall(type="invalid_tool_call", name=name, args=text, id=id_, error=None)
            )
    return well, ill


def _arguments(text: str) -> dict[str, Any] | None:
    """The arguments that a text says; None where it is no JSON object."""
    try:
        found: Any = json.loads(text, strict=False) if text.strip() else {}
    except ValueError:
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def json_error(text: str) -> str:
    """What is wrong with arguments of a call that was not made, for the model that wrote them."""
    if not text.strip():
        return "they are missing, and another call cannot be read; write {} for no arguments"
    try:
        found: Any = json.loads(text, strict=False)
    except ValueError as error:
        return f"they are no JSON ({error})"
    if isinstance(found, str):
        return "they are a text and no JSON object; write the object itself, not a text with it"
    if isinstance(found, dict):
        return "the call names no tool"
    kind = {list: "a list", bool: "true or false", type(None): "null"}.get(type(found), "a number")
    return f"they are {kind} and no JSON object"


NAMELESS = "unknown"
"""What a tool call without a name is called."""
_BY_CALL = "__gemini_function_call_thought_signatures__"
"""Where LangChain keeps what Gemini wants back with each call, by the call's id."""


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


def check_complete(reply: BaseMessage, model: str) -> BaseMessage:
    """A reply whose service did not fail while it answered.

    Raises:
        ModelUnavailable: it did; the call is repeated.
    """
    if finish_reason(reply) == "broken":
        raise ModelUnavailable(
            f"the service of the model {model!r} failed while it answered: "
            f"it ended its reply with {provider_finish_reason(reply)!r}",
            remedy="It may pass. If it does not, give the agent another model.",
        )
    return reply


def kept(
    reply: BaseMessage,
    agent: AgentName,
    step: StepId,
    call: int,
    *,
    model: str,
    ending: Ending = "complete",
) -> AIMessage:
    """The message to keep of a reply: named, numbered, and without what differs by chance.

    Ids of tool calls are made anew: unique in the run, the same for the same reply, and no longer
    than the 40 characters that OpenAI takes.

    A call whose arguments could not be parsed stays among `invalid_tool_calls`: the tool activity
    finds it there and answers it, so that the model may repair it.

    What a model thought is kept where it calls tools, since its service may want that back within
    the turn. The last message of a turn, which others may read, has none of it.

    Args:
        reply: The reply.
        agent: Whose model it is.
        step: The step.
        call: The call's number in the step.
        model: What the model is called where it does not say so itself.
        ending: How it ended: one that is not complete calls nothing.
    """
    source = reply if isinstance(reply, AIMessage) else AIMessage(reply.content)
    if ending != "complete":
        source = _without_calls(source)
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
            name=utf8_text(c["name"] or NAMELESS),
            args=_scrubbed_args(c["args"]),
            id=fresh(c["id"]),
        )
        for c in source.tool_calls
    ]
    invalid = [
        InvalidToolCall(
            type="invalid_tool_call",
            name=utf8_text(i["name"] or NAMELESS),
            args=utf8_text(i["args"] or ""),
            id=fresh(i["id"]),
            error=None,
        )
        for i in source.invalid_tool_calls
    ]
    kept_metadata = _metadata(source, model, ending)
    usage = source.usage_metadata
    message = AIMessage(
        content=_content(source, renamed),
        additional_kwargs=_thoughts(source, renamed),
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
    return message if calls or invalid else without_reasoning(message)


def _without_calls(reply: AIMessage) -> AIMessage:
    content: Any = reply.content
    if isinstance(content, list):
        blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
        content = without_blocks(blocks, CALL_BLOCKS)
    update = {"content": content, "tool_calls": [], "invalid_tool_calls": []}
    return reply.model_copy(update=update)


def _thoughts(reply: AIMessage, renamed: Mapping[str, list[str]]) -> dict[str, Any]:
    """What the service may want back of the fields beside a message's content."""
    extra = reply.additional_kwargs
    found = {key: utf8_json(extra[key]) for key in REASONING_KEYS if extra.get(key)}
    if isinstance(by_call := extra.get(_BY_CALL), dict):
        given = cast("dict[str, Any]", by_call)
        found[_BY_CALL] = {
            new: utf8_json(given[old])
            for old, new_ids in renamed.items()
            if old in given
            for new in new_ids
        }
    return found


def _metadata(reply: AIMessage, model: str, ending: Ending) -> dict[str, Any]:
    """The model that answered, and why it stopped where that is worth a word."""
    name = reply.response_metadata.get("model_name") or reply.response_metadata.get("model")
    found = {"model_name": utf8_json(name) or model}
    if ending != "complete" and (reason := provider_finish_reason(reply)):
        found["finish_reason"] = utf8_text(reason)
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
    """A block of content; one that is a tool call has the call's new id, a refusal is a text."""
    if isinstance(block, str):  # as pieces of a stream add up, where a thought came before
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return block
    found: dict[str, Any] = dict(block)  # pyright: ignore[reportUnknownArgumentType]
    if found.get("type") == "refusal":
        return {"type": "text", "text": str(found.get("refusal") or "")}
    if found.get("type") not in CALL_BLOCKS:
        return found
    for key in ("call_id", "id"):  # where there are both, `id` is the block's own
        old = found.get(key)
        if isinstance(old, str) and old in left:
            new = left[old]
            return {**found, key: new.pop(0) if len(new) > 1 else new[0]}
    return found


def _scrubbed_args(args: dict[str, Any]) -> dict[str, Any]:
    return {utf8_text(key): utf8_json(value) for key, value in args.items()}
