"""Creatures that left a run when its graph was split: where they live, and what they took."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from crewlog.definition.creatures import creatures_of
from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.errors import StoreIncomplete, UsageError
from crewlog.ids import LogName, RunId
from crewlog.state.journal import TopologyChanged, entry_from_json
from crewlog.state.model import CrewState, Lineage, LogHead
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
    found = {name: await _lives_on(store, name, RunId(home), over) for name, home in away.items()}
    return {name: str(home) for name, home in found.items() if home is not None and home != run}


async def check_home(store: Store, state: CrewState) -> None:
    """Checks that creatures of a part, which is to go on, do not live again where they had left.

    Args:
        store: The store.
        state: The part, as it would go on.

    Raises:
        UsageError: they do: that run went back to its recipe while this one had ended.
    """
    if state.source is None or not state.source.split:
        return
    names, at = {*creatures_of(await _crew(store, state))}, state
    while (source := at.source) is not None and source.split:
        names &= await _took(store, source, at.run)
        if not names or await store.get_run(source.run) is None:
            return
        at = await load_state(store, source.run)
        if not at.definition:
            return
        both = sorted(names & {*creatures_of(await _crew(store, at))})
        if both:
            raise UsageError(
                f"the run {source.run!r} went back to its recipe, and has {listed(both)} of "
                f"{state.run!r} again",
                remedy=f"`crewlog fork {state.run}@POSITION` goes on with copies of them.",
            )


async def _took(store: Store, source: Lineage, part: RunId) -> set[str]:
    """Who left a run for a part of it."""
    for row in await store.read_journal(source.run, source.position - 1, 1):
        entry = entry_from_json(row.entry)
        if isinstance(entry, TopologyChanged):
            return {str(n) for p in entry.parts if p.graph == part for n in p.share.creatures}
    return set()


async def _crew(store: Store, state: CrewState) -> CrewDefinition:
    return CrewDefinition.from_json(await store.get_definition(state.definition))


async def _lives_on(store: Store, name: str, home: RunId, over: Over) -> RunId | None:
    """The run in which a creature lives that left for one; none where all of these have ended.

    It may have gone on from there, by another split, or by a merge, and be called otherwise.
    """
    seen: set[RunId] = set()
    while home not in seen:
        seen.add(home)
        row = await store.get_run(home)
        if row is None:
            return None
        try:
            state = await load_state(store, home)
            crew = await _crew(store, state)
        except StoreIncomplete:
            return None
        away = crew.graph.away if crew.graph is not None else {}
        if name in away:
            home = RunId(away[name])
        elif state.merged_into is not None:
            called = {each.was: each.now for each in state.renamed_there if each.kind == "creature"}
            home, name = state.merged_into, called.get(name, name)
        else:
            return None if state.closed or await over(home) else home
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
