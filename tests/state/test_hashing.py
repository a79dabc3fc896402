"""Content addresses and heads."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crewlog.canonical_json import canonical, hash_bytes, hash_json
from crewlog.ids import ContentHash
from crewlog.state.logs import chain, empty_log_head, merged_head

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, width=32)
values: st.SearchStrategy[Any] = st.recursive(
    scalars.filter(lambda v: v not in {float("inf"), float("-inf")}) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
heads = st.text("abcdefXYZ019-_", min_size=0, max_size=27).map(ContentHash)


def _shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shuffled(value[key]) for key in reversed(value)}
    return [_shuffled(each) for each in value] if isinstance(value, list) else value


@given(values)
def test_the_canonical_form_is_one_spelling_of_one_value(value: Any) -> None:
    text = canonical(value)
    assert canonical(_shuffled(value)) == text
    assert canonical(json.loads(text)) == text
    assert json.loads(text) == value
    assert text.isascii()
    assert b"\n" not in text


@given(values, values)
def test_equal_addresses_mean_equal_values(one: Any, other: Any) -> None:
    assert (hash_json(one) == hash_json(other)) == (canonical(one) == canonical(other))


@pytest.mark.parametrize("pair", [(1, True), (0, False), (1, 1.0), ("", None), ([], {}), ("1", 1)])
def test_values_that_python_or_people_mix_up_have_addresses_of_their_own(pair: Any) -> None:
    assert hash_json(pair[0]) != hash_json(pair[1])


def test_a_lone_surrogate_hashes_as_its_escape() -> None:
    assert hash_json("\ud800") == hash_json(json.loads('"\\ud800"'))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [-float("inf")]}])
def test_what_json_does_not_have_has_no_address(value: Any) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        hash_json(value)


@pytest.mark.parametrize("value", [b"x", {1, 2}, object()])
def test_what_is_no_data_has_no_address(value: Any) -> None:
    with pytest.raises(TypeError):
        hash_json(value)


def test_an_address_is_the_same_for_ever() -> None:
    """Stores and histories hold them: this value may never change."""
    assert hash_json({"b": [1, None], "a": "é"}) == "BfAjpCH1YZAJWo172_jlmsKimgE"
    assert chain(ContentHash("h"), 7, ContentHash("b")) == "TrCFpVu8m9Ou3jr6mVFxLdG1qIY"
    assert empty_log_head("run", "public") == "tU3DZ8cj0rHm8OXD8cO901oZbAo"
    assert merged_head(ContentHash("1"), ContentHash("2"), 7) == "firG9KYWFdwisgD4_mb-0MS3fns"


def test_addresses_do_not_depend_on_the_process() -> None:
    program = (
        "from crewlog.canonical_json import hash_json; print(hash_json({'b': {'y': 1, 'x': [2]}}))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True
    )
    assert found.stdout.strip() == hash_json({"b": {"x": [2], "y": 1}})


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_the_borders_of_the_parts_count(one: list[bytes], other: list[bytes]) -> None:
    assert (hash_bytes(*one) == hash_bytes(*other)) == (one == other)


@given(heads, heads, st.integers(0, 2**63), st.integers(0, 2**63), heads, heads)
@settings(max_examples=60)
def test_a_head_names_all_that_led_to_it(
    one: Any, other: Any, at: int, then: int, body: Any, text: Any
) -> None:
    same = (one, at, body) == (other, then, text)
    assert (chain(one, at, body) == chain(other, then, text)) == same


@given(st.text(max_size=5), st.text(max_size=5), st.text(max_size=5), st.text(max_size=5))
def test_the_root_of_a_log_names_the_run_and_the_log(a: str, b: str, c: str, d: str) -> None:
    assert (empty_log_head(a, b) == empty_log_head(c, d)) == ((a, b) == (c, d))


def test_a_strange_name_has_a_root_too() -> None:
    assert empty_log_head("\ud800", "public") != empty_log_head("\ud801", "public")


def test_a_joined_head_names_both_in_their_order_and_where_they_were_joined() -> None:
    one, two, none = ContentHash("1"), ContentHash("2"), ContentHash("")
    found = {
        merged_head(one, two, 7),
        merged_head(two, one, 7),
        merged_head(one, two, 8),
        chain(one, 7, two),
    }
    assert len(found) == 4
    assert merged_head(none, two, 7) == merged_head(two, two, 7) == two
