"""The one timer of an execution: it waits for the earliest deadline of the run."""

from __future__ import annotations

import asyncio

from temporalio import workflow

from crewlog.definition.times import moment_words
from crewlog.workflows.commands.queue import now
from crewlog.workflows.context import ExecutionContext
from crewlog.workflows.run_merge import RunMerge

LONGEST_TIMER = 30 * 86_400_000
"""The longest Temporal timer, in milliseconds; a later deadline needs several."""

PUNCTUAL = 2000
"""Up to this delay, in milliseconds, a timer counts as on time, so that a replay gives the same
journal; see `commands.queue.now`. An outage of the server delays a timer longer."""


class RunTimer:
    """Waits for the earliest deadline of a run.

    Args:
        context: What the parts of the execution share.
        run_merge: The run's part in run merges, which has a deadline, too.
    """

    def __init__(self, context: ExecutionContext, run_merge: RunMerge) -> None:
        self._context = context
        self._run_merge = run_merge
        self._timer: tuple[int, asyncio.Task[None]] | None = None
        """The deadline of the running timer, in milliseconds since the epoch, and its task."""
        self.elapsed: list[tuple[int, int]] = []
        """The elapsed timers: the deadline of each, and when it elapsed."""

    def start(self) -> None:
        """Starts the timer of the earliest deadline; also in a paused run."""
        state = self._context.engine.state
        is_ending = self._context.is_closing or state.is_ended or state.status == "stopping"
        deadlines = [
            self._run_merge.next_deadline(state),
            self._context.engine.timers.next_deadline(),
        ]
        deadline = min((each for each in deadlines if each is not None), default=None)
        if is_ending or deadline == (self._timer[0] if self._timer else None):
            return
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
            self._context.events += 1
        if deadline is not None:
            self._timer = (deadline, asyncio.create_task(self._run_timer(deadline)))
            self._context.events += 1

    async def _run_timer(self, deadline: int) -> None:
        milliseconds = min(max(deadline - now(), 1), LONGEST_TIMER)
        try:
            what = "waits for a message " if self._context.engine.state.is_conversation_idle else ""
            summary = f"{what}until {moment_words(deadline)}"
            await workflow.sleep(milliseconds / 1000, summary=summary)
        except asyncio.CancelledError:
            return
        self._timer = None
        if milliseconds < LONGEST_TIMER:
            is_punctual = now() - deadline < PUNCTUAL
            self.elapsed.append((deadline, deadline if is_punctual else now()))
        else:
            self.elapsed.append((0, 0))

    def apply_elapsed(self) -> None:
        """Applies the timers that elapsed."""
        while self.elapsed:
            deadline, at = self.elapsed.pop(0)
            self._context.advance_clock(at)
            self._context.engine.timers.fire(deadline)
