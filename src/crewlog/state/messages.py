"""Message bodies: LangChain messages as compact JSON, and back.

The store keeps a body by its hash. A body has the `type` of the message and its fields that are not
empty. The constructors are a closed list: a body cannot create any other class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from crewlog.canonical_json import utf8_json
from crewlog.errors import InternalError
from crewlog.model import Json

MESSAGE_TYPES: Mapping[str, type[BaseMessage]] = {
    "ai": AIMessage,
    "human": HumanMessage,
    "system": SystemMessage,
    "tool": ToolMessage,
}
_FIELDS = (
    "content",
    "name",
    "id",
    "tool_calls",
    "invalid_tool_calls",
    "usage_metadata",
    "tool_call_id",
    "status",
    "additional_kwargs",
    "response_metadata",
    "artifact",
)
_KNOWN = frozenset(_FIELDS)
_DEFAULTS: Mapping[str, Json] = {"status": "success"}


def message_to_json(message: BaseMessage) -> dict[str, Json]:
    """A message as a body: its type and the fields that are not empty, as valid UTF-8.

    The total of tokens is left out if it is the sum of input and output tokens.
    """
    kind = "ai" if isinstance(message, AIMessage) else message.type
    if kind not in MESSAGE_TYPES:
        raise InternalError(f"a message of the type {message.type!r} cannot be kept")
    # `content` and metadata may hold models: `model_dump` converts them too.
    try:
        data = message.model_dump(mode="json", include=set(_FIELDS))
    except UnicodeEncodeError:  # pydantic encodes keys as UTF-8, and one has a lone surrogate
        given = {key: utf8_json(getattr(message, key)) for key in _FIELDS if hasattr(message, key)}
        data = message.model_copy(update=given).model_dump(mode="json", include=set(_FIELDS))
    found = {
        key: utf8_json(data[key])
        for key in _FIELDS
        if data.get(key) not in (None, "", [], {}, _DEFAULTS.get(key, ""))
    }
    usage = found.get("usage_metadata")
    if usage and usage.get("total_tokens") == _total_tokens(usage):
        del usage["total_tokens"]
    return {"type": kind, "content": utf8_json(data["content"]), **found}


def _total_tokens(usage: Mapping[str, Json]) -> int:
    return (usage.get("input_tokens") or 0) + (usage.get("output_tokens") or 0)


def is_message(body: Json) -> bool:
    """Whether a body is a message. Other bodies are values."""
    return isinstance(body, dict) and body.get("type") in MESSAGE_TYPES  # pyright: ignore[reportUnknownMemberType]


def message_from_json(body: Mapping[str, Json]) -> BaseMessage:
    """The message of a body.

    Raises:
        InternalError: the type or a field is not on the list, or the body is not a message.
    """
    data: dict[str, Any] = dict(body)
    kind = data.pop("type", None)
    if not isinstance(kind, str) or kind not in MESSAGE_TYPES:
        raise InternalError(f"a stored message has the unknown type {kind!r}")
    if unknown := data.keys() - _KNOWN:  # LangChain's messages accept any field
        raise InternalError(f"a stored message has the unknown fields {sorted(unknown)}")
    try:
        if usage := data.get("usage_metadata"):
            data["usage_metadata"] = {"total_tokens": _total_tokens(usage), **usage}
        return MESSAGE_TYPES[kind](**data)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InternalError(f"a stored message of the type {kind!r} is none: {error}") from error
