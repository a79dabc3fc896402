"""Outputs that calls set, and structured outputs."""

from __future__ import annotations

from typing import Literal

from crewlog.canonical_json import canonical, hash_json
from crewlog.ids import ContentHash
from crewlog.model import Json, Model

INLINE_BYTES = 256
"""The most bytes of JSON of an output that the journal and the state contain themselves. A larger
output is a body that they refer to by its hash."""


class OutputValue(Model):
    """An output that a call set: inline if its JSON has at most 256 bytes, else as a body."""

    key: str
    value: Json = None
    body: ContentHash | None = None
    """The hash of the body; none for an inline value."""
    content: Json = None
    """The value of the body, once, for the history."""
    recipients: tuple[str, ...] | None = None
    """Of an addressed item: the agents that it names. None for any other value."""


class StructuredOutput(Model):
    """The fields of a final message that has to satisfy a schema."""

    how: Literal["json", "lenient"] = "json"
    """`json`: the message is the JSON that was asked for. `lenient`: the JSON was found in other
    text."""
    outputs: tuple[OutputValue, ...] = ()
    """The fields that the message has, as outputs."""


def addressed_items(key: str, value: Json, tag: str) -> list[OutputValue]:
    """The addressed items of a list, each as a value; any other value is the only item.

    Args:
        key: The output.
        value: Its value.
        tag: The key of an item that names its recipients.
    """
    items: list[Json] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    return [_addressed_item(key, item, tag) for item in items]


def _addressed_item(key: str, item: Json, tag: str) -> OutputValue:
    value: Json = item.get(tag) if isinstance(item, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    names = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    recipients = tuple(each for each in names if isinstance(each, str))  # pyright: ignore[reportUnknownVariableType]
    if len(canonical(item)) <= INLINE_BYTES:
        return OutputValue(key=key, value=item, recipients=recipients)
    return OutputValue(key=key, body=hash_json(item), content=item, recipients=recipients)
