"""The fold of operations: what a naive model makes of them; what does not apply is left out."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crewlog.canonical_json import DEEPEST, canonical
from crewlog.model import Json
from crewlog.reporting.diff.content import ContentChange, content_diff
from crewlog.state.artifacts import (
    MAX_BYTES,
    SKIPPED_KEPT,
    Content,
    OperationRefused,
    apply_operations,
    escape_key,
    fold,
    initial_content,
    operations_body,
    value_at,
)

KEYS = st.sampled_from(["a", "b", "nodes", "x/y", "~1", "", "0", "-", "é"])
SCALARS = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "t", "ü", 1.0, 0.5])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=4)
TOKENS = KEYS.map(escape_key) | st.sampled_from(["1", "2", "-", "01", "~", "٣", "9999999999"])
PATHS = st.lists(TOKENS, max_size=4).map(lambda keys: "".join(f"/{key}" for key in keys)) | (
    st.sampled_from(["nodes", "/a/~2", "/" * (DEEPEST + 2), "/a" * 2000])
)
OPERATIONS = st.builds(
    lambda op, path, value: {"op": op, "path": path, "value": value},
    st.sampled_from(["add", "add", "add", "replace", "remove", "test", "merge"]),
    PATHS,
    VALUES,
)
CALLS = st.lists(st.lists(OPERATIONS, max_size=5), max_size=6)


# -- a naive model: it changes a copy in place, and knows nothing of sizes and sharing -------------


class Refused(Exception):
    """An operation that does not apply."""


def naive(value: Json, op: dict[str, Any]) -> Json:
    root = [copy.deepcopy(value)]
    path = op["path"]
    if len(path) > 2000 or (path and path[0] != "/"):
        raise Refused
    tokens = path.split("/")[1:]
    if len(tokens) > DEEPEST:
        raise Refused
    keys = []
    for token in tokens:
        if "~" in token.replace("~0", "").replace("~1", ""):
            raise Refused
        keys.append(token.replace("~1", "/").replace("~0", "~"))
    owner: Any = root
    key: Any = 0
    for number, token in enumerate(keys, 1):
        if not _there(owner, key):
            raise Refused
        owner = owner[key]
        if isinstance(owner, list) and token == "-" and number == len(keys):
            key = len(owner)
        elif isinstance(owner, list) and token.isascii() and token.isdigit():
            key = int(token)
            if str(key) != token:
                raise Refused
        elif isinstance(owner, dict):
            key = token
        else:
            raise Refused
    return _naive_at(root, owner, key, op)


def _there(owner: Any, key: Any) -> bool:
    return key < len(owner) if isinstance(owner, list) else key in owner


def _naive_at(root: list[Json], owner: Any, key: Any, op: dict[str, Any]) -> Json:
    kind, value = op["op"], copy.deepcopy(op["value"])
    there = _there(owner, key)
    if kind == "add" and isinstance(owner, list) and owner is not root:
        if key > len(owner):
            raise Refused
        owner.insert(key, value)
    elif kind == "add":
        owner[key] = value
    elif kind == "merge":
        if not isinstance(value, dict) or (isinstance(owner, list) and not there):
            raise Refused
        old = owner[key] if there else {}
        if not isinstance(old, dict):
            raise Refused
        owner[key] = merged(old, value)
    elif not there or (kind == "remove" and owner is root):
        raise Refused
    elif kind == "remove":
        del owner[key]
    elif kind == "replace":
        owner[key] = value
    elif json.dumps(plain(owner[key]), sort_keys=True) != json.dumps(plain(value), sort_keys=True):
        raise Refused
    return root[0]


def plain(value: Any) -> Any:
    """With numbers that are equal written alike."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each) for each in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def merged(old: Any, patch: Any) -> Any:
    """As RFC 7396 has it in its own words."""
    if not isinstance(patch, dict):
        return patch
    old = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            old.pop(key, None)
        else:
            old[key] = merged(old.get(key), value)
    return old


def naive_fold(initial: Json, calls: list[list[dict[str, Any]]]) -> tuple[Json, int, int]:
    value, applied, missed = copy.deepcopy(initial), 0, 0
    for operations in calls:
        guarded = False
        for op in operations:
            try:
                if guarded:
                    raise Refused
                value = naive(value, op)
                applied += 1
            except Refused:
                missed += 1
                guarded = guarded or op["op"] == "test"
    return value, applied, missed


def bodies(calls: list[list[dict[str, Any]]]) -> list[dict[str, Json]]:
    return [operations_body(f"a#1/{n}", "a", operations) for n, operations in enumerate(calls)]


# -- properties ------------------------------------------------------------------------------------


@given(OBJECTS, CALLS)
@settings(max_examples=150, deadline=None)
def test_the_fold_is_what_the_naive_model_makes_of_it(
    initial: Json, calls: list[list[dict[str, Any]]]
) -> None:
    content = fold(bodies(calls), initial)
    value, applied, missed = naive_fold(initial, calls)
    assert canonical(content.value) == canonical(value)
    assert (content.applied, content.missed) == (applied, missed)
    assert content.size == len(canonical(content.value))  # counted, and never measured


@given(OBJECTS, CALLS)
@settings(max_examples=50, deadline=None)
def test_an_old_content_stays_as_it_was_and_the_fold_may_go_on_from_any(
    initial: Json, calls: list[list[dict[str, Any]]]
) -> None:
    content, old = initial_content(initial), [(initial_content(initial), canonical(initial))]
    for body in bodies(calls):
        content = apply_operations(content, body)
        old.append((content, canonical(content.value)))
    assert [canonical(each.value) for each, _ in old] == [said for _, said in old]
    assert fold(bodies(calls), initial) == content


def operation_of(change: ContentChange) -> dict[str, Json]:
    """The operation that makes a change."""
    match change.kind:
        case "added":
            return {"op": "add", "path": change.path, "value": change.new}
        case "removed":
            return {"op": "remove", "path": change.path}
        case "changed":
            return {"op": "replace", "path": change.path, "value": change.new}


@given(VALUES, VALUES)
@settings(max_examples=120, deadline=None)
def test_the_differences_of_two_contents_make_one_of_the_other(one: Json, other: Json) -> None:
    found = list(content_diff(one, other))
    operations = [operation_of(change) for change in found]
    content = apply_operations(initial_content(one), operations_body("", "", operations))
    assert canonical(content.value) == canonical(other)
    assert bool(found) == (canonical(one) != canonical(other))


# -- what is left out, and why ---------------------------------------------------------------------


def one(before: Json, **op: Any) -> Content:
    return apply_operations(initial_content(before), operations_body("a#1/2", "a", [op]))


@pytest.mark.parametrize(
    ("op", "path", "new", "why"),
    [
        ("remove", "/b", None, "there is no 'b'"),
        ("replace", "/b", 1, "there is no 'b'"),
        ("add", "/b/c", 1, "there is no 'b' on the way"),
        ("add", "/list/9", 1, "the list has 2 items, and 9 is beyond"),
        ("replace", "/list/-", 1, "'-' is no place in a list"),
        ("add", "/list/01", 1, "'01' is no place in a list"),
        ("add", "/n/x", 1, "there is nothing inside a value"),
        ("merge", "/list", {}, "only objects are merged"),
        ("merge", "/a", 1, "what is merged is an object"),
        ("remove", "", None, "cannot be removed as a whole"),
        ("test", "/n", True, "the test does not hold"),
        ("add", "a", 1, "a path begins with '/'"),
        ("add", "/a~", 1, "'~' is written ~0"),
        ("add", "/" + "x" * 3000, 1, "at most 2,000 characters"),
        ("add", "/a" * (DEEPEST + 1), 1, f"deeper than {DEEPEST} levels"),
        ("move", "/a", 1, "it is no operation"),
    ],
)
def test_what_does_not_apply_is_left_out_with_its_reason(
    op: str, path: str, new: Json, why: str
) -> None:
    before = {"a": {}, "list": [1, 2], "n": 1}
    content = one(before, op=op, path=path, value=new)
    assert content.value == before
    (left,) = content.left_out
    assert why in left.reason
    assert (left.id, left.number, left.op) == ("a#1/2", 1, op)


def test_what_follows_a_test_that_does_not_hold_is_left_out_and_what_is_before_it_stays() -> None:
    ops = [
        {"op": "add", "path": "/a", "value": 1},
        {"op": "test", "path": "/a", "value": 2},
        {"op": "add", "path": "/b", "value": 1},
    ]
    content = fold([operations_body("s#1/2", "a", ops), operations_body("s#1/3", "a", ops[2:])], {})
    assert content.value == {"a": 1, "b": 1}  # the next call is not guarded by it
    assert [each.number for each in content.left_out] == [2, 3]
    assert "the test of '/a' before it" in content.left_out[1].reason


def test_values_are_bounded_in_depth_and_size_whoever_wrote_them() -> None:
    deep: Json = 1
    for _ in range(DEEPEST + 5):
        deep = [deep]
    assert one({}, op="add", path="/a", value=deep).missed == 1
    just: Json = 1
    for _ in range(DEEPEST - 1):
        just = {"a": just}
    assert one({}, op="add", path="/a", value=just).missed == 0
    assert one({"x": {}}, op="add", path="/x/a", value=just).missed == 1
    assert one({"x": {}}, op="merge", path="/x", value={"a": just}).missed == 1
    large = "x" * (MAX_BYTES // 2)
    content = one({"a": large}, op="add", path="/b", value=large)
    assert content.missed == 1
    assert one(content.value, op="remove", path="/a").value == {}


def test_the_first_body_says_what_the_artifact_was_whatever_the_definition_says_by_now() -> None:
    body = operations_body("a#1/2", "a", [{"op": "add", "path": "/x", "value": 1}], {"nodes": []})
    assert fold([body], {"other": 1}).value == {"nodes": [], "x": 1}
    assert fold([], {"other": 1}).value == {"other": 1}


def test_only_the_last_ones_that_were_left_out_are_remembered() -> None:
    ops = [{"op": "remove", "path": f"/{n}"} for n in range(SKIPPED_KEPT + 50)]
    content = fold([operations_body("a#1/2", "a", ops), operations_body("a#1/3", "a", ops[:1])], {})
    assert (len(content.left_out), content.missed) == (SKIPPED_KEPT, SKIPPED_KEPT + 51)
    assert content.left_out[-1].id == "a#1/3"
    long = one({}, op="add", path="/" + "x" * 1_000_000, value=1)
    assert len(str(long.left_out[0].path)) <= 200


def test_a_part_of_a_content_is_found_by_its_path() -> None:
    assert value_at({"a/b": [{"~": 1}]}, "/a~1b/0/~0") == 1
    with pytest.raises(OperationRefused, match="there is no 'c'"):
        value_at({"a": 1}, "/c")


def test_one_more_operation_costs_what_it_touches_and_not_what_the_artifact_has() -> None:
    def took(count: int) -> float:
        content = initial_content({"nodes": {f"n{n}": {"text": "x" * 1000} for n in range(count)}})
        body = operations_body("a#1/2", "a", [{"op": "add", "path": "/nodes/n0/more", "value": 1}])
        times: list[float] = []
        for _ in range(20):
            begun = time.perf_counter()
            apply_operations(content, body)
            times.append(time.perf_counter() - begun)
        return min(times)

    small, large = took(1), took(1000)
    assert large < small + 0.001, (small, large)  # writing a megabyte takes ten times as long
