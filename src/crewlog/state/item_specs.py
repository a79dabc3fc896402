"""What the items of a list say of how they are worked on: who does it, and what it comes after.

    [{"id": "api", "agent": "backend", "task": …}, {"id": "page", "agent": "web", "after": ["api"]}]

The workflow routes by that and by nothing else of an item; a long list's bodies it never reads. So
the shape of a list is kept beside its hash, and is read as leniently as models write: a number is
an id, and one id is a list of one.

Every execution carries it, so it is small: agents and items are numbers, items that stand side by
side are kept by the first and the last of them, and there is a bound to all of it. What is over
that is a fault of the list, and told as any other. A plan of 200 steps fits, whatever it says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from crewlog.definition.findings import did_you_mean
from crewlog.model import Json, Model

LONGEST_ID = 64
"""Characters of an id, or of an agent's name, in an item."""
FAULTS_TOLD = 5
"""Faults of a list that are told, at most."""
NEAR_AMONG = 500
"""Ids among which one is looked for that is near to one that is not there."""
MOST_ITEMS = 10_000
"""Items of a list that says how they are worked on."""
MOST_READ = 100_000
"""Ids in the `after` of all items together, which are read at all."""
MOST_WAITS = 10_000
"""What is kept of them: items that stand side by side count twice at the most, however many they
are."""
MOST_ADDED = 20
"""Ids in the `after` of a large item that is added to a list by itself: kept as they are."""
MOST_NAMES = 100
"""Different agents that items name."""
NAMED_IDS = 2_000
"""Characters of the ids that are kept, so that people are told of items by them."""
MOST_BYTES = 65_536
"""Bytes of JSON of the shapes of all lists of a run together."""


class ItemSpec(Model):
    """What an item says of how it is worked on."""

    id: str = ""
    """The name by which other items wait for it; empty: none."""
    named: dict[str, str] = Field(default_factory=dict[str, str])
    """The agents that it names, by the key at which it does."""
    after: tuple[str, ...] = ()
    """The ids of the items that it waits for."""
    fault: str = ""
    """What is wrong with what it says, for people."""


def item_spec(item: Json, keys: Collection[str]) -> ItemSpec:
    """What an item says of how it is worked on.

    Args:
        item: The item; what is no object says nothing.
        keys: The keys at which it may name an agent.
    """
    if not isinstance(item, dict):
        return ItemSpec()
    fields: dict[str, Json] = item  # pyright: ignore[reportUnknownVariableType]
    faults: list[str] = []
    named = {
        key: name
        for key in sorted(keys)
        if (name := _name(fields.get(key), f"its {key!r}", faults))
    }
    after: Json = fields.get("after")
    if after is None or after == "":
        waits: list[Any] = []
    else:
        waits = after if isinstance(after, list) else [after]  # pyright: ignore[reportUnknownVariableType]
    return ItemSpec(
        id=_name(fields.get("id"), "its id", faults),
        named=named,
        after=tuple(dict.fromkeys(_name(each, "its 'after'", faults, some=True) for each in waits)),
        fault="; ".join(dict.fromkeys(faults)),
    )


class ListSpec(Model):
    """What a list's items say of how they are worked on, all together."""

    names: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """By key: the agents that items name at it."""
    whose: dict[str, tuple[int, ...]] = Field(default_factory=dict[str, tuple[int, ...]])
    """By key, by item: which of them, from 1. 0: none, below zero: what it says is no name."""
    after: tuple[tuple[int, ...], ...] = ()
    """By item: those that it waits for, see `packed`; empty: none waits for another."""
    ids: tuple[str, ...] = ()
    """By item: its id, where they are short: what is wrong is told of it by that."""
    faults: tuple[str, ...] = ()
    """What is wrong with it, whoever works on it; the first ones."""
    more: int = 0
    """How many more faults there are."""

    def named(self, number: int, key: str) -> str | None:
        """The agent that an item names at a key; empty: none, and none where that is a fault."""
        which = self.whose[key][number - 1] if key in self.whose else 0
        return None if which < 0 else self.names[key][which - 1] if which else ""

    def called(self, number: int) -> str:
        """An item, for people."""
        return _called(number, self.ids[number - 1] if self.ids else "")


def list_spec(items: Sequence[Json], keys: Collection[str]) -> ListSpec | None:
    """What a list's items say of how they are worked on; none where that is nothing.

    Ids alone say nothing: nobody waits for them, and nobody asked for them to be different.
    """
    waits = sum(map(_waits, items))
    if not keys and not waits:
        return None
    if len(items) > MOST_ITEMS:
        return _too_large(f"it has {len(items):,} items, and at most {MOST_ITEMS:,}")
    if waits > MOST_READ:
        return _too_large(f"its items wait for {waits:,} others, and at most {MOST_READ:,}")
    return joined([item_spec(item, keys) for item in items], keys)


def _waits(item: Json) -> int:
    """How many others an item says that it waits for."""
    if not isinstance(item, dict):
        return 0
    fields: dict[str, Json] = item  # pyright: ignore[reportUnknownVariableType]
    after = fields.get("after")
    if after is None or after == "":
        return 0
    return len(after) if isinstance(after, list) else 1  # pyright: ignore[reportUnknownArgumentType]


def _too_large(what: str) -> ListSpec:
    said = f"{what} can be where items say who works on them, or after which others"
    return ListSpec(faults=(f"{said}. Make several lists of it",))


def joined(shapes: Sequence[ItemSpec], keys: Collection[str]) -> ListSpec:
    """The shape of a list, of what its items say one by one."""
    numbers = {shape.id: number for number, shape in enumerate(shapes, 1) if shape.id}
    faults = list(_faults(shapes, numbers))
    after = tuple(packed(numbers[i] for i in s.after if i in numbers) for s in shapes)
    if not faults and (circle := _circle(after)):
        faults.append(_cycle_text(circle, shapes))
    names: dict[str, tuple[str, ...]] = {}
    whose: dict[str, tuple[int, ...]] = {}
    for key in sorted(keys):
        said = [shape.named.get(key, "") for shape in shapes]
        known = {name: at for at, name in enumerate(dict.fromkeys(filter(None, said)), 1)}
        names[key] = tuple(known)
        pairs = zip(said, shapes, strict=True)
        whose[key] = tuple(known[n] if n else -1 if s.fault else 0 for n, s in pairs)
    return ListSpec(
        names=names,
        whose=whose,
        after=after if any(after) else (),
        ids=tuple(s.id for s in shapes) if sum(len(s.id) for s in shapes) <= NAMED_IDS else (),
        faults=tuple(faults[:FAULTS_TOLD]),
        more=max(0, len(faults) - FAULTS_TOLD),
    )


def bounded_spec(shape: ListSpec) -> ListSpec:
    """A list's shape, where it is small enough to be kept; else one that says that it is not."""
    waits = sum(map(len, shape.after))
    if waits > MOST_WAITS:
        each = max(sum(last - first + 1 for first, last in spans(packed)) for packed in shape.after)
        what = f"its items wait for up to {each:,} others each, for {waits:,} together"
        return _too_large(f"{what}, and at most {MOST_WAITS:,} together")
    named = max(map(len, shape.names.values()), default=0)
    if named > MOST_NAMES:
        return _too_large(f"its items name {named:,} agents, and at most {MOST_NAMES}")
    return shape


def packed(numbers: Iterable[int]) -> tuple[int, ...]:
    """Numbers in order, each row of three or more by its first and, below zero, its last."""
    found: list[int] = []
    row: list[int] = []
    for number in sorted({*numbers}):
        if row and number != row[-1] + 1:
            found += _row(row)
            row = []
        row.append(number)
    return (*found, *_row(row))


def _row(row: list[int]) -> list[int]:
    return [row[0], -row[-1]] if len(row) > 2 else row


def spans(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and the last of each row of what is `packed`; of one that stands alone: itself."""
    for at, number in enumerate(numbers):
        if number > 0:
            last = numbers[at + 1] if at + 1 < len(numbers) else number
            yield number, -last if last < 0 else number


def unpacked_numbers(numbers: Sequence[int]) -> tuple[int, ...]:
    """The numbers that are `packed`."""
    return tuple(each for first, last in spans(numbers) for each in range(first, last + 1))


def has_any_of(numbers: Sequence[int], others: Sequence[int]) -> bool:
    """Whether any of what is `packed` is among others, which are in order."""
    for first, last in spans(numbers):
        at = bisect_left(others, first)
        if at < len(others) and others[at] <= last:
            return True
    return False


def _faults(shapes: Sequence[ItemSpec], ids: Mapping[str, int]) -> Iterator[str]:
    """What is wrong with single items."""
    first: dict[str, int] = {}
    told = 0
    for number, shape in enumerate(shapes, 1):
        said = _called(number, shape.id)
        if shape.fault:
            yield f"{said}: {shape.fault}"
            continue
        if shape.id and first.setdefault(shape.id, number) != number:
            yield f"items {first[shape.id]} and {number} have the same id {shape.id!r}"
        for other in shape.after:
            if other not in ids:
                told += 1
                near = told <= FAULTS_TOLD and len(ids) <= NEAR_AMONG and did_you_mean(other, ids)
                what = f"{said} waits for {other!r}, which no item has as its id. {near or ''}"
                yield what.rstrip(" .")


def _called(number: int, name: str) -> str:
    return f"item {number} ({name!r})" if name else f"item {number}"


def _circle(after: Sequence[Sequence[int]]) -> list[int]:
    """Items that wait for each other in a circle, in order; empty where there are none."""
    open_ = {number: {*unpacked_numbers(waits)} for number, waits in enumerate(after, 1)}
    behind: dict[int, list[int]] = {}
    for number, waits in open_.items():
        for each in waits:
            behind.setdefault(each, []).append(number)
    ready = [number for number, waits in open_.items() if not waits]
    while ready:
        done = ready.pop()
        del open_[done]
        for number in behind.get(done, ()):
            open_[number].discard(done)
            if not open_[number]:
                ready.append(number)
    if not open_:
        return []
    way = [min(open_)]  # each of those left waits for another one that is left
    there = {way[0]: 0}
    while (following := min(open_[way[-1]])) not in there:
        there[following] = len(way)
        way.append(following)
    return way[there[following] :]


def _cycle_text(circle: Sequence[int], shapes: Sequence[ItemSpec]) -> str:
    names = [repr(shapes[number - 1].id) for number in circle]
    if len(names) == 1:
        return f"item {circle[0]} ({names[0]}) waits for itself"
    shown = [*names[:6], "…"] if len(names) > 6 else names
    return f"items wait for each other in a circle: {' after '.join([*shown, names[0]])}"


def _name(value: Json, what: str, faults: list[str], *, some: bool = False) -> str:
    """A name as a text; what is none is a fault."""
    if value is None and not some:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or (some and not value):
        faults.append(f"{what} is {_kind(value)} and no name")
        return ""
    if len(value) > LONGEST_ID:
        faults.append(f"{what} has {len(value)} characters, and at most {LONGEST_ID} are a name")
        return value[:LONGEST_ID]
    return value


def _kind(value: Json) -> str:
    kinds = {str: "empty", bool: "a truth value", dict: "an object", list: "a list"}
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    return kinds.get(kind, "null" if value is None else "a number")
