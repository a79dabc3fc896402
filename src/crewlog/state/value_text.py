"""Values as text for people: plans, lists of tasks, and the actions of a review."""

from __future__ import annotations

import json
from typing import NamedTuple, cast

from crewlog.model import Json
from crewlog.state.excerpt import excerpt

_AGENT_KEYS = ("agent", "target")
_TASK_KEYS = ("task", "directive", "what", "title")
_MAX_CHARACTERS = 400
"""Characters of one item."""
_MAX_LINES = 60
"""The most items that get a line."""


class PlannedItem(NamedTuple):
    """The known fields of a planned item."""

    id: str = ""
    who: str = ""
    what: str = ""
    after: tuple[str, ...] = ()


def planned_item(item: Json) -> PlannedItem:
    """The id, agent, task and dependencies of a list item, as far as it has them."""
    if not isinstance(item, dict):
        return PlannedItem(what="" if item is None else _json_text(item))
    fields = cast("dict[str, Json]", item)
    task = _first_text(fields, _TASK_KEYS)
    after = fields.get("after")
    dependencies = tuple(map(str, after)) if isinstance(after, list) else ()  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return PlannedItem(
        id=_first_text(fields, ("id",)),
        who=_first_text(fields, _AGENT_KEYS),
        what=task or _json_text(fields),
        after=dependencies,
    )


def value_text(value: Json) -> str:
    """A value as text; a list has one line per item: `2. cart (backend, after prices): …`."""
    if not isinstance(value, list):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
    lines = [
        f"{number}. {_item_line(planned_item(item))}"
        for number, item in enumerate(items[:_MAX_LINES], 1)
    ]
    more = len(items) - _MAX_LINES
    return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])])


def _item_line(item: PlannedItem) -> str:
    details = [item.who] if item.who else []
    details += [f"after {' and '.join(item.after)}"] if item.after else []
    head = item.id + (f" ({', '.join(details)})" if details else "")
    return (
        f"{head.strip()}: {excerpt(item.what, _MAX_CHARACTERS)}"
        if head
        else excerpt(item.what, _MAX_CHARACTERS)
    )


def _first_text(fields: dict[str, Json], keys: tuple[str, ...]) -> str:
    return next((str(fields[key]) for key in keys if isinstance(fields.get(key), str | int)), "")


def _json_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
