"""Creatures that left a run when its graph was split: where they live, and what they took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from crewlog.definition.creatures import creatures_of
from crewlog.definition.model import CrewDefinition
from crewlog.errors import StoreIncomplete
from crewlog.ids import AgentName, LogName, RunId
from crewlog.state.claim import ClaimedAgent, ClaimOwner
from crewlog.state.journal import ComponentChanged, entry_from_json
from crewlog.state.model import CrewState, LogHead
from crewlog.state.split import split_source_run_id
from crewlog.store.claims import Over, claim_agents, goes_on, reject_executions
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import Store


class RemoteAgents(NamedTuple):
    """Where creatures are that left a run."""

    live: Mapping[str, str]
    """The runs in which some live, by name."""
    back: Mapping[AgentName, ClaimedAgent]
    """Those that may come home: their runs have ended."""


async def find_remote_agents(
    store: Store,
    run: RunId,
    away: Mapping[str, str],
    over: Over,
    taker: ClaimOwner | None = None,
) -> RemoteAgents:
    """Where creatures are that left a run; those whose run has ended live nowhere.

    Args:
        store: The store.
        run: The run that they left.
        away: The runs that they left for.
        over: Tells whether a run has ended.
        taker: The run, where it is about to take home who lives nowhere: they are claimed, and
            whom another run has claimed first lives there. None: it is only looked.
    """
    live: dict[str, str] = {}
    back: dict[AgentName, ClaimedAgent] = {}
    # A run that is about to go on does so with all of its creatures, or with none: were the rest
    # taken from it, it would not, and these would live nowhere.
    busy: set[RunId] = set()
    for name, home in sorted(away.items()):
        found = await _find_remote_agent(
            store, run, AgentName(name), RunId(home), over, taker, busy
        )
        if isinstance(found, ClaimedAgent):
            back[AgentName(name)] = found
        elif found is not None:
            live[name] = found
    return RemoteAgents(live, back)


async def check_claimable(store: Store, then: CrewState, end: CrewState) -> None:
    """Checks that creatures of a run that is to go on do not live again where they had left.

    Args:
        store: The store.
        then: The run, as it would go on.
        end: The same, as it ended.

    Raises:
        UsageError: they do: that run went back to its recipe while this one had ended.
    """
    await claim_agents(store, await claimable_agents(store, then, end), _ended, None)


async def claimable_agents(store: Store, then: CrewState, end: CrewState) -> list[ClaimedAgent]:
    """The creatures of a run that has ended which another run may take home.

    Of a run that is no part of another one, and never had one come into it, nobody does.

    Args:
        store: The store.
        then: The run, as it would go on.
        end: The same, as it ended.
    """
    if not split_source_run_id(end):
        ties = await store.lineage_links([end.run])
        if not any(each.run == end.run and each.by_merge for each in ties):
            return []
    return [_left(end, name) for name in creatures_of(await _crew(store, then))]


async def _ended(run: RunId) -> tuple[str, ...]:
    """Takes every run for one that has ended: then only what is recorded counts."""
    del run
    return ()


async def _crew(store: Store, state: CrewState) -> CrewDefinition:
    return CrewDefinition.from_json(await store.get_definition(state.definition))


async def _find_remote_agent(
    store: Store,
    run: RunId,
    name: AgentName,
    home: RunId,
    over: Over,
    taker: ClaimOwner | None,
    busy: set[RunId],
) -> RunId | ClaimedAgent | None:
    """The run in which a creature lives that left one for another.

    It may have gone on from there, by another split, or by a merge, and be called otherwise; or it
    went home to a run between the two.

    Returns:
        The run; what the creature was where all of these have ended; or none where it is the run's
        own again, or nobody knows what it was.
    """
    seen: set[tuple[RunId, str]] = set()
    shut: set[RunId] = set()
    has: RunId | None = None
    while home != run and (home, name) not in seen:
        left, closed = ClaimedAgent(run=home, name=name), False
        if await store.get_run(home) is not None:
            try:
                state = await load_state(store, home)
                crew = await _crew(store, state)
            except StoreIncomplete:
                return None
            on = _next_run(state, crew, name)
            if on is not None:
                seen.add((home, name))
                home, name = on
                continue
            if home in busy:
                return home
            closed = state.is_ended
            left = _left(state, name)
        if not closed:
            executions = await over(home)
            if executions is None:
                return home
            if taker is not None and home not in shut:
                await reject_executions(store, home, executions)
                shut.add(home)
                continue  # what it was storing meanwhile counts
        word = await goes_on(store, left, over, taker)
        if word.say == "ours":
            return left
        if word.say == "about to":
            busy |= {word.run} & {home}
            return word.run
        if word.say == "went on":
            seen.add((home, name))
            has = home = word.run
            name = word.name
    return None if home == run else has


def _next_run(
    state: CrewState, crew: CrewDefinition, name: AgentName
) -> tuple[RunId, AgentName] | None:
    """Where a creature went on from a run, and its name there; none where it did not."""
    if name in crew.away:
        return RunId(crew.away[name]), name
    if state.surviving_run is None:
        return None
    called = {each.was: each.now for each in state.surviving_run_renames if each.kind == "creature"}
    return state.surviving_run, AgentName(called.get(name, name))


def _left(state: CrewState, name: str) -> ClaimedAgent:
    return ClaimedAgent(
        run=state.run, name=AgentName(name), began=state.started_at, execution=state.execution
    )


async def remote_agent_logs(store: Store, run: RunId, then: CrewState) -> dict[LogName, LogHead]:
    """The logs that left a run with creatures that are away, as they were when each left.

    Args:
        store: The store.
        run: The run.
        then: Its state: the splits before it count.

    Raises:
        StoreIncomplete: the store lacks a part of its journal.
    """
    crew = CrewDefinition.from_json(await store.get_definition(then.definition))
    if not crew.away:
        return {}
    found: dict[LogName, LogHead] = {}
    after = 0
    while rows := await store.read_journal(run, after):
        for row in rows:
            entry = entry_from_json(row.entry)
            if (
                isinstance(entry, ComponentChanged)
                and entry.split_runs
                and row.position <= then.position
            ):
                now = await load_state(store, run, row.position)
                before = await load_state(store, run, row.position - 1)
                gone = before.messages.keys() - now.messages.keys()
                found |= {log: before.messages[log] for log in sorted(gone)}
        after = rows[-1].position
    return found
