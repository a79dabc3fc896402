"""An artifact's content: the fold of the operations in its log.

    fold([{"operations": [{"op": "add", "path": "/a", "value": 1}]}], {}).value  →  {"a": 1}

An operation is one of JSON Patch (RFC 6902: `add`, `replace`, `remove`, `test`), or `merge`, which
is a JSON Merge Patch (RFC 7396) at a path. Paths are JSON pointers (RFC 6901). An operation that
does not apply is skipped with a reason, and the next one is tried. If a `test` fails, the rest of
the call is skipped: a tool can guard its operations with it.

Pure: the content depends on the operations and their order alone. A content is never changed in
place. It shares everything that an operation does not touch with the content before. So an
operation costs what it touches, whatever the size of the artifact, and old contents stay valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from crewlog.canonical_json import DEEPEST, canonical
from crewlog.model import Json
from crewlog.state.excerpt import excerpt

_Object = dict[str, Json]
_Items = Sequence[Json]

OPERATIONS = ("add", "replace", "remove", "test", "merge")
"""The kinds of operations."""
MAX_OPERATIONS = 1_000
"""Operations that one call may return."""
MAX_CALL_BYTES = 1024 * 1024
"""Bytes of JSON of one call's operations."""
MAX_BYTES = 8 * 1024 * 1024
"""The most bytes of JSON of an artifact."""
MAX_PATH_LENGTH = 2_000
"""The most characters of a path."""
SKIPPED_KEPT = 100
"""How many of the last skipped operations a content keeps."""
REASONS_KEPT = 5
"""How many skipped operations of one call are reported with their reasons."""

_PATH_KEPT = 200
"""Characters of a skipped operation's path that a content keeps."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")
_BAD_ESCAPE = re.compile(r"~(?![01])")


class SkippedOperation(NamedTuple):
    """An operation that was skipped."""

    id: str
    """Its call: `builder#1/3`."""
    number: int
    """Its number in the call, from 1."""
    op: str
    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.number}: {self.op} {excerpt(self.path, 100)!r}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Content:
    """An artifact at a position of its log."""

    value: Json
    """The document. Other contents share parts of it: never change it."""
    size: int
    """Bytes of the document as canonical JSON."""
    calls: int = 0
    """Calls with operations on it."""
    applied: int = 0
    """Operations that applied."""
    missed: int = 0
    """Operations that were skipped."""
    left_out: tuple[SkippedOperation, ...] = ()
    """The last skipped operations, at most `SKIPPED_KEPT`."""

    def of(self, id_: str) -> tuple[SkippedOperation, ...]:
        """The skipped operations of a call, as far as they are kept."""
        return tuple(each for each in self.left_out if each.id == id_)


def initial_content(initial: Json) -> Content:
    """The content before any operation."""
    return Content(initial, len(canonical(initial)))


def fold(bodies: Iterable[Mapping[str, Json]], initial: Json) -> Content:
    """The content after the first bodies of its log.

    Args:
        bodies: The log's bodies, oldest first.
        initial: The document before the first body, unless that body has its own.
    """
    content: Content | None = None
    for body in bodies:
        content = apply_operations(
            content if content is not None else content_before(body, initial), body
        )
    return content if content is not None else initial_content(initial)


def content_before(body: Mapping[str, Json], initial: Json) -> Content:
    """The content before the first body of a log.

    The body records the initial document, since the definition may change.

    Args:
        body: The first body.
        initial: The definition's initial document, for a body without one.
    """
    return initial_content(body.get("initial", initial))


def apply_operations(content: Content, body: Mapping[str, Json]) -> Content:
    """The content after a call's operations."""
    value, size = content.value, content.size
    id_, failed, applied = str(body.get("id", "")), "", 0
    skipped: list[SkippedOperation] = []
    operations: Sequence[Mapping[str, Json]] = body.get("operations") or ()
    for number, operation in enumerate(operations, 1):
        op, path = str(operation.get("op", "")), str(operation.get("path", ""))
        try:
            if failed:
                raise OperationRefused(f"the test of {failed!r} before it did not hold")
            changed = _changed(value, operation)
            if size + changed.grown > MAX_BYTES and changed.grown > 0:
                raise OperationRefused(f"the artifact would have more than {MAX_BYTES:,} bytes")
        except OperationRefused as error:
            skipped.append(SkippedOperation(id_, number, op, path[:_PATH_KEPT], str(error)))
            failed = failed or (excerpt(path, 100) or "the whole" if op == "test" else "")
            continue
        value, size, applied = changed.value, size + changed.grown, applied + 1
    left_out = (
        (*content.left_out, *skipped[:SKIPPED_KEPT])[-SKIPPED_KEPT:]
        if skipped
        else content.left_out
    )
    return replace(
        content,
        value=value,
        size=size,
        calls=content.calls + 1,
        applied=content.applied + applied,
        missed=content.missed + len(skipped),
        left_out=left_out,
    )


def skip_reasons(missed: Sequence[SkippedOperation]) -> tuple[str, ...]:
    """The first skipped operations with their reasons, for entries and models."""
    return tuple(excerpt(str(each), 300) for each in missed[:REASONS_KEPT])


def value_at(value: Json, path: str) -> Json:
    """The part of a document at a path.

    Raises:
        OperationRefused: the path leads nowhere.
    """
    for token in pointer_keys(path):
        value = _child(value, token, path)
    return value


class OperationRefused(Exception):
    """An operation does not apply; the message is the reason."""


def operations_body(
    id_: str, agent: str, operations: Sequence[Mapping[str, Json]], initial: Json = None
) -> dict[str, Json]:
    """The body that a call adds to an artifact's log.

    Args:
        id_: The call: `builder#1/3`.
        agent: The agent that made the call.
        operations: The call's operations.
        initial: The initial document, for the first body of the log.
    """
    body: dict[str, Json] = {
        "type": "operations",
        "id": id_,
        "by": agent,
        "operations": [dict(each) for each in operations],
    }
    return body if initial in (None, {}) else {**body, "initial": initial}


# -- paths -----------------------------------------------------------------------------------


def pointer_keys(path: str) -> list[str]:
    """The keys of a JSON pointer; empty for the whole document.

    Raises:
        OperationRefused: the path is not a valid pointer.
    """
    if path == "":
        return []
    if len(path) > MAX_PATH_LENGTH:
        raise OperationRefused(f"a path has at most {MAX_PATH_LENGTH:,} characters")
    if not path.startswith("/"):
        raise OperationRefused("a path begins with '/', or is empty for the whole")
    if _BAD_ESCAPE.search(path):
        raise OperationRefused("in a path, '~' is written ~0, and '/' in a key ~1")
    tokens = [t.replace("~1", "/").replace("~0", "~") for t in path[1:].split("/")]
    if len(tokens) > DEEPEST:
        raise OperationRefused(f"it is nested deeper than {DEEPEST} levels")
    return tokens


def escape_key(key: str) -> str:
    """A key, escaped for a path."""
    return key.replace("~", "~0").replace("/", "~1")


def _is_object(value: Json) -> bool:
    return isinstance(value, dict)


def _kind(value: Json) -> str:
    if isinstance(value, dict):
        return "an object"
    return "a list" if isinstance(value, list) else "a value"


def _index(key: str, length: int, *, end: bool = False) -> int:
    """The list index that a key names; with `end`, also the one after the last item."""
    if end and key == "-":
        return length
    if not _INDEX.fullmatch(key):
        raise OperationRefused(f"{excerpt(key, 60)!r} is no place in a list")
    index = int(key)
    if index >= length + end:
        raise OperationRefused(f"the list has {length} items, and {index} is beyond")
    return index


def _child(value: Json, token: str, path: str) -> Json:
    if isinstance(value, dict):
        found = cast("_Object", value)
        if token not in found:
            raise OperationRefused(f"there is no {excerpt(token, 60)!r} on the way")
        return found[token]
    if isinstance(value, list):
        return cast("_Items", value)[_index(token, len(cast("_Items", value)))]
    raise OperationRefused(
        f"there is nothing inside a value, and {excerpt(path, 60)!r} goes into one"
    )


# -- changes ---------------------------------------------------------------------------------


class _ChangedValue(NamedTuple):
    """A value after an operation, and by how many bytes it has grown."""

    value: Json
    grown: int


def _changed(value: Json, operation: Mapping[str, Json]) -> _ChangedValue:
    """A document after an operation.

    Raises:
        OperationRefused: the operation does not apply.
    """
    op, path, new = operation.get("op"), operation.get("path"), operation.get("value")
    if op not in OPERATIONS or not isinstance(path, str):
        raise OperationRefused("it is no operation")
    if op != "remove" and "value" not in operation:
        raise OperationRefused("it has no value")
    tokens = pointer_keys(path)
    if op in ("add", "replace", "merge") and _depth(new) + len(tokens) > DEEPEST:
        raise OperationRefused(f"it is nested deeper than {DEEPEST} levels")
    if not tokens:
        return _whole(value, op, new)
    *before, last = tokens
    chain: list[Json] = [value]
    for token in before:
        chain.append(_child(chain[-1], token, path))
    inner = _in_parent(chain[-1], last, op, new, path)
    if inner.value is chain[-1]:
        return _ChangedValue(value, 0)
    made = inner.value
    for owner, token in zip(reversed(chain[:-1]), reversed(before), strict=True):
        made = _with(owner, token, made)
    return _ChangedValue(made, inner.grown)


def _with(owner: Json, token: str, value: Json) -> Json:
    """An object or a list with another value at an existing key."""
    if isinstance(owner, dict):
        return {**cast("_Object", owner), token: value}
    items = [*cast("_Items", owner)]
    items[int(token)] = value
    return items


def _whole(value: Json, op: str, new: Json) -> _ChangedValue:
    """A document after an operation on the whole of it."""
    match op:
        case "remove":
            raise OperationRefused("an artifact cannot be removed as a whole; replace it by {}")
        case "test":
            _check_equal(value, new)
            return _ChangedValue(value, 0)
        case "merge":
            return _merge_patch(value, new)
        case _:
            return _ChangedValue(new, _size(new) - _size(value))


def _in_parent(parent: Json, key: str, op: str, new: Json, path: str) -> _ChangedValue:
    """An object or a list after an operation on one of its keys."""
    if isinstance(parent, dict):
        return _in_object(cast("_Object", parent), key, op, new)
    if isinstance(parent, list):
        return _in_list(cast("_Items", parent), key, op, new)
    raise OperationRefused(
        f"there is nothing inside a value, and {excerpt(path, 60)!r} goes into one"
    )


def _in_object(owner: dict[str, Json], key: str, op: str, new: Json) -> _ChangedValue:
    there = key in owner
    if not there and op not in ("add", "merge"):
        raise OperationRefused(f"there is no {excerpt(key, 60)!r}")
    match op:
        case "test":
            _check_equal(owner[key], new)
            return _ChangedValue(owner, 0)
        case "remove":
            left = {name: each for name, each in owner.items() if name != key}
            return _ChangedValue(left, -_entry_size(key, owner[key], others=len(left)))
        case "merge" if there:
            inner = _merge_patch(owner[key], new)
            return _ChangedValue({**owner, key: inner.value}, inner.grown)
        case _:
            result = _merge_patch({}, new).value if op == "merge" else new
            changed = {**owner, key: result}
            if there:
                return _ChangedValue(changed, _size(result) - _size(owner[key]))
            return _ChangedValue(changed, _entry_size(key, result, others=len(owner)))


def _in_list(owner: _Items, key: str, op: str, new: Json) -> _ChangedValue:
    index = _index(key, len(owner), end=op == "add")
    match op:
        case "test":
            _check_equal(owner[index], new)
            return _ChangedValue(owner, 0)
        case "remove":
            removed = _size(owner[index]) + (len(owner) > 1)
            return _ChangedValue([*owner[:index], *owner[index + 1 :]], -removed)
        case "add":
            grown = _size(new) + (len(owner) > 0)
            return _ChangedValue([*owner[:index], new, *owner[index:]], grown)
        case "merge":
            inner = _merge_patch(owner[index], new)
            return _ChangedValue([*owner[:index], inner.value, *owner[index + 1 :]], inner.grown)
        case _:
            grown = _size(new) - _size(owner[index])
            return _ChangedValue([*owner[:index], new, *owner[index + 1 :]], grown)


def _merge_patch(old: Json, patch: Json) -> _ChangedValue:
    """An object after a JSON Merge Patch: null removes a key."""
    if not _is_object(patch):
        raise OperationRefused("what is merged is an object; to put a value there, replace it")
    if not _is_object(old):
        raise OperationRefused(f"it is {_kind(old)} there, and only objects are merged")
    return _merge(cast("_Object", old), cast("_Object", patch))


def _merge(old: dict[str, Json], patch: Mapping[str, Json]) -> _ChangedValue:
    result, grown = dict(old), 0
    for key, value in patch.items():
        is_present = key in result
        if value is None:
            if is_present:
                removed = result.pop(key)
                grown -= _entry_size(key, removed, others=len(result))
            continue
        if isinstance(value, dict):
            before: Json = result.get(key)
            inside = cast("_Object", before) if isinstance(before, dict) else {}
            inner = _merge(inside, cast("_Object", value))
            new = inner.value
            if isinstance(before, dict):
                result[key] = new
                grown += inner.grown
                continue
        else:
            new = value
        grown += _size(new) - _size(result[key]) if is_present else 0
        grown += 0 if is_present else _entry_size(key, new, others=len(result))
        result[key] = new
    return _ChangedValue(result, grown)


def _check_equal(found: Json, wanted: Json) -> None:
    """Checks that two values are the same JSON.

    Raises:
        OperationRefused: they are not.
    """
    if not _equal(found, wanted):
        raise OperationRefused("the test does not hold: it is another value")


def _equal(value: Any, wanted: Any) -> bool:
    if isinstance(value, dict) and isinstance(wanted, dict):
        a, b = cast("_Object", value), cast("_Object", wanted)
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(value, list) and isinstance(wanted, list):
        c, d = cast("_Items", value), cast("_Items", wanted)
        return len(c) == len(d) and all(map(_equal, c, d))
    # `==` takes 1 and true for equal.
    return bool(isinstance(value, bool) == isinstance(wanted, bool) and value == wanted)


# -- sizes -----------------------------------------------------------------------------------


def _size(value: Json) -> int:
    return len(canonical(value))


def _entry_size(key: str, value: Json, *, others: int) -> int:
    """The bytes of a key and its value in an object, with a comma if there are other keys."""
    return len(json.dumps(key)) + 1 + _size(value) + (others > 0)


def _depth(value: Json) -> int:
    """How deep a value is nested, at most `DEEPEST + 1`."""
    level: list[Json] = [value]
    for depth in range(DEEPEST + 1):
        below: list[Json] = []
        for each in level:
            if isinstance(each, dict):
                below += cast("_Object", each).values()
            elif isinstance(each, list):
                below += cast("_Items", each)
        if not below:
            return depth
        level = below
    return DEEPEST + 1
