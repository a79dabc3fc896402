"""Message bodies: LangChain messages as compact JSON, and back.

A body is what the store keeps by its hash. It has the fields of the message that are not empty,
and its `type`; the constructors are a closed list, so a body can never make anything else.
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

from crewlog.content import scrubbed
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
_DEFAULTS: Mapping[str, Json] = {"status": "success"}


def message_to_json(message: BaseMessage) -> dict[str, Json]:
    """A message as a body: its type and the fields that say something, scrubbed."""
    kind = "ai" if isinstance(message, AIMessage) else message.type
    if kind not in MESSAGE_TYPES:
        raise InternalError(f"a message of the type {message.type!r} cannot be kept")
    # `model_dump` makes plain data of nested models, which `content` and metadata may hold.
    try:
        data = message.model_dump(mode="json", include=set(_FIELDS))
    except UnicodeEncodeError:  # a key of a dict has a lone surrogate: pydantic makes UTF-8 of keys
        given = {key: scrubbed(getattr(message, key)) for key in _FIELDS if hasattr(message, key)}
        data = message.model_copy(update=given).model_dump(mode="json", include=set(_FIELDS))
    found = {
        key: scrubbed(data[key])
        for key in _FIELDS
        if data.get(key) not in (None, "", [], {}, _DEFAULTS.get(key, ""))
    }
    return {"type": kind, "content": scrubbed(data["content"]), **found}


def message_from_json(body: Mapping[str, Json]) -> BaseMessage:
    """The message of a body.

    Raises:
        InternalError: for a type that is not on the list.
    """
    data: dict[str, Any] = dict(body)
    kind = data.pop("type", None)
    if not isinstance(kind, str) or kind not in MESSAGE_TYPES:
        raise InternalError(f"a stored message has the unknown type {kind!r}")
    return MESSAGE_TYPES[kind](**data)
