"""LangChain's clients of services compatible with OpenAI, without their losses.

LangChain drops the reasoning that such services send besides the text and require back within the
turn, a refusal that comes in chunks, chunks of tool calls without a number, a whole reply if the
arguments of one call are not an object, and the text of an error with status 200.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import new_class
from typing import TYPE_CHECKING, Any, cast

import openai
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.messages.tool import tool_call_chunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai.chat_models.base import BaseChatOpenAI
from typing_extensions import override

from crewlog.activities.ai_messages import parse_tool_calls
from crewlog.activities.model_errors import ErrorBody
from crewlog.state.finish_reason import REASONING_KEYS

_EXTRA_FIELDS = (*REASONING_KEYS, "refusal")
_ERROR_KEYS = ("error", "detail", "message", "msg")
"""The keys of an error's text in a body that is not a reply."""
_CONTENT_FILTER = "content_filter"


# Not a pydantic model: its fields would override those of the client, which have other aliases.
if TYPE_CHECKING:
    _Client = BaseChatOpenAI
else:
    _Client = object


class OpenAIDialect(_Client):
    """Fixes of LangChain's clients of OpenAI's API, which lose parts of responses."""

    @override
    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: Any = None
    ) -> ChatResult:
        if not isinstance(response, dict | openai.BaseModel):  # pyright: ignore[reportUnnecessaryIsInstance]
            return super()._create_chat_result(response, generation_info)
        data: dict[str, Any] = (
            response if isinstance(response, dict) else response.model_dump(warnings=False)
        )
        _check_body(data)
        if not data.get("choices"):
            raise ErrorBody("it has no choices", data)
        messages = [dict(choice.get("message") or {}) for choice in data["choices"]]
        ends = [choice.get("finish_reason") for choice in data["choices"]]
        for choice, end in zip(data["choices"], ends, strict=True):
            # LangChain's own parser fails on arguments that are not an object.
            (choice.get("message") or {}).pop("tool_calls", None)
            if end == _CONTENT_FILTER:  # Azure's client would raise an error
                choice["finish_reason"] = None
        result = super()._create_chat_result(data, generation_info)
        for generation, message, end in zip(result.generations, messages, ends, strict=True):
            reply = cast("AIMessage", generation.message)
            _copy_fields(reply, message)
            calls = message.get("tool_calls") or ()
            reply.tool_calls, reply.invalid_tool_calls = parse_tool_calls(map(_parse_call, calls))
            if end == _CONTENT_FILTER:
                generation.generation_info = {
                    **(generation.generation_info or {}),
                    "finish_reason": end,
                }
        return result

    @override
    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: Any
    ) -> ChatGenerationChunk | None:
        _check_body(chunk)
        choices = chunk.get("choices") or ()
        delta: dict[str, Any] = (choices[0].get("delta") or {}) if choices else {}
        # LangChain drops the calls that have no number.
        calls = delta.pop("tool_calls", None) or ()
        generation = super()._convert_chunk_to_generation_chunk(
            chunk, default_chunk_class, base_generation_info
        )
        if generation is not None and isinstance(generation.message, AIMessageChunk):
            _copy_fields(generation.message, delta)
            generation.message.tool_call_chunks += [
                tool_call_chunk(index=raw.get("index"), **_parse_call(raw)) for raw in calls
            ]
        return generation

    @override
    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)  # pyright: ignore[reportUnknownVariableType]
        if "messages" in payload:
            _add_reasoning(self._convert_input(input_).to_messages(), payload["messages"])
        else:
            _move_response_format(payload)
        return payload


def with_openai_fixes(model: BaseChatModel) -> BaseChatModel:
    """Returns a chat model with the fixes of `OpenAIDialect`, if its client is one of OpenAI's."""
    if isinstance(model, BaseChatOpenAI) and not isinstance(model, OpenAIDialect):
        # Each provider makes its client in its own way, so only the class is replaced.
        object.__setattr__(model, "__class__", _fixed_class(type(model)))
    return model


@lru_cache
def _fixed_class(client: type[BaseChatOpenAI]) -> type[BaseChatOpenAI]:
    return cast("type[BaseChatOpenAI]", new_class(client.__name__, (OpenAIDialect, client)))


def _check_body(body: Mapping[str, Any]) -> None:
    """Checks the body of a response with status 200.

    Raises:
        ErrorBody: it is an error.
    """
    if not body.get("choices") and any(body.get(key) for key in _ERROR_KEYS):
        raise ErrorBody("it is an error", body)


def _move_response_format(payload: dict[str, Any]) -> None:
    """Moves the response format to the key of the Responses API."""
    extra: dict[str, Any] = dict(payload.get("extra_body") or {})
    response_format = extra.pop("response_format", None)
    if not isinstance(response_format, Mapping):
        return
    form = cast("Mapping[str, Any]", response_format)
    text: dict[str, Any] = {**(payload.get("text") or {})}
    text["format"] = {"type": form["type"], **form["json_schema"]}
    payload |= {"extra_body": extra, "text": text}


def _parse_call(raw: Mapping[str, Any]) -> dict[str, Any]:
    function: Mapping[str, Any] = raw.get("function") or {}
    return {
        "id": raw.get("id"),
        "name": function.get("name"),
        "args": function.get("arguments"),
    }


def _copy_fields(message: BaseMessage, fields: Mapping[str, Any]) -> None:
    for key in _EXTRA_FIELDS:
        if fields.get(key):
            message.additional_kwargs[key] = fields[key]


def _add_reasoning(messages: Sequence[BaseMessage], sent: Sequence[dict[str, Any]]) -> None:
    """Adds the reasoning of each message to the request."""
    for message, data in zip(messages, sent, strict=True):
        extra = message.additional_kwargs
        if extra and isinstance(message, AIMessage):
            data.update({key: extra[key] for key in REASONING_KEYS if extra.get(key)})
