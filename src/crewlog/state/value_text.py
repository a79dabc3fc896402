"""Values as text for people: plans, lists of tasks, and the actions of a review."""

from __future__ import annotations

import json
from typing import NamedTuple, cast

from crewlog.model import Json
from crewlog.state.excerpt import excerpt

_WHO = ("agent", "target")
_WHAT = ("task", "directive", "what", "title")
_LONGEST = 400
"""Characters of one item."""
_MOST = 60
"""Items that have a line of their own."""


class PlannedItem(NamedTuple):
    """The known fields of a planned item."""

    id: str = ""
    who: str = ""
    what: str = ""
    after: tuple[str, ...] = ()


def planned(item: Json) -> PlannedItem:
    """The id, agent, task and dependencies of a list item, as far as it has them."""
    if not isinstance(item, dict):
        return PlannedItem(what="" if item is None else _words(item))
    pairs = cast("dict[str, Json]", item)
    what = _text(pairs, _WHAT)
    after = pairs.get("after")
    waits = tuple(map(str, after)) if isinstance(after, list) else ()  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return PlannedItem(
        id=_text(pairs, ("id",)), who=_text(pairs, _WHO), what=what or _words(pairs), after=waits
    )


def value_text(value: Json) -> str:
    """A value as text; a list has one line per item: `2. cart (backend, after prices): …`."""
    if not isinstance(value, list):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
    lines = [f"{number}. {_line(planned(item))}" for number, item in enumerate(items[:_MOST], 1)]
    more = len(items) - _MOST
    return "\n".join([*lines, *([f"and {more} more"] if more > 0 else [])])


def _line(item: PlannedItem) -> str:
    about = [item.who] if item.who else []
    about += [f"after {' and '.join(item.after)}"] if item.after else []
    head = item.id + (f" ({', '.join(about)})" if about else "")
    return (
        f"{head.strip()}: {excerpt(item.what, _LONGEST)}" if head else excerpt(item.what, _LONGEST)
    )


def _text(pairs: dict[str, Json], keys: tuple[str, ...]) -> str:
    return next((str(pairs[key]) for key in keys if isinstance(pairs.get(key), str | int)), "")


def _words(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
