"""A model's reply as a message for the journal: the same for the same reply, and safe to send back.

The arguments of tool calls are parsed from the text of the model. A call whose arguments are not a
JSON object is never made; the model gets an error.
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

CallChunk = Mapping[str, Any]
"""A tool call or a chunk of one: `index`, `id`, `name` and `args`, each of which may be None."""


def join_chunks(chunks: Iterable[CallChunk]) -> list[CallChunk]:
    """Joins the chunks of a streamed reply to tool calls, in order.

    A chunk belongs to the call of its number, or to the last call if it has no number. A chunk
    without a name continues that call, whatever its id: some services give each chunk an id. Some
    repeat the name and the id in each chunk, and some give all calls one number. A call has no name
    if the chunk with its name was lost.
    """
    calls: list[dict[str, Any]] = []
    by_number: dict[Any, dict[str, Any]] = {}
    for chunk in chunks:
        number = chunk.get("index")
        call = by_number.get(number) if number is not None else next(reversed(calls), None)
        if call is None or not _continues(chunk, call):
            call = {"id": None, "name": "", "args": ""}
            calls.append(call)
        if number is not None:
            by_number[number] = call
        name = chunk.get("name")
        call["id"] = call["id"] or chunk.get("id")
        if name and name != call["name"]:
            call["name"] += name
        call["args"] = f"{call['args']}{chunk.get('args') or ''}"
    return list(calls)


def _continues(chunk: CallChunk, call: CallChunk) -> bool:
    """Whether a chunk continues a call, and does not begin another one."""
    name, id_ = chunk.get("name"), chunk.get("id")
    if not name or (name == call["name"] and not call["args"]):
        return True
    if id_ and call["id"]:
        return bool(id_ == call["id"])
    return chunk.get("index") is not None


def parse_tool_calls(calls: Iterable[CallChunk]) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    """Returns the calls whose arguments are JSON objects, and the others.

    An empty text means no arguments, unless another call is invalid: that one may have them.
    """
    all_calls = [*calls]
    parsed = [_parse_arguments(call["args"] or "") for call in all_calls]
    pairs = list(zip(all_calls, parsed, strict=True))
    lost = any(args is None or not call["name"] for call, args in pairs)
    valid: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for call, args in pairs:
        name, text, id_ = call["name"] or "", call["args"] or "", call["id"]
        if args is not None and name and (text.strip() or not lost):
            valid.append(ToolCall(name=name, args=args, id=id_))
        else:
            invalid.append(
                InvalidToolCall(type="invalid_tool_call", name=name, args=text, id=id_, error=None)
            )
    return valid, invalid


def _parse_arguments(text: str) -> dict[str, Any] | None:
    """Parses arguments; None: they are not a JSON object."""
    try:
        value: Any = json.loads(text, strict=False) if text.strip() else {}
    except ValueError:
        return None
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def json_error(text: str) -> str:
    """Returns what is wrong with invalid arguments, for the model."""
    if not text.strip():
        return "they are missing, and another call cannot be read; write {} for no arguments"
    try:
        value: Any = json.loads(text, strict=False)
    except ValueError as error:
        return f"they are no JSON ({error})"
    if isinstance(value, str):
        return "they are a text and no JSON object; write the object itself, not a text with it"
    if isinstance(value, dict):
        return "the call names no tool"
    kinds: Mapping[Any, str] = {list: "a list", bool: "true or false", type(None): "null"}
    kind = kinds.get(type(value), "a number")
    return f"they are {kind} and no JSON object"


NAMELESS = "unknown"
"""The name of a tool call without a name."""
_BY_CALL = "__gemini_function_call_thought_signatures__"
"""The key at which LangChain has what Gemini requires back with each call, by the call's id."""


def to_message(reply: Any) -> BaseMessage:
    """Returns a model's output as a message, whichever of LangChain's types it has.

    A text becomes a chunk, so that several can be added. Data become their JSON.

    Raises:
        TypeError: it has none of these types.
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
            return to_message(reply.generations[0])
        case LLMResult() if reply.generations and reply.generations[0]:
            return to_message(reply.generations[0][0])
        case BaseModel():
            return AIMessage(reply.model_dump_json())
        case dict():
            fields: dict[str, Any] = cast("dict[str, Any]", reply)
            content = fields.get("content", fields.get("text"))
            if isinstance(content, str | list):
                return AIMessage(cast("Any", content))
            return AIMessage(json.dumps(fields, default=str))
        case _:
            raise TypeError(f"a model gave {type(reply).__name__}, which is no message")


def check_complete(reply: BaseMessage, model: str) -> BaseMessage:
    """Returns a reply, after the check that its service did not fail while it answered.

    Raises:
        ModelUnavailable: it did; the call is retried.
    """
    if finish_reason(reply) == "broken":
        raise ModelUnavailable(
            f"the service of the model {model!r} failed while it answered: "
            f"it ended its reply with {provider_finish_reason(reply)!r}",
            remedy="It may pass. If it does not, give the agent another model.",
        )
    return reply


def build_message(
    reply: BaseMessage,
    agent: AgentName,
    step: StepId,
    call: int,
    *,
    model: str,
    ending: Ending = "complete",
) -> AIMessage:
    """Returns the message of a reply: with an id, and without metadata that differs by chance.

    Tool calls get new ids: unique in the run, the same for the same reply, and at most 40
    characters long, which is OpenAI's limit.

    A call with invalid arguments stays in `invalid_tool_calls`, from which the tool activity
    returns an error to the model.

    Reasoning stays in messages with tool calls, since the service may require it within the turn.
    The final message, which others may read, has none.

    Args:
        reply: The reply.
        agent: The agent.
        step: The step.
        call: The call's number in the step.
        model: The name of the model, if the reply has none.
        ending: Its finish reason; an incomplete reply calls no tools.
    """
    source = reply if isinstance(reply, AIMessage) else AIMessage(reply.content)
    if ending != "complete":
        source = _without_calls(source)
    number = itertools.count(1)
    new_ids: dict[str, list[str]] = {}

    def make_id(id_: str | None) -> str:
        # Some services have the id `call_0` in every reply, and a transcript needs unique ids.
        new = f"c_{hash_json([step, call, next(number)])[:24]}"
        if id_:
            new_ids.setdefault(id_, []).append(new)
        return new

    calls = [
        ToolCall(
            name=utf8_text(c["name"] or NAMELESS),
            args=_clean_arguments(c["args"]),
            id=make_id(c["id"]),
        )
        for c in source.tool_calls
    ]
    invalid = [
        InvalidToolCall(
            type="invalid_tool_call",
            name=utf8_text(i["name"] or NAMELESS),
            args=utf8_text(i["args"] or ""),
            id=make_id(i["id"]),
            error=None,
        )
        for i in source.invalid_tool_calls
    ]
    usage = source.usage_metadata
    message = AIMessage(
        content=_content(source, new_ids),
        additional_kwargs=_reasoning_fields(source, new_ids),
        id=f"{step}/{call}",
        name=agent,
        tool_calls=calls,
        invalid_tool_calls=invalid,
        response_metadata=_metadata(source, model, ending),
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
    update: dict[str, Any] = {"content": content, "tool_calls": [], "invalid_tool_calls": []}
    return reply.model_copy(update=update)


def _reasoning_fields(reply: AIMessage, new_ids: Mapping[str, list[str]]) -> dict[str, Any]:
    """Returns the fields besides the content that the service may require back."""
    extra = reply.additional_kwargs
    fields = {key: utf8_json(extra[key]) for key in REASONING_KEYS if extra.get(key)}
    if isinstance(by_call := extra.get(_BY_CALL), dict):
        signatures = cast("dict[str, Any]", by_call)
        fields[_BY_CALL] = {
            new: utf8_json(signatures[old])
            for old, ids in new_ids.items()
            if old in signatures
            for new in ids
        }
    return fields


def _metadata(reply: AIMessage, model: str, ending: Ending) -> dict[str, Any]:
    """Returns the name of the model, and the finish reason of an incomplete reply."""
    name = reply.response_metadata.get("model_name") or reply.response_metadata.get("model")
    metadata = {"model_name": utf8_json(name) or model}
    if ending != "complete" and (reason := provider_finish_reason(reply)):
        metadata["finish_reason"] = utf8_text(reason)
    return metadata


def _content(reply: AIMessage, new_ids: Mapping[str, list[str]]) -> Any:
    refusal: Any = reply.additional_kwargs.get("refusal")
    # The text of a refusal is the agent's text, like any other.
    content: Any = refusal if refusal and not reply.content else reply.content
    if not isinstance(content, list):
        return content
    left = {old: list(new) for old, new in new_ids.items()}
    blocks: list[Any] = content  # pyright: ignore[reportUnknownVariableType]
    return [_convert_block(block, left) for block in blocks]


def _convert_block(block: Any, new_ids: Mapping[str, list[str]]) -> Any:
    """Returns a content block; a tool call gets its new id, and a refusal becomes a text."""
    if isinstance(block, str):  # of a stream, after a block of reasoning
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        return block
    fields: dict[str, Any] = dict(block)  # pyright: ignore[reportUnknownArgumentType]
    if fields.get("type") == "refusal":
        return {"type": "text", "text": str(fields.get("refusal") or "")}
    if fields.get("type") not in CALL_BLOCKS:
        return fields
    for key in ("call_id", "id"):  # if a block has both, `id` is the block's own
        old = fields.get(key)
        if isinstance(old, str) and old in new_ids:
            new = new_ids[old]
            return {**fields, key: new.pop(0) if len(new) > 1 else new[0]}
    return fields


def _clean_arguments(args: dict[str, Any]) -> dict[str, Any]:
    return {utf8_text(key): utf8_json(value) for key, value in args.items()}
