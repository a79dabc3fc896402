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
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import Field

from crewlog.definition.findings import did_you_mean
from crewlog.model import Json, Model

MAX_ID_LENGTH = 64
"""The most characters of an id, or of an agent's name, in an item."""
ERRORS_KEPT = 5
"""The most errors of a list that are reported."""
MAX_IDS_SEARCHED = 500
"""The most ids that are searched for one similar to an unknown id."""
MAX_ITEMS = 10_000
"""The most items of a list with agents or dependencies."""
MAX_IDS_READ = 100_000
"""The most ids that are read in the `after` of all items together."""
MAX_PACKED_NUMBERS = 10_000
"""The most numbers that are kept of them: a range of consecutive items counts as two."""
MAX_APPENDED_IDS = 20
"""The most ids in the `after` of a large item that is appended to a list; they are kept as ids."""
MAX_AGENTS = 100
"""The most different agents that items name."""
MAX_ID_CHARACTERS = 2_000
"""The most characters of all ids together for which errors name items by id."""
MAX_SPEC_BYTES = 65_536
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
    """What is wrong with it, for people."""


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
        if (name := _parse_name(fields.get(key), f"its {key!r}", faults))
    }
    after: Json = fields.get("after")
    if after is None or after == "":
        waits: list[Any] = []
    else:
        waits = after if isinstance(after, list) else [after]  # pyright: ignore[reportUnknownVariableType]
    return ItemSpec(
        id=_parse_name(fields.get("id"), "its id", faults),
        named=named,
        after=tuple(
            dict.fromkeys(_parse_name(each, "its 'after'", faults, some=True) for each in waits)
        ),
        error="; ".join(dict.fromkeys(faults)),
    )


class ListSpec(Model):
    """The agents and dependencies of all items of a list."""

    names: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """The agents that items name, by key."""
    owners: dict[str, tuple[int, ...]] = Field(default_factory=dict[str, tuple[int, ...]])
    """By key, by item: the number of its agent in `names`, from 1. 0: none; below zero: an invalid
    name."""
    after: tuple[tuple[int, ...], ...] = ()
    """By item: the numbers of the items that it waits for, packed; empty if no item waits for
    another."""
    ids: tuple[str, ...] = ()
    """By item: its id, for errors; empty if the ids are long."""
    errors: tuple[str, ...] = ()
    """The first errors of the list."""
    more: int = 0
    """The number of further errors."""

    def named(self, number: int, key: str) -> str | None:
        """The agent that an item names at a key; empty: none. None if the name is invalid."""
        which = self.owners[key][number - 1] if key in self.owners else 0
        return None if which < 0 else self.names[key][which - 1] if which else ""

    def called(self, number: int) -> str:
        """An item, for people."""
        return _item_name(number, self.ids[number - 1] if self.ids else "")


def list_spec(items: Sequence[Json], keys: Collection[str]) -> ListSpec | None:
    """The agents and dependencies of a list's items; none if there are neither.

    Ids alone do not count: without `after` they may repeat.
    """
    waits = sum(map(_dependency_count, items))
    if not keys and not waits:
        return None
    if len(items) > MAX_ITEMS:
        return _too_large(f"it has {len(items):,} items, and at most {MAX_ITEMS:,}")
    if waits > MAX_IDS_READ:
        return _too_large(f"its items wait for {waits:,} others, and at most {MAX_IDS_READ:,}")
    return spec_of_items([item_spec(item, keys) for item in items], keys)


def _dependency_count(item: Json) -> int:
    """How many other items an item waits for."""
    if not isinstance(item, dict):
        return 0
    fields: dict[str, Json] = item  # pyright: ignore[reportUnknownVariableType]
    after = fields.get("after")
    if after is None or after == "":
        return 0
    return len(after) if isinstance(after, list) else 1  # pyright: ignore[reportUnknownArgumentType]


def _too_large(reason: str) -> ListSpec:
    error = f"{reason} are possible if items name agents or dependencies"
    return ListSpec(errors=(f"{error}. Split the list",))


def spec_of_items(specs: Sequence[ItemSpec], keys: Collection[str]) -> ListSpec:
    """The spec of a list, made of the specs of its items."""
    numbers = {spec.id: number for number, spec in enumerate(specs, 1) if spec.id}
    faults = list(_item_errors(specs, numbers))
    after = tuple(
        pack_numbers(numbers[id_] for id_ in spec.after if id_ in numbers) for spec in specs
    )
    if not faults and (circle := _find_cycle(after)):
        faults.append(_cycle_text(circle, specs))
    names: dict[str, tuple[str, ...]] = {}
    owners: dict[str, tuple[int, ...]] = {}
    for key in sorted(keys):
        names_at_key = [spec.named.get(key, "") for spec in specs]
        numbers_by_name = {
            name: at for at, name in enumerate(dict.fromkeys(filter(None, names_at_key)), 1)
        }
        names[key] = tuple(numbers_by_name)
        pairs = zip(names_at_key, specs, strict=True)
        owners[key] = tuple(
            numbers_by_name[n] if n else -1 if spec.error else 0 for n, spec in pairs
        )
    return ListSpec(
        names=names,
        owners=owners,
        after=after if any(after) else (),
        ids=tuple(spec.id for spec in specs)
        if sum(len(spec.id) for spec in specs) <= MAX_ID_CHARACTERS
        else (),
        errors=tuple(faults[:ERRORS_KEPT]),
        more=max(0, len(faults) - ERRORS_KEPT),
    )


def bounded_spec(spec: ListSpec) -> ListSpec:
    """The spec of a list, or if it is too large to carry, a spec with that error."""
    waits = sum(map(len, spec.after))
    if waits > MAX_PACKED_NUMBERS:
        each = max(
            sum(last - first + 1 for first, last in number_ranges(packed)) for packed in spec.after
        )
        what = f"its items wait for up to {each:,} others each, for {waits:,} together"
        return _too_large(f"{what}, and at most {MAX_PACKED_NUMBERS:,} together")
    named = max(map(len, spec.names.values()), default=0)
    if named > MAX_AGENTS:
        return _too_large(f"its items name {named:,} agents, and at most {MAX_AGENTS}")
    return spec


def pack_numbers(numbers: Iterable[int]) -> tuple[int, ...]:
    """Sorted numbers, where a range of three or more is its first and its negated last number."""
    result: list[int] = []
    range_: list[int] = []
    for number in sorted({*numbers}):
        if range_ and number != range_[-1] + 1:
            result += _packed_range(range_)
            range_ = []
        range_.append(number)
    return (*result, *_packed_range(range_))


def _packed_range(range_: list[int]) -> list[int]:
    return [range_[0], -range_[-1]] if len(range_) > 2 else range_


def number_ranges(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The first and last number of each range of packed numbers."""
    for at, number in enumerate(numbers):
        if number > 0:
            last = numbers[at + 1] if at + 1 < len(numbers) else number
            yield number, -last if last < 0 else number


def unpack_numbers(numbers: Sequence[int]) -> tuple[int, ...]:
    """The numbers that are packed."""
    return tuple(each for first, last in number_ranges(numbers) for each in range(first, last + 1))


def has_any_of(numbers: Sequence[int], others: Sequence[int]) -> bool:
    """Whether any of the packed numbers is among others, which are sorted."""
    for first, last in number_ranges(numbers):
        at = bisect_left(others, first)
        if at < len(others) and others[at] <= last:
            return True
    return False


def _item_errors(specs: Sequence[ItemSpec], ids: Mapping[str, int]) -> Iterator[str]:
    """The errors of single items."""
    first: dict[str, int] = {}
    unknown = 0
    for number, spec in enumerate(specs, 1):
        item = _item_name(number, spec.id)
        if spec.error:
            yield f"{item}: {spec.error}"
            continue
        if spec.id and first.setdefault(spec.id, number) != number:
            yield f"items {first[spec.id]} and {number} have the same id {spec.id!r}"
        for other in spec.after:
            if other not in ids:
                unknown += 1
                hint = (
                    unknown <= ERRORS_KEPT
                    and len(ids) <= MAX_IDS_SEARCHED
                    and did_you_mean(other, ids)
                )
                error = f"{item} waits for {other!r}, which no item has as its id. {hint or ''}"
                yield error.rstrip(" .")


def _item_name(number: int, name: str) -> str:
    return f"item {number} ({name!r})" if name else f"item {number}"


def _find_cycle(after: Sequence[Sequence[int]]) -> list[int]:
    """Items that wait for each other in a cycle, in order; empty if there is none."""
    sorter = TopologicalSorter(
        {number: [*unpack_numbers(waits)] for number, waits in enumerate(after, 1)}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1][:0:-1]  # its last item is its first one again
        start = cycle.index(min(cycle))
        return cycle[start:] + cycle[:start]
    return []


def _cycle_text(circle: Sequence[int], specs: Sequence[ItemSpec]) -> str:
    names = [repr(specs[number - 1].id) for number in circle]
    if len(names) == 1:
        return f"item {circle[0]} ({names[0]}) waits for itself"
    names_ = [*names[:6], "…"] if len(names) > 6 else names
    return f"items wait for each other in a cycle: {' after '.join([*names_, names[0]])}"


def _parse_name(value: Json, what: str, faults: list[str], *, some: bool = False) -> str:
    """A name as text; adds an error if it is none."""
    if value is None and not some:
        return ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or (some and not value):
        faults.append(f"{what} must be a name, not {_kind(value)}")
        return ""
    if len(value) > MAX_ID_LENGTH:
        faults.append(f"{what} has {len(value)} characters, and a name at most {MAX_ID_LENGTH}")
        return value[:MAX_ID_LENGTH]
    return value


def _kind(value: Json) -> str:
    kinds = {str: "an empty text", bool: "a truth value", dict: "an object", list: "a list"}
    kind: type[Any] = type(value)  # pyright: ignore[reportUnknownVariableType]
    return kinds.get(kind, "null" if value is None else "a number")
