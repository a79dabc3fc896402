"""The agents and dependencies that the items of a list name.

    [{"id": "api", "agent": "backend", "task": …}, {"id": "page", "agent": "web", "after": ["api"]}]

The workflow routes by these fields alone and never reads the bodies of a long list. So the state
keeps a `ListSpec` beside the list's hash. Parsing is lenient, since models write the items: a
number is an id, and a single id is a list of one.

Continue-as-new carries the spec, so it is small: agents and items are numbers, consecutive items
are kept as ranges, and its size is limited. A list beyond a limit has an error, like any other
error of a list. A plan of 200 steps always fits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import Field

from crewlog.definition.findings import did_you_mean
from crewlog.model import Json, Model

LONGEST_ID = 64
"""The most characters of an id, or of an agent's name, in an item."""
FAULTS_TOLD = 5
"""The most errors of a list that are reported."""
NEAR_AMONG = 500
"""The most ids that are searched for one similar to an unknown id."""
MOST_ITEMS = 10_000
"""The most items of a list with agents or dependencies."""
MOST_READ = 100_000
"""The most ids that are read in the `after` of all items together."""
MOST_WAITS = 10_000
"""The most numbers that are kept of them: a range of consecutive items counts as two."""
MOST_ADDED = 20
"""The most ids in the `after` of a large item that is appended to a list; they are kept as ids."""
MOST_NAMES = 100
"""The most different agents that items name."""
NAMED_IDS = 2_000
"""The most characters of all ids together for which errors name items by id."""
MOST_BYTES = 65_536
"""The most bytes of JSON of all specs of a run."""


class ItemSpec(Model):
    """The id, agents and dependencies of an item."""

    id: str = ""
    """The id that other items name in `after`; empty: none."""
    named: dict[str, str] = Field(default_factory=dict[str, str])
    """The agents that it names, by the key of the item that names them."""
    after: tuple[str, ...] = ()
    """The ids of the items that it waits for."""
    error: str = ""
    """What is wrong with what it says, for people."""


def item_spec(item: Json, keys: Collection[str]) -> ItemSpec:
    """The id, agents and dependencies of an item.

    Args:
        item: The item; a value that is not an object has none of them.
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
        error="; ".join(dict.fromkeys(faults)),
    )


class ListSpec(Model):
    """The agents and dependencies of all items of a list."""

    names: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """The agents that items name, by key."""
    owners: dict[str, tuple[int, ...]] = Field(default_factory=dict[str, tuple[int, ...]])
    """By key, by item: which of them, from 1. 0: none, below zero: what it says is no name."""
    after: tuple[tuple[int, ...], ...] = ()
    """By item: those that it waits for, see `packed`; empty: none waits for another."""
    ids: tuple[str, ...] = ()
    """By item: its id, where they are short: what is wrong is told of it by that."""
    errors: tuple[str, ...] = ()
    """What is wrong with it, whoever works on it; the first ones."""
    more: int = 0
    """How many more faults there are."""

    def named(self, number: int, key: str) -> str | None:
        """The agent that an item names at a key; empty: none, and none where that is a fault."""
        which = self.owners[key][number - 1] if key in self.owners else 0
        return None if which < 0 else self.names[key][which - 1] if which else ""

    def called(self, number: int) -> str:
        """An item, for people."""
        return _called(number, self.ids[number - 1] if self.ids else "")


def list_spec(items: Sequence[Json], keys: Collection[str]) -> ListSpec | None:
    """The agents and dependencies of a list's items; none if there are neither.

    Ids alone do not count: without `after` they may repeat.
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
    """How many other items an item waits for."""
    if not isinstance(item, dict):
        return 0
    fields: dict[str, Json] = item  # pyright: ignore[reportUnknownVariableType]
    after = fields.get("after")
    if after is None or after == "":
        return 0
    return len(after) if isinstance(after, list) else 1  # pyright: ignore[reportUnknownArgumentType]


def _too_large(what: str) -> ListSpec:
    said = f"{what} can be where items say who works on them, or after which others"
    return ListSpec(errors=(f"{said}. Make several lists of it",))


def joined(shapes: Sequence[ItemSpec], keys: Collection[str]) -> ListSpec:
    """The spec of a list, made of the specs of its items."""
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
        whose[key] = tuple(known[n] if n else -1 if s.error else 0 for n, s in pairs)
    return ListSpec(
        names=names,
        owners=whose,
        after=after if any(after) else (),
        ids=tuple(s.id for s in shapes) if sum(len(s.id) for s in shapes) <= NAMED_IDS else (),
        errors=tuple(faults[:FAULTS_TOLD]),
        more=max(0, len(faults) - FAULTS_TOLD),
    )


def bounded_spec(shape: ListSpec) -> ListSpec:
    """The spec of a list, or if it is too large to carry, a spec with that error."""
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
    """Sorted numbers, where a range of three or more is its first and its negated last number."""
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
        if shape.error:
            yield f"{said}: {shape.error}"
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
