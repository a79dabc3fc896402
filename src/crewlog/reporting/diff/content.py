"""The diff of two contents of an artifact, as operations.

Objects are compared key by key. Items of a list are matched by their `id`, `name` or `key` if each
item has a different one, and else by value; so an item that is added in front is one change, and
not a change of every item behind it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple, cast

from crewlog.canonical_json import canonical
from crewlog.model import Json
from crewlog.state.artifacts import after, begin, body_of, escaped

IDENTIFIES = ("id", "name", "key")
"""Keys by which items of a list are told apart."""
LONGEST_LIST = 2_000
"""Items of a list that are aligned; longer ones are compared place by place."""


class ContentChange(NamedTuple):
    """A place at which two contents differ."""

    kind: Literal["added", "removed", "changed"]
    path: str
    """Where: of what was removed in the content as it is by then, of all else as it will be."""
    old: Json = None
    new: Json = None
    label: str = ""
    """What an item of a list calls itself, where its place says little: `id=n7`."""

    def operation(self) -> dict[str, Json]:
        """The difference as an operation."""
        match self.kind:
            case "added":
                return {"op": "add", "path": self.path, "value": self.new}
            case "removed":
                return {"op": "remove", "path": self.path}
            case "changed":
                return {"op": "replace", "path": self.path, "value": self.new}


def differences(old: Json, new: Json, path: str = "") -> Iterator[ContentChange]:
    """What makes `new` of `old`, in an order in which it can be done."""
    if isinstance(old, dict) and isinstance(new, dict):
        yield from _object_changes(cast("_Object", old), cast("_Object", new), path)
    elif isinstance(old, list) and isinstance(new, list):
        yield from _lists(cast("_Items", old), cast("_Items", new), path)
    elif canonical(old) != canonical(new):
        yield ContentChange("changed", path, old, new)


def patched(old: Json, found: Iterable[ContentChange]) -> Json:
    """A content after differences."""
    return after(begin(old), body_of("", "", [each.operation() for each in found])).value


_Object = dict[str, Json]
_Items = Sequence[Json]


def _object_changes(old: _Object, new: _Object, path: str) -> Iterator[ContentChange]:
    for key, value in old.items():
        if key not in new:
            yield ContentChange("removed", f"{path}/{escaped(key)}", value)
    for key, value in new.items():
        inner = f"{path}/{escaped(key)}"
        if key in old:
            yield from differences(old[key], value, inner)
        else:
            yield ContentChange("added", inner, None, value)


def _lists(old: _Items, new: _Items, path: str) -> Iterator[ContentChange]:
    if max(len(old), len(new)) > LONGEST_LIST:
        yield from _changes_by_index(old, new, path)
        return
    key = _identity_key(old, new)
    before = [_mark(item, key) for item in old]
    now = [_mark(item, key) for item in new]
    place = 0
    for tag, i, i_end, k, k_end in SequenceMatcher(None, before, now, False).get_opcodes():
        if tag == "equal":
            for offset in range(i_end - i):
                inner = f"{path}/{place + offset}"
                yield from differences(old[i + offset], new[k + offset], inner)
            place += i_end - i
            continue
        paired = 0 if key else min(i_end - i, k_end - k)
        for offset in range(paired):  # nothing tells them apart: they are taken for changed
            yield from differences(old[i + offset], new[k + offset], f"{path}/{place + offset}")
        place += paired
        for item in old[i + paired : i_end]:
            yield ContentChange("removed", f"{path}/{place}", item, label=_label(item, key))
        for item in new[k + paired : k_end]:
            yield ContentChange("added", f"{path}/{place}", None, item, label=_label(item, key))
            place += 1


def _changes_by_index(old: _Items, new: _Items, path: str) -> Iterator[ContentChange]:
    for place, (was, now) in enumerate(zip(old, new, strict=False)):
        yield from differences(was, now, f"{path}/{place}")
    for item in old[len(new) :]:
        yield ContentChange("removed", f"{path}/{len(new)}", item)
    for place in range(len(old), len(new)):
        yield ContentChange("added", f"{path}/{place}", None, new[place])


def _identity_key(old: _Items, new: _Items) -> str:
    """The key that every item of both lists has, with a text of its own in each."""
    for key in IDENTIFIES:
        if all(_names(items, key) for items in (old, new)) and (old or new):
            return key
    return ""


def _names(items: _Items, key: str) -> bool:
    found: list[Any] = [cast("_Object", i).get(key) if isinstance(i, dict) else None for i in items]
    return all(isinstance(each, str) for each in found) and len({*found}) == len(found)


def _label(item: Json, key: str) -> str:
    return f"{key}={item[key]}" if key else ""


def _mark(item: Json, key: str) -> Hashable:
    return item[key] if key else canonical(item)
