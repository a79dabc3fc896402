"""Run merges, in the workflow: when a run reads the other run, and what it does then.

    read    at a merge notification or a deadline, an activity loads the stored state of the other
            run
    follow  `crewlog.state.run_merge.protocol` decides the next move; the run records it, and an
            activity stores it and notifies the other run
    merge   an activity makes the definition of both runs, and one entry merges the other run

The data of a merge notification is not trusted: it only starts a read. The activities run beside
the loop, so that the run continues. Those that only read are local ones if possible
(docs/decisions/0054).
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
    from crewlog.model import is_object
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
    from crewlog.state.model import CrewState, PendingMerge
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
from crewlog.workflows.activity_options import PREPARE_CHANGE_OPTIONS, STORE_OPTIONS
from crewlog.workflows.commands.queue import Failed, QueuedCommand
from crewlog.workflows.local_activity import execute_activity, execute_local_activity_or_fallback

PREPARE_TIMEOUT = timedelta(seconds=60)
"""The timeout for making the definition of both runs. The other run waits meanwhile."""
MAX_NOTIFICATIONS = 20
"""The most merge notifications that are kept until the other run is read. Runs repeat lost ones."""

Store = Callable[[Sequence[MergeNotification]], Awaitable[StoreBatchResult | None]]
"""Stores the rest of the journal, then sends notifications; none if there was no rest."""


class RunMerge:
    """The run merges of a run."""

    def __init__(self) -> None:
        self._notifications: dict[str, RunId] = {}
        """The runs to read, by merge."""
        self._deferred: dict[str, RunId] = {}
        """The runs that requested a merge during another merge: they are read after it."""
        self._task: asyncio.Task[ReadOtherRunResult | PrepareMergeResult] | None = None
        self.is_local = False
        """Whether the running activity is a local one: the loop stores nothing meanwhile."""
        self.markers = 0
        """How many local activities were started. Each leaves an event in the history."""
        self._last_read: ReadOtherRunResult | None = None
        """The last read of the pending merge, which is followed again once this run has drained."""
        self._notified = ""
        """The requested merge of which this execution has notified the other run."""
        self._read_at = 0
        """When the other run was last read, in milliseconds since the epoch."""
        self._must_check_server = False
        """Whether the server must be asked whether the other run exists."""
        self._sending: set[asyncio.Task[None]] = set()

    def add_notification(self, data: Any) -> None:
        """Adds a merge notification: the texts `op` and `run`; any other data is ignored."""
        op, run = (data.get("op"), data.get("run")) if isinstance(data, dict) else (None, None)  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
        if (
            isinstance(op, str)
            and isinstance(run, str)
            and run
            and len(self._notifications) < MAX_NOTIFICATIONS
        ):
            self._notifications[op] = RunId(run)

    @property
    def has_work(self) -> bool:
        """Whether the loop must call `advance`."""
        if self._task is not None:
            return self._task.done()
        return bool(self._notifications) or self._must_check_server

    def next_deadline(self, state: CrewState) -> int | None:
        """When the other run must be read again, in milliseconds since the epoch; None: never."""
        if self._task is not None or state.pending_merge is None:
            return None
        return next_read_at(state, max(self._read_at, state.pending_merge.at))

    async def advance(self, engine: Engine, store: Store, *, is_drained: bool) -> None:
        """Continues the pending merge until it must wait.

        Args:
            engine: The engine of the run.
            store: Stores the rest of the journal.
            is_drained: Whether no call and no detached turn of the run is in flight.
        """
        await self._apply_result(engine, store, is_drained=is_drained)
        merge = engine.state.pending_merge
        if merge is not None and merge.status == "requested" and self._notified != merge.merge:
            self._notified = merge.merge
            await self._store(engine, store, [MergeNotification(merge=merge.merge, to=merge.other)])
        if engine.state.is_ended:
            self._deferred |= self._notifications  # these runs are notified of the end
            self._notifications.clear()
            self._must_check_server = False
        elif self._task is None and not await self._follow_last_read(
            engine, store, is_drained=is_drained
        ):
            self._discard_notifications(engine.state)
            self._start_read(engine)

    async def _follow_last_read(self, engine: Engine, store: Store, *, is_drained: bool) -> bool:
        """Follows the last read if the run has drained since; returns whether it did."""
        merge, last = engine.state.pending_merge, self._last_read
        if merge is None or merge.status != "draining" or not is_drained or last is None:
            return False
        await self._follow(engine, last, store, is_drained=True)
        self._discard_notifications(engine.state)
        self._last_read = None  # otherwise the other run would not be read any more
        return True

    async def _apply_result(self, engine: Engine, store: Store, *, is_drained: bool) -> None:
        """Applies the result of the activity, if it has completed."""
        if self._task is not None and self._task.done():
            task, self._task, self.is_local = self._task, None, False
            try:
                result = task.result()
            except ActivityError as error:
                if authorization.foreign_execution_error(error) is not None:
                    raise
                await self._fail_merge(engine, error, store)
            else:
                if isinstance(result, ReadOtherRunResult):
                    await self._follow(engine, result, store, is_drained=is_drained)
                else:
                    await self._apply_merge(engine, result, store)

    def _discard_notifications(self, state: CrewState) -> None:
        """Removes the notifications of ended merges, and adds the deferred ones after a merge."""
        if state.pending_merge is None and self._deferred:
            self._notifications |= self._deferred
            self._deferred.clear()
        for op in [each for each in self._notifications if each in state.merges]:
            del self._notifications[op]

    def take_notifications(self, state: CrewState) -> tuple[MergeNotification, ...]:
        """Removes and returns notifications for runs that may wait for this run, which ended."""
        runs = {**self._notifications, **self._deferred}
        self._notifications.clear()
        self._deferred.clear()
        return tuple(
            MergeNotification(merge=op, to=to) for op, to in runs.items() if op not in state.merges
        )

    def _start_read(self, engine: Engine) -> None:
        """Starts to read another run if there is a notification or the deadline has passed."""
        merge = engine.state.pending_merge
        deadline = self.next_deadline(engine.state)
        if merge is not None and (merge.merge in self._notifications or self._must_check_server):
            self._notifications.pop(merge.merge, None)
            self._read(engine, merge.merge, merge.other, sure=not self._must_check_server)
        elif self._notifications:
            op, run = self._notifications.popitem()
            self._read(engine, op, run_to_read(engine.state, op, run), sure=True)
        elif merge is not None and deadline is not None and deadline <= engine.at:
            if is_request_pending(engine.state):
                self.notify(engine, merge.merge, merge.other)
            self._read(engine, merge.merge, merge.other, sure=False)
        self._must_check_server = False  # if still set, it concerns a merge that has ended

    async def _store(
        self, engine: Engine, store: Store, notifications: Sequence[MergeNotification]
    ) -> None:
        """Stores the rest of the journal, and then sends notifications."""
        result = await store(notifications)
        for each in notifications if result is None else result.unsent:
            self.notify(engine, each.merge, each.to)
        merge = engine.state.pending_merge
        if result is not None and merge is not None and merge.other in result.gone:
            self._must_check_server = True

    def notify(self, engine: Engine, op: str, to: RunId) -> None:
        """Sends another run a merge notification, once the journal is stored.

        Args:
            engine: The engine of this run.
            op: The merge.
            to: The other run.
        """
        task = asyncio.create_task(self._send_notification(engine.state.run, op, to))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_notification(self, run: RunId, op: str, to: RunId) -> None:
        handle: workflow.ExternalWorkflowHandle[Any] = workflow.get_external_workflow_handle(to)
        try:
            await handle.signal(NOTIFY_MERGE, {"op": op, "run": run})
        except FailureError:
            self._must_check_server = True  # the run has ended, or does not exist

    def _read(
        self, engine: Engine, op: str, other: RunId, *, sure: bool, recall: bool = False
    ) -> None:
        """Starts to read another run."""
        self._read_at, self._must_check_server = engine.at, False
        task = ReadOtherRun(
            run=engine.state.run,
            definition=engine.plan.definition,
            other=other,
            merge=op,
            sure=sure,
            recall=recall,
        )
        options = {**STORE_OPTIONS, "summary": f"reads {other}"}
        self._start(READ_OTHER_RUN, task, ReadOtherRunResult, options, is_local=sure)

    async def _follow(
        self, engine: Engine, read: ReadOtherRunResult, store: Store, *, is_drained: bool
    ) -> None:
        """Makes the moves that follow from a read: records and stores them, notifies the other."""
        engine.at = max(engine.at, read.at)
        other = CrewState.from_json(read.state) if read.state is not None else None
        notifications: list[MergeNotification] = []
        while (move := _next_move(engine, other, read, is_drained=is_drained)) and (
            move.entry is not None
        ):
            engine.record(move.entry)
            if engine.state.is_ended:
                return  # merged: no run waits for a notification
            notification = MergeNotification(merge=move.entry.merge, to=move.to)
            if notification not in notifications:
                notifications.append(notification)
        merge = engine.state.pending_merge
        if merge is not None and merge.merge == read.merge:
            self._last_read = read
        to_prepare = merge if move is not None and move.does == "merge" else None
        if to_prepare is not None:  # the other run waits only for the result of the merge
            notifications = [each for each in notifications if each.merge != read.merge]
        # The activity reads the logs of artifacts from the store.
        if notifications or (to_prepare is not None and artifact_heads(engine.state)):
            await self._store(engine, store, notifications)
        if to_prepare is not None:
            self._prepare_merge(engine, to_prepare, read)
        elif move is not None:
            self._read(engine, read.merge, move.to, sure=not read.gone, recall=True)
        elif other is not None and self._must_defer(engine.state, other, read.merge):
            self._deferred[read.merge] = other.run

    def _must_defer(self, own: CrewState, other: CrewState, op: str) -> bool:
        """Whether the request of another run must be read again after the pending merge."""
        merge, request = own.pending_merge, other.pending_merge
        if merge is None or merge.merge == op or request is None:
            return False
        if len(self._deferred) >= MAX_NOTIFICATIONS:
            return False
        return (request.merge, request.status, request.other) == (op, "requested", own.run)

    async def _fail_merge(self, engine: Engine, error: ActivityError, store: Store) -> None:
        """Records that a merge failed if its preparation did; a failed read is repeated later."""
        workflow.logger.error("an activity of a run merge failed: %s", error.cause, exc_info=error)
        merge = engine.state.pending_merge
        if error.activity_type != PREPARE_MERGE or merge is None:
            return
        if may_merge(engine.state, merge.merge):
            reason = f"the definition of both runs could not be made: {error.cause or error}"
            engine.record(j.MergeFailed(merge=merge.merge, other=merge.other, reason=reason[:2000]))
            await self._store(engine, store, [MergeNotification(merge=merge.merge, to=merge.other)])

    def _prepare_merge(self, engine: Engine, merge: PendingMerge, read: ReadOtherRunResult) -> None:
        """Starts to make the definition of both runs."""
        other = CrewState.from_json(read.state or {})
        task = PrepareMerge(
            run=engine.state.run,
            base=engine.plan.definition,
            other=other.run,
            position=other.position,
            operation=merge.operation,
            asks=merge.priority[1],
            artifacts=artifact_heads(engine.state),
            removed=removed_agents(engine.state, engine.plan.agents),
        )
        options = {**PREPARE_CHANGE_OPTIONS, "schedule_to_close_timeout": PREPARE_TIMEOUT}
        self._start(PREPARE_MERGE, task, PrepareMergeResult, options, is_local=True)

    def _start(
        self,
        name: str,
        task: ReadOtherRun | PrepareMerge,
        result_type: type[ReadOtherRunResult | PrepareMergeResult],
        options: Mapping[str, Any],
        *,
        is_local: bool,
    ) -> None:
        """Starts an activity; as a local one if `is_local`."""
        self.is_local = is_local
        self.markers += is_local
        execute = execute_local_activity_or_fallback if is_local else execute_activity
        self._task = asyncio.create_task(execute(name, task, result_type, options))

    async def _apply_merge(
        self, engine: Engine, prepared: PrepareMergeResult, store: Store
    ) -> None:
        """Merges the other run, or records that the merge failed; then notifies the other run."""
        merge = engine.state.pending_merge
        if merge is None or not may_merge(engine.state, merge.merge):
            return
        try:
            apply_merge(engine, prepared, op=merge.merge, by=merge.by)
        # Any other handling would fail the workflow task forever. Both runs continue unchanged.
        except Exception as error:  # noqa: BLE001
            text = "the run %s could not be merged: both runs continue unchanged"
            workflow.logger.error(text, merge.other, exc_info=error)
            reason = str(error) if isinstance(error, CrewlogError) else repr(error)
            engine.record(j.MergeFailed(merge=merge.merge, other=merge.other, reason=reason[:2000]))
        await self._store(engine, store, [MergeNotification(merge=merge.merge, to=merge.other)])


def _next_move(
    engine: Engine, other: CrewState | None, read: ReadOtherRunResult, *, is_drained: bool
) -> Move | None:
    """The move that follows from a read of the other run; None if there is none."""
    component = engine.plan.component
    return next_move(
        engine.state,
        other,
        read.merge,
        engine.at,
        has_drained=is_drained,
        ending_turns=engine.state.detached_turns if engine.is_finishing_detached_turns else (),
        gone=read.gone,
        agents=len(component.agents) if component is not None else 0,
        has_flow=bool(component is not None and component.flow),
        refusal="" if component is not None else "it has no agents with channels",
        recalled=read.recalled,
    )


async def forward(state: CrewState, incoming: QueuedCommand, *, signed: bool = False) -> None:
    """Handles a command to a merged run: forwards a message, rejects an update.

    Other signals are ignored: a stop is meant for this run only, and interrupts have other numbers
    in the surviving run.

    Args:
        state: The final state of the merged run.
        incoming: The command. The error for an update has the id of the surviving run.
        signed: Whether commands are signed. Then the message is forwarded unchanged, and the
            surviving run applies the renames, which its state has.
    """
    into = state.surviving_run
    assert into is not None  # noqa: S101 - it is merged
    if incoming.is_update:
        renames = renames_description(state.surviving_run_renames)
        text = f"the run {state.run!r} was merged into {into!r}"
        incoming.outcome = Failed(
            RunAlreadyMerged(
                f"{text}; {renames}" if renames else text,
                remedy=f"Send the command to {into!r}.",
            )
        )
    elif incoming.name == "message":
        handle: workflow.ExternalWorkflowHandle[Any] = workflow.get_external_workflow_handle(into)
        with suppress(FailureError):  # the surviving run has ended, too
            forwarded = _with_original_run if signed else _with_new_name
            await handle.signal(incoming.name, forwarded(state, incoming.data))


def _with_original_run(state: CrewState, content: Any) -> Any:
    """The message with the run that it was first sent to, which its signature names."""
    if not is_object(content):
        return content
    return {**content, "original_run": content.get("original_run") or state.run}


def _with_new_name(state: CrewState, data: Any) -> Any:
    """The message with the new name of its receiver; another agent may have the old name now."""
    to = data.get("to") if is_object(data) else None
    if not isinstance(to, str) or (new := renamed_log(to, state.surviving_run_renames)) == to:
        return data
    return {**data, "to": new, "original_to": data.get("original_to") or to}
