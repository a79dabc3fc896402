"""What two runs lead to that become one: a definition, checked and stored, and its plan.

Nothing is changed yet: the run that stays looks at what comes out, and takes it or refuses it.

What the store has of another run, for one that is to be one graph with it.

Hints of one run to another: what it stored is there to be looked at.

They go with the storing, in one activity: a signal of the workflow's own is another task of it
before, and one after. A hint may be lost, doubled and late (docs/decisions/0052), so none is worth
a second try of the activity: the workflow is told what came of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from crewlog.activities.clock import Clock
from crewlog.activities.definitions import Definitions
from crewlog.activities.lifecycle import lowered
from crewlog.authority.permissions import definition_permissions
from crewlog.authority.widening import widening
from crewlog.definition.findings import listed
from crewlog.definition.model import CrewDefinition
from crewlog.definition.prices import SCRIPTED
from crewlog.definition.reaching import mcp_tool
from crewlog.definition.renaming import NewNames
from crewlog.errors import ComponentConflict, InvalidDefinition, StoreUnavailable, UsageError
from crewlog.graph.lowering.components import expanded_component
from crewlog.graph.run_merge.definition import merged_definition
from crewlog.ids import ARTIFACT, ContentHash, LogName, RunId, artifact_log
from crewlog.state import journal as j
from crewlog.state.calls import (
    MergeNotification,
    PrepareMerge,
    PrepareMergeResult,
    ReadOtherRun,
    ReadOtherRunResult,
    StoreBatchResult,
)
from crewlog.state.components import surviving_run_id
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CrewState
from crewlog.state.run_merge.protocol import recall, state_for_merge
from crewlog.state.run_merge.surviving_state import (
    artifact_conflict,
    artifact_heads,
    new_names,
    removed_agents,
    transferred_state,
)
from crewlog.state.split import split_source_run_id
from crewlog.store.checkpoints import load_last_state
from crewlog.store.claims import EndedExecutions
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import Store


@dataclass(frozen=True)
class Ending:
    """What the server says of a workflow that does not run."""

    executions: tuple[str, ...] = ()
    """Its last execution, by Temporal's run id; none where there never was one."""


Ended = Callable[[RunId], Awaitable[Ending | None]]
"""Asks the server whether a run's workflow has ended; none while it has not."""


PAGE = 1000
"""Entries of a journal that are read at once."""


async def find_no_end(run: RunId) -> Ending | None:
    """Takes every run for one that goes on: where there is no server."""
    del run
    return None


def ended_executions(ended: Ended) -> EndedExecutions:
    """An `EndedExecutions` that asks the server."""

    async def executions_of(run: RunId) -> tuple[str, ...] | None:
        ending = await ended(run)
        return None if ending is None else ending.executions

    return executions_of


async def read_other_run(task: ReadOtherRun, store: Store, ended: Ended) -> ReadOtherRunResult:
    """The last stored state of another run.

    One that was ended from outside has no say in it: what it still stores is refused from here on.

    Args:
        task: Whom to look at.
        store: Where.
        ended: Tells whether it has ended, as the server knows.
    """
    clock = Clock()
    state = await _last(store, task.other)
    gone = False
    if (state is None or not state.is_ended) and not task.sure:
        ending = await ended(task.other)
        if ending is not None:
            await store.reject_executions(task.other, ending.executions)
            state = await _last(store, task.other)
            gone = state is None or not state.is_ended
    if state is not None:
        state = await _with_merge_outcome(store, state, task)
    return ReadOtherRunResult(
        merge=task.merge,
        state=state_for_merge(state, task.merge).to_json() if state is not None else None,
        gone=gone,
        recalled=task.recall,
        at=clock.now(),
    )


async def _last(store: Store, run: RunId) -> CrewState | None:
    try:
        return await load_last_state(store, run)
    except UsageError:
        return None  # nothing of it is stored yet, or there is no such run


async def _with_merge_outcome(store: Store, state: CrewState, task: ReadOtherRun) -> CrewState:
    """A run's state that tells of the merge as its journal does, where it took the other one in.

    What it calls otherwise since is in the journal only. Where that is, the state tells; where it
    may have forgotten, all of the journal is searched.
    """
    word = state.merges.get(task.merge)
    at = word.position if word is not None and word.outcome == "merged" else 0
    if not at and not task.recall:
        return state
    after, limit = (at - 1, 1) if at else (0, PAGE)
    while rows := await store.read_journal(task.other, after, limit):
        for row in rows:
            entry = entry_from_json(row.entry)
            if isinstance(entry, j.RunMerged) and entry.merge == task.merge:
                return recall(state, task.merge, row.position, entry.renames)
        if at:
            break
        after = rows[-1].position
    return state


Came = Literal["given", "gone", "untold"]
"""What became of a hint: the run has it; it has ended, or never was; nobody knows."""
Hinted = Callable[[RunId, MergeNotification], Awaitable[Came]]
"""Gives a hint of a run, and tells what became of it. It does not raise, and takes seconds."""


async def send_no_notification(run: RunId, hint: MergeNotification) -> Came:
    """Leaves all hints to the workflow: where there is no server."""
    del run, hint
    return "untold"


async def give(run: RunId, hints: Sequence[MergeNotification], hint: Hinted) -> StoreBatchResult:
    """Gives a run's hints; what they are about is stored.

    Args:
        run: The run that gives them.
        hints: To whom, of which merge.
        hint: Gives one.
    """
    came = await asyncio.gather(*(hint(run, each) for each in hints))
    return StoreBatchResult(
        gone=tuple(each.to for each, how in zip(hints, came, strict=True) if how == "gone"),
        unsent=tuple(each for each, how in zip(hints, came, strict=True) if how == "untold"),
    )


Begun = Callable[[RunId], Awaitable[bool]]
"""Asks the server whether a run's workflow is open: then it stores something before long."""
QueueOf = Callable[[RunId], Awaitable[str]]
"""Asks the server for the task queue of a run's workflow; empty where it does not say."""

STORED_WITHIN = 20.0
"""Seconds in which a run that has begun is to have stored something: well within the time that the
activity has. It takes longer where no worker takes the run's tasks."""
_NAMED = 4
"""Things that are named of those that workers must have."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds from one look at the store to the next."""


async def never_begun(run: RunId) -> bool:
    """Knows of no run but those that are stored: where there is no server."""
    del run
    return False


async def find_no_task_queue(run: RunId) -> str:
    """Knows of no task queue: where there is no server."""
    del run
    return ""


@dataclass(frozen=True)
class MergePreparer:
    """Prepares merges on a worker."""

    store: Store
    definitions: Definitions
    begun: Begun = never_begun
    waits: bool = True
    """Whether a run that has just begun is waited for; else that is left to another activity."""
    queue_of: QueueOf = find_no_task_queue

    async def run(self, task: PrepareMerge) -> PrepareMergeResult:
        """What a merge leads to, or why there can be none.

        That the other run is at rest, and has offered itself, its caller has seen: it has no other
        state from then on.

        Args:
            task: The merge.

        Raises:
            StoreIncomplete: the store lacks a part of the other run, or a definition.
            StoreUnavailable: it is away; or it lacks a run that is not waited for.
        """
        if task.decide:
            try:
                return await self._preview(task)
            except ComponentConflict as error:
                return _refused(task, error.message, error.remedy)
        state = await load_state(self.store, task.other, task.position)
        base, joins = await self._crews(task.base, state.definition)
        return await self._merge(task, base, joins, state)

    async def _crews(
        self, one: ContentHash, other: ContentHash
    ) -> tuple[CrewDefinition, CrewDefinition]:
        base = CrewDefinition.from_json(await self.store.get_definition(one))
        return base, CrewDefinition.from_json(await self.store.get_definition(other))

    async def _preview(self, task: PrepareMerge) -> PrepareMergeResult:
        """What would come of a merge that is only asked for, as the other run is by now."""
        state = await self._stored(task.other)
        into = await self._part_of(task, state)
        if into == task.run:
            return _refused(
                task,
                f"the run {task.other!r} is part of this one by now",
                "Connect the two without naming a run: `crewlog graph "
                f"{task.run}` tells how they are called here.",
            )
        if state.is_ended or not state.definition or into is not None:
            return _refused(
                task,
                f"the run {task.other!r} is {'merged' if into is not None else state.status}"
                + ("" if state.definition else " and has no crew yet"),
                f"`crewlog show {task.other}` tells more."
                if into is None
                else f"It is part of the run {into} by now: name that one.",
            )
        base, joins = await self._crews(task.base, state.definition)
        crews = {task.run: base, task.other: joins}
        alive = {run: expanded_component(crew) for run, crew in crews.items() if crew.lives}
        if missing := sorted({*crews} - {*alive}):
            return _refused(
                task,
                f"the run {missing[0]!r} has no graph of creatures",
                "Let an agent of it listen or send first: `crewlog graph channel` makes one.",
            )
        if surviving_run_id(alive) == task.run:
            asked = task
            if artifact_heads(state):
                own = await self._stored(task.run)
                asked = task.model_copy(update={"artifacts": artifact_heads(own)})
            made = await self._merge(asked, base, joins, state)
            return await self._warned(made, task.run, base, joins)
        turned = task.model_copy(
            update={
                "run": task.other,
                "other": task.run,
                "base": state.definition,
                "artifacts": artifact_heads(state),
                "removed": removed_agents(state, joins.agents),
            }
        )
        made = await self._merge(turned, joins, base, await self._stored(task.run))
        return await self._warned(made, task.other, joins, base)

    async def _part_of(self, task: PrepareMerge, other: CrewState) -> RunId | None:
        """The run that the other one is part of, also where it has not stored that itself yet.

        It has offered itself then, and the word of the run that took it in is there: in the journal
        of the one that asks, or stored by that which has it.
        """
        joining = other.pending_merge
        if joining is None or joining.status != "offered":
            return other.surviving_run
        if joining.merge in task.merged:
            return task.run
        taken = await self._last(joining.other) if joining.other != task.run else None
        word = taken.merges.get(joining.merge) if taken is not None else None
        return joining.other if word is not None and word.outcome == "merged" else None

    async def _warned(
        self, made: PrepareMergeResult, stays: RunId, one: CrewDefinition, two: CrewDefinition
    ) -> PrepareMergeResult:
        """What would come of a merge, with what the workers must have whose task queue stays."""
        needs = () if made.refused else tuple(_of_workers(two, beside=one))
        if not needs:
            return made
        there, here = await asyncio.gather(self.queue_of(stays), self.queue_of(made.merged_run))
        if not there or not here or there == here:
            return made
        told = list(needs[:_NAMED])
        if more := len(needs) - len(told):
            told.append(f"{more} more")
        say = (
            f"who comes from {made.merged_run!r} gets the workers of {stays!r}, on the task queue "
            f"{there!r}: they must have {listed(told)}"
        )
        remedy = (
            f"So far the workers on {here!r} do that: have it where those of {stays!r} run, too"
        )
        if tool := next(_own_tools(two, one), None):
            remedy += (
                "; or let its tools stay with the workers that have them: "
                f"crewlog change {made.merged_run} --edit tool.{tool}.queue={here}"
            )
        return made.model_copy(update={"warnings": (f"{say}\n{remedy}.",)})

    async def _stored(self, run: RunId) -> CrewState:
        """The last stored state of a run; waited for where the run has just begun.

        Raises:
            ComponentConflict: nothing of it is stored.
            StoreUnavailable: the same, where it is not waited for.
        """
        loop = asyncio.get_running_loop()
        until, pause = loop.time() + STORED_WITHIN, FIRST_PAUSE
        while (state := await self._last(run)) is None:
            if not self.waits:
                raise StoreUnavailable(f"nothing of the run {run!r} is stored yet")
            if not await self.begun(run):
                break
            if loop.time() >= until:
                raise ComponentConflict(
                    f"the run {run!r} has begun, but nothing of it is stored yet",
                    remedy=f"Ask again once `crewlog graphs` lists it. `crewlog show {run}` tells "
                    "whether a worker takes its tasks: without one it goes no further.",
                )
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        state = state or await self._last(run)  # it may have ended since
        if state is None:
            raise ComponentConflict(
                f"there is no run {run!r} that has begun",
                remedy="`crewlog graphs` lists those that there are.",
            )
        return state

    async def _last(self, run: RunId) -> CrewState | None:
        try:
            return await load_last_state(self.store, run)
        except UsageError:
            return None

    async def _merge(
        self, task: PrepareMerge, base: CrewDefinition, joins: CrewDefinition, state: CrewState
    ) -> PrepareMergeResult:
        """The crew of both, with what is taken over of the state of the one that joins."""
        try:
            both = merged_definition(
                base,
                joins,
                stays=task.run,
                joins=task.other,
                edge=task.operation,
                asks=task.asks,
                family=await self.store.lineage(task.other),
                gone=task.removed,
            )
            data = both.definition.to_json()
            behind = await self._behind(task, state, new_names(both.renamed))
            definition, plan = await lowered(data, self.store, self.definitions)
        except ComponentConflict as error:
            return _refused(task, error.message, error.remedy)
        except InvalidDefinition as error:
            return _refused(
                task,
                f"the crew of both is none that can run: {error.message}",
                "Change one of the two so that both fit each other, and ask again.",
            )
        signed = base.policy is not None and base.policy.signed
        after = CrewDefinition.from_json(definition)
        return PrepareMergeResult(
            definition=definition,
            plan=plan,
            base=task.base,
            merged_run=task.other,
            position=state.position,
            adds_budgets=await self._is_reunion(task.run, base, state, joins),
            state=transferred_state(state),
            change=both.change,
            agents=both.comes,
            nodes=both.nodes,
            new_nodes=tuple(sorted(both.fresh)),
            quotas=both.quotas,
            artifact_heads=behind,
            what=f"{task.other} becomes part of it",
            widens=widening(base, after) if signed else None,
        )

    async def _is_reunion(
        self, run: RunId, base: CrewDefinition, state: CrewState, joins: CrewDefinition
    ) -> bool:
        """Whether two runs have parts of what one run had: it is put together again then."""
        bounds = _bounds(base)
        if not any(bounds) or bounds != _bounds(joins):
            return False
        first = await self._first(run, await self._last(run))
        return first == await self._first(state.run, state)

    async def _first(self, run: RunId, state: CrewState | None) -> RunId:
        """The run that one comes of by splits alone: itself, where it began otherwise."""
        while state is not None and (before := split_source_run_id(state)):
            run, state = before, await self._last(before)
        return run

    async def _behind(
        self, task: PrepareMerge, part: CrewState, names: NewNames
    ) -> dict[LogName, ContentHash]:
        """Of the artifacts that both have: the head that is in the other one's log.

        Raises:
            ComponentConflict: neither is.
        """
        found: dict[LogName, ContentHash] = {}
        lost: list[str] = []
        for was, theirs in sorted(artifact_heads(part).items()):
            name = names.artifact(was.removeprefix(ARTIFACT))
            mine = task.artifacts.get(log := artifact_log(name))
            if mine is None:
                continue
            if mine == theirs or await self._leads(theirs, mine):
                found[log] = theirs
            elif await self._leads(mine, theirs):
                found[log] = mine
            else:
                lost.append(name)
        if lost:
            raise artifact_conflict(task.run, task.other, lost)
        return found

    async def _leads(self, older: ContentHash, newer: ContentHash) -> bool:
        """Whether a head of a log is among those that lead to another one."""
        return any(older in link.parents for link in await self.store.read_log(newer, {older}))


def _of_workers(crew: CrewDefinition, *, beside: CrewDefinition) -> Iterator[str]:
    """What a crew's workers must have that those of another crew need not: functions, scripts."""
    for tool in _own_tools(crew, beside):
        yield f"the tool {tool!r} ({crew.tools[tool].run})"
    for model in sorted(_scripts(crew) - _scripts(beside)):
        yield f"the script {model.removeprefix(SCRIPTED)!r}"


def _own_tools(crew: CrewDefinition, beside: CrewDefinition) -> Iterator[str]:
    """The tools that are functions of the run's own workers."""
    for name, tool in crew.tools.items():
        if name not in beside.tools and tool.queue is None and mcp_tool(tool.run) is None:
            yield name


def _scripts(crew: CrewDefinition) -> set[str]:
    used = {agent.model or crew.model for agent in crew.agents.values() if not agent.does}
    return {model for model in used if model and model.startswith(SCRIPTED)}


def _bounds(crew: CrewDefinition) -> tuple[Any, ...]:
    """What a crew may use."""
    quotas = sorted((rule.key, rule.quota) for rule in definition_permissions(crew) if rule.quota)
    return crew.limits.tokens, crew.limits.cost, quotas


def _refused(task: PrepareMerge, why: str, remedy: str) -> PrepareMergeResult:
    return PrepareMergeResult(base=task.base, merged_run=task.other, refused=why, remedy=remedy)
