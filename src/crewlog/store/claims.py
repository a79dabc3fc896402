"""Claims: a run takes ownership of the agents of an ended run before it continues them.

Two runs may want to continue the agents of an ended run: that run itself, when it is reopened, and
the run that they were split from, when it is reopened from its recipe. Each records in its own
journal that it continues them, and only after it has read the other one. So each claims every agent
first. A claim whose owner ended without recording anything is void. See docs/decisions/0057.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Literal, NamedTuple

from crewlog.definition.findings import listed
from crewlog.errors import UsageError
from crewlog.ids import AgentName, RunId
from crewlog.state.claim import ClaimedAgent, ClaimOwner, parse_claim_owner
from crewlog.state.journal import (
    JournalEntry,
    MergeFailed,
    RunReopened,
    SwapFailed,
    entry_from_json,
)
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import Store

EndedExecutions = Callable[[RunId], Awaitable[Collection[str] | None]]
"""Returns the last executions of an ended run, from the server; None while the run is open."""


class ClaimResult(NamedTuple):
    """The result of a claim."""

    status: Literal["granted", "run_changed", "pending", "continued"]
    """`granted`: the claimant owns the agent, or nobody does. `run_changed`: nobody does, but its
    run was executed again since it was looked up. `pending`: another run has claimed it, and has
    not recorded yet that it continues it. `continued`: another run has recorded that."""
    run: RunId = RunId("")
    """The other run."""
    name: AgentName = AgentName("")
    """The name of the agent there."""


GRANTED = ClaimResult("granted")


async def claim_agent(
    store: Store,
    agent: ClaimedAgent,
    ended_executions: EndedExecutions,
    claimant: ClaimOwner | None,
) -> ClaimResult:
    """Claims an agent of an ended run.

    Args:
        store: The store.
        agent: The agent.
        ended_executions: Returns the executions of a run if it has ended.
        claimant: The run that claims it; None: nothing is claimed, the owner is only read.
    """
    link = 0
    while True:
        link += 1
        key = agent.key(link)
        owner = await (
            store.key_owner(key)
            if claimant is None
            else store.claim(agent.run, key, claimant.owner)
        )
        if owner is None or (claimant is not None and owner == claimant.owner):
            return GRANTED
        if await store.key_owner(agent.key(link + 1)) is not None:
            continue  # another run has found that this claim is void
        result = await _check_claim(
            store, agent, parse_claim_owner(owner), ended_executions, claimant
        )
        if result is not None:
            return result


async def _check_claim(
    store: Store,
    agent: ClaimedAgent,
    owner: ClaimOwner,
    ended_executions: EndedExecutions,
    claimant: ClaimOwner | None,
) -> ClaimResult | None:
    """The result of a claim of another owner; None if the claim is void.

    It is void if its owner has ended and recorded nothing. Before a claimant relies on that, the
    store rejects the executions of the owner, so that it cannot record anything later.
    """
    is_own_run = owner.run == agent.run
    if not is_own_run and (entry := await _next_entry(store, owner)) is not None:
        return _continuation(entry, agent, owner)
    # A claim of the claimant's own run is of an earlier execution, which has ended.
    executions = (
        ()
        if claimant is not None and owner.run == claimant.run
        else await ended_executions(owner.run)
    )
    if executions is None:
        return ClaimResult("pending", owner.run, agent.name)
    if claimant is None:
        return None
    await reject_executions(store, owner.run, {owner.execution, *executions})
    if is_own_run:
        return None if await _is_unchanged(store, agent) else ClaimResult("run_changed")
    entry = await _next_entry(store, owner)
    return None if entry is None else _continuation(entry, agent, owner)


async def _next_entry(store: Store, owner: ClaimOwner) -> JournalEntry | None:
    """The first entry that a run recorded after its claim; None if there is none."""
    for row in await store.read_journal(owner.run, owner.position, 3):
        entry = entry_from_json(row.entry)
        # These end a swap or a run merge that the run had begun before it ended.
        if not isinstance(entry, SwapFailed | MergeFailed):
            return entry
    return None


def _continuation(
    entry: JournalEntry, agent: ClaimedAgent, owner: ClaimOwner
) -> ClaimResult | None:
    claimed = entry.claimed if isinstance(entry, RunReopened) else {}
    return next(
        (ClaimResult("continued", owner.run, n) for n, each in claimed.items() if each == agent),
        None,
    )


async def _is_unchanged(store: Store, agent: ClaimedAgent) -> bool:
    """Whether the run of an agent was not executed again since the agent was looked up."""
    if await store.get_run(agent.run) is None:
        return not agent.began
    return (await load_state(store, agent.run)).execution == agent.execution


async def reject_executions(store: Store, run: RunId, executions: Collection[str]) -> None:
    """Makes the store reject all further entries of ended executions."""
    if known := sorted({*executions} - {""}):  # a rebuild stores entries under the empty name
        await store.reject_executions(run, known)


async def claim_agents(
    store: Store,
    agents: Collection[ClaimedAgent],
    ended_executions: EndedExecutions,
    claimant: ClaimOwner | None,
) -> None:
    """Claims the agents of an ended run for that run, before it is reopened.

    After the first agent that another run owns, it claims no more: the run will not be reopened,
    and the other run may be about to claim the rest.

    Args:
        store: The store.
        agents: The agents of the run.
        ended_executions: Returns the executions of a run if it has ended.
        claimant: The run itself; None: nothing is claimed, the owners are only read.

    Raises:
        UsageError: another run continues some of them, or is about to.
    """
    conflicts: dict[ClaimResult, list[str]] = {}
    run = RunId("")
    for agent in sorted(agents, key=lambda agent: agent.name):
        result = await claim_agent(store, agent, ended_executions, None if conflicts else claimant)
        run = agent.run
        if result.status != "granted":
            conflicts.setdefault(result._replace(name=AgentName("")), []).append(agent.name)
    for result, names in conflicts.items():
        raise _claim_conflict_error(result, run, names)


def _claim_conflict_error(result: ClaimResult, run: RunId, names: Collection[str]) -> UsageError:
    fork = f"`crewlog fork {run}@POSITION` starts a run with copies of them."
    if result.status == "run_changed":
        return UsageError(
            f"the run {run!r} was executed again since its agents were looked up",
            remedy=f"`crewlog show {run}` shows its status.",
        )
    if result.status == "pending":
        return UsageError(
            f"the run {result.run!r} is about to continue {listed(names)} of {run!r}: it is being "
            "reopened from its recipe",
            remedy=f"`crewlog show {result.run}` shows whether it was. If not, resume {run!r} "
            f"again; otherwise {fork}",
        )
    return UsageError(
        f"the run {result.run!r} was reopened from its recipe, and continues {listed(names)} of "
        f"{run!r}",
        remedy=fork,
    )


async def rebuild_claim(store: Store, claimant: ClaimOwner, agent: ClaimedAgent) -> None:
    """Stores the claim that a journal entry proves, unless it is there.

    Args:
        store: The store.
        claimant: The run; its position is the one before the entry.
        agent: The agent.
    """
    link = 0
    while True:
        link += 1
        owner = parse_claim_owner(await store.claim(agent.run, agent.key(link), claimant.owner))
        # Up to two `SwapFailed` or `MergeFailed` may be recorded between the claim and the entry.
        is_same_run = owner.run == claimant.run
        if is_same_run and claimant.position - 2 <= owner.position <= claimant.position:
            return
