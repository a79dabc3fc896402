"""Values that several steps set, put together as `merge` says; what does not fit is a conflict.

    conflict(how, there, value)  why a value does not fit, asked before it is journaled
    combined(how, there, value)  what there is after it, asked by `reduce`

The first value stays where two do not fit. What is put together stays in the state, whole, since
the next one is put to it there: so it is bounded, and more than that is a conflict, too. A list
that is to be longer is `append`'s, whose values are kept by their hashes.

Values that several steps set, as a list: each at its place, whenever it came.

What ordinary steps add stands in the order of the journal. The steps of one list's items run side
by side, and which is faster must not tell in what is made of them: what they add stands in the
order of the items, where the first of the visit would stand that mapped the list.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from crewlog.canonical_json import canonical
from crewlog.ids import FlagName, StepId
from crewlog.model import Json
from crewlog.state.excerpt import excerpt
from crewlog.state.model import CrewState, ElementPosition, ListElement, Output

SMALL = 256
"""Bytes of JSON of a list that conditions see, as of any value."""


def element_position(state: CrewState, step: StepId | None, position: int) -> ElementPosition:
    """Where a value stands that a step adds at a position."""
    child = state.frontier.get(step) if step is not None else None
    parent = state.frontier.get(child.parent) if child is not None and child.parent else None
    if child is None or parent is None or parent.child_steps is None:
        return (position, 0)
    return (parent.child_steps.position, child.item)


def with_value(
    values: Json, places: tuple[ElementPosition, ...], value: Json, place: ElementPosition
) -> tuple[list[Json], tuple[ElementPosition, ...]]:
    """A flag's list with one more value, and the places of all.

    Args:
        values: The flag's value so far; what is no list counts for nothing.
        places: Where those stand that steps added, in order.
        value: The value.
        place: Where it stands.
    """
    listed: list[Json] = list(values) if isinstance(values, list) else []  # pyright: ignore[reportUnknownArgumentType]
    return list_with_values(listed, places, [value], place)


def list_with_values(
    listed: list[Json],
    places: tuple[ElementPosition, ...],
    values: list[Json],
    place: ElementPosition,
) -> tuple[list[Json], tuple[ElementPosition, ...]]:
    """As `with_value`, with several that one step adds: they stand side by side."""
    # What the list began with stands before all that steps add.
    known = (*((0, 0),) * (len(listed) - len(places)), *places)
    at = bisect_right(known, place)
    return (
        [*listed[:at], *values, *listed[at:]],
        (*known[:at], *(place for _ in values), *known[at:]),
    )


def output_with_value(output: Output | None, part: ListElement, position: int) -> Output:
    """An output that is a list, with one more value."""
    parts = values_in_order(output.elements if output else (), (part,))
    return Output(value=_small_list(parts), elements=parts, position=position)


def values_in_order(
    parts: tuple[ListElement, ...], new: tuple[ListElement, ...]
) -> tuple[ListElement, ...]:
    """Parts in their order, with those that one step adds, all at one place."""
    if not new:
        return parts
    at = bisect_right([each.position for each in parts], new[0].position)
    return (*parts[:at], *new, *parts[at:])


def _small_list(parts: tuple[ListElement, ...]) -> Json:
    """The values of a list, where all of it is small."""
    if len(parts) > SMALL or any(each.body is not None for each in parts):
        return None
    values = [each.value for each in parts]
    return values if len(canonical(values)) <= SMALL else None


CONFLICTS = FlagName("conflicts")
"""The flag that counts the conflicts of a run."""
CONFLICTING = ("union", "sum", "max", "min", "update", "agree")
"""The ways of merging in which a value may not fit."""
LISTS = ("append", "union")
"""Those that make a list of what is set."""
MOST = 16_384
"""Bytes of JSON of what is put together, at most: every execution carries it."""
MOST_VALUES = 1_000
"""Values of a `union`, at most: each has a place and an audience of its own in the state."""


def conflicts(flags: Mapping[FlagName, Json]) -> int:
    """How many conflicts a run has had."""
    found = flags.get(CONFLICTS)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def conflict(how: str, there: Json, value: Json) -> str:
    """Why a value does not fit what is there, for people; empty where it does.

    Args:
        how: How the two combine: see `Merge`.
        there: What is there; none: nothing has been set.
        value: What is to be set; null says nothing, and always fits.
    """
    if value is None or how not in CONFLICTING:
        return ""
    try:
        if why := _unfit(how, there, value):
            return why
        whole = _whole(how, there, value)
        many: list[Json] = whole if how == "union" and isinstance(whole, list) else []  # pyright: ignore[reportUnknownVariableType]
        count = len(many)
        if count > MOST_VALUES:
            return f"together they are {count:,} values, and at most {MOST_VALUES:,} are kept"
        size = len(canonical(whole))
    except (OverflowError, ValueError, RecursionError):
        # 1e308 twice, a whole number of thousands of digits, or what is nested without end.
        what = "number" if how == "sum" else "value"
        return f"together they are no {what} that can be kept"
    if size > MOST:
        return f"together they have {size:,} bytes of JSON, and at most {MOST:,} are put together"
    return ""


def _unfit(how: str, there: Json, value: Json) -> str:
    if how == "agree":
        same = there is None or canonical(there) == canonical(value)
        return "" if same else "the two are not the same"
    if how == "update":
        return _conflicting_keys(there, value)
    if how in ("sum", "max", "min"):
        texts = how != "sum" and isinstance(value, str) and isinstance(there, str | None)
        fit = texts or (_is_number(value) and (there is None or _is_number(there)))
        return "" if fit else f"{how!r} takes numbers{'' if how == 'sum' else ', or texts,'} only"
    return ""


def _conflicting_keys(there: Json, value: Json) -> str:
    if not _is_object(value) or not (there is None or _is_object(there)):
        return "'update' takes objects only"
    known: dict[str, Json] = there or {}
    others = [
        key for key in value if key in known and canonical(known[key]) != canonical(value[key])
    ]
    return (
        f"{excerpt(', '.join(map(repr, others)), 80)} is there with another value" if others else ""
    )


def reduced_value(how: str, there: Json, value: Json) -> Json:
    """What a flag or an output is after a value that fits; how lists grow is `added`'s affair."""
    if how != "update":
        return value
    return _whole(how, there, value) if _is_object(value) else there


def settled(how: str, there: Json, value: Json) -> Json:
    """What is journaled of a value that fits: what comes to an object, else what there is then."""
    if value is None:
        return there
    return value if how in ("update", *LISTS) else _whole(how, there, value)


def _whole(how: str, there: Json, value: Json) -> Json:
    """The two put together."""
    if how == "union":
        return _each_once([*elements(there), *elements(value)])
    if there is None:
        return value
    if how == "update":
        whole: dict[str, Json] = {**there, **value}
        return {key: whole[key] for key in sorted(whole)}
    if how == "sum":
        return there + value
    if how in ("max", "min"):
        if there == value:  # 1 and 1.0: whichever was first must not tell
            return min(there, value, key=canonical)
        return max(there, value) if how == "max" else min(there, value)
    return there


def elements(value: Json) -> list[Json]:
    """What a value adds to a list in which each stands once: the values of a list, or itself."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownArgumentType]


def appended_values(
    how: str, values: Json, places: tuple[ElementPosition, ...], value: Json, place: ElementPosition
) -> tuple[list[Json], tuple[ElementPosition, ...]]:
    """A flag's list with what a step adds to it, and the places of all: see `with_value`."""
    if how != "union":
        return with_value(values, places, value, place)
    listed, places = list_with_values(elements(values), places, elements(value), place)
    begun = len(listed) - len(places)
    first = _first_indexes([canonical(each) for each in listed])
    return [listed[at] for at in first], tuple(places[at - begun] for at in first if at >= begun)


def output_with_write(how: str, output: Output | None, part: ListElement, position: int) -> Output:
    """An output that is a list with what a step adds to it: see `output_with_value`."""
    if how != "union":
        return output_with_value(output, part, position)
    new = tuple(part.model_copy(update={"value": each}) for each in elements(part.value))
    parts = values_in_order(output.elements if output is not None else (), new)
    # A large value that people put in is known by its hash alone.
    first = _first_indexes([each.body or canonical(each.value) for each in parts])
    parts = tuple(parts[at] for at in first)
    values = None if any(each.body for each in parts) else [each.value for each in parts]
    return Output(value=values, elements=parts, position=position)


def _each_once(values: list[Json]) -> list[Json]:
    return [values[at] for at in _first_indexes([canonical(each) for each in values])]


def _first_indexes(values: Sequence[bytes | str]) -> list[int]:
    """Where each value stands first."""
    first: dict[bytes | str, int] = {}
    for at, value in enumerate(values):
        first.setdefault(value, at)
    return list(first.values())


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_object(value: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(value, dict)
