"""Loads runs at checkpoints from the store, for rollbacks, forks, reopened runs and split runs.

Whether a run is a split run is decided by the journal of the original run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from crewlog.activities.batches import append_batch, current_execution_id
from crewlog.activities.clock import Clock
from crewlog.activities.definitions import Definitions
from crewlog.activities.executions import Executions
from crewlog.activities.lifecycle import lower_stored_definition
from crewlog.activities.server import Server
from crewlog.authority.rights import Touch
from crewlog.authority.widening import widening
from crewlog.canonical_json import hash_json
from crewlog.definition.conditions import condition_names
from crewlog.definition.model import CrewDefinition
from crewlog.errors import (
    CrewlogError,
    NotPermitted,
    SplitNeverRecorded,
    SplitNotRecorded,
    UsageError,
)
from crewlog.graph.plan import GraphPlan
from crewlog.graph.swap.report import detached_step
from crewlog.graph.touches import live_permission_touches, restore_touches
from crewlog.ids import AgentName, ContentHash, LogName, RunId, StepId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import RestoreState, RestoreStateResult, SignedStart
from crewlog.state.claim import ClaimedAgent, ClaimOwner
from crewlog.state.fold import fold
from crewlog.state.journal import Batch, ComponentChanged, SplitRun, entry_from_json
from crewlog.state.model import CrewState, LogHead
from crewlog.state.split import split_run_state
from crewlog.store.checkpoints import checkpoint_state_position, load_last_state, load_reopen_state
from crewlog.store.claims import claim_agent, claim_agents
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import Store
from crewlog.store.remote_agents import claimable_agents, remote_agent_logs

SPLIT_WAIT_SECONDS = 2.0
"""Seconds that an attempt waits for the entry of a split before it fails and is retried."""
SPLIT_POLL_SECONDS = 0.025
"""Seconds between two reads of the journal."""
_SPLIT_EXCLUDING_ENTRIES = (
    j.SwapFailed,
    j.ChangeAccepted,
    j.RunReopened,
    j.RunCompleted,
    j.RunStopped,
    j.RunFailed,
    j.RunEndedByMerge,
)
"""Entries that show that a split did not happen: none can come between the start of split runs and
the entry that names them."""


class SplitRecord(NamedTuple):
    """The entry of a journal that names a split run."""

    position: int
    entry: ComponentChanged
    part: SplitRun


async def wait_for_split(
    store: Store, server: Server, source: RunId, run: RunId, after: int
) -> SplitRecord:
    """Waits until the journal of a run names another run as a split run, or cannot name it.

    The error is retryable without limit, since the original run may be about to store the split: if
    the split run gave up, no run would have the agents. It is final in two cases: the journal has
    an entry that excludes the split, or the original run has ended. In the second case the store
    rejects the executions of that run first, so that its journal is final.

    Args:
        store: The store with the journal.
        server: The server, which knows whether the run has ended.
        source: The original run.
        run: The split run.
        after: The position after which the entry is expected.

    Raises:
        SplitNotRecorded: the journal does not name the split run yet.
        SplitNeverRecorded: the journal cannot name it any more.
    """
    deadline = time.monotonic() + SPLIT_WAIT_SECONDS
    while True:
        record, after = await _find_split(store, source, run, after)
        if record is not None:
            return record
        if time.monotonic() > deadline:
            break
        await asyncio.sleep(SPLIT_POLL_SECONDS)
    executions = await server.find_last_executions(source)
    if executions is None:
        raise SplitNotRecorded(
            f"the journal of the run {source!r} does not name the split run {run!r} up to "
            f"position {after}"
        )
    await store.reject_executions(source, executions)
    record, _ = await _find_split(store, source, run, after)
    if record is None:
        raise _never_recorded(source, run, "the run has ended")
    return record


async def _find_split(
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
            if isinstance(entry, _SPLIT_EXCLUDING_ENTRIES):
                reason = f"it has {entry.kind} at position {row.position} instead"
                raise _never_recorded(source, run, reason)
        after = rows[-1].position
    return None, after


def _never_recorded(source: RunId, run: RunId, reason: str) -> SplitNeverRecorded:
    return SplitNeverRecorded(
        f"the split run {run!r} cannot start: the journal of the run {source!r} does not name it: "
        f"{reason}",
        remedy=f"Its agents are in {source!r}: `crewlog graphs` shows them.",
    )


@dataclass(frozen=True)
class StateLoader:
    """Loads runs at checkpoints."""

    store: Store
    definitions: Definitions
    server: Server
    executions: Executions

    async def load(self, task: RestoreState, run: RunId, batch: Batch) -> RestoreStateResult:
        """Stores the batch of the calling run, and loads a state with its plan.

        Raises:
            UsageError: the position is not a checkpoint, the run is completed, or it has no crew.
            StoreIncomplete: rows of the run are missing.
            InvalidDefinition: this version does not accept the definition at the position.
            NotPermitted: the run is signed, and the start that reopens it was used before, or does
                not name its last execution.
        """
        if batch.entries:
            await append_batch(self.store, run, batch)
        if task.run == run:
            return await self._load(task, run)
        if task.split_after is None:  # `_load_split_run` adds that of a split run
            await self.store.add_pending_fork(task.run, run, Clock().now())
        load = self._load if task.split_after is None else self._load_split_run
        try:
            loaded = await load(task, run)
        except CrewlogError as error:
            if not error.retryable:  # the run never starts, so it does not need the other run
                await self.store.remove_pending_fork(task.run, run)
            raise
        if not loaded.begins:
            await self.store.remove_pending_fork(task.run, run)
        return loaded

    async def _load(self, task: RestoreState, run: RunId) -> RestoreStateResult:
        last: dict[str, Json] = {}
        decision = ""
        former_logs: dict[LogName, LogHead] = {}
        if task.reopen:
            is_permitted = True
            if task.use is not None:
                current = await _last_definition(task, self.store)
                is_permitted = await self.executions.record_replacing_start(
                    task.use, current.policy if current else None, task.run, task.executions
                )
            end = await _load_final_state(
                self.store, task.run, task.executions if is_permitted else ()
            )
            point, state = await load_reopen_state(self.store, task.run, end)
            # Claim the agents before anything is returned: another run may be about to claim them.
            owner = ClaimOwner(task.run, end.position, current_execution_id())
            claimable = await claimable_agents(self.store, state, end)
            await claim_agents(self.store, claimable, self.server.find_last_executions, owner)
            last, decision = end.to_json(), point.decision or ""
            if task.recipe:
                former_logs = await remote_agent_logs(self.store, task.run, state)
        else:
            state = await load_state(
                self.store,
                task.run,
                await checkpoint_state_position(self.store, task.run, task.position),
            )
        if not state.definition:
            raise UsageError(
                f"the run {task.run!r} has no crew at position {state.position}",
                remedy="Start a new run with its prompt.",
            )
        stored = await self.store.get_definition(state.definition)
        definition, plan = await lower_stored_definition(run, stored, self.store, self.definitions)
        plan, older = await _with_detached_steps(run, plan, state, self.store, self.definitions)
        # Without a known last definition, the policy of the checkpoint decides.
        current = await _last_definition(task, self.store) or CrewDefinition.from_json(definition)
        signed = current.policy is not None and current.policy.signed
        begins = task.use is None or await self.executions.record_start(
            task.use, current.policy, run, replaces=task.reopen
        )
        return RestoreStateResult(
            begins=begins,
            position=state.position,
            state=state.to_json(),
            definition=definition,
            plan=plan,
            search_attributes=await self.server.has_search_attributes(),
            last=last,
            decision=decision,
            widens=widening(current, CrewDefinition.from_json(definition)) if signed else None,
            touches=await _find_touches(
                task, self.store, current, GraphPlan.from_json(plan), state
            ),
            policy=current.policy,
            compared=task.against,
            former_logs=former_logs,
            older=older,
        )

    async def _load_split_run(self, task: RestoreState, run: RunId) -> RestoreStateResult:
        """Loads the state and the plan that a split run starts with.

        Only the entry in the journal of the original run permits the start: no other run writes to
        that journal.

        Raises:
            SplitNotRecorded: the journal does not name the split run yet.
            SplitNeverRecorded: the journal cannot name it any more.
        """
        position, entry, part = await wait_for_split(
            self.store, self.server, task.run, run, task.split_after or 0
        )
        await _claim_agents(self.store, run, part.contents.agents, self.server)
        await self.store.add_pending_fork(task.run, run, Clock().now())
        before = await load_state(self.store, task.run, position - 1)
        after = fold(before, entry.model_copy(update={"split_runs": ()}))
        stored = await self.store.get_definition(part.definition)
        definition, plan = await lower_stored_definition(run, stored, self.store, self.definitions)
        policy = CrewDefinition.from_json(definition).policy
        if task.use is not None and policy is not None and policy.signed:
            await self.executions.check_unused_id(run, task.use)
            await _record_split_start(task, run, position, task.use, self.store)
            await self.executions.begin(run, task.use, signed=True)
        rules = GraphPlan.from_json(plan).rules
        state = split_run_state(after, run, part.contents, part.definition, rules)
        plan, older = await _with_detached_steps(run, plan, state, self.store, self.definitions)
        return RestoreStateResult(
            position=state.position,
            state=state.to_json(),
            definition=definition,
            plan=plan,
            search_attributes=await self.server.has_search_attributes(),
            policy=policy,
            split=entry.split,
            by=entry.by,
            older=older,
        )


async def _record_split_start(
    task: RestoreState, run: RunId, position: int, use: SignedStart, store: Store
) -> None:
    """Records the start of a split run. It has no signature, so it must not happen twice.

    The record is deleted with the run that was split.

    Raises:
        NotPermitted: the run started before, and was deleted.
    """
    key = f"once:{hash_json([run, task.run, position])}"
    if await store.claim(task.run, key, use.execution) != use.execution:
        raise NotPermitted(
            f"the split run {run!r} of {task.run!r} started before, and was deleted",
            remedy=f"Add its agents to {task.run!r} again with `crewlog change`.",
        )


async def _claim_agents(
    store: Store, run: RunId, agents: Collection[AgentName], server: Server
) -> None:
    """Claims the agents of a split run before it starts.

    Raises:
        SplitNotRecorded: the original run is about to claim one of them.
        SplitNeverRecorded: the original run has claimed one of them.
    """
    owner = ClaimOwner(run, 0, current_execution_id())
    lookup = server.find_last_executions
    for name in agents if await store.get_run(run) is None else ():
        result = await claim_agent(store, ClaimedAgent(run=run, name=name), lookup, owner)
        if result.status == "pending":
            raise SplitNotRecorded(f"the run {result.run!r} is about to claim the agent {name!r}")
        if result.status == "continued":
            raise SplitNeverRecorded(
                f"the run {result.run!r} claimed the agent {name!r} before {run!r} started",
                remedy=f"Its agents are in {result.run!r}: `crewlog graphs` shows them.",
            )


async def _last_definition(task: RestoreState, store: Store) -> CrewDefinition | None:
    """Returns the last definition of the run, whose policy applies; None: it is unknown."""
    last = task.against
    if not last and (row := await store.get_run(task.run)) is not None:
        last = row.definition
    return CrewDefinition.from_json(await store.get_definition(last)) if last else None


async def _find_touches(
    task: RestoreState, store: Store, current: CrewDefinition, plan: GraphPlan, state: CrewState
) -> tuple[Touch, ...]:
    """Returns what the loaded state touches; a run that rolls back finds that itself."""
    if task.against or current.policy is None or not current.policy.signed:
        return ()
    last = await load_last_state(store, task.run)
    names = condition_names(rule.if_ for rule in current.rules if rule.if_ is not None)
    # A reopened run keeps its steps.
    touches = restore_touches(names, plan, last, state, moves=not task.reopen)
    return (*touches, *live_permission_touches(last, state))


async def _with_detached_steps(
    run: RunId,
    plan: dict[str, Json],
    state: CrewState,
    store: Store,
    definitions: Definitions,
) -> tuple[dict[str, Json], tuple[dict[str, Json], ...]]:
    """Returns the plan with the detached steps of a state, and the definitions of their nodes."""
    steps: dict[StepId, dict[str, Json]] = {}
    older: dict[ContentHash, dict[str, Json]] = {}
    for _, entry in sorted((state.frontier | state.detached_steps).items()):
        step = entry.parent_or_self
        if entry.definition and step not in steps:
            older[entry.definition] = stored = await store.get_definition(entry.definition)
            _, former = await lower_stored_definition(run, stored, store, definitions)
            if (detached := detached_step(GraphPlan.from_json(former), entry.node)) is not None:
                steps[step] = detached.to_json()
    return {**plan, "detached_steps": steps} if steps else plan, tuple(older.values())


async def _load_final_state(store: Store, run: RunId, executions: Collection[str]) -> CrewState:
    """Returns the last stored state of a run that has ended.

    The activities of a terminated run may still store entries. They get a moment; then the store
    rejects further ones, since the reopened run continues without them.
    """
    end = await load_last_state(store, run)
    while not end.is_ended:
        before = end.position
        await asyncio.sleep(QUIET_SECONDS)
        end = await load_state(store, run)
        if end.position == before:
            break
    if end.is_ended or not executions:
        return end
    await store.reject_executions(run, executions)
    return await load_state(store, run)


QUIET_SECONDS = 0.5
"""Seconds without a new entry after which the journal of a terminated run counts as final."""
