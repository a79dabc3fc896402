"""Conditions: text to tree and back, and what holds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crewlog.definition.conditions import (
    AllOf,
    AnyOf,
    Condition,
    ConditionSyntaxError,
    Fact,
    Not,
    facts_in,
    holds,
    parse_condition,
    render_condition,
)

names = st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True).filter(
    lambda n: n not in {"and", "or", "not", "in", "true", "false", "null"}
)
scalars = (
    st.booleans()
    | st.none()
    | st.integers(-(2**62), 2**62)
    | st.floats(-1e15, 1e15, allow_nan=False)
    | st.text(st.characters(exclude_characters="'", codec="utf-8"), max_size=6)
)
facts = st.builds(
    Fact,
    agent=st.none() | names,
    name=names,
    operator=st.sampled_from(["==", "!=", ">=", "<=", ">", "<", "in"]),
    value=scalars | st.lists(scalars, max_size=3),
) | st.builds(Fact, agent=st.none() | names, name=names)
conditions: st.SearchStrategy[Condition] = st.recursive(
    facts,
    lambda inner: (
        st.builds(Not, of=inner)
        | st.builds(AllOf, of=st.lists(inner, min_size=2, max_size=3).map(tuple))
        | st.builds(AnyOf, of=st.lists(inner, min_size=2, max_size=3).map(tuple))
    ),
    max_leaves=6,
)


@given(conditions)
def test_rendering_and_parsing_are_inverse(condition: Condition) -> None:
    assert parse_condition(render_condition(condition)) == condition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("approved", True),
        ("not approved", False),
        ("backend.score >= 0.8 and not missing", True),
        ("backend.score > 1 or approved", True),
        ("backend.text in ['done', \"it's\"]", True),
        ("backend.text == done", True),
        ("missing == null", True),
        ("missing > 3", False),
        ("approved in 3", False),
        ("not (approved and backend.score < 1)", False),
        ("backend.approved", True),
    ],
)
def test_what_holds(text: str, expected: bool) -> None:
    flags: dict[str, Any] = {"approved": True}
    outputs = {"backend": {"score": 0.9, "text": "done"}}
    assert holds(parse_condition(text), flags, outputs) is expected


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ("", "too early", 0),
        ("not", "too early", 3),
        ("a and", "too early", 5),
        ("a b", "unexpected 'b'", 2),
        ("(a", "too early", 2),
        ("a ==  ", "too early", 6),
        ("a == )", "expected a value", 5),
        ("a;  b", "cannot read ';  b'", 1),
        ("a and    $", "cannot read", 9),
        ("and", "expected a flag", 0),
        ("3 > a", "expected a flag", 0),
        ("a > 99999999999999999999", "too large", 4),
        ("not " * 40 + "a", "more than 32", 128),
        ("a in " + "[" * 40, "more than 32", 37),
    ],
)
def test_syntax_errors_have_an_offset(text: str, message: str, offset: int) -> None:
    with pytest.raises(ConditionSyntaxError, match=message.replace("$", r"\$")) as caught:
        parse_condition(text)
    assert caught.value.offset == offset


@given(st.text(st.sampled_from("ab .()[]'\"<>=!andortin1,_-"), max_size=40))
def test_any_text_parses_or_says_where_it_stops(text: str) -> None:
    try:
        condition = parse_condition(text)
    except ConditionSyntaxError as error:
        assert 0 <= error.offset <= len(text)  # noqa: PT017
    else:
        assert list(facts_in(condition))
        assert parse_condition(render_condition(condition)) == condition
