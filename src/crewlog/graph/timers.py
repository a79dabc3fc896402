"""Timers: nodes that wait for a time, timeouts, and deadlines of requirements and interrupts.

    a wait is reached  ──► TimerStarted, the step waits ──(deadline)──► TimerFired ──► completed
    a requirement      ──► TimerStarted ──(deadline)──► TimerFired ──► `else`
    a step that starts ──► TimerStarted ──(deadline)──► failed ──► `on_error`

A timer is data: its deadline is in the frontier, so it is carried, swapped and rolled back with it;
so are the deadlines of interrupts and of the run. The workflow sleeps until `next_deadline` and
then calls `fire`. The engine never compares its own time with a deadline: that is the time at which
something arrived, and a replay may read another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from crewlog.definition.times import due_in, milliseconds, moment_words
from crewlog.graph.plan import PlanNode
from crewlog.graph.run_context import CompleteStep, RunContext
from crewlog.run_status import FoundError
from crewlog.state import journal as j
from crewlog.state.conversation import Conversation
from crewlog.state.model import CrewState, FrontierStep, Idle, Interrupt

IDLE = "idle"
"""The timer of an idle run, or of a conversation that waits for its next message."""
WALL = "wall"
"""The timer of `limits.wall`."""
TIMEOUT: FoundError = "timeout"
"""The error type of a step that took longer than its node's `timeout`."""


class GiveUpRequirement(Protocol):
    """Applies a node's rule for a requirement that is not met."""

    async def __call__(self, entry: FrontierStep, /, *, late: bool = False) -> None:
        """Apply the rule of the step's node; `late` if the deadline is over."""


class Timers:
    """The timers of a run.

    Args:
        run: The run.
        complete: Completes a step and routes on.
        give_up_requirement: Applies a node's rule for a requirement that is not met in time.
    """

    def __init__(
        self, run: RunContext, complete: CompleteStep, give_up_requirement: GiveUpRequirement
    ) -> None:
        self._run = run
        self._complete = complete
        self._give_up_requirement = give_up_requirement
        self._fired: set[tuple[str, int]] = set()

    def fire(self, until: int) -> None:
        """Fires the timers whose deadline is not after `until`."""
        self._fired |= {timer for timer in self._timers() if timer[1] <= until}

    def next_deadline(self) -> int | None:
        """The next deadline, in milliseconds since the epoch; none without a timer.

        It may be over, until `fire` is called.
        """
        return min(
            (deadline for key, deadline in self._timers() if (key, deadline) not in self._fired),
            default=None,
        )

    def has_expired(self, asked: Interrupt) -> bool:
        """Whether the deadline of an interrupt is over."""
        return (asked.id, asked.deadline) in self._fired

    def is_wall_time_over(self) -> bool:
        """Whether the run has reached `limits.wall`."""
        return (WALL, self._wall_deadline()) in self._fired

    def is_idle_time_over(self) -> bool:
        """Whether the run has waited as long as it may for the next message."""
        return (IDLE, self._idle_deadline()) in self._fired

    def _idle_deadline(self) -> int:
        """The deadline of the next message; 0: it has none, or the run does not wait for one."""
        state = self._run.state
        if state.idle is not None:
            return state.idle.deadline
        return (
            state.conversation.deadline
            if state.conversation is not None and state.is_conversation_idle
            else 0
        )

    def _timers(self) -> Iterator[tuple[str, int]]:
        """All timers that are set, each with its key and its deadline."""
        yield from ((e.step, e.deadline) for e in self._timed_steps())
        interrupts = self._run.state.interrupts.values()
        yield from ((asked.id, asked.deadline) for asked in interrupts if asked.deadline)
        deadline = self._wall_deadline()
        if deadline and not any(asked.budget == WALL for asked in interrupts):
            yield WALL, deadline
        if deadline := self._idle_deadline():
            yield IDLE, deadline

    def _wall_deadline(self) -> int:
        """The deadline of `limits.wall`; 0: none."""
        wall = self._run.plan.limits.wall
        if wall is None:
            return 0
        state = self._run.state
        if state.is_conversation_idle or state.idle is not None:
            return 0  # time without a message does not count
        start = state.conversation.at if state.conversation is not None else state.started_at
        return int(state.added_budgets.get(WALL, 0)) or due_in(wall, start)

    def _timed_steps(self) -> Iterator[FrontierStep]:
        """The steps with a timer: they wait for a time, or have a timeout."""
        return (
            entry
            for entry in self._run.state.frontier.values()
            if entry.deadline and (entry.status == "waiting" or self._has_timeout(entry))
        )

    def _has_timeout(self, entry: FrontierStep) -> bool:
        """Whether a step that is started has a timeout; a change may have removed it."""
        is_started = entry.turn is not None and entry.status in ("running", "interrupted")
        return is_started and self._run.plan.node_of(entry).timeout is not None

    def _has_fired(self, entry: FrontierStep) -> bool:
        return (entry.step, entry.deadline) in self._fired

    @property
    def has_fired_timers(self) -> bool:
        """Whether a timer has fired since the run's state was loaded."""
        return bool(self._fired)

    def start_timeout(self, entry: FrontierStep, node: PlanNode) -> None:
        """Starts the timer of a started step whose node has a timeout, once."""
        if node.timeout is not None and entry.turn is not None and not entry.deadline:
            deadline = due_in(node.timeout, self._run.at)
            self._run.record(j.TimerStarted(step=entry.step, deadline=deadline))

    def timed_out_steps(self) -> list[FrontierStep]:
        """The started steps whose timeout is over, in the order of the frontier."""
        started = (each for each in self._timed_steps() if each.status != "waiting")
        return [entry for entry in started if self._has_fired(entry)]

    def start_wait(self, entry: FrontierStep, node: PlanNode) -> None:
        """Starts a step of a wait."""
        self._run.record(j.StepStarted(step=entry.step))
        self._start_timer(entry, node)

    async def continue_wait(self, entry: FrontierStep, node: PlanNode) -> None:
        """Completes a started step of a wait whose deadline is over."""
        with self._run.journal.transaction:
            if entry.status == "waiting":
                if not self._has_fired(entry):
                    return
                self._run.record(j.TimerFired(step=entry.step))
            elif not entry.deadline:
                self._start_timer(entry, node)
                return
            await self._complete(entry.step, because="its time has come")

    async def limit_requirement(self, entry: FrontierStep, node: PlanNode) -> None:
        """Starts the timer of a step's requirement, or gives it up once its deadline is over."""
        if node.within is None:
            return
        if not entry.deadline:
            deadline = due_in(node.within, self._run.at)
            self._run.record(j.TimerStarted(step=entry.step, deadline=deadline))
        elif self._has_fired(entry):
            with self._run.journal.transaction:
                self._run.record(j.TimerFired(step=entry.step))
                await self._give_up_requirement(entry, late=True)

    def _start_timer(self, entry: FrontierStep, node: PlanNode) -> None:
        wait = node.wait
        if wait is None:
            return
        deadline = milliseconds(wait.until) if wait.until else due_in(wait.seconds, self._run.at)
        self._run.record(j.TimerStarted(step=entry.step, deadline=deadline))


def deadline_of(entry: FrontierStep) -> int:
    """The deadline of a step's wait or timeout, in milliseconds since the epoch; 0: none."""
    return entry.deadline if entry.status == "waiting" or entry.turn is not None else 0


def step_wait_text(entry: FrontierStep) -> str:
    """What a step waits for, for people.

    `backend.ready`, `until 2026-12-01 08:00 UTC`, or a condition with its deadline.
    """
    if entry.status != "waiting" or not entry.deadline:
        return entry.requirement
    until = f"until {moment_words(entry.deadline)}"
    return f"{entry.requirement}, at most {until}" if entry.requirement else until


def next_message_text(conversation: Conversation) -> str:
    """What a conversation waits for between two exchanges."""
    until = (
        f", at most until {moment_words(conversation.deadline)}" if conversation.deadline else ""
    )
    return f"the {'next' if conversation.exchange else 'first'} message{until}"


def waking_message_text(idle: Idle) -> str:
    """What an idle run waits for."""
    until = f", at most until {moment_words(idle.deadline)}" if idle.deadline else ""
    return f"a message{until}"


def pause_text(state: CrewState) -> str:
    """Why a paused or stopping run does not continue; empty: it is neither.

    For a paused run with the command that resumes it, and its first open interrupt.
    """
    by = f" by {state.status_reason.by}" if state.status_reason and state.status_reason.by else ""
    if state.status == "stopping":
        return f"stopping{by}: what runs is being cancelled"
    if state.status != "paused":
        return ""
    asked = first_interrupt_text(state)
    return f"paused{by}: crewlog resume {state.run}{f'; {asked}' if asked else ''}"


def first_interrupt_text(state: CrewState) -> str:
    """The first open interrupt: `i1: Publish it?`; empty: none is open."""
    first = next(iter(state.interrupts.values()), None)
    return f"{first.id}: {first.question}" if first is not None else ""


def run_wait_text(state: CrewState) -> str:
    """What a run waits for by its journal: people, a message, or a timer; empty: none of them.

    The journal does not tell what calls wait for, such as a worker.
    """
    if asked := first_interrupt_text(state):
        return asked
    if state.is_conversation_idle and state.conversation is not None:
        return next_message_text(state.conversation)
    if state.idle is not None:
        return waking_message_text(state.idle)
    return _timer_text(state)


def status_by_journal(state: CrewState) -> str:
    """A run's status for people by its journal: `waiting` for a running run that waits."""
    return "waiting" if state.status == "running" and run_wait_text(state) else state.status


def _timer_text(state: CrewState) -> str:
    """The timer that a run waits for if it waits for nothing else: `wait_1: until …`."""
    timed = [e for e in state.frontier.values() if e.status == "waiting" and e.deadline]
    if not timed or len(timed) < len(state.frontier):
        return ""
    first = min(timed, key=lambda entry: entry.deadline)
    return f"{first.node}: {step_wait_text(first)}"
