"""LangChain's client of OpenAI's services, with what it loses of services of that kind.

It drops the reasoning that such services send beside the text, and want back within the turn; a
refusal that comes in pieces; and a whole reply of which one call has arguments that are no object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import openai
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from typing_extensions import override

from crewlog.activities.tool_arguments import read_calls
from crewlog.state.endings import REASONING_KEYS

_KEPT = (*REASONING_KEYS, "refusal")


class OpenAIChat(ChatOpenAI):
    """A chat model of OpenAI, or of a service that speaks its language."""

    @override
    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: Any = None
    ) -> ChatResult:
        if not isinstance(response, dict | openai.BaseModel):
            return super()._create_chat_result(response, generation_info)
        data: dict[str, Any] = (
            response if isinstance(response, dict) else response.model_dump(warnings=False)
        )
        said = [choice.get("message") or {} for choice in data.get("choices") or ()]
        # LangChain reads them in its own way, and gives up a reply with one that is no object.
        asked = [message.pop("tool_calls", None) for message in said]
        result = super()._create_chat_result(data, generation_info)
        for generation, message, calls in zip(result.generations, said, asked, strict=False):
            reply = cast("AIMessage", generation.message)
            _keep(reply, message)
            reply.tool_calls, reply.invalid_tool_calls = read_calls(map(_call, calls or ()))
        for generation, choice in zip(
            result.generations, getattr(response, "choices", None) or (), strict=False
        ):
            if (parsed := getattr(choice.message, "parsed", None)) is not None:
                generation.message.additional_kwargs["parsed"] = parsed
        return result

    @override
    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: Any
    ) -> ChatGenerationChunk | None:
        found = super()._convert_chunk_to_generation_chunk(
            chunk, default_chunk_class, base_generation_info
        )
        choices = chunk.get("choices") or ()
        if found is not None and choices and isinstance(found.message, AIMessageChunk):
            _keep(found.message, choices[0].get("delta") or {})
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
