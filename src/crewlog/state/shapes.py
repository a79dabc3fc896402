"""What the items of a list say of how they are worked on: who does it, and what it comes after.

    [{"id": "api", "agent": "backend", "task": …}, {"id": "page", "agent": "web", "after": ["api"]}]

The workflow routes by that and by nothing else of an item; a long list's bodies it never reads. So
the shape of a list is kept beside its hash, and is read as leniently as models write: a number is
an id, and one id is a list of one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from pydantic import Field

from crewlog.model import Json, Model

LONGEST_ID = 64
"""Characters of an id, or of an agent's name, in an item."""


class Shape(Model):
    """What an item says of how it is worked on."""

    id: str = ""
    """The name by which other items wait for it; empty: none."""
    named: dict[str, str] = Field(default_factory=dict[str, str])
    """The agents that it names, by the key at which it does."""
    after: tuple[str, ...] = ()
    """The ids of the items that it waits for."""
    fault: str = ""
    """What is wrong with what it says, for people."""


def shape_of(item: Json, keys: Collection[str]) -> Shape:
    """What an item says of how it is worked on.

    Args:
        item: The item; what is no object says nothing.
        keys: The keys at which it may name an agent.
    """
    if not isinstance(item, dict):
        return Shape()
    fields: dict[str, Json] = item  # pyright: ignore[reportUnknownVariableType]
    faults: list[str] = []
    named = {
        key: name
        for key in sorted(keys)
        if (name := _name(fields.get(key), f"its {key!r}", faults))
    }
    after: Json = fields.get("after")
    if after is None or after == "":
        waits: list[Any] = []
    else:
        waits = after if isinstance(after, list) else [after]  # pyright: ignore[reportUnknownVariableType]
    return Shape(
        id=_name(fields.get("id"), "its id", faults),
        named=named,
        after=tuple(dict.fromkeys(_name(each, "its 'after'", faults, some=True) for each in waits)),
        fault="; ".join(dict.fromkeys(faults)),
    )


def shapes_of(items: Sequence[Json], keys: Collection[str]) -> tuple[Shape, ...]:
    """What a list's items say of how they are worked on; empty where that is nothing.

    Ids alone say nothing: nobody waits for them, and nobody asked for them to be different.
    """
    found = tuple(shape_of(item, keys) for item in items)
    return found if keys or any(shape.after for shape in found) else ()


def _name(value: Json, what: str, faults: list[str], *, some: bool = False) -> str:
    """A name as a text; what is none is a fault."""
    if value is None and not some:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or (some and not value):
        faults.append(f"{what} is {_kind(value)} and no name")
        return ""
    if len(value) > LONGEST_ID:
        faults.append(f"{what} has {len(value)} characters, and at most {LONGEST_ID} are a name")
        return value[:LONGEST_ID]
    return value


def _kind(value: Json) -> str:
    kinds = {str: "empty", bool: "a truth value", dict: "an object", list: "a list"}
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    return kinds.get(kind, "null" if value is None else "a number")
