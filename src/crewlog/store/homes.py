"""Creatures that left a run when its graph was split: where they live, and what they took."""

from __future__ import annotations

from collections.abc import Mapping

from crewlog.definition.model import CrewDefinition
from crewlog.errors import StoreIncomplete
from crewlog.ids import LogName, RunId
from crewlog.state.journal import TopologyChanged, entry_from_json
from crewlog.state.model import CLOSED, CrewState, LogHead
from crewlog.store.loading import load_state
from crewlog.store.protocol import Store


async def homes_of(store: Store, run: RunId, away: Mapping[str, str]) -> dict[str, str]:
    """Where creatures live that left a run, by name; those whose run has ended live nowhere.

    Args:
        store: The store.
        run: The run that they left.
        away: The runs that they left for.
    """
    found = {home: await _lives_on(store, RunId(home)) for home in {*away.values()}}
    there = {name: found[home] for name, home in away.items()}
    return {name: str(home) for name, home in there.items() if home is not None and home != run}


async def _lives_on(store: Store, home: RunId) -> RunId | None:
    """The run that one lives on as, itself or by a merge; none where it has ended or is deleted."""
    seen: set[RunId] = set()
    while home not in seen:
        seen.add(home)
        row = await store.get_run(home)
        if row is None:
            return None
        if row.status != "merged":
            return None if row.status in CLOSED else home
        try:
            into = (await load_state(store, home)).merged_into
        except StoreIncomplete:
            return None
        if into is None:
            return None
        home = into
    return None


async def logs_left(store: Store, run: RunId, then: CrewState) -> dict[LogName, LogHead]:
    """The logs that left a run with creatures that are away, as they were when each left.

    Args:
        store: The store.
        run: The run.
        then: Its state: the splits before it count.

    Raises:
        StoreIncomplete: the store lacks a part of its journal.
    """
    crew = CrewDefinition.from_json(await store.get_definition(then.definition))
    if crew.graph is None or not crew.graph.away:
        return {}
    found: dict[LogName, LogHead] = {}
    after = 0
    while rows := await store.read_journal(run, after):
        for row in rows:
            entry = entry_from_json(row.entry)
            if isinstance(entry, TopologyChanged) and entry.parts and row.position <= then.position:
                now = await load_state(store, run, row.position)
                before = await load_state(store, run, row.position - 1)
                gone = before.messages.keys() - now.messages.keys()
                found |= {log: before.messages[log] for log in sorted(gone)}
        after = rows[-1].position
    return found
