"""A run at a checkpoint, from the store: to go back to, to fork from, or to take up again.

Whether a run is the part of another one that it says it is: the other one's journal decides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from typing import NamedTuple

from crewlog.activities.batches import append, current_execution_id
from crewlog.activities.clock import Clock
from crewlog.activities.definitions import Definitions
from crewlog.activities.executions import Executions, record_start
from crewlog.activities.lifecycle import Probe, lower_stored_definition
from crewlog.activities.run_merge import Ended, ended_executions
from crewlog.authority.guards import names_in
from crewlog.authority.widening import freed, regained_permissions, widening
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
    again,
    answered,
    restored_guard_conditions,
    restored_permission_conditions,
)
from crewlog.graph.plan import DetachedStep, GraphPlan
from crewlog.graph.swap import detached_step
from crewlog.ids import AgentName, ContentHash, LogName, RunId, StepId
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.calls import RestoreState, RestoreStateResult, SignedStart
from crewlog.state.claim import ClaimedAgent, ClaimOwner
from crewlog.state.fold import reduce
from crewlog.state.journal import Batch, ComponentChanged, SplitRun, entry_from_json
from crewlog.state.model import CrewState, LogHead
from crewlog.state.split import parted
from crewlog.store.checkpoints import checkpoint_state_position, load_last_state, taken_up
from crewlog.store.claims import claim_agents, goes_on
from crewlog.store.journal_reader import load_state as state_at
from crewlog.store.protocol import Store
from crewlog.store.remote_agents import claimable_agents, remote_agent_logs

PATIENCE = 2.0
"""Seconds in which what is about to be stored is looked for, before it is left to another try."""
SPLIT_POLL_SECONDS = 0.025
"""Seconds from one look to the next."""
_INSTEAD = (
    j.SwapFailed,
    j.ChangeAccepted,
    j.RunReopened,
    j.RunCompleted,
    j.RunStopped,
    j.RunFailed,
    j.RunEndedByMerge,
)
"""What a run records where it is not parted after all: none of it comes between the beginning of
its parts and their names."""


class SplitRecord(NamedTuple):
    """Where a journal names a part."""

    position: int
    entry: ComponentChanged
    part: SplitRun


async def wait_for_split(
    store: Store, ended: Ended, source: RunId, run: RunId, after: int
) -> SplitRecord:
    """Waits until a run's journal says that another run is a part of it, or certainly never will.

    While that is open, it must be waited for, however long: the run may be about to store it, and
    its creatures would live nowhere then. So there are two ways only to give up. The journal says
    that it came otherwise. Or the run has ended, by itself or from outside: then its store is shut
    to it, and what it did not say by then it never says.

    Args:
        store: Where the journal is.
        ended: Asks the server whether the run has ended.
        source: The run that is parted.
        run: The part.
        after: The position above which the journal says it.

    Raises:
        SplitNotRecorded: it does not say so yet.
        SplitNeverRecorded: it never will.
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
            f"the journal of the run {source!r} does not say after {after} that {run!r} is a part "
            "of it"
        )
    await store.reject_executions(source, ending.executions)
    found, _ = await _named(store, source, run, after)
    if found is None:
        raise _never(source, run, "that run has ended")
    return found


async def _named(
    store: Store, source: RunId, run: RunId, after: int
) -> tuple[SplitRecord | None, int]:
    """Where a part is named, as far as the journal goes; and how far that is."""
    while rows := await store.read_journal(source, after):
        for row in rows:
            entry = entry_from_json(row.entry)
            if isinstance(entry, ComponentChanged):
                for part in entry.parts:
                    if part.graph == run:
                        return SplitRecord(row.position, entry, part), row.position
            if isinstance(entry, _INSTEAD):
                what = f"it has {entry.kind} at {row.position} instead"
                raise _never(source, run, what)
        after = rows[-1].position
    return None, after


def _never(source: RunId, run: RunId, why: str) -> SplitNeverRecorded:
    return SplitNeverRecorded(
        f"the journal of the run {source!r} does not say that {run!r} is a part of it, and never "
        f"will: {why}",
        remedy=f"Its creatures are in {source!r}: `crewlog graphs` shows them.",
    )


async def load_state(
    task: RestoreState,
    run: RunId,
    batch: Batch,
    store: Store,
    definitions: Definitions,
    search_attributes: Probe,
    executions: Executions,
    ended: Ended,
) -> RestoreStateResult:
    """Stores the batch of the run that asks, and loads the state, with the plan that it had.

    Raises:
        UsageError: the position is no checkpoint, the run is completed, or it never had a crew.
        StoreIncomplete: rows of the run are missing.
        InvalidDefinition: the definition that it had does not hold any more.
        NotPermitted: the run is signed, and the start that takes it up was used before, or names
            another execution than its last one.
    """
    if batch.entries:
        await append(store, run, batch)
    if task.run == run:
        return await _load(task, run, store, definitions, search_attributes, executions, ended)
    if task.split_after is None:  # a client that knows of deletions has noted it before
        await store.add_pending_fork(task.run, run, Clock().now())
    load = _load if task.split_after is None else _load_split_run
    try:
        loaded = await load(task, run, store, definitions, search_attributes, executions, ended)
    except CrewlogError as error:
        if not error.retryable:  # it does not begin: the other run is not kept for it
            await store.remove_pending_fork(task.run, run)
        raise
    if not loaded.begins:
        await store.remove_pending_fork(task.run, run)
    return loaded


async def _load(
    task: RestoreState,
    run: RunId,
    store: Store,
    definitions: Definitions,
    search_attributes: Probe,
    executions: Executions,
    ended: Ended,
) -> RestoreStateResult:
    last: dict[str, Json] = {}
    decision = ""
    left: dict[LogName, LogHead] = {}
    if task.reopen:
        use = task.use
        let_in = use is None or await _check_last(task, use, store, executions)
        end = await _at_rest(store, task.run, task.executions if let_in else ())
        found, then = await taken_up(store, task.run, end)
        # Before anything is told: a run that its creatures had left may be taking them home.
        taker = ClaimOwner(task.run, end.position, current_execution_id())
        theirs = await claimable_agents(store, then, end)
        await claim_agents(store, theirs, ended_executions(ended), taker)
        last, decision = end.to_json(), found.decision or ""
        left = await remote_agent_logs(store, task.run, then) if task.recipe else {}
    else:
        then = await state_at(
            store, task.run, await checkpoint_state_position(store, task.run, task.position)
        )
    if not then.definition:
        raise UsageError(
            f"the run {task.run!r} has no crew at position {then.position}",
            remedy="Start it anew, with its prompt.",
        )
    given = await store.get_definition(then.definition)
    definition, plan = await lower_stored_definition(given, store, definitions)
    plan, older = await _with_detached_steps(plan, then, store, definitions)
    # Where nothing is known of its last one, the policy of then decides, and not nobody.
    force = await _in_force(task, store) or CrewDefinition.from_json(definition)
    begins = await _begin(task, force.policy, run, store, executions)
    return RestoreStateResult(
        begins=begins,
        position=then.position,
        state=then.to_json(),
        definition=definition,
        plan=plan,
        search_attributes=await search_attributes(),
        last=last,
        decision=decision,
        widens=await _widens(
            task,
            store,
            force,
            CrewDefinition.from_json(definition),
            GraphPlan.from_json(plan),
            then,
        ),
        policy=force.policy,
        compared=task.against,
        left=left,
        older=older,
    )


async def _load_split_run(
    task: RestoreState,
    run: RunId,
    store: Store,
    definitions: Definitions,
    search_attributes: Probe,
    executions: Executions,
    ended: Ended,
) -> RestoreStateResult:
    """The state and the plan of a run that begins as a part of another one.

    That the other one's journal names it is all that lets it in: nobody else writes there.

    Raises:
        SplitNotRecorded: the journal does not say so yet.
        SplitNeverRecorded: it never will.
    """
    above = task.split_after or 0
    position, entry, part = await wait_for_split(store, ended, task.run, run, above)
    await _check_ours(store, run, part.share.creatures, ended)
    await store.add_pending_fork(task.run, run, Clock().now())
    before = await state_at(store, task.run, position - 1)
    after = reduce(before, entry.model_copy(update={"parts": ()}))
    definition, plan = await lower_stored_definition(
        await store.get_definition(part.definition), store, definitions
    )
    policy = CrewDefinition.from_json(definition).policy
    if task.use is not None and policy is not None and policy.signed:
        await executions.check_unused_id(run, task.use)
        await _begin_once(task, run, position, task.use, store)
        await executions.begin(run, task.use, signed=True)
    then = parted(after, run, part.share).model_copy(
        update={"definition": part.definition, "rules": GraphPlan.from_json(plan).rules}
    )
    plan, older = await _with_detached_steps(plan, then, store, definitions)
    return RestoreStateResult(
        position=then.position,
        state=then.to_json(),
        definition=definition,
        plan=plan,
        search_attributes=await search_attributes(),
        policy=policy,
        split=entry.split,
        by=entry.by,
        older=older,
    )


async def _begin_once(
    task: RestoreState, run: RunId, at: int, use: SignedStart, store: Store
) -> None:
    """Notes for good that a part begins: nobody signs for one, and the journal names it for ever.

    Raises:
        NotPermitted: it began before, and was deleted.
    """
    key = f"once:{hash_json([run, task.run, at])}"
    if await store.claim(key, use.execution) != use.execution:
        raise NotPermitted(
            f"the run {run!r}, a part of {task.run!r}, has begun before, and was deleted",
            remedy=f"Its agents can be added to {task.run!r}: `crewlog change` does.",
        )


async def _check_ours(
    store: Store, run: RunId, creatures: Collection[AgentName], ended: Ended
) -> None:
    """Claims the creatures of a part that begins, which the other run may be taking home.

    Raises:
        SplitNotRecorded: it is about to.
        SplitNeverRecorded: it did.
    """
    taker = ClaimOwner(run, 0, current_execution_id())
    for name in creatures if await store.get_run(run) is None else ():
        word = await goes_on(
            store, ClaimedAgent(run=run, name=name), ended_executions(ended), taker
        )
        if word.say == "about to":
            raise SplitNotRecorded(f"the run {word.run!r} is about to take {name} home")
        if word.say == "went on":
            raise SplitNeverRecorded(
                f"the run {word.run!r} took {name} home before {run!r} had begun",
                remedy=f"Its creatures are in {word.run!r}: `crewlog graphs` shows them.",
            )


async def _check_last(
    task: RestoreState, use: SignedStart, store: Store, executions: Executions
) -> bool:
    """Checks that a run is taken up from its last end.

    Returns:
        Whether its policy lets it; why not says the workflow, and nothing is shut for it.
    """
    force = await _in_force(task, store)
    let_in = await record_start(use, force.policy if force else None, task.run, store)
    await executions.check_replaced_executions(task.run, use, task.executions)
    return let_in


async def _begin(
    task: RestoreState, policy: Policy | None, run: RunId, store: Store, executions: Executions
) -> bool:
    """Uses the start of a run that goes on from what is loaded, and notes whose the run is.

    Returns:
        Whether the policy lets it; why not says the workflow.
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
    """The definition whose policy and authority hold for what is loaded: the run's last one."""
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
    """By what the loaded run may do more than what it comes of; none where nobody asks for that."""
    if force.policy is None or not force.policy.signed:
        return None
    ways = widening(force, definition)
    if task.against:  # whoever goes back knows itself what people said while it lived
        return ways
    now = await load_last_state(store, task.run)
    read = names_in(rule.if_ for rule in force.rules if rule.if_ is not None)
    return (
        *ways,
        *restored_permission_conditions(read, now, then),
        *answered(plan, now, then),
        *(() if task.reopen else again(plan, None, then)),  # its steps keep their names and claims
        *restored_guard_conditions(plan, now, then),
        *regained_permissions(now.tool_permissions, then.tool_permissions, definition.agents),
        *freed(now.rulings, then.rulings),
    )


async def _with_detached_steps(
    plan: dict[str, Json], then: CrewState, store: Store, definitions: Definitions
) -> tuple[dict[str, Json], tuple[dict[str, Json], ...]]:
    """A plan, as JSON, that knows the visits whose nodes are gone; and the definitions of these."""
    detached, older = await _detached_steps(then, store, definitions)
    if detached:
        steps = {step: found.to_json() for step, found in detached.items()}
        plan = {**plan, "detached_steps": steps}
    return plan, older


async def _detached_steps(
    then: CrewState, store: Store, definitions: Definitions
) -> tuple[dict[StepId, DetachedStep], tuple[dict[str, Json], ...]]:
    """What the visits need whose nodes a change took away, and the definitions that had them."""
    found: dict[StepId, DetachedStep] = {}
    older: dict[ContentHash, dict[str, Json]] = {}
    for _, entry in sorted((then.frontier | then.parked).items()):
        step = entry.parent_or_self
        if entry.definition and step not in found:
            older[entry.definition] = given = await store.get_definition(entry.definition)
            _, plan = await lower_stored_definition(given, store, definitions)
            if (detached := detached_step(GraphPlan.from_json(plan), entry.node)) is not None:
                found[step] = detached
    return found, tuple(older.values())


async def _at_rest(store: Store, run: RunId, executions: Collection[str]) -> CrewState:
    """The last state that the store has of a run that has ended.

    Where it was ended from outside, what was under way may be storing still: it has a moment, and
    whatever comes later is refused, since the run goes on without it.
    """
    end = await _quiet(store, run)
    if end.closed or not executions:
        return end
    await store.reject_executions(run, executions)
    return await state_at(store, run)


async def _quiet(store: Store, run: RunId) -> CrewState:
    end = await load_last_state(store, run)
    while not end.closed:
        await asyncio.sleep(QUIET_SECONDS)
        now = await state_at(store, run)
        if now.position == end.position:
            break
        end = now
    return end


QUIET_SECONDS = 0.5
"""Seconds in which nothing more of a run is stored that was ended from outside."""
