"""The diff of two contents of an artifact, as operations.

Objects are compared key by key. Items of a list are matched by their `id`, `name` or `key` if each
item has a different one, and else by value; so an item that is added in front is one change, and
not a change of every item behind it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, cast

from crewlog.canonical_json import canonical
from crewlog.json_diff import Difference, Path, differences
from crewlog.model import Json, Model
from crewlog.state.artifacts import escape_key

IDENTIFIES = ("id", "name", "key")
"""Keys that identify the items of a list."""
LONGEST_LIST = 2_000
"""Items of a list that are aligned; longer lists are compared by index."""


class ContentChange(Model):
    """A difference between two contents of an artifact."""

    kind: Literal["added", "removed", "changed"]
    path: str
    """A JSON pointer. For a removed value it points into the content before the operation."""
    old: Json = None
    new: Json = None
    label: str = ""
    """The identity of a list item, where its index says little: `id=n7`."""


def content_diff(old: Json, new: Json) -> Iterator[ContentChange]:
    """The changes from `old` to `new`, in an order in which they can be applied."""
    for each in differences(old, new, lists=_list_diff):
        path = "".join(f"/{escape_key(key)}" for key in each.path)
        yield ContentChange(kind=each.kind, path=path, old=each.old, new=each.new, label=each.label)


_Object = dict[str, Json]
_Items = Sequence[Json]


def _list_diff(old: _Items, new: _Items, path: Path) -> Iterator[Difference]:
    if max(len(old), len(new)) > LONGEST_LIST:
        yield from _changes_by_index(old, new, path)
        return
    key = _identity_key(old, new)
    before = [_mark(item, key) for item in old]
    now = [_mark(item, key) for item in new]
    index = 0
    for tag, i, i_end, k, k_end in SequenceMatcher(None, before, now, False).get_opcodes():
        if tag == "equal":
            for offset in range(i_end - i):
                yield from _item_diff(old[i + offset], new[k + offset], path, index + offset)
            index += i_end - i
            continue
        paired = 0 if key else min(i_end - i, k_end - k)
        for offset in range(paired):  # items without an identity count as changed
            yield from _item_diff(old[i + offset], new[k + offset], path, index + offset)
        index += paired
        for item in old[i + paired : i_end]:
            yield Difference("removed", (*path, str(index)), item, None, _label(item, key))
        for item in new[k + paired : k_end]:
            yield Difference("added", (*path, str(index)), None, item, _label(item, key))
            index += 1


def _item_diff(old: Json, new: Json, path: Path, index: int) -> Iterator[Difference]:
    yield from differences(old, new, (*path, str(index)), lists=_list_diff)


def _changes_by_index(old: _Items, new: _Items, path: Path) -> Iterator[Difference]:
    for index, (was, now) in enumerate(zip(old, new, strict=False)):
        yield from _item_diff(was, now, path, index)
    for item in old[len(new) :]:
        yield Difference("removed", (*path, str(len(new))), item)
    for index in range(len(old), len(new)):
        yield Difference("added", (*path, str(index)), None, new[index])


def _identity_key(old: _Items, new: _Items) -> str:
    """The key that identifies the items of both lists; empty: none."""
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
