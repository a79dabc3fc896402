"""A merge of two runs, in the workflow: when a run looks at another one, and what it does then.

    a hint, or a time    an activity loads what the store has of the other run
    loop                 `crewlog.state.run_merge.protocol` says what follows; all of it is
    recorded, and one
                         activity stores it and tells the other run
    `unite`              an activity makes the crew of both; one fact takes the other run in

A hint is the signal `merging`. What it says is believed by nobody: it is a reason to look. The
activities are waited for beside the loop, so that whoever works goes on meanwhile. Those that only
read are local ones where they can (docs/decisions/0054).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError

with workflow.unsafe.imports_passed_through():
    from crewlog.errors import CrewlogError, RunAlreadyMerged
    from crewlog.graph.engine import Engine
    from crewlog.graph.run_merge.surviving_run import apply_merge
    from crewlog.ids import RunId
    from crewlog.state import journal as j
    from crewlog.state.calls import (
        PREPARE_MERGE,
        READ_OTHER_RUN,
        MergeNotification,
        PrepareMerge,
        PrepareMergeResult,
        ReadOtherRun,
        ReadOtherRunResult,
        StoreBatchResult,
    )
    from crewlog.state.model import CrewState
    from crewlog.state.run_merge.protocol import (
        Move,
        is_request_pending,
        may_merge,
        next_move,
        next_read_at,
        run_to_read,
    )
    from crewlog.state.run_merge.renames import renamed_log, renames_description
    from crewlog.state.run_merge.surviving_state import artifact_heads, removed_agents
    from crewlog.wire import NOTIFY_MERGE

from crewlog.workflows import authorization
from crewlog.workflows.activity_options import PREPARING, STORING
from crewlog.workflows.command_queue import QueuedCommand
from crewlog.workflows.local_activity import execute_activity, locally

UNITE_LIMIT = timedelta(seconds=60)
"""How long the crew of both may take to be made: the other run stands still meanwhile."""
HINTS = 20
"""Hints that are kept until they are followed; those that come beyond come again."""

Store = Callable[[Sequence[MergeNotification]], Awaitable[StoreBatchResult | None]]
"""Stores what is not stored yet, and gives hints after it; none where it gave none."""


class RunMerge:
    """A run's part in merges."""

    def __init__(self) -> None:
        self._notifications: dict[str, RunId] = {}
        """The runs to look at, by merge."""
        self._later: dict[str, RunId] = {}
        """Those that asked while the run was in another merge: looked at once it is in none."""
        self._task: asyncio.Task[ReadOtherRunResult | PrepareMergeResult] | None = None
        self.at_once = False
        """Whether that is done within the workflow's task: nothing else is waited for till then."""
        self.markers = 0
        """How many were: each leaves an event."""
        self._known: ReadOtherRunResult | None = None
        """What was seen last in the merge that the run is in: what follows may only wait for what
        is under way here."""
        self._asked = ""
        """The merge that the other run was told of, in this execution."""
        self._looked = 0
        """When the run looked last, or when its stage began, in milliseconds since the epoch."""
        self._unsure = False
        """Whether the server is to be asked whether there is the other run."""
        self._telling: set[asyncio.Task[None]] = set()

    def hint(self, data: Any) -> None:
        """Takes a hint: `op` and `run`, both texts; what is none is nothing."""
        op, run = (data.get("op"), data.get("run")) if isinstance(data, dict) else (None, None)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if (
            isinstance(op, str)
            and isinstance(run, str)
            and run
            and len(self._notifications) < HINTS
        ):
            self._notifications[op] = RunId(run)

    @property
    def has_work(self) -> bool:
        """Whether there is something for the loop to go on with."""
        if self._task is not None:
            return self._task.done()
        return bool(self._notifications) or self._unsure

    def due(self, state: CrewState) -> int | None:
        """When the run is to look again, in milliseconds since the epoch; none: at no time."""
        if self._task is not None or state.pending_merge is None:
            return None
        return next_read_at(state, max(self._looked, state.pending_merge.at))

    async def go_on(self, engine: Engine, store: Store, *, landed: bool) -> None:
        """Does what is to be done, as far as nothing must be waited for.

        Args:
            engine: The run's engine.
            store: Stores what is not stored yet.
            landed: Whether nothing of the run is under way.
        """
        await self._take(engine, store, landed=landed)
        joining = engine.state.pending_merge
        if joining is not None and joining.status == "requested" and self._asked != joining.merge:
            self._asked = joining.merge
            await self._store(
                engine, store, [MergeNotification(merge=joining.merge, to=joining.other)]
            )
        if engine.state.is_ended:
            self._later |= self._notifications  # nothing follows any more: they are told of the end
            self._notifications.clear()
            self._unsure = False
        elif self._task is None and not await self._followed(engine, store, landed=landed):
            self._discard_notifications(engine.state)
            self._start_check(engine)

    async def _followed(self, engine: Engine, store: Store, *, landed: bool) -> bool:
        """Whether something was seen before, and follows now that all has landed."""
        joining, known = engine.state.pending_merge, self._known
        if joining is None or joining.status != "draining" or not landed or known is None:
            return False
        await self._follow(engine, known, store, landed=True)
        self._discard_notifications(engine.state)
        self._known = None  # else nothing would be looked at any more
        return True

    async def _take(self, engine: Engine, store: Store, *, landed: bool) -> None:
        """Takes what an activity has found, or made."""
        if self._task is not None and self._task.done():
            task, self._task, self.at_once = self._task, None, False
            try:
                found = task.result()
            except ActivityError as error:
                if authorization.foreign_execution_error(error) is not None:
                    raise
                await self._fail_merge(engine, error, store)
            else:
                if isinstance(found, ReadOtherRunResult):
                    await self._follow(engine, found, store, landed=landed)
                else:
                    await self._apply_merge(engine, found, store)

    def _discard_notifications(self, state: CrewState) -> None:
        """Drops the hints of merges that have ended for the run, and takes those that waited."""
        if state.pending_merge is None and self._later:
            self._notifications |= self._later
            self._later.clear()
        for op in [each for each in self._notifications if each in state.merges]:
            del self._notifications[op]

    def waiting(self, state: CrewState) -> tuple[MergeNotification, ...]:
        """Hints for those who may be waiting for an answer of a run that has ended; once."""
        asked = {**self._notifications, **self._later}
        self._notifications.clear()
        self._later.clear()
        return tuple(
            MergeNotification(merge=op, to=to) for op, to in asked.items() if op not in state.merges
        )

    def _start_check(self, engine: Engine) -> None:
        """Begins to look, where there is a hint, or where it is time."""
        joining = engine.state.pending_merge
        due = self.due(engine.state)
        if joining is not None and (joining.merge in self._notifications or self._unsure):
            self._notifications.pop(joining.merge, None)
            self._look(engine, joining.merge, joining.other, sure=not self._unsure)
        elif self._notifications:
            op, run = self._notifications.popitem()
            self._look(engine, op, run_to_read(engine.state, op, run), sure=True)
        elif joining is not None and due is not None and due <= engine.at:
            if is_request_pending(engine.state):
                self.tell(engine, joining.merge, joining.other)
            self._look(engine, joining.merge, joining.other, sure=False)
        self._unsure = False  # else it was about a merge that has ended

    async def _store(
        self, engine: Engine, store: Store, hints: Sequence[MergeNotification]
    ) -> None:
        """Stores what the run did, and then gives hints of it."""
        told = await store(hints)
        for each in hints if told is None else told.unsent:
            self.tell(engine, each.merge, each.to)
        joining = engine.state.pending_merge
        if told is not None and joining is not None and joining.other in told.gone:
            self._unsure = True

    def tell(self, engine: Engine, op: str, to: RunId) -> None:
        """Gives another run a hint. What the run did is stored before.

        Args:
            engine: The run's engine.
            op: The merge.
            to: The other run.
        """
        task = asyncio.create_task(self._tell(engine.state.run, op, to))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell(self, run: RunId, op: str, to: RunId) -> None:
        handle: workflow.ExternalWorkflowHandle[Any] = workflow.get_external_workflow_handle(to)
        try:
            await handle.signal(NOTIFY_MERGE, {"op": op, "run": run})
        except FailureError:
            self._unsure = True  # it has ended, or there never was one

    def _look(
        self, engine: Engine, op: str, other: RunId, *, sure: bool, recall: bool = False
    ) -> None:
        """Begins to look at another run."""
        self._looked, self._unsure = engine.at, False
        task = ReadOtherRun(
            run=engine.state.run,
            definition=engine.plan.definition,
            other=other,
            merge=op,
            sure=sure,
            recall=recall,
        )
        options = {**STORING, "summary": f"looks at {other}"}
        self._begin(READ_OTHER_RUN, task, ReadOtherRunResult, options, local=sure)

    async def _follow(
        self, engine: Engine, seen: ReadOtherRunResult, store: Store, *, landed: bool
    ) -> None:
        """Does what follows from what was seen: records it, stores it, and tells of it."""
        engine.at = max(engine.at, seen.at)
        other = CrewState.from_json(seen.state) if seen.state is not None else None
        hints: list[MergeNotification] = []
        while (move := _next(engine, other, seen, landed=landed)) and move.does == "record":
            assert move.entry is not None  # noqa: S101 - `record` has an entry
            engine.record(move.entry)
            if engine.state.is_ended:
                return  # merged: nobody waits for its word
            hint = MergeNotification(merge=move.entry.merge, to=move.to)
            hints += [hint] if hint not in hints else []  # one tells of all that is stored
        joining = engine.state.pending_merge
        if joining is not None and joining.merge == seen.merge:
            self._known = seen
        unites = move is not None and move.does == "unite"
        if unites:  # it has offered itself, and waits for nothing but the word
            hints = [each for each in hints if each.merge != seen.merge]
        # What leads to the artifacts is looked at in the store.
        if hints or (unites and artifact_heads(engine.state)):
            await self._store(engine, store, hints)
        if unites:
            self._prepare_merge(engine, seen)
        elif move is not None:
            self._look(engine, seen.merge, move.to, sure=not seen.gone, recall=True)
        elif other is not None and self._waits(engine.state, other, seen.merge):
            self._later[seen.merge] = other.run

    def _waits(self, own: CrewState, other: CrewState, op: str) -> bool:
        """Whether another run's request is to be looked at again once this one is in no merge."""
        mine, theirs = own.pending_merge, other.pending_merge
        if mine is None or mine.merge == op or theirs is None or len(self._later) >= HINTS:
            return False
        return (theirs.merge, theirs.status, theirs.other) == (op, "requested", own.run)

    async def _fail_merge(self, engine: Engine, error: ActivityError, store: Store) -> None:
        """Goes on alone where the union could not be made; what was not seen is looked at later."""
        workflow.logger.error("a merge does not go on: %s", error.cause, exc_info=error)
        joining = engine.state.pending_merge
        if error.activity_type != PREPARE_MERGE or joining is None:
            return
        if may_merge(engine.state, joining.merge):
            why = f"the crew of both could not be made: {error.cause or error}"
            engine.record(
                j.MergeFailed(merge=joining.merge, other=joining.other, reason=why[:2000])
            )
            await self._store(
                engine, store, [MergeNotification(merge=joining.merge, to=joining.other)]
            )

    def _prepare_merge(self, engine: Engine, seen: ReadOtherRunResult) -> None:
        """Begins to make the crew of both."""
        joining = engine.state.pending_merge
        assert joining is not None  # noqa: S101 - it survives
        other = CrewState.from_json(seen.state or {})
        task = PrepareMerge(
            run=engine.state.run,
            base=engine.plan.definition,
            other=other.run,
            position=other.position,
            operation=joining.operation,
            asks=joining.priority[1],
            artifacts=artifact_heads(engine.state),
            removed=removed_agents(engine.state, engine.plan.agents),
        )
        options = {**PREPARING, "schedule_to_close_timeout": UNITE_LIMIT}
        self._begin(PREPARE_MERGE, task, PrepareMergeResult, options, local=True)

    def _begin(
        self,
        name: str,
        task: ReadOtherRun | PrepareMerge,
        kind: type[ReadOtherRunResult | PrepareMergeResult],
        options: Mapping[str, Any],
        *,
        local: bool,
    ) -> None:
        """Begins an activity, in the workflow's task where it may be done there."""
        self.at_once = local
        self.markers += local
        work = locally if local else execute_activity
        self._task = asyncio.create_task(work(name, task, kind, options))

    async def _apply_merge(
        self, engine: Engine, prepared: PrepareMergeResult, store: Store
    ) -> None:
        """Takes the other run in, or tells it why not."""
        joining = engine.state.pending_merge
        if joining is None or not may_merge(engine.state, joining.merge):
            return
        try:
            apply_merge(engine, prepared, op=joining.merge, by=joining.by)
        # Whatever it is, it would fail the workflow's task for ever: both go on as they were.
        except Exception as error:  # noqa: BLE001
            told = "the run %s could not be taken in: both go on as they were"
            workflow.logger.error(told, joining.other, exc_info=error)
            why = str(error) if isinstance(error, CrewlogError) else repr(error)
            engine.record(
                j.MergeFailed(merge=joining.merge, other=joining.other, reason=why[:2000])
            )
        await self._store(engine, store, [MergeNotification(merge=joining.merge, to=joining.other)])


def _next(
    engine: Engine, other: CrewState | None, seen: ReadOtherRunResult, *, landed: bool
) -> Move | None:
    """What follows for the run as it is from what was seen."""
    topology = engine.plan.topology
    return next_move(
        engine.state,
        other,
        seen.merge,
        engine.at,
        landed=landed,
        ends=engine.state.detached_turns if engine.is_finishing_detached_turns else (),
        gone=seen.gone,
        creatures=len(topology.creatures) if topology is not None else 0,
        flow=bool(topology is not None and topology.flow),
        refusal="" if topology is not None else "it has no graph of creatures",
        recalled=seen.recalled,
    )


async def forward(state: CrewState, incoming: QueuedCommand, *, signed: bool = False) -> None:
    """Hands what is said to a merged run on to the one that it is part of; or tells who waits.

    Only what is said: whoever stops this run does not mean that one, and the questions of that one
    have other numbers.

    Args:
        state: The run, as it ended.
        incoming: A signal, which is handed on, or an update, whose client is told where to ask.
        signed: Whether its crew takes signed commands only: then what was signed stays as it is,
            and the other run, whose journal says what is called otherwise, finds who is meant.
    """
    into = state.surviving_run
    assert into is not None  # noqa: S101 - it is merged
    if incoming.is_update:
        called = renames_description(state.surviving_run_renames)
        incoming.error = RunAlreadyMerged(
            f"the run {state.run!r} is part of {into!r} by now" + (f"; {called}" if called else ""),
            remedy=f"Look at that run, and send it there: {into}",
        )
        incoming.done = True
    elif incoming.name == "message":
        handle: workflow.ExternalWorkflowHandle[Any] = workflow.get_external_workflow_handle(into)
        with suppress(FailureError):  # that one has ended, too: nobody waits for it any more
            led = _as_said if signed else _with_new_name
            await handle.signal(incoming.name, led(state, incoming.data))


def _as_said(state: CrewState, data: Any) -> Any:
    """What is said, with the run that it was said to first, which its signature names."""
    if not isinstance(data, dict):
        return data
    said: dict[str, Any] = data  # pyright: ignore[reportUnknownVariableType]
    return {**said, "original_run": said.get("original_run") or state.run}


def _with_new_name(state: CrewState, data: Any) -> Any:
    """What is said, to whom it is meant for: the other run may mean another one by that name."""
    to = data.get("to") if isinstance(data, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    if not isinstance(to, str) or (now := renamed_log(to, state.surviving_run_renames)) == to:
        return data
    return {**data, "to": now, "original_to": data.get("original_to") or to}
