"""Remote agents, which splits moved to other runs: their present runs, and their logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from crewlog.definition.creatures import creatures_of
from crewlog.definition.model import CrewDefinition
from crewlog.errors import StoreIncomplete
from crewlog.ids import AgentName, LogName, RunId
from crewlog.state.claim import ClaimedAgent, ClaimOwner
from crewlog.state.journal import ComponentChanged, entry_from_json
from crewlog.state.model import CrewState, LogHead
from crewlog.state.split import split_source_run_id
from crewlog.store.claims import EndedExecutions, claim_agent, claim_agents, reject_executions
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import Store


class RemoteAgents(NamedTuple):
    """Where the remote agents of a run are."""

    runs: Mapping[str, str]
    """The runs that have them now, by the name of the agent."""
    claimable: Mapping[AgentName, ClaimedAgent]
    """The agents whose runs have ended: the run may continue them."""


async def find_remote_agents(
    store: Store,
    run: RunId,
    remote: Mapping[str, str],
    ended_executions: EndedExecutions,
    claimant: ClaimOwner | None = None,
) -> RemoteAgents:
    """Finds the runs that the remote agents of a run are in now.

    Args:
        store: The store.
        run: The run.
        remote: Its remote agents, with the runs that splits moved them to.
        ended_executions: Returns the executions of a run if it has ended.
        claimant: The run, if it is about to continue its claimable agents: they are claimed, and
            those that another run has claimed first are in that run. None: nothing is claimed.
    """
    runs: dict[str, str] = {}
    claimable: dict[AgentName, ClaimedAgent] = {}
    # A run is reopened with all of its agents or not at all. So if it is about to be reopened with
    # one of them, the others stay in it: otherwise it would fail, and no run would have that one.
    reopening: set[RunId] = set()
    for name, moved_to in sorted(remote.items()):
        place = await _find_remote_agent(
            store, run, AgentName(name), RunId(moved_to), ended_executions, claimant, reopening
        )
        if isinstance(place, ClaimedAgent):
            claimable[AgentName(name)] = place
        elif place is not None:
            runs[name] = place
    return RemoteAgents(runs, claimable)


async def check_claimable(
    store: Store,
    state: CrewState,
    end_state: CrewState,
    ended_executions: EndedExecutions | None = None,
) -> None:
    """Checks that no other run continues the agents of a run that is to be reopened.

    Args:
        store: The store.
        state: The state that the run would continue from.
        end_state: Its state when it ended.
        ended_executions: Returns the executions of a run if it has ended: an open run that has
            claimed the agents is about to continue them. None: only recorded entries count.

    Raises:
        UsageError: the run that they were split from was reopened from its recipe meanwhile, or is
            about to be.
    """

    async def find_ended(run: RunId) -> Collection[str] | None:
        # A claim of the run itself is of an execution that has ended.
        if ended_executions is None or run == end_state.run:
            return ()
        return await ended_executions(run)

    await claim_agents(store, await claimable_agents(store, state, end_state), find_ended, None)


async def claimable_agents(
    store: Store, state: CrewState, end_state: CrewState
) -> list[ClaimedAgent]:
    """The agents of an ended run that another run may claim.

    There are none unless the run is a split run, or has merged another one.

    Args:
        store: The store.
        state: The state that the run would continue from.
        end_state: Its state when it ended.
    """
    if not split_source_run_id(end_state):
        links = await store.lineage_links([end_state.run])
        if not any(each.run == end_state.run and each.by_merge for each in links):
            return []
    return [_claimed_agent(end_state, name) for name in creatures_of(await _crew(store, state))]


async def _crew(store: Store, state: CrewState) -> CrewDefinition:
    return CrewDefinition.from_json(await store.get_definition(state.definition))


async def _find_remote_agent(
    store: Store,
    run: RunId,
    name: AgentName,
    moved_to: RunId,
    ended_executions: EndedExecutions,
    claimant: ClaimOwner | None,
    reopening: set[RunId],
) -> RunId | ClaimedAgent | None:
    """Finds the run that a remote agent is in now.

    From the run that it was moved to, another split or a run merge may have moved it further, and
    renamed it; or a run in between may have been reopened with it.

    Returns:
        The run; the agent as it was if all of these runs have ended; None if the run itself has it
        again, or the store does not have the rows.
    """
    seen: set[tuple[RunId, str]] = set()
    rejected: set[RunId] = set()
    continued_in: RunId | None = None
    at = moved_to
    while at != run and (at, name) not in seen:
        agent, is_ended = ClaimedAgent(run=at, name=name), False
        if await store.get_run(at) is not None:
            try:
                state = await load_state(store, at)
                crew = await _crew(store, state)
            except StoreIncomplete:
                return None
            next_run = _next_run(state, crew, name)
            if next_run is not None:
                seen.add((at, name))
                at, name = next_run
                continue
            if at in reopening:
                return at
            is_ended = state.is_ended
            agent = _claimed_agent(state, name)
        if not is_ended:
            executions = await ended_executions(at)
            if executions is None:
                return at
            if claimant is not None and at not in rejected:
                await reject_executions(store, at, executions)
                rejected.add(at)
                continue  # it may have stored entries until then
        result = await claim_agent(store, agent, ended_executions, claimant)
        if result.status == "granted":
            return agent
        if result.status == "pending":
            reopening |= {result.run} & {at}
            return result.run
        if result.status == "continued":
            seen.add((at, name))
            continued_in = at = result.run
            name = result.name
    return None if at == run else continued_in


def _next_run(
    state: CrewState, crew: CrewDefinition, name: AgentName
) -> tuple[RunId, AgentName] | None:
    """The run that an agent was moved to, by a split or a run merge, with its name there."""
    if name in crew.away:
        return RunId(crew.away[name]), name
    if state.surviving_run is None:
        return None
    new_names = {each.was: each.now for each in state.surviving_run_renames if each.kind == "agent"}
    return state.surviving_run, AgentName(new_names.get(name, name))


def _claimed_agent(state: CrewState, name: str) -> ClaimedAgent:
    return ClaimedAgent(
        run=state.run, name=AgentName(name), began=state.started_at, execution=state.execution
    )


async def remote_agent_logs(store: Store, run: RunId, state: CrewState) -> dict[LogName, LogHead]:
    """The logs that splits moved away from a run, at their heads before the split.

    Args:
        store: The store.
        run: The run.
        state: Its state: the splits before it count.

    Raises:
        StoreIncomplete: the store lacks a part of its journal.
    """
    crew = CrewDefinition.from_json(await store.get_definition(state.definition))
    if not crew.away:
        return {}
    logs: dict[LogName, LogHead] = {}
    after = 0
    while rows := await store.read_journal(run, after):
        for row in rows:
            entry = entry_from_json(row.entry)
            is_split = isinstance(entry, ComponentChanged) and entry.split_runs
            if is_split and row.position <= state.position:
                now = await load_state(store, run, row.position)
                before = await load_state(store, run, row.position - 1)
                removed = before.messages.keys() - now.messages.keys()
                logs |= {log: before.messages[log] for log in sorted(removed)}
        after = rows[-1].position
    return logs
