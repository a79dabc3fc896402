"""Graphs of creatures, and where each comes from: what the store knows, no run is asked.

What a run does by now, the server may know better; whoever asks may have that put in.

A graph is a run. It began by itself, as a part of another one, or as a copy; it may have taken
others in, or be part of another one by now. A family is all that is connected by that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from crewlog.definition.creatures import creatures_of
from crewlog.definition.model import CrewDefinition
from crewlog.errors import CrewlogError, RunNotFound
from crewlog.ids import ContentHash, RunId
from crewlog.run_status import OPEN
from crewlog.store.protocol import LineageLink, RunRow, Store

LARGEST = 10_000
"""Runs of a family that are looked at."""


@dataclass(frozen=True)
class TakenIn:
    """A graph that became a part of another one."""

    run: RunId
    position: int
    """Where that one's journal says so."""
    when: int = 0
    """When it did, in milliseconds since the epoch; 0 where that is not known any more."""


_Began = Literal["alone", "split", "fork"]


@dataclass(frozen=True)
class Graph:
    """A run as a graph."""

    run: RunId
    crew: str = ""
    status: str = "deleted"
    """A `RunStatus`, as of the last that is stored; `waiting`, `terminated` and the like where the
    server says so; or `deleted`, of a run that others need."""
    started: int = 0
    """Milliseconds since the epoch."""
    ended: int | None = None
    members: tuple[str, ...] = ()
    """Who lives there; nobody, once the run has ended in another one. Empty of a crew without
    creatures."""
    began: _Began = "alone"
    """Whether it began by itself, as a part of its `source`, or as a copy of it."""
    source: RunId | None = None
    at: int = 0
    """Of a fork: the checkpoint of its source that was asked for. Of a part: the position of its
    source after which its own journal begins."""
    took_in: tuple[TakenIn, ...] = ()
    """What became a part of it, or whose logs did."""
    parents: tuple[RunId, ...] = ()
    """The graphs that it comes of: its source, and those that it took in. Of a part, `started` is
    when it was split off."""
    into: RunId | None = None
    """The run that it is a part of by now."""

    @property
    def open(self) -> bool:
        """Whether it lives."""
        return self.status in OPEN


Now = Callable[[Graph], Awaitable[Graph]]
"""Puts in what a graph's run does by now."""


async def as_stored(graph: Graph) -> Graph:
    """Knows nothing newer than the store."""
    return graph


async def family_of(store: Store, run: RunId, now: Now = as_stored) -> list[Graph]:
    """A run, and all that it comes from or that comes from it, the oldest first.

    Args:
        store: The store.
        run: The run.
        now: What else is known.

    Raises:
        RunNotFound: the store knows no such run.
        StoreUnavailable: the store is away.
    """
    ties = await _ties(store, [run])
    runs = {run, *(each.run for each in ties), *(each.source for each in ties)}
    if len(runs) == 1 and await store.get_run(run) is None:
        raise RunNotFound(
            f"the store knows no run {run!r}", remedy="`crewlog graphs` lists those that there are."
        )
    return await _graphs(store, runs, ties, now)


async def living(store: Store, *, ended: bool, limit: int, now: Now = as_stored) -> list[Graph]:
    """The graphs of creatures that live, each with its family; the oldest first.

    Args:
        store: The store.
        ended: Whether families count of which nobody lives any more.
        limit: At most so many runs are looked at, the newest.
        now: What else is known.

    Raises:
        StoreUnavailable: the store is away.
    """
    rows = await store.list_runs(limit=limit)
    definitions = await _definitions(store, (row.definition for row in rows))
    alive = [row.run for row in rows if _lives(definitions.get(row.definition))]
    ties = await _ties(store, alive)
    runs = {*alive, *(each.run for each in ties), *(each.source for each in ties)}
    found = await _graphs(store, runs, ties, now)
    if ended:
        return found
    kept = {run for family in _families(runs, ties) if _any_open(family, found) for run in family}
    return [each for each in found if each.run in kept]


def _any_open(family: set[RunId], found: Iterable[Graph]) -> bool:
    return any(each.open for each in found if each.run in family)


def _families(runs: Iterable[RunId], ties: Iterable[LineageLink]) -> list[set[RunId]]:
    of: dict[RunId, set[RunId]] = {run: {run} for run in runs}
    for tie in ties:
        one, two = of[tie.run], of[tie.source]
        if one is not two:
            one |= two
            for run in two:
                of[run] = one
    return list({id(family): family for family in of.values()}.values())


async def _ties(store: Store, runs: Iterable[RunId]) -> list[LineageLink]:
    """All ties of the families of some runs."""
    found: dict[tuple[RunId, RunId, bool, int], LineageLink] = {}
    seen, ahead = set[RunId](), set(runs)
    while ahead and len(seen) < LARGEST:
        seen |= ahead
        ties = await store.lineage_links(sorted(ahead))
        found |= {(each.run, each.source, each.by_merge, each.position): each for each in ties}
        ahead = {run for each in ties for run in (each.run, each.source)} - seen
    return [found[key] for key in sorted(found)]


async def _graphs(
    store: Store, runs: Iterable[RunId], ties: Iterable[LineageLink], now: Now
) -> list[Graph]:
    rows = {run: await store.get_run(run) for run in sorted(runs)}
    hashes = (row.definition for row in rows.values() if row is not None)
    definitions = await _definitions(store, hashes)
    began = {each.run: each for each in ties if not each.by_merge}
    took: dict[RunId, list[TakenIn]] = {}
    into: dict[RunId, RunId] = {}
    for each in ties:
        if each.by_merge:
            when = await _when(store, each)
            took.setdefault(each.run, []).append(TakenIn(each.source, each.position, when))
            into[each.source] = each.run
    found = [
        await _graph(store, run, row, definitions, began.get(run), took.get(run, []), into)
        for run, row in rows.items()
    ]
    found = await asyncio.gather(*map(now, found))
    return sorted(found, key=lambda each: (each.started, each.run))


async def _graph(
    store: Store,
    run: RunId,
    row: RunRow | None,
    definitions: Mapping[ContentHash, CrewDefinition],
    began: LineageLink | None,
    took: list[TakenIn],
    into: Mapping[RunId, RunId],
) -> Graph:
    source = began.source if began is not None else None
    taken = tuple(sorted(took, key=lambda each: (each.position, each.run)))
    parents = tuple(dict.fromkeys((*filter(None, [source]), *(each.run for each in taken))))
    how: _Began
    if row is None:
        how = "fork" if source else "alone"
        return Graph(run, began=how, source=source, took_in=taken, parents=parents)
    definition = definitions.get(row.definition)
    merged = row.status == "merged"
    alive = definition is not None and definition.lives and not merged
    how, at = await _beginning(store, row) if source else ("alone", row.source_position)
    return Graph(
        run=run,
        crew=row.crew,
        status=row.status,
        started=row.started_at,
        ended=row.ended_at,
        members=creatures_of(definition) if definition is not None and alive else (),
        began=how,
        source=source,
        at=at,
        took_in=taken,
        parents=parents,
        into=into.get(run) if merged else None,
    )


async def _when(store: Store, tie: LineageLink) -> int:
    """When a run took in another one: the entry that says so tells it."""
    found = await store.read_journal(tie.run, tie.position - 1, 1) if tie.position else []
    return int(found[0].entry.get("at", 0)) if found else 0


async def _beginning(store: Store, row: RunRow) -> tuple[_Began, int]:
    """How a run that has a source began, and where: its first entry says so."""
    first = await store.read_journal(row.run, row.source_position, 1)
    entry = first[0].entry if first else {}
    checkpoint = entry.get("checkpoint") or row.source_position
    return "split" if entry.get("split") else "fork", int(str(checkpoint))


async def _definitions(
    store: Store, hashes: Iterable[ContentHash]
) -> dict[ContentHash, CrewDefinition]:
    """The definitions that the store has and this version can read."""
    found: dict[ContentHash, CrewDefinition] = {}
    for each in dict.fromkeys(hashes):
        try:
            found[each] = CrewDefinition.from_json(await store.get_definition(each))
        except CrewlogError:
            continue  # deleted, or of a newer version: who lives there is not known
    return found


def _lives(definition: CrewDefinition | None) -> bool:
    return definition is not None and definition.lives
