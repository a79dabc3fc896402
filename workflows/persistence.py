"""Storage of the journal of an execution.

The activity of a call stores the entries that were recorded before it. An activity of its own
stores the rest: when the run waits, before many calls start, and at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from temporalio import workflow

from crewlog.state.calls import (
    STORE_BATCH,
    MergeNotification,
    StoreBatch,
    StoreBatchResult,
)
from crewlog.workflows.activity_options import STORE_OPTIONS
from crewlog.workflows.context import ExecutionContext

SNAPSHOT_AFTER = 200
"""After so many entries since the last snapshot, a flush stores the next one. A run flushes when it
waits, or when its batch is large. So at most this many entries are folded to load the state of a
waiting run."""


class BatchInFlight(NamedTuple):
    """A part of the journal on its way to the store."""

    task: workflow.ActivityHandle[Any]
    position: int
    """The journal position up to which it stores."""


class JournalWriter:
    """Stores the journal of an execution.

    Args:
        context: What the parts of the execution share.
        has_commands: Whether commands wait in the queue.
    """

    def __init__(self, context: ExecutionContext, has_commands: Callable[[], bool]) -> None:
        self._context = context
        self._has_commands = has_commands
        state, journal = context.engine.state, context.engine.journal
        # If the last execution ended without a flush, its snapshot is still to be stored.
        is_overdue = state.execution > 1 and journal.unstored_bytes > 0
        self._snapshot_due = 0 if is_overdue else journal.first - 1 + SNAPSHOT_AFTER
        """The first position at which a flush stores a snapshot."""
        self._batch_in_flight: BatchInFlight | None = None
        """A batch that is stored while commands are applied."""
        self._batch_waiters = 0
        """How many coroutines wait for a batch."""

    async def finish_batch(self) -> None:
        """Waits for the batch in flight, if there is one."""
        if self._batch_in_flight is not None:
            await self._batch_in_flight.task

    async def wait_until_stored(self, position: int) -> None:
        """Waits until the journal is stored up to a position; stores it if nothing else does."""
        journal = self._context.engine.journal
        while journal.has_unstored(position):
            if self._batch_waiters:
                await workflow.wait_condition(
                    lambda: not (self._batch_waiters and journal.has_unstored(position))
                )
            else:
                await self.flush()

    async def store_until_command(self) -> None:
        """Stores the rest of the journal. If a command arrives, it leaves the batch in flight."""
        while (batch := self._batch_in_flight or self._start_batch()) is not None:
            task = batch.task
            await workflow.wait_condition(lambda: task.done() or self._has_commands())  # noqa: B023 - awaited here
            if not task.done():
                self._batch_in_flight = batch
                return
            self._batch_in_flight = None
            await self._finish(batch)

    async def flush(self, *, snapshot: bool = False) -> None:
        """Stores the rest of the journal, and waits for it."""
        batch = self._start_batch(snapshot=snapshot)
        if batch is not None:
            await self._finish(batch)

    async def store_and_notify(
        self, notifications: Sequence[MergeNotification]
    ) -> StoreBatchResult | None:
        """Stores the rest of the journal, then notifies other runs; none if there was no rest."""
        batch = self._start_batch(notifications=tuple(notifications))
        if batch is None:
            return None
        await self._finish(batch)
        result = await batch.task
        return None if result is None else StoreBatchResult.model_validate(result)

    def _start_batch(
        self, *, snapshot: bool = False, notifications: tuple[MergeNotification, ...] = ()
    ) -> BatchInFlight | None:
        """Starts to store the rest of the journal; none if there is none."""
        batch = self._context.engine.journal.batch()
        if not batch.entries:
            return None
        state = self._context.engine.state
        snapshot = snapshot or state.position >= self._snapshot_due
        if snapshot:
            self._snapshot_due = state.position + SNAPSHOT_AFTER
        self._context.events += 1
        task = workflow.start_activity(
            STORE_BATCH,
            StoreBatch(
                run=state.run,
                batch=batch,
                definition=self._context.engine.plan.definition,
                state=state.to_json() if snapshot else None,
                notifications=notifications,
            ),
            summary="stores the journal",
            **STORE_OPTIONS,
        )
        return BatchInFlight(task, state.position)

    async def _finish(self, batch: BatchInFlight) -> None:
        self._batch_waiters += 1
        try:
            await batch.task
        finally:
            self._batch_waiters -= 1
        self._context.engine.journal.mark_stored(batch.position)
