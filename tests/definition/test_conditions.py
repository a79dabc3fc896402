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


@given(
    st.text(max_size=60)
    | st.binary(max_size=60).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
    | st.text(st.sampled_from("٣१½²aA_.-'\"[](),<>=! \t\n\r\x00\x1c\u2028and"), max_size=60)
)
def test_strange_text_is_a_syntax_error_and_nothing_else(text: str) -> None:
    try:
        condition = parse_condition(text)
    except ConditionSyntaxError as error:
        assert 0 <= error.offset <= len(text)  # noqa: PT017
    else:
        assert parse_condition(render_condition(condition)) == condition


@pytest.mark.parametrize(
    "text",
    [
        "(" * 1_999,
        "not " * 499 + "a",
        "a in " + "[" * 1_900,
        "a == " + "9" * 1_900,
        "a == -" + "9" * 1_900,
        "a == " + "9" * 900 + "." + "9" * 900,
        "a == '" + "x" * 1_900,
        "a" * 2_001,
        "a and " * 333,
        "__import__('os').system('true')",
        "a if b else c",
        "a.b.c",
        "a == b'x'",
        "a == 1e9",
        "a == 0x10",
        "a == f(1)",
        "a; b",
        "a\x00",
        "a == {}",
        "a = b",
        "a =! b",
        "a == 'x' 'y'",
        "[a]",
        "not",
        "in",
        "a in",
        "a not in [1]",
    ],
)
def test_hostile_text_is_a_syntax_error(text: str) -> None:
    with pytest.raises(ConditionSyntaxError):
        parse_condition(text)


def test_long_but_honest_conditions_are_read_quickly() -> None:
    text = " and ".join(f"flag{n}" for n in range(150))
    condition = parse_condition(text)
    assert len(list(facts_in(condition))) == 150
    assert holds(condition, {f"flag{n}": n + 1 for n in range(150)}, {})
    assert not holds(condition, {f"flag{n}": n for n in range(150)}, {})


TRUTH: list[tuple[str, Any, bool]] = [
    # a condition on the flag `x`, its value, whether it holds
    ("x", True, True),
    ("x", False, False),
    ("x", 0, False),
    ("x", 0.0, False),
    ("x", 1, True),
    ("x", "", False),
    ("x", "no", True),
    ("x", None, False),
    ("x", [], False),
    ("x", [0], True),
    ("x", {}, False),
    ("not x", None, True),
    ("x == null", None, True),
    ("x != null", None, False),
    ("x == false", None, False),
    ("x == false", False, True),
    ("x == yes", "yes", True),
    ("x == 'yes'", "yes", True),
    ("x == Yes", "yes", False),
    ("x == 1", 1.0, True),
    ("x == '1'", 1, False),
    ("x >= 1", 1, True),
    ("x > 1", 1, False),
    ("x <= 1.5", 1, True),
    ("x < -1", -2, True),
    ("x > 1", "2", False),
    ("x < 1", "2", False),
    ("x > a", "b", True),
    ("x > 1", None, False),
    ("x > 1", [2], False),
    ("x > 1", {"a": 1}, False),
    ("x in [1, 2]", 2, True),
    ("x in [1, 2]", 3, False),
    ("x in [1, 2]", None, False),
    ("x in [null]", None, True),
    ("x in [[1]]", [1], True),
    ("x in [a, b]", {"a": 1}, False),
    ("x in abc", "b", True),
    ("x in abc", 1, False),
    ("x in 5", 5, False),
    ("x in null", None, False),
]


@pytest.mark.parametrize(("text", "value", "expected"), TRUTH)
def test_truth(text: str, value: Any, expected: bool) -> None:
    condition = parse_condition(text)
    assert holds(condition, {"x": value}, {}) is expected
    assert holds(Not(of=condition), {"x": value}, {}) is not expected
    assert holds(parse_condition(text.replace("x", "a.x", 1)), {}, {"a": {"x": value}}) is expected


@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("other", [True, False])
@pytest.mark.parametrize("third", [True, False])
def test_and_binds_before_or_and_not_before_both(one: bool, other: bool, third: bool) -> None:
    flags = {"x": one, "y": other, "z": third}
    for text, expected in {
        "x or y and z": one or (other and third),
        "(x or y) and z": (one or other) and third,
        "not x and y": (not one) and other,
        "not (x and y)": not (one and other),
        "not not x": one,
        "x and not y or z": (one and not other) or third,
    }.items():
        assert holds(parse_condition(text), flags, {}) is expected, text


def test_an_output_comes_before_a_flag_of_that_name() -> None:
    condition = parse_condition("backend.ok")
    assert holds(condition, {"ok": True}, {})
    assert not holds(condition, {"ok": True}, {"backend": {"ok": False}})
    assert holds(condition, {"ok": True}, {"other": {"ok": False}})


@given(conditions, st.dictionaries(names, scalars | st.lists(scalars, max_size=2), max_size=4))
def test_whatever_is_set_a_condition_holds_or_does_not(
    condition: Condition, flags: dict[str, Any]
) -> None:
    for fact in facts_in(condition):
        flags.setdefault(fact.name, fact.value)
    assert holds(condition, flags, {}) is not holds(Not(of=condition), flags, {})
    again = parse_condition(render_condition(condition))
    assert holds(again, flags, {}) is holds(condition, flags, {})
