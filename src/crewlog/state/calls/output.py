"""Outputs that calls set, and structured outputs."""

from __future__ import annotations

from typing import Literal

from crewlog.canonical_json import canonical, hash_json
from crewlog.ids import ContentHash
from crewlog.model import Json, Model

INLINE_BYTES = 256
"""Bytes of an output's JSON that the journal and the state have themselves; larger ones are bodies
that they name."""


class OutputValue(Model):
    """An output that a call set: inline where its JSON is at most 256 bytes, else by its body."""

    key: str
    value: Json = None
    body: ContentHash | None = None
    content: Json = None
    """The large value itself, once, for the history."""
    recipients: tuple[str, ...] | None = None
    """Of an item that is for somebody: whom it names. None: it is no such item."""


class StructuredOutput(Model):
    """What a final message says, where it must be of a form: its fields, as outputs."""

    how: Literal["json", "lenient"] = "json"
    """Exactly as asked, or it was clear what was meant."""
    outputs: tuple[OutputValue, ...] = ()
    """The fields that it has."""


def addressed_items(key: str, value: Json, tag: str) -> list[OutputValue]:
    """The items of a value, each as a value of its own; a value that is no list is its one item.

    Args:
        key: The output.
        value: Its value.
        tag: The key of an item that names whom it is for.
    """
    items: list[Json] = value if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownVariableType]
    return [_item(key, item, tag) for item in items]


def _item(key: str, item: Json, tag: str) -> OutputValue:
    named: Json = item.get(tag) if isinstance(item, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    said = named if isinstance(named, list) else [named]  # pyright: ignore[reportUnknownVariableType]
    whom = tuple(each for each in said if isinstance(each, str))  # pyright: ignore[reportUnknownVariableType]
    if len(canonical(item)) <= INLINE_BYTES:
        return OutputValue(key=key, value=item, recipients=whom)
    return OutputValue(key=key, body=hash_json(item), content=item, recipients=whom)
