"""Load runs at checkpoints from the store, for rollbacks, forks, reopened runs and split runs.

The journal of the original run decides whether another run is one of its split runs.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from crewlog.activities.batches import append, current_execution_id
from crewlog.activities.clock import Clock
from crewlog.activities.definitions import Definitions
from crewlog.activities.executions import Executions, record_start
from crewlog.activities.lifecycle import Probe, lower_stored_definition
from crewlog.activities.run_merge import FindEndedRun, ended_executions_lookup
from crewlog.authority.guards import condition_names
from crewlog.authority.widening import regained_permissions, widened_live_permissions, widening
from crewlog.canonical_json import hash_json
from crewlog.definition.model import CrewDefinition
from crewlog.definition.policy import Policy
from crewlog.errors import (
    CrewlogError,
    NotPermitted,
    SplitNeverRecorded,
    SplitNotRecorded,
    UsageError,
)
from crewlog.graph.bypasses import (
    restored_answers,
    restored_guard_conditions,
    restored_permission_conditions,
    reused_answers,
)
from crewlog.graph.plan import DetachedStep, GraphPlan
from crewlog.graph.swap.report import detached_step
from crewlog.ids import AgentName, ContentHash, LogName, RunId, StepId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import RestoreState, RestoreStateResult, SignedStart
from crewlog.state.claim import ClaimedAgent, ClaimOwner
from crewlog.state.fold import fold
from crewlog.state.journal import Batch, ComponentChanged, SplitRun, entry_from_json
from crewlog.state.model import CrewState, LogHead
from crewlog.state.split import split_run_state
from crewlog.store.checkpoints import checkpoint_state_position, load_last_state, taken_up
from crewlog.store.claims import claim_agent, claim_agents
from crewlog.store.journal_reader import load_state as state_at
from crewlog.store.protocol import Store
from crewlog.store.remote_agents import claimable_agents, remote_agent_logs

PATIENCE = 2.0
"""Seconds in which a split is looked for before the attempt fails and is retried."""
SPLIT_POLL_SECONDS = 0.025
"""Seconds between two reads of the journal."""
_INSTEAD = (
    j.SwapFailed,
    j.ChangeAccepted,
    j.RunReopened,
    j.RunCompleted,
    j.RunStopped,
    j.RunFailed,
    j.RunEndedByMerge,
)
"""Entries of a run whose split did not happen: none of them comes between the start of its split
runs and the entry that names them."""


class SplitRecord(NamedTuple):
    """The entry of a journal that names a split run."""

    position: int
    entry: ComponentChanged
    part: SplitRun


async def wait_for_split(
    store: Store, ended: FindEndedRun, source: RunId, run: RunId, after: int
) -> SplitRecord:
    """Waits until the journal of a run names another run as a split run, or never can.

    The wait has no limit, since the original run may be about to store the split, and its agents
    would then be in no run. It ends early in two cases: the journal has an entry that excludes the
    split, or the original run has ended. In the second case the store rejects the executions of
    that run first, so that its journal is final.

    Args:
        store: The store with the journal.
        ended: Asks the server whether the run has ended.
        source: The original run.
        run: The split run.
        after: The position after which the entry is expected.

    Raises:
        SplitNotRecorded: the journal does not name the split run yet.
        SplitNeverRecorded: the journal never will.
    """
    until = time.monotonic() + PATIENCE
    while True:
        found, after = await _named(store, source, run, after)
        if found is not None:
            return found
        if time.monotonic() > until:
            break
        await asyncio.sleep(SPLIT_POLL_SECONDS)
    ending = await ended(source)
    if ending is None:
        raise SplitNotRecorded(
            f"the journal of the run {source!r} does not name the split run {run!r} up to "
            f"position {after}"
        )
    await store.reject_executions(source, ending.executions)
    found, _ = await _named(store, source, run, after)
    if found is None:
        raise _never_recorded(source, run, "the run has ended")
    return found


async def _named(
    store: Store, source: RunId, run: RunId, after: int
) -> tuple[SplitRecord | None, int]:
    """Returns the entry that names a split run, if there is one, and the last position read."""
    while rows := await store.read_journal(source, after):
        for row in rows:
            entry = entry_from_json(row.entry)
            if isinstance(entry, ComponentChanged):
                for part in entry.split_runs:
                    if part.run == run:
                        return SplitRecord(row.position, entry, part), row.position
            if isinstance(entry, _INSTEAD):
                why = f"it has {entry.kind} at position {row.position} instead"
                raise _never_recorded(source, run, why)
        after = rows[-1].position
    return None, after


def _never_recorded(source: RunId, run: RunId, why: str) -> SplitNeverRecorded:
    return SplitNeverRecorded(
        f"the journal of the run {source!r} does not name the split run {run!r}, and never will: "
        f"{why}",
        remedy=f"Its agents are in {source!r}: `crewlog graphs` shows them.",
    )


@dataclass(frozen=True)
class StateLoader:
    """Loads runs at checkpoints."""

    store: Store
    definitions: Definitions
    search_attributes: Probe
    """Asks whether the server knows Crewlog's search attributes."""
    executions: Executions
    ended: FindEndedRun
    """Asks the server whether a run has ended."""

    async def load(self, task: RestoreState, run: RunId, batch: Batch) -> RestoreStateResult:
        """Stores the batch of the run that asks, and loads a state with its plan.

        Raises:
            UsageError: the position is no checkpoint, the run is completed, or it has no crew.
            StoreIncomplete: rows of the run are missing.
            InvalidDefinition: the definition at the position is not valid any more.
            NotPermitted: the run is signed, and the start that reopens it was used before, or does
                not name its last execution.
        """
        if batch.entries:
            await append(self.store, run, batch)
        if task.run == run:
            return await self._load(task, run)
        if task.split_after is None:  # of a split run, see below
            await self.store.add_pending_fork(task.run, run, Clock().now())
        load = self._load if task.split_after is None else self._load_split_run
        try:
            loaded = await load(task, run)
        except CrewlogError as error:
            if not error.retryable:  # it never starts, so the other run need not be kept for it
                await self.store.remove_pending_fork(task.run, run)
            raise
        if not loaded.begins:
            await self.store.remove_pending_fork(task.run, run)
        return loaded

    async def _load(self, task: RestoreState, run: RunId) -> RestoreStateResult:
        last: dict[str, Json] = {}
        decision = ""
        left: dict[LogName, LogHead] = {}
        if task.reopen:
            use = task.use
            let_in = use is None or await _check_last(task, use, self.store, self.executions)
            end = await _at_rest(self.store, task.run, task.executions if let_in else ())
            found, then = await taken_up(self.store, task.run, end)
            # Before anything is returned: another run may be about to claim its agents.
            taker = ClaimOwner(task.run, end.position, current_execution_id())
            theirs = await claimable_agents(self.store, then, end)
            await claim_agents(self.store, theirs, ended_executions_lookup(self.ended), taker)
            last, decision = end.to_json(), found.decision or ""
            left = await remote_agent_logs(self.store, task.run, then) if task.recipe else {}
        else:
            then = await state_at(
                self.store,
                task.run,
                await checkpoint_state_position(self.store, task.run, task.position),
            )
        if not then.definition:
            raise UsageError(
                f"the run {task.run!r} has no crew at position {then.position}",
                remedy="Start a new run with its prompt.",
            )
        given = await self.store.get_definition(then.definition)
        definition, plan = await lower_stored_definition(given, self.store, self.definitions)
        plan, older = await _with_detached_steps(plan, then, self.store, self.definitions)
        # Without a known last definition, the policy of the checkpoint decides.
        force = await _in_force(task, self.store) or CrewDefinition.from_json(definition)
        begins = await _begin(task, force.policy, run, self.store, self.executions)
        return RestoreStateResult(
            begins=begins,
            position=then.position,
            state=then.to_json(),
            definition=definition,
            plan=plan,
            search_attributes=await self.search_attributes(),
            last=last,
            decision=decision,
            widens=await _widens(
                task,
                self.store,
                force,
                CrewDefinition.from_json(definition),
                GraphPlan.from_json(plan),
                then,
            ),
            policy=force.policy,
            compared=task.against,
            former_logs=left,
            older=older,
        )

    async def _load_split_run(self, task: RestoreState, run: RunId) -> RestoreStateResult:
        """Loads the state and the plan that a split run starts with.

        The entry in the journal of the original run is its only permission to start: nothing else
        writes to that journal.

        Raises:
            SplitNotRecorded: the journal does not name the split run yet.
            SplitNeverRecorded: the journal never will.
        """
        above = task.split_after or 0
        position, entry, part = await wait_for_split(self.store, self.ended, task.run, run, above)
        await _check_ours(self.store, run, part.contents.agents, self.ended)
        await self.store.add_pending_fork(task.run, run, Clock().now())
        before = await state_at(self.store, task.run, position - 1)
        after = fold(before, entry.model_copy(update={"split_runs": ()}))
        definition, plan = await lower_stored_definition(
            await self.store.get_definition(part.definition), self.store, self.definitions
        )
        policy = CrewDefinition.from_json(definition).policy
        if task.use is not None and policy is not None and policy.signed:
            await self.executions.check_unused_id(run, task.use)
            await _begin_once(task, run, position, task.use, self.store)
            await self.executions.begin(run, task.use, signed=True)
        then = split_run_state(after, run, part.contents).model_copy(
            update={"definition": part.definition, "rules": GraphPlan.from_json(plan).rules}
        )
        plan, older = await _with_detached_steps(plan, then, self.store, self.definitions)
        return RestoreStateResult(
            position=then.position,
            state=then.to_json(),
            definition=definition,
            plan=plan,
            search_attributes=await self.search_attributes(),
            policy=policy,
            split=entry.split,
            by=entry.by,
            older=older,
        )


async def _begin_once(
    task: RestoreState, run: RunId, at: int, use: SignedStart, store: Store
) -> None:
    """Records that a split run starts: its start has no signature, so it must not start twice.

    Raises:
        NotPermitted: it started before, and was deleted.
    """
    key = f"once:{hash_json([run, task.run, at])}"
    if await store.claim(key, use.execution) != use.execution:
        raise NotPermitted(
            f"the split run {run!r} of {task.run!r} started before, and was deleted",
            remedy=f"Add its agents to {task.run!r} again with `crewlog change`.",
        )


async def _check_ours(
    store: Store, run: RunId, creatures: Collection[AgentName], ended: FindEndedRun
) -> None:
    """Claims the agents of a split run before it starts.

    Raises:
        SplitNotRecorded: the original run is about to claim one of them.
        SplitNeverRecorded: the original run has claimed one of them.
    """
    taker = ClaimOwner(run, 0, current_execution_id())
    for name in creatures if await store.get_run(run) is None else ():
        result = await claim_agent(
            store, ClaimedAgent(run=run, name=name), ended_executions_lookup(ended), taker
        )
        if result.status == "pending":
            raise SplitNotRecorded(f"the run {result.run!r} is about to claim the agent {name!r}")
        if result.status == "continued":
            raise SplitNeverRecorded(
                f"the run {result.run!r} claimed the agent {name!r} before {run!r} started",
                remedy=f"Its agents are in {result.run!r}: `crewlog graphs` shows them.",
            )


async def _check_last(
    task: RestoreState, use: SignedStart, store: Store, executions: Executions
) -> bool:
    """Checks that a run is reopened from its last end.

    Returns:
        Whether its policy permits it; the workflow reports the reason if not.
    """
    force = await _in_force(task, store)
    let_in = await record_start(use, force.policy if force else None, task.run, store)
    await executions.check_replaced_executions(task.run, use, task.executions)
    return let_in


async def _begin(
    task: RestoreState, policy: Policy | None, run: RunId, store: Store, executions: Executions
) -> bool:
    """Records the start of a run that continues from a loaded state, and its execution.

    Returns:
        Whether the policy permits it; the workflow reports the reason if not.
    """
    if task.use is None:
        return True
    let_in = await record_start(task.use, policy, run, store)
    if not task.reopen:
        await executions.check_unused_id(run, task.use)
    if let_in:
        signed = policy is not None and policy.signed
        await executions.begin(run, task.use, signed=signed, alone=task.reopen)
    return let_in


async def _in_force(task: RestoreState, store: Store) -> CrewDefinition | None:
    """Returns the definition whose policy applies to the loaded state: the last one of the run."""
    now = task.against
    if not now and (row := await store.get_run(task.run)) is not None:
        now = row.definition
    return CrewDefinition.from_json(await store.get_definition(now)) if now else None


async def _widens(
    task: RestoreState,
    store: Store,
    force: CrewDefinition,
    definition: CrewDefinition,
    plan: GraphPlan,
    then: CrewState,
) -> tuple[str, ...] | None:
    """Returns how the loaded state widens authority; None: the policy does not need it."""
    if force.policy is None or not force.policy.signed:
        return None
    ways = widening(force, definition)
    if task.against:  # the run that rolls back compares its live permissions itself
        return ways
    now = await load_last_state(store, task.run)
    read = condition_names(rule.if_ for rule in force.rules if rule.if_ is not None)
    return (
        *ways,
        *restored_permission_conditions(read, now, then),
        *restored_answers(plan, now, then),
        *(() if task.reopen else reused_answers(plan, None, then)),  # it keeps its steps
        *restored_guard_conditions(plan, now, then),
        *regained_permissions(now.tool_permissions, then.tool_permissions, definition.agents),
        *widened_live_permissions(now.live_permissions, then.live_permissions),
    )


async def _with_detached_steps(
    plan: dict[str, Json], then: CrewState, store: Store, definitions: Definitions
) -> tuple[dict[str, Json], tuple[dict[str, Json], ...]]:
    """Returns the plan with the detached steps of a state, and the definitions of these."""
    detached, older = await _detached_steps(then, store, definitions)
    if detached:
        steps = {step: found.to_json() for step, found in detached.items()}
        plan = {**plan, "detached_steps": steps}
    return plan, older


async def _detached_steps(
    then: CrewState, store: Store, definitions: Definitions
) -> tuple[dict[StepId, DetachedStep], tuple[dict[str, Json], ...]]:
    """Returns the detached steps of a state, and the definitions that had their nodes."""
    found: dict[StepId, DetachedStep] = {}
    older: dict[ContentHash, dict[str, Json]] = {}
    for _, entry in sorted((then.frontier | then.detached_steps).items()):
        step = entry.parent_or_self
        if entry.definition and step not in found:
            older[entry.definition] = given = await store.get_definition(entry.definition)
            _, plan = await lower_stored_definition(given, store, definitions)
            if (detached := detached_step(GraphPlan.from_json(plan), entry.node)) is not None:
                found[step] = detached
    return found, tuple(older.values())


async def _at_rest(store: Store, run: RunId, executions: Collection[str]) -> CrewState:
    """Returns the last state in the store of a run that has ended.

    If it was terminated, its activities may still be storing. They get a moment; the store rejects
    what comes later, since the reopened run continues without it.
    """
    end = await _quiet(store, run)
    if end.is_ended or not executions:
        return end
    await store.reject_executions(run, executions)
    return await state_at(store, run)


async def _quiet(store: Store, run: RunId) -> CrewState:
    end = await load_last_state(store, run)
    while not end.is_ended:
        await asyncio.sleep(QUIET_SECONDS)
        now = await state_at(store, run)
        if now.position == end.position:
            break
        end = now
    return end


QUIET_SECONDS = 0.5
"""Seconds without a new entry after which the journal of a terminated run counts as final."""
