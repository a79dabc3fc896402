"""Creatures that left a run when its graph was split: where they live, and what they took."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from crewlog.definition.creatures import creatures_of
from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.errors import StoreIncomplete, UsageError
from crewlog.ids import LogName, RunId
from crewlog.state.journal import TopologyChanged, entry_from_json
from crewlog.state.model import CLOSED, CrewState, LogHead
from crewlog.store.loading import load_state
from crewlog.store.protocol import Store

Over = Callable[[RunId], Awaitable[bool]]
"""Whether a run has ended that the store knows as open, as the server says."""


async def as_stored(run: RunId) -> bool:
    """Takes every run for one that goes on, where the store knows no other."""
    del run
    return False


async def homes_of(
    store: Store, run: RunId, away: Mapping[str, str], over: Over = as_stored
) -> dict[str, str]:
    """Where creatures live that left a run, by name; those whose run has ended live nowhere.

    Args:
        store: The store.
        run: The run that they left.
        away: The runs that they left for.
        over: Tells of a run that was ended from outside.
    """
    found = {home: await _lives_on(store, RunId(home), over) for home in {*away.values()}}
    there = {name: found[home] for name, home in away.items()}
    return {name: str(home) for name, home in there.items() if home is not None and home != run}


async def check_home(store: Store, state: CrewState) -> None:
    """Checks that creatures of a part, which is to go on, do not live again where they had left.

    Args:
        store: The store.
        state: The part, as it would go on.

    Raises:
        UsageError: they do: that run went back to its recipe while this one had ended.
    """
    source = state.source
    if source is None or not source.split or await store.get_run(source.run) is None:
        return
    there = await load_state(store, source.run)
    if there.merged_into is not None or not there.definition:
        return
    here = creatures_of(CrewDefinition.from_json(await store.get_definition(state.definition)))
    home = creatures_of(CrewDefinition.from_json(await store.get_definition(there.definition)))
    both = [name for name in here if name in home]
    if both:
        raise UsageError(
            f"the run {source.run!r} went back to its recipe, and has {listed(both)} of "
            f"{state.run!r} again",
            remedy=f"`crewlog fork {state.run}@POSITION` goes on from here with copies of them.",
        )


async def _lives_on(store: Store, home: RunId, over: Over) -> RunId | None:
    """The run that one lives on as, itself or by a merge; none where it has ended or is deleted."""
    seen: set[RunId] = set()
    while home not in seen:
        seen.add(home)
        row = await store.get_run(home)
        if row is None:
            return None
        if row.status != "merged":
            return None if row.status in CLOSED or await over(home) else home
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
