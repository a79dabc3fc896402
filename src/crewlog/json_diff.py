"""The walk that computes every difference: of definitions, plans, states, traces and artifacts.

    differences({"a": 1, "b": {"c": 2}}, {"b": {"c": 3}})
    →  changed ("b", "c") 2 → 3, removed ("a",) 1

Objects are compared key by key, down to the leaves. A leaf is a value that is not an object in both
values, an object at the given depth, or an object at a path that the caller declares a leaf. Lists
are leaves, unless the caller says how two lists are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

from crewlog.canonical_json import canonical

if TYPE_CHECKING:  # it needs pydantic, which is slow to import
    from crewlog.model import Json

Path = tuple[str, ...]
"""Keys of objects, and indexes of lists, from the outermost value on."""


class Difference(NamedTuple):
    """A leaf at which two values differ."""

    kind: Literal["added", "removed", "changed"]
    path: Path
    old: Json = None
    """The value before; null if there was none."""
    new: Json = None
    """The value after; null if there is none."""
    label: str = ""
    """The identity of a list item, where its index says little: `id=n7`."""


ListDiff = Callable[[Sequence["Json"], Sequence["Json"], Path], Iterator[Difference]]
"""Compares two lists at a path."""


def is_same(one: Json, other: Json) -> bool:
    """Whether two values are the same JSON; to Python, 1, 1.0 and true are equal."""
    return canonical(one) == canonical(other)


def differences(
    old: Json,
    new: Json,
    path: Path = (),
    *,
    depth: int | None = None,
    is_leaf: Callable[[Path], bool] | None = None,
    lists: ListDiff | None = None,
) -> Iterator[Difference]:
    """The leaves that differ: in the order of `new`, then those that only `old` has.

    Args:
        old: The one value.
        new: The other value.
        path: Where both are.
        depth: The number of levels of objects to walk; none: all.
        is_leaf: Whether what is at a path is compared as a whole.
        lists: How two lists are compared; none: as a whole.
    """
    walks = depth != 0 and not (is_leaf is not None and is_leaf(path))
    if walks and isinstance(old, dict) and isinstance(new, dict):
        before, after = cast("Mapping[str, Json]", old), cast("Mapping[str, Json]", new)
        deeper = None if depth is None else depth - 1
        for key, value in after.items():
            here = (*path, key)
            if key not in before:
                yield Difference("added", here, None, value)
            elif repr(was := before[key]) != repr(value):  # most are written alike: this is fast
                yield from differences(was, value, here, depth=deeper, is_leaf=is_leaf, lists=lists)
        for key, value in before.items():
            if key not in after:
                yield Difference("removed", (*path, key), value)
    elif walks and lists is not None and isinstance(old, list) and isinstance(new, list):
        yield from lists(cast("Sequence[Json]", old), cast("Sequence[Json]", new), path)
    elif not is_same(old, new):
        yield Difference("changed", path, old, new)
