"""Lists of which each item is for somebody: one value an item, with whom it names."""

from __future__ import annotations

from crewlog.content import canonical, hash_json
from crewlog.model import Json
from crewlog.state.calls import INLINE_BYTES, OutputValue


def apart(key: str, value: Json, tag: str) -> list[OutputValue]:
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
        return OutputValue(key=key, value=item, whom=whom)
    return OutputValue(key=key, body=hash_json(item), content=item, whom=whom)
