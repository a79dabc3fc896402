"""Reducers: how several writes to one run output or output make one value.

A write that does not fit is refused, and the value stays. The reduced value is kept in the state,
since the next write is applied to it. So its size is limited, and a write that makes it too large
is refused, too. Longer lists use `append`, whose values are kept by hash.

The values of a list are in the order of the journal. Child steps of one parent step run at the
same time, and their order must not depend on which is faster: their values are in the order of the
items, at the position of the parent step.
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

INLINE_BYTES = 256
"""The most bytes of JSON of a list that conditions can read, as for any value."""


def element_position(state: CrewState, step: StepId | None, position: int) -> ElementPosition:
    """The position of a value that a step adds at a journal position."""
    child = state.frontier.get(step) if step is not None else None
    parent = state.frontier.get(child.parent) if child is not None and child.parent else None
    if child is None or parent is None or parent.child_steps is None:
        return (position, 0)
    return (parent.child_steps.position, child.item)


def list_with_value(
    values: Json, positions: tuple[ElementPosition, ...], value: Json, position: ElementPosition
) -> tuple[list[Json], tuple[ElementPosition, ...]]:
    """A run output's list with one more value, and the positions of all values.

    Args:
        values: The list so far; any other value counts as empty.
        positions: The positions of the values that steps added, in order.
        value: The value.
        position: Its position.
    """
    listed: list[Json] = list(values) if isinstance(values, list) else []  # pyright: ignore[reportUnknownArgumentType]
    return list_with_values(listed, positions, [value], position)


def list_with_values(
    listed: list[Json],
    positions: tuple[ElementPosition, ...],
    values: list[Json],
    position: ElementPosition,
) -> tuple[list[Json], tuple[ElementPosition, ...]]:
    """The same with several values that one step adds at one position."""
    # What the list began with stands before all that steps add.
    known = (*((0, 0),) * (len(listed) - len(positions)), *positions)
    at = bisect_right(known, position)
    return (
        [*listed[:at], *values, *listed[at:]],
        (*known[:at], *(position for _ in values), *known[at:]),
    )


def output_with_value(output: Output | None, element: ListElement, position: int) -> Output:
    """A list output with one more value."""
    parts = values_in_order(output.elements if output else (), (element,))
    return Output(value=_small_list(parts), elements=parts, position=position)


def values_in_order(
    elements: tuple[ListElement, ...], new: tuple[ListElement, ...]
) -> tuple[ListElement, ...]:
    """The elements in order, with new ones that all have one position."""
    if not new:
        return elements
    at = bisect_right([each.position for each in elements], new[0].position)
    return (*elements[:at], *new, *elements[at:])


def _small_list(parts: tuple[ListElement, ...]) -> Json:
    """The values of a list, if all of it is small."""
    if len(parts) > INLINE_BYTES or any(each.body is not None for each in parts):
        return None
    values = [each.value for each in parts]
    return values if len(canonical(values)) <= INLINE_BYTES else None


CONFLICTS = FlagName("conflicts")
"""The run output that counts the refused writes of a run."""
REFUSING_REDUCERS = ("union", "sum", "max", "min", "update", "agree")
"""The reducers that may refuse a write."""
LIST_REDUCERS = ("append", "union")
"""The reducers that make a list."""
MAX_BYTES = 16_384
"""The most bytes of JSON of a reduced value: every execution carries it."""
MAX_VALUES = 1_000
"""The most values of a `union`: each has a position and an audience in the state."""


def conflict_count(flags: Mapping[FlagName, Json]) -> int:
    """The number of refused writes of a run."""
    found = flags.get(CONFLICTS)
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def conflict_reason(reducer: str, current: Json, value: Json) -> str:
    """Why a write is refused, for people; empty if it fits.

    Args:
        reducer: The reducer.
        current: The present value; none: not set.
        value: The value to write; null always fits and changes nothing.
    """
    if value is None or reducer not in REFUSING_REDUCERS:
        return ""
    try:
        if why := _misfit(reducer, current, value):
            return why
        whole = _whole(reducer, current, value)
        many: list[Json] = whole if reducer == "union" and isinstance(whole, list) else []  # pyright: ignore[reportUnknownVariableType]
        count = len(many)
        if count > MAX_VALUES:
            return f"together they are {count:,} values, and at most {MAX_VALUES:,} are kept"
        size = len(canonical(whole))
    except (OverflowError, ValueError, RecursionError):
        # 1e308 twice, a whole number of thousands of digits, or what is nested without end.
        what = "number" if reducer == "sum" else "value"
        return f"together they are no {what} that can be kept"
    if size > MAX_BYTES:
        return (
            f"together they have {size:,} bytes of JSON, and at most {MAX_BYTES:,} are put together"
        )
    return ""


def _misfit(reducer: str, current: Json, value: Json) -> str:
    if reducer == "agree":
        same = current is None or canonical(current) == canonical(value)
        return "" if same else "the two are not the same"
    if reducer == "update":
        return _conflicting_keys(current, value)
    if reducer in ("sum", "max", "min"):
        texts = reducer != "sum" and isinstance(value, str) and isinstance(current, str | None)
        fit = texts or (_is_number(value) and (current is None or _is_number(current)))
        return (
            ""
            if fit
            else f"{reducer!r} takes numbers{'' if reducer == 'sum' else ', or texts,'} only"
        )
    return ""


def _conflicting_keys(current: Json, value: Json) -> str:
    if not _is_object(value) or not (current is None or _is_object(current)):
        return "'update' takes objects only"
    known: dict[str, Json] = current or {}
    others = [
        key for key in value if key in known and canonical(known[key]) != canonical(value[key])
    ]
    return (
        f"{excerpt(', '.join(map(repr, others)), 80)} is there with another value" if others else ""
    )


def reduced_value(reducer: str, current: Json, value: Json) -> Json:
    """The value after a write that fits; for lists, see `appended_values`."""
    if reducer != "update":
        return value
    return _whole(reducer, current, value) if _is_object(value) else current


def value_to_record(reducer: str, current: Json, value: Json) -> Json:
    """The value to record for a write that fits: lists and objects as written, else the result."""
    if value is None:
        return current
    return value if reducer in ("update", *LIST_REDUCERS) else _whole(reducer, current, value)


def _whole(reducer: str, current: Json, value: Json) -> Json:
    """The reduced value."""
    if reducer == "union":
        return _each_once([*union_values(current), *union_values(value)])
    if current is None:
        return value
    if reducer == "update":
        whole: dict[str, Json] = {**current, **value}
        return {key: whole[key] for key in sorted(whole)}
    if reducer == "sum":
        return current + value
    if reducer in ("max", "min"):
        if current == value:  # 1 and 1.0: whichever was first must not tell
            return min(current, value, key=canonical)
        return max(current, value) if reducer == "max" else min(current, value)
    return current


def union_values(value: Json) -> list[Json]:
    """The values that a write adds to a `union`: those of a list, or the value itself."""
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]  # pyright: ignore[reportUnknownArgumentType]


def appended_values(
    reducer: str,
    values: Json,
    positions: tuple[ElementPosition, ...],
    value: Json,
    position: ElementPosition,
) -> tuple[list[Json], tuple[ElementPosition, ...]]:
    """A run output's list after a write, and the positions of all values: see `list_with_value`."""
    if reducer != "union":
        return list_with_value(values, positions, value, position)
    listed, positions = list_with_values(
        union_values(values), positions, union_values(value), position
    )
    begun = len(listed) - len(positions)
    first = _first_indexes([canonical(each) for each in listed])
    return [listed[at] for at in first], tuple(positions[at - begun] for at in first if at >= begun)


def output_with_write(
    reducer: str, output: Output | None, element: ListElement, position: int
) -> Output:
    """A list output after a write: see `output_with_value`."""
    if reducer != "union":
        return output_with_value(output, element, position)
    new = tuple(element.model_copy(update={"value": each}) for each in union_values(element.value))
    parts = values_in_order(output.elements if output is not None else (), new)
    # A large value that people put in is known by its hash alone.
    first = _first_indexes([each.body or canonical(each.value) for each in parts])
    parts = tuple(parts[at] for at in first)
    values = None if any(each.body for each in parts) else [each.value for each in parts]
    return Output(value=values, elements=parts, position=position)


def _each_once(values: list[Json]) -> list[Json]:
    return [values[at] for at in _first_indexes([canonical(each) for each in values])]


def _first_indexes(values: Sequence[bytes | str]) -> list[int]:
    """The index at which each value occurs first."""
    first: dict[bytes | str, int] = {}
    for at, value in enumerate(values):
        first.setdefault(value, at)
    return list(first.values())


def _is_number(value: Json) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_object(value: Json) -> TypeGuard[dict[str, Json]]:
    return isinstance(value, dict)
