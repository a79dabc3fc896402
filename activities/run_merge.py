"""The activities of a run merge: they ask and read the other run, prepare and confirm the merge.

The preparation makes, checks and stores the definition of both runs, and its plan. It changes
nothing: the coordinator accepts or rejects the result.

An outcome is confirmed by the activity that stores it: a signal of the workflow itself would cost a
workflow task before it and another one after it. A notification may be lost, repeated or late, so
the activity is not retried for one: the workflow sends those again that may not have arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from crewlog.activities.clock import Clock
from crewlog.activities.definitions import Definitions
from crewlog.activities.lifecycle import lower_new_definition
from crewlog.activities.server import Server
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
from crewlog.model import is_object
from crewlog.state import journal as j
from crewlog.state.calls import (
    AskOtherRun,
    AskOtherRunResult,
    MergeNotification,
    PrepareMerge,
    PrepareMergeResult,
    ReadOtherRun,
    ReadOtherRunResult,
    StoreBatchResult,
)
from crewlog.state.components import surviving_run_id
from crewlog.state.journal import entry_from_json
from crewlog.state.model import CrewState, MergeOutcome
from crewlog.state.run_merge.protocol import is_frozen_for, recall, state_for_merge
from crewlog.state.run_merge.surviving_state import (
    artifact_conflict,
    artifact_heads,
    new_names,
    removed_agents,
    transferred_state,
)
from crewlog.state.split import split_source_run_id
from crewlog.store.checkpoints import load_last_state
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import Store

PAGE = 1000
"""Entries of a journal that are read at once."""


async def _load_last_state(store: Store, run: RunId) -> CrewState | None:
    try:
        return await load_last_state(store, run)
    except UsageError:
        return None  # nothing of it is stored yet, or the run does not exist


async def send_notifications(
    run: RunId, notifications: Sequence[MergeNotification], server: Server
) -> StoreBatchResult:
    """Sends the notifications of a run, after its batch was stored.

    Args:
        run: The run that sends them.
        notifications: Each with its receiver and its merge.
        server: The server.
    """
    sent = await asyncio.gather(*(server.send_notification(run, each) for each in notifications))
    pairs = zip(notifications, sent, strict=True)
    return StoreBatchResult(unsent=tuple(each for each, is_sent in pairs if not is_sent))


FIRST_BATCH_TIMEOUT = 20.0
"""Seconds in which a new run should store its first batch, unless no worker polls its task queue.
Shorter than the timeout of the activity."""
_MOST_NAMES = 4
"""The most tools and scripts that a warning names."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
"""Seconds between two reads of the store."""


@dataclass(frozen=True)
class RunMerges:
    """Asks and reads the other runs of merges on a worker, and prepares the merges."""

    store: Store
    definitions: Definitions
    server: Server
    waits_for_first_batch: bool = True
    """Whether it waits for the first batch of a new run; otherwise another activity does."""

    async def read_other_run(self, task: ReadOtherRun) -> ReadOtherRunResult:
        """Reads the last stored state of another run.

        If the run was terminated, the store rejects its batches from here on.
        """
        clock = Clock()
        state = await _load_last_state(self.store, task.other)
        gone = False
        if (state is None or not state.is_ended) and not task.sure:
            executions = await self.server.find_last_executions(task.other)
            if executions is not None:
                await self.store.reject_executions(task.other, executions)
                state = await _load_last_state(self.store, task.other)
                gone = state is None or not state.is_ended
        widens: tuple[str, ...] | None = None
        refused = ""
        if state is not None:
            if task.find_widenings:
                widens, refused = await self.find_widenings(task, state)
            state = await self._with_merge_outcome(state, task)
        return ReadOtherRunResult(
            merge=task.merge,
            state=state_for_merge(state, task.merge).to_json() if state is not None else None,
            gone=gone,
            recalled=task.recall_after is not None,
            widens=widens,
            compared=task.definition if widens is not None else ContentHash(""),
            refused=refused,
            at=clock.now(),
        )

    async def _with_merge_outcome(self, state: CrewState, task: ReadOtherRun) -> CrewState:
        """Returns the state of a surviving run with the renames of the merge, from its journal.

        The state has the position of the entry; if it may have dropped that, the whole journal is
        searched.
        """
        merge = state.merges.get(task.merge)
        at = merge.position if merge is not None and merge.outcome == "merged" else 0
        if not at and task.recall_after is None:
            return state
        after, limit = (at - 1, 1) if at else (task.recall_after or 0, PAGE)
        while rows := await self.store.read_journal(task.other, after, limit):
            for row in rows:
                entry = entry_from_json(row.entry)
                if isinstance(entry, j.RunMerged) and entry.merge == task.merge:
                    outcome = MergeOutcome(
                        outcome="merged",
                        other=entry.merged_run,
                        position=row.position,
                        merged_position=entry.merged_run_position,
                        merged_started_at=entry.merged_run_started_at,
                        renames=entry.renames,
                    )
                    return recall(state, task.merge, outcome)
            if at:
                break
            after = rows[-1].position
        return state

    async def ask_other_run(self, task: AskOtherRun) -> AskOtherRunResult:
        """Asks the other run of a merge to coordinate it, or to freeze."""
        if (answer := await self.server.ask_run(task)) is not None:
            return answer
        state = await _load_last_state(self.store, task.other)
        if state is None:
            refused = f"there is no run {task.other!r}: `crewlog ps` lists them"
        elif state.surviving_run is not None:
            refused = f"{task.other!r} was merged into {state.surviving_run!r}: name that run"
        else:
            end = state.status if state.is_ended else "terminated"
            refused = f"{task.other!r} has ended ({end}): `crewlog resume` may reopen it"
        return AskOtherRunResult(refused=refused)

    async def prepare(self, task: PrepareMerge) -> PrepareMergeResult:
        """Returns the definition of both runs, or why they cannot merge.

        Without `decide`, the other run must be frozen for this round: its state is final.

        Args:
            task: The merge.

        Raises:
            StoreIncomplete: the store lacks a part of the other run, or a definition.
            StoreUnavailable: the store does not answer; or it lacks a run for which this does not
                wait.
        """
        if task.decide:
            try:
                return await self._preview(task)
            except ComponentConflict as error:
                return _rejected(task, error.message, error.remedy)
        state = await load_state(self.store, task.other, task.position)
        if not is_frozen_for(state, task.run, task.merge, task.entered_at, task.started_at):
            return _rejected(task, f"{task.other!r} is not frozen for this merge", "Retry.")
        base, merged = await self._crews(task.base, state.definition)
        return await self._merge(task.run, task, base, merged, state)

    async def find_widenings(
        self, task: ReadOtherRun, other: CrewState
    ) -> tuple[tuple[str, ...] | None, str]:
        """Returns what a merge would widen in which this run is merged into the other one.

        Returns:
            The widenings, and why the runs cannot merge. Without widenings nothing was compared:
            the runs cannot merge, or the other run does not ask this one to freeze.

        Args:
            task: The read of the other run.
            other: Its last stored state.
        """
        request = other.pending_merge
        if (
            request is None
            or (request.merge, request.status) != (task.merge, "coordinating")
            or not is_object(request.operation)
        ):
            return None, ""
        base, merged = await self._crews(other.definition, task.definition)
        state = await self._wait_for_state(task.run)
        prepared = await self._merge(
            task.run,
            PrepareMerge(
                run=task.other,
                base=other.definition,
                other=task.run,
                operation=request.operation,
                asks=request.requester,
                artifacts=artifact_heads(other),
                removed=removed_agents(other, base.agents),
            ),
            base,
            merged,
            state,
        )
        return prepared.widens, prepared.refused

    async def _crews(
        self, one: ContentHash, other: ContentHash
    ) -> tuple[CrewDefinition, CrewDefinition]:
        base = CrewDefinition.from_json(await self.store.get_definition(one))
        return base, CrewDefinition.from_json(await self.store.get_definition(other))

    async def _preview(self, task: PrepareMerge) -> PrepareMergeResult:
        """Returns what a requested merge would do with the present state of the other run."""
        state = await self._wait_for_state(task.other)
        surviving = await self._find_surviving_run(task, state)
        if surviving == task.run:
            return _rejected(
                task,
                f"the run {task.other!r} has been merged into this run",
                "Connect the two agents without naming a run: `crewlog graph "
                f"{task.run}` shows their present names.",
            )
        if state.is_ended or not state.definition or surviving is not None:
            return _rejected(
                task,
                f"the run {task.other!r} is {'merged' if surviving is not None else state.status}"
                + ("" if state.definition else " and has no crew yet"),
                f"`crewlog show {task.other}` shows more."
                if surviving is None
                else f"It has been merged into the run {surviving}: name that one.",
            )
        base, merged = await self._crews(task.base, state.definition)
        run, crews = task.run, {task.run: base, task.other: merged}
        components = {run: expanded_component(crew) for run, crew in crews.items() if crew.lives}
        if missing := sorted({*crews} - {*components}):
            return _rejected(
                task,
                f"the run {missing[0]!r} has no agents with channels",
                "Let one of its agents listen or send first: `crewlog graph channel` makes a "
                "channel.",
            )
        if surviving_run_id(components) == task.run:
            if artifact_heads(state):
                own = await self._wait_for_state(task.run)
                task = task.model_copy(update={"artifacts": artifact_heads(own)})
        else:
            reverse = {
                "run": task.other,
                "other": task.run,
                "base": state.definition,
                "artifacts": artifact_heads(state),
                "removed": removed_agents(state, merged.agents),
            }
            state = await self._wait_for_state(task.run)
            task, base, merged = task.model_copy(update=reverse), merged, base
        result = await self._merge(run, task, base, merged, state)
        return await self._with_warnings(result, task.run, base, merged)

    async def _find_surviving_run(self, task: PrepareMerge, other: CrewState) -> RunId | None:
        """Returns the run into which the other run has been merged, even if that is not stored yet.

        In that case it is frozen, and the surviving run has the outcome: in the journal
        of the run that asks, or in its own stored state.
        """
        pending = other.pending_merge
        if pending is None or pending.status != "frozen":
            return other.surviving_run
        if pending.merge in task.merged:
            return task.run
        if pending.other == task.run:
            return None
        surviving = await _load_last_state(self.store, pending.other)
        merge = surviving.merges.get(pending.merge) if surviving is not None else None
        return pending.other if merge is not None and merge.outcome == "merged" else None

    async def _with_warnings(
        self,
        result: PrepareMergeResult,
        surviving_run: RunId,
        surviving: CrewDefinition,
        merged: CrewDefinition,
    ) -> PrepareMergeResult:
        """Returns a result with a warning of what the workers of the surviving run need."""
        needs = () if result.refused else tuple(_worker_needs(merged, base=surviving))
        if not needs:
            return result
        there, here = await asyncio.gather(
            self.server.find_task_queue(surviving_run),
            self.server.find_task_queue(result.merged_run),
        )
        if not there or not here or there == here:
            return result
        names = list(needs[:_MOST_NAMES])
        if more := len(needs) - len(names):
            names.append(f"{more} more")
        warning = (
            f"the agents of {result.merged_run!r} get the workers of {surviving_run!r}, on the "
            f"task queue {there!r}, which need {listed(names)}"
        )
        remedy = (
            f"Now only the workers on {here!r} need that: install it for those of "
            f"{surviving_run!r}, too"
        )
        if tool := next(_own_tools(merged, surviving), None):
            remedy += (
                "; or leave its tools on their workers: "
                f"crewlog change {result.merged_run} --edit tool.{tool}.queue={here}"
            )
        return result.model_copy(update={"warnings": (f"{warning}\n{remedy}.",)})

    async def _wait_for_state(self, run: RunId) -> CrewState:
        """Returns the last stored state of a run; waits for the first batch of a new run.

        Raises:
            ComponentConflict: nothing of the run is stored.
            StoreUnavailable: the same, if this does not wait.
        """
        loop = asyncio.get_running_loop()
        deadline, pause = loop.time() + FIRST_BATCH_TIMEOUT, FIRST_PAUSE
        while (state := await _load_last_state(self.store, run)) is None:
            if not self.waits_for_first_batch:
                raise StoreUnavailable(f"nothing of the run {run!r} is stored yet")
            if not await self.server.is_open(run):
                break
            if loop.time() >= deadline:
                raise ComponentConflict(
                    f"the run {run!r} has begun, but nothing of it is stored yet",
                    remedy=f"Ask again once `crewlog graphs` lists it. `crewlog show {run}` shows "
                    "whether a worker takes its tasks: without one it does not continue.",
                )
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        state = state or await _load_last_state(self.store, run)  # it may have ended since
        if state is None:
            raise ComponentConflict(
                f"there is no run {run!r} that has begun",
                remedy="`crewlog graphs` lists all runs of agents with channels.",
            )
        return state

    async def _merge(
        self,
        run: RunId,
        task: PrepareMerge,
        base: CrewDefinition,
        merged: CrewDefinition,
        state: CrewState,
    ) -> PrepareMergeResult:
        """Returns the crew of both runs, and the transferred state of the merged run.

        Args:
            run: The run for which the definition is stored.
            task: The merge, as the surviving run prepares it.
            base: The crew of the surviving run.
            merged: The crew of the merged run.
            state: The state of the merged run.
        """
        try:
            both = merged_definition(
                base,
                merged,
                surviving=task.run,
                merged=task.other,
                edge=task.operation,
                asks=task.asks,
                family=await self.store.lineage(task.other),
                gone=task.removed,
            )
            data = both.definition.to_json()
            heads = await self._find_older_heads(task, state, new_names(both.renamed))
            definition, plan = await lower_new_definition(run, data, self.store, self.definitions)
        except ComponentConflict as error:
            return _rejected(task, error.message, error.remedy)
        except InvalidDefinition as error:
            return _rejected(
                task,
                f"the crew of both runs is invalid: {error.message}",
                "Change one of the two crews, and ask again.",
            )
        signed = base.policy is not None and base.policy.signed
        after = CrewDefinition.from_json(definition)
        return PrepareMergeResult(
            definition=definition,
            plan=plan,
            base=task.base,
            merged_run=task.other,
            position=state.position,
            started_at=state.started_at,
            adds_budgets=await self._is_reunion(task.run, base, state, merged),
            state=transferred_state(state),
            change=both.change,
            agents=both.comes,
            nodes=both.nodes,
            new_nodes=tuple(sorted(both.fresh)),
            quotas=both.quotas,
            artifact_heads=heads,
            what=f"{task.other} becomes part of it",
            widens=(*widening(base, after), *widening(merged, after)) if signed else None,
        )

    async def _is_reunion(
        self, run: RunId, base: CrewDefinition, state: CrewState, merged: CrewDefinition
    ) -> bool:
        """Whether two runs come from one run by splits, and have parts of its budgets."""
        budgets = _budgets(base)
        if not any(budgets) or budgets != _budgets(merged):
            return False
        origin = await self._find_origin(run, await _load_last_state(self.store, run))
        return origin == await self._find_origin(state.run, state)

    async def _find_origin(self, run: RunId, state: CrewState | None) -> RunId:
        """Returns the run that a run comes from by splits alone, or itself."""
        while state is not None and (source := split_source_run_id(state)):
            run, state = source, await _load_last_state(self.store, source)
        return run

    async def _find_older_heads(
        self, task: PrepareMerge, merged: CrewState, names: NewNames
    ) -> dict[LogName, ContentHash]:
        """Returns, for each artifact of both runs, the head that is in the log of the other one.

        Raises:
            ComponentConflict: both logs were changed since they were one.
        """
        heads: dict[LogName, ContentHash] = {}
        conflicts: list[str] = []
        for log_of_merged, theirs in sorted(artifact_heads(merged).items()):
            name = names.artifact(log_of_merged.removeprefix(ARTIFACT))
            own = task.artifacts.get(log := artifact_log(name))
            if own is None:
                continue
            if own == theirs or await self._is_ancestor(theirs, own):
                heads[log] = theirs
            elif await self._is_ancestor(own, theirs):
                heads[log] = own
            else:
                conflicts.append(name)
        if conflicts:
            raise artifact_conflict(task.run, task.other, conflicts)
        return heads

    async def _is_ancestor(self, older: ContentHash, newer: ContentHash) -> bool:
        """Whether a head of a log leads to another one."""
        return any(older in link.parents for link in await self.store.read_log(newer, {older}))


def _worker_needs(crew: CrewDefinition, *, base: CrewDefinition) -> Iterator[str]:
    """Yields the functions and scripts that workers of a crew need, and those of `base` do not."""
    for tool in _own_tools(crew, base):
        yield f"the tool {tool!r} ({crew.tools[tool].run})"
    for model in sorted(_scripts(crew) - _scripts(base)):
        yield f"the script {model.removeprefix(SCRIPTED)!r}"


def _own_tools(crew: CrewDefinition, base: CrewDefinition) -> Iterator[str]:
    """Yields the tools that are functions on the run's own workers."""
    for name, tool in crew.tools.items():
        if name not in base.tools and tool.queue is None and mcp_tool(tool.run) is None:
            yield name


def _scripts(crew: CrewDefinition) -> set[str]:
    models = {agent.model or crew.model for agent in crew.agents.values() if not agent.does}
    return {model for model in models if model and model.startswith(SCRIPTED)}


def _budgets(crew: CrewDefinition) -> tuple[Any, ...]:
    """Returns the budgets and quotas of a crew."""
    quotas = sorted((rule.key, rule.quota) for rule in definition_permissions(crew) if rule.quota)
    return crew.limits.tokens, crew.limits.cost, quotas


def _rejected(task: PrepareMerge, why: str, remedy: str) -> PrepareMergeResult:
    return PrepareMergeResult(base=task.base, merged_run=task.other, refused=why, remedy=remedy)
