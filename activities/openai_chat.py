"""LangChain's clients of services of OpenAI's kind, with what they lose of what a service says.

They drop the reasoning that such services send beside the text, and want back within the turn; a
refusal that comes in pieces; pieces of tool calls that have no number; a whole reply of which one
call has arguments that are no object; and the words of an error in an answer 200.
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
from langchain_openai import ChatOpenAI
from langchain_openai.chat_models.base import BaseChatOpenAI
from typing_extensions import override

from crewlog.activities.ai_messages import parse_tool_calls
from crewlog.activities.model_errors import ErrorBody
from crewlog.state.finish_reason import REASONING_KEYS

_KEPT = (*REASONING_KEYS, "refusal")
_ERRORS = ("error", "detail", "message", "msg")
"""Where a body that is no reply has the words of its error."""
_FILTERED = "content_filter"


# No model of its own: its fields would come before those of the client, which has other aliases.
if TYPE_CHECKING:
    _Client = BaseChatOpenAI
else:
    _Client = object


class OpenAIDialect(_Client):
    """What is kept of a service's answers, for each client that speaks OpenAI's dialect."""

    @override
    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: Any = None
    ) -> ChatResult:
        if not isinstance(response, dict | openai.BaseModel):
            return super()._create_chat_result(response, generation_info)
        data: dict[str, Any] = (
            response if isinstance(response, dict) else response.model_dump(warnings=False)
        )
        _check_body(data)
        if not data.get("choices"):
            raise ErrorBody("it has no choices", data)
        choices = response["choices"] if isinstance(response, dict) else response.choices  # type: ignore[attr-defined]
        said = [dict(choice.get("message") or {}) for choice in data["choices"]]
        ends = [choice.get("finish_reason") for choice in data["choices"]]
        for choice, end in zip(choices, ends, strict=True):
            # LangChain reads calls in its own way, and gives up a reply with one that is no object.
            _unset(_item(choice, "message"), "tool_calls")
            if end == _FILTERED:  # Azure's client raises it, as an error like any other
                _unset(choice, "finish_reason")
        result = super()._create_chat_result(response, generation_info)
        for generation, message, end in zip(result.generations, said, ends, strict=True):
            reply = cast("AIMessage", generation.message)
            _keep(reply, message)
            asked = message.get("tool_calls") or ()
            reply.tool_calls, reply.invalid_tool_calls = parse_tool_calls(map(_call, asked))
            if end == _FILTERED:
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
        asked = delta.pop("tool_calls", None) or ()
        found = super()._convert_chunk_to_generation_chunk(
            chunk, default_chunk_class, base_generation_info
        )
        if found is not None and isinstance(found.message, AIMessageChunk):
            _keep(found.message, delta)
            found.message.tool_call_chunks += [
                tool_call_chunk(index=raw.get("index"), **_call(raw)) for raw in asked
            ]
        return found

    @override
    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        payload: dict[str, Any] = super()._get_request_payload(input_, stop=stop, **kwargs)
        if "messages" in payload:
            _give_back(self._convert_input(input_).to_messages(), payload["messages"])
        else:
            _ask_for_form(payload)
        return payload


class OpenAIChat(OpenAIDialect, ChatOpenAI):
    """A chat model of OpenAI, or of a service that speaks its language."""


def in_dialect(model: BaseChatModel) -> BaseChatModel:
    """A chat model that keeps what its service says, where it speaks OpenAI's dialect."""
    if isinstance(model, BaseChatOpenAI) and not isinstance(model, OpenAIDialect):
        # Providers make their clients in ways of their own: only what a client reads is replaced.
        object.__setattr__(model, "__class__", _with_dialect(type(model)))
    return model


@lru_cache
def _with_dialect(client: type[BaseChatOpenAI]) -> type[BaseChatOpenAI]:
    return cast("type[BaseChatOpenAI]", new_class(client.__name__, (OpenAIDialect, client)))


def _check_body(body: Mapping[str, Any]) -> None:
    """Checks what a service says in an answer 200.

    Raises:
        ErrorBody: it is an error.
    """
    if not body.get("choices") and any(body.get(key) for key in _ERRORS):
        raise ErrorBody("it is an error", body)


def _item(data: Any, key: str) -> Any:
    return data.get(key) if isinstance(data, dict) else getattr(data, key, None)  # pyright: ignore[reportUnknownMemberType]


def _unset(data: Any, key: str) -> None:
    if isinstance(data, dict):
        data[key] = None
    elif data is not None:
        setattr(data, key, None)


def _ask_for_form(payload: dict[str, Any]) -> None:
    """Puts a form of the reply to where the Responses API takes it."""
    extra = dict(payload.get("extra_body") or {})
    asked = extra.pop("response_format", None)
    if not isinstance(asked, Mapping):
        return
    form = cast("Mapping[str, Any]", asked)
    text = {**(payload.get("text") or {}), "format": {"type": form["type"], **form["json_schema"]}}
    payload |= {"extra_body": extra, "text": text}


def _call(raw: Mapping[str, Any]) -> dict[str, Any]:
    function = raw.get("function") or {}
    return {
        "id": raw.get("id"),
        "name": function.get("name"),
        "args": function.get("arguments"),
    }


def _keep(message: BaseMessage, said: Mapping[str, Any]) -> None:
    for key in _KEPT:
        if said.get(key):
            message.additional_kwargs[key] = said[key]


def _give_back(messages: Sequence[BaseMessage], sent: Sequence[dict[str, Any]]) -> None:
    """Puts the reasoning of each message into what is sent of it."""
    for message, data in zip(messages, sent, strict=True):
        extra = message.additional_kwargs
        if extra and isinstance(message, AIMessage):
            data.update({key: extra[key] for key in REASONING_KEYS if extra.get(key)})
