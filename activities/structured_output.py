"""Structured outputs on a worker: the request to the provider, and the parsing of the message.

Providers can make a model follow a schema. A request asks for that unless the model also gets
tools, which it must be free to call. A provider that does not support it rejects the first request,
and then is called without. The message is parsed in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from langchain_core.messages import BaseMessage
from temporalio import activity

from crewlog.activities.caches import LruCache
from crewlog.canonical_json import canonical, hash_json, utf8_json
from crewlog.definition.model import AgentDefinition
from crewlog.definition.reading import Form
from crewlog.ids import ContentHash
from crewlog.model import Json
from crewlog.redaction import redacted_json
from crewlog.state.calls import INLINE_BYTES, OutputValue, StructuredOutput, addressed_items

LONG = 2_000
"""Characters of a reply that is read in a thread: others must not wait for it."""
_SERVICES = ("openai", "anthropic", "google_genai", "ollama")
_STRICT = frozenset({"type", "enum", "const", "items", "properties", "description", "anyOf"})
"""What a service takes of a schema that it holds a model to."""


@dataclass(frozen=True)
class Reading:
    """What a final message says, with the bodies of what is large in it."""

    reply: StructuredOutput | None = None
    faults: tuple[str, ...] = ()
    """Why it is not of its form."""
    bodies: Mapping[ContentHash, Json] = field(default_factory=dict[ContentHash, Json])


async def parse_output(form: Form, message: BaseMessage) -> Reading:
    """What a final message says, by the form that it must have."""
    text = str(message.text)
    if len(text) > LONG:
        return await asyncio.to_thread(_read, form, text)
    return _read(form, text)


def _read(form: Form, text: str) -> Reading:
    read = form.read(text)
    if read.faults:
        # They may repeat what the model said.
        return Reading(faults=tuple(redacted_json(utf8_json(list(read.faults)))))
    outputs: list[OutputValue] = []
    bodies: dict[ContentHash, Json] = {}
    for key, given in form.fields(read.value).items():
        value = redacted_json(utf8_json(given))
        if tag := form.reply.tagged.get(key):
            outputs += addressed_items(key, value, tag)
        elif len(canonical(value)) <= INLINE_BYTES:
            outputs.append(OutputValue(key=key, value=value))
        else:
            outputs.append(OutputValue(key=key, body=hash_json(value), content=value))
    bodies |= {each.body: each.content for each in outputs if each.body is not None}
    return Reading(StructuredOutput(how=read.how, outputs=tuple(outputs)), bodies=bodies)


class ResponseFormats:
    """Which models are held to a form by their services."""

    def __init__(self) -> None:
        self._without: LruCache[str, bool] = LruCache(256)
        """Models whose services do not know it."""

    def of(
        self, model: str, agent: AgentDefinition, form: Form, tools: Sequence[str]
    ) -> dict[str, Any]:
        """What a request says besides; empty where the service is not asked for the form."""
        prefix = model.partition(":")[0]
        extra = agent.model_settings.get("extra_body")
        # A service may fail of the form itself: another try is without.
        again = activity.info().attempt > 1
        if prefix not in _SERVICES or tools or again or self._without.get(model):
            return {}
        if "response_format" in agent.model_settings or not isinstance(extra, dict | None):
            return {}
        schema = form.shown
        if schema.get("type") != "object":
            return {}
        strict = form.reply.decision is not None
        named: dict[str, Json] = {
            "name": form.reply.decision or "reply",
            "schema": _strict(schema) if strict else schema,
            "strict": strict,
        }
        if prefix == "ollama":
            return {"format": schema}
        asked = {"response_format": {"type": "json_schema", "json_schema": named}}
        if prefix != "openai":  # LangChain puts it into the words of these services
            return asked
        # Past the client's own reading of replies, which fails where they are cut off.
        return {"extra_body": {**cast("dict[str, Json]", extra or {}), **asked}}

    def disable(self, model: str) -> None:
        """Asks a model without a form from now on: its service answers only without."""
        self._without.put(model, True)


def _strict(schema: Any) -> Any:
    """A schema as services want it: all fields are there, no others, and no rules they lack."""
    if not isinstance(schema, dict):
        return schema
    whole = cast("dict[str, Any]", schema)
    if "$ref" in whole:
        return {"$ref": whole["$ref"]}
    out: dict[str, Any] = {}
    for key, value in whole.items():
        if key in ("properties", "$defs"):
            out[key] = {name: _strict(each) for name, each in value.items()}
        elif key == "anyOf":
            out[key] = [_strict(each) for each in value]
        elif key in _STRICT:
            out[key] = _strict(value)
    if whole.get("type") == "object":
        out["required"] = list(whole.get("properties", {}))
        out["additionalProperties"] = False
    return out
