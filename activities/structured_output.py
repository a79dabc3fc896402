"""Structured outputs on a worker: the request to the provider, and the parsing of the message.

Providers can make a model follow a schema. A request asks for that unless the model also gets
tools, which it must be free to call. A provider that does not support it rejects the first request,
and then is called without. The message is parsed in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, cast

from cachetools import LRUCache
from langchain_core.messages import BaseMessage
from temporalio import activity

from crewlog.canonical_json import canonical, hash_json, utf8_json
from crewlog.definition.model import AgentDefinition
from crewlog.definition.reading import Form
from crewlog.ids import ContentHash
from crewlog.model import Json
from crewlog.redaction import redacted_json
from crewlog.state.calls import (
    INLINE_BYTES,
    FinalMessage,
    FinalMessageInvalid,
    OutputValue,
    StructuredOutput,
    addressed_items,
)

LONG_TEXT = 2_000
"""Characters from which a text is parsed in a thread, so that it delays no other call."""
_SERVICES = ("openai", "anthropic", "google_genai", "ollama")
_STRICT_KEYS = frozenset({"type", "enum", "const", "items", "properties", "description", "anyOf"})
"""The keywords of a schema that services support in the strict form."""


Reading = tuple[FinalMessage | FinalMessageInvalid, Mapping[ContentHash, Json]]
"""A final message with its structured output, and the bodies of large values."""


async def parse_output(form: Form, message: BaseMessage) -> Reading:
    """Parses a final message by the structured output that its agent must have."""
    text = str(message.text)
    if len(text) > LONG_TEXT:
        return await asyncio.to_thread(_parse, form, text)
    return _parse(form, text)


def _parse(form: Form, text: str) -> Reading:
    reading = form.read(text)
    if reading.faults:
        # They may quote the text of the model.
        errors = tuple(redacted_json(utf8_json(list(reading.faults))))
        return FinalMessageInvalid(errors=errors), {}
    outputs: list[OutputValue] = []
    for key, field_value in form.fields(reading.value).items():
        value = redacted_json(utf8_json(field_value))
        if tag := form.reply.tagged.get(key):
            outputs += addressed_items(key, value, tag)
        else:
            outputs.append(output_value(key, value))
    bodies = {each.body: each.content for each in outputs if each.body is not None}
    output = StructuredOutput(how=reading.how, outputs=tuple(outputs))
    return FinalMessage(output=output), bodies


def output_value(key: str, value: Json) -> OutputValue:
    """Returns the value of an output: a large one with its hash, under which it is stored."""
    if len(canonical(value)) <= INLINE_BYTES:
        return OutputValue(key=key, value=value)
    return OutputValue(key=key, body=hash_json(value), content=value)


class ResponseFormats:
    """The response formats of requests, for models whose services support them."""

    def __init__(self) -> None:
        self._unsupported: LRUCache[str, bool] = LRUCache(256)
        """Models whose services do not support them."""

    def of(
        self, model: str, agent: AgentDefinition, form: Form, tools: Sequence[str]
    ) -> dict[str, Any]:
        """Returns the options of a request with a response format; empty: without one."""
        prefix = model.partition(":")[0]
        extra = agent.model_settings.get("extra_body")
        # A service may fail because of the format, so a retry goes without.
        is_retry = activity.info().attempt > 1
        if prefix not in _SERVICES or tools or is_retry or self._unsupported.get(model):
            return {}
        if "response_format" in agent.model_settings or not isinstance(extra, dict | None):
            return {}
        schema = form.shown
        if schema.get("type") != "object":
            return {}
        strict = form.reply.decision is not None
        json_schema: dict[str, Json] = {
            "name": form.reply.decision or "reply",
            "schema": _strict_schema(schema) if strict else schema,
            "strict": strict,
        }
        if prefix == "ollama":
            return {"format": schema}
        options = {"response_format": {"type": "json_schema", "json_schema": json_schema}}
        if prefix != "openai":  # LangChain converts it for these services
            return options
        # In `extra_body`, since the client's own parser fails on a reply that is cut off.
        return {"extra_body": {**cast("dict[str, Json]", extra or {}), **options}}

    def disable(self, model: str) -> None:
        """Sends a model no response format from now on."""
        self._unsupported[model] = True


def _strict_schema(schema: Any) -> Any:
    """Returns a schema in the strict form of services: all fields required, no others allowed."""
    if not isinstance(schema, dict):
        return schema
    fields = cast("dict[str, Any]", schema)
    if "$ref" in fields:
        return {"$ref": fields["$ref"]}
    out: dict[str, Any] = {}
    for key, value in fields.items():
        if key in ("properties", "$defs"):
            out[key] = {name: _strict_schema(each) for name, each in value.items()}
        elif key == "anyOf":
            out[key] = [_strict_schema(each) for each in value]
        elif key in _STRICT_KEYS:
            out[key] = _strict_schema(value)
    if fields.get("type") == "object":
        out["required"] = list(fields.get("properties", {}))
        out["additionalProperties"] = False
    return out
