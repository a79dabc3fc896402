"""Values put together, whatever they are: nothing raises, and who was first tells of nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crewlog.canonical_json import canonical
from crewlog.state.model import ListElement, Output
from crewlog.state.reducers import (
    LIST_REDUCERS,
    MAX_BYTES,
    MAX_VALUES,
    REFUSING_REDUCERS,
    appended_values,
    conflict_reason,
    output_with_write,
    reduced_value,
    value_to_record,
)
from pace import assert_within

HUGE = 10**4999
"""More digits than Python writes."""


def nested(depth: int) -> Any:
    value: Any = 1
    for level in range(depth):
        value = [value] if level % 2 else {"k": value}
    return value


ODD: list[Any] = [
    1e308, -1e308, 5e-324, -0.0, 0.0, 0, 1, 1.0, True, False, 2**53, 2**53 + 1, 10**400,
    10**4299, -(10**4299), HUGE, -HUGE, "nan", "inf", "Infinity", "", "\ud800", "\u202e", "\x00",
    "ÿ𝕏", float("nan"), float("inf"), [], {}, [[]], {"": None}, {"\ud800": "\udfff"},
    [1, 1.0, True], list(range(5_000)), "x" * 20_000, nested(99), nested(100_000), None,
]  # fmt: skip
TAME = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
HOW = st.sampled_from(REFUSING_REDUCERS)


def put(how: str, there: Any, value: Any) -> tuple[Any, bool]:
    """What is there after a value, as the journal has it; and whether it fits."""
    if value is None or conflict_reason(how, there, value):
        return there, value is None
    said = value_to_record(how, there, value)
    canonical(said)  # it is journaled
    if how in LIST_REDUCERS:
        values, _ = appended_values(how, there, (), said, (1, 0))
        return values, True
    return reduced_value(how, there, said), True


@settings(max_examples=80, deadline=None)
@given(HOW, st.lists(TAME | st.sampled_from([10**4000, -(10**4298), 1e308]), max_size=5))
def test_nothing_that_is_set_raises_and_what_is_kept_is_small(how: str, values: list[Any]) -> None:
    check(how, values)


@pytest.mark.parametrize("how", REFUSING_REDUCERS)
def test_nor_does_what_is_out_of_all_bounds(how: str) -> None:
    for first in ODD:
        for value in ODD:
            check(how, [first, value])
    check(how, ODD)
    check(how, [{"a": value} for value in ODD])


def check(how: str, values: list[Any]) -> None:
    there: Any = None
    for value in values:
        there, _ = put(how, there, value)
        assert len(canonical(there)) <= MAX_BYTES


def once(how: str, values: list[Any]) -> tuple[bytes, bool]:
    """What some values come to, and whether all fit."""
    there: Any = None
    fit = True
    for value in values:
        there, fits = put(how, there, value)
        fit = fit and fits
    if how == "union":
        there = sorted(there or [], key=canonical)
    return canonical(there), fit


SAME: list[tuple[str, st.SearchStrategy[Any]]] = [
    ("sum", st.integers(-(10**30), 10**30)),
    ("max", st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from([0.0, -0.0, 2**53, 1e308])),
    ("min", st.integers(-3, 3) | st.floats(-3, 3) | st.sampled_from([0.0, -0.0, 2**53, 1e308])),
    ("max", st.text(max_size=3)),
    ("min", st.text(max_size=3)),
    ("union", TAME),
    ("agree", st.sampled_from([1, 1.0, True, "1", [1], None])),
    ("update", st.dictionaries(st.sampled_from("abc"), st.sampled_from([1, 1.0, "x"]), max_size=3)),
]


@pytest.mark.parametrize(("how", "values"), SAME, ids=[how for how, _ in SAME])
def test_who_is_first_does_not_tell(how: str, values: st.SearchStrategy[Any]) -> None:
    @settings(max_examples=60, deadline=None)
    @given(
        st.lists(values, max_size=5).flatmap(lambda v: st.tuples(st.just(v), st.permutations(v)))
    )
    def alike(pair: tuple[list[Any], list[Any]]) -> None:
        one, other = (once(how, found) for found in pair)
        assert one[1] == other[1], "whether they fit"
        if one[1]:
            assert one == other

    alike()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.sampled_from([1, 1.0, "a", [1, "a"], [], None, True]), max_size=5), st.randoms())
def test_the_items_of_a_list_are_put_together_in_their_order(values: list[Any], rng: Any) -> None:
    for how in LIST_REDUCERS:
        found: list[Output | None] = []
        for order in (list(enumerate(values, 1)), rng.sample([*enumerate(values, 1)], len(values))):
            output: Output | None = None
            for number, value in order:
                if value is not None:
                    output = output_with_write(
                        how, output, ListElement(value=value, position=(7, number)), 9
                    )
            found.append(output)
        assert canonical([o and o.to_json() for o in found[:1]]) == canonical(
            [o and o.to_json() for o in found[1:]]
        )


def test_a_union_has_a_bound_of_values_however_small_they_are() -> None:
    many: Any = [*range(MAX_VALUES)]
    assert not conflict_reason("union", many, [0, 1]), "they are there"
    assert conflict_reason("union", many, [MAX_VALUES]) == (
        "together they are 1,001 values, and at most 1,000 are kept"
    )


@pytest.mark.parametrize("values", [[0] * 8_000, [*range(MAX_VALUES)]], ids=["same", "others"])
def test_what_fits_is_put_together_in_no_time(values: Any) -> None:
    """A workflow task that takes two seconds is tried again for ever."""

    def put_together() -> None:
        assert not conflict_reason("union", None, values)
        output = output_with_write("union", None, ListElement(value=values, position=(7, 0)), 7)
        output = output_with_write("union", output, ListElement(value=values, position=(9, 0)), 9)
        flag, places = appended_values("union", None, (), values, (7, 0))
        flag, places = appended_values("union", flag, places, values, (9, 0))
        assert output.value == flag == [*dict.fromkeys(values)]
        assert len(output.elements) == len(places) == len(flag)

    assert_within(0.5, put_together)
