"""Values that several steps set, as a list: each at its place, whenever it came.

What ordinary steps add stands in the order of the journal. The steps of one list's items run side
by side, and which is faster must not tell in what is made of them: what they add stands in the
order of the items, where the first of the visit would stand that mapped the list.
"""

from __future__ import annotations

from bisect import bisect_right

from crewlog.content import canonical
from crewlog.ids import StepId, item_number, visit_of
from crewlog.model import Json
from crewlog.state.model import CrewState, Output, Part, Place

SMALL = 256
"""Bytes of JSON of a list that conditions see, as of any value."""


def place_of(state: CrewState, step: StepId | None, position: int) -> Place:
    """Where a value stands that a step adds at a position."""
    visit = state.frontier.get(visit_of(step)) if step is not None and item_number(step) else None
    if step is None or visit is None or visit.mapped is None:
        return (position, 0)
    return (visit.mapped.position, item_number(step))


def with_value(
    values: Json, places: tuple[Place, ...], value: Json, place: Place
) -> tuple[list[Json], tuple[Place, ...]]:
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
    listed: list[Json], places: tuple[Place, ...], values: list[Json], place: Place
) -> tuple[list[Json], tuple[Place, ...]]:
    """As `with_value`, with several that one step adds: they stand side by side."""
    # What the list began with stands before all that steps add.
    known = (*((0, 0),) * (len(listed) - len(places)), *places)
    at = bisect_right(known, place)
    return (
        [*listed[:at], *values, *listed[at:]],
        (*known[:at], *(place for _ in values), *known[at:]),
    )


def output_with_value(output: Output | None, part: Part, position: int) -> Output:
    """An output that is a list, with one more value."""
    parts = values_in_order(output.parts if output else (), (part,))
    return Output(value=_small_list(parts), parts=parts, position=position)


def values_in_order(parts: tuple[Part, ...], new: tuple[Part, ...]) -> tuple[Part, ...]:
    """Parts in their order, with those that one step adds, all at one place."""
    if not new:
        return parts
    at = bisect_right([each.place for each in parts], new[0].place)
    return (*parts[:at], *new, *parts[at:])


def _small_list(parts: tuple[Part, ...]) -> Json:
    """The values of a list, where all of it is small."""
    if len(parts) > SMALL or any(each.body is not None for each in parts):
        return None
    values = [each.value for each in parts]
    return values if len(canonical(values)) <= SMALL else None
