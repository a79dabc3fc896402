"""Timers: nodes that wait for a time, and bounds on how long a condition is waited for.

    reached ──► started, its timer set: waiting ──(due)──► fired ──► completed
    waits for `when` ──► its timer set ──(due)──► fired ──► `else`
    started, its node has a `timeout`: its timer set ──(due)──► failed ──► `on_error`

A timer is data: the time when it is due stands in the frontier, so it is carried, swapped and
rolled back with it; so are the times when questions expire, and when the run has taken what it may.
Whoever runs the engine lets real time pass until `earliest`, and says so by
`fire`. The engine never compares its own clock with a time that is due: that clock tells when
something came in, and a replay may read another one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

from crewlog.definition.times import due_in, milliseconds, moment_words
from crewlog.graph.plan import PlanNode
from crewlog.graph.run_context import RunContext
from crewlog.run_status import FoundError
from crewlog.state import journal as j
from crewlog.state.conversation import Conversation
from crewlog.state.model import CrewState, FrontierStep, Idle, Interrupt

IDLE = "idle"
"""The timer of a conversation that waits for its next message."""
WALL = "wall"
"""The timer for the time that the whole run may take."""
TIMEOUT: FoundError = "timeout"
"""The error type of a step that took longer than its node's `timeout`."""

Completed = Callable[..., Awaitable[None]]
"""Completes a step as `Engine` does."""
Unmet = Callable[..., Awaitable[None]]
"""Does what a node says for where its condition does not come true."""


class Timers:
    """The timers of a run.

    Args:
        run: The run.
        complete: Completes a step and routes on.
        unmet: Gives up waiting for a condition.
    """

    def __init__(self, run: RunContext, complete: Completed, unmet: Unmet) -> None:
        self._run = run
        self._complete = complete
        self._give_up_requirement = unmet
        self._over: set[tuple[str, int]] = set()

    def fire(self, due: int) -> None:
        """Says that the timers are over which are set and due by then."""
        self._over |= {timer for timer in self._timers() if timer[1] <= due}

    def next_deadline(self) -> int | None:
        """When the next timer is over, in milliseconds since the epoch; none where there is none.

        A time that is over is told, too, until it is `fire`.
        """
        return min(
            (due for key, due in self._timers() if (key, due) not in self._over), default=None
        )

    def has_expired(self, asked: Interrupt) -> bool:
        """Whether the time of a question is over."""
        return (asked.id, asked.deadline) in self._over

    def is_wall_time_over(self) -> bool:
        """Whether the run has taken the time that it may."""
        return (WALL, self._wall_deadline()) in self._over

    def idle_is_over(self) -> bool:
        """Whether a conversation has waited long enough for its next message."""
        return (IDLE, self._idle()) in self._over

    def _idle(self) -> int:
        """Until when a conversation waits; 0: for ever, or it does not wait."""
        state = self._run.state
        if state.idle is not None:
            return state.idle.deadline
        return (
            state.conversation.deadline
            if state.conversation is not None and state.is_conversation_idle
            else 0
        )

    def _timers(self) -> Iterator[tuple[str, int]]:
        """All timers that are set: what each is for, and when it is due."""
        yield from ((e.step, e.deadline) for e in self._timed_steps())
        interrupts = self._run.state.interrupts.values()
        yield from ((asked.id, asked.deadline) for asked in interrupts if asked.deadline)
        if (due := self._wall_deadline()) and not any(asked.budget == WALL for asked in interrupts):
            yield WALL, due
        if due := self._idle():
            yield IDLE, due

    def _wall_deadline(self) -> int:
        """When the time is over that the run may take; 0: never."""
        wall = self._run.plan.limits.wall
        if wall is None:
            return 0
        state = self._run.state
        if state.is_conversation_idle or state.idle is not None:
            return 0  # it takes nothing while nobody says anything
        began = state.conversation.at if state.conversation is not None else state.started_at
        return int(state.added_budgets.get(WALL, 0)) or due_in(wall, began)

    def _timed_steps(self) -> Iterator[FrontierStep]:
        """The steps whose timers count: they wait for a time, or their own time is limited."""
        return (
            entry
            for entry in self._run.state.frontier.values()
            if entry.deadline and (entry.status == "waiting" or self._has_timeout(entry))
        )

    def _has_timeout(self, entry: FrontierStep) -> bool:
        """Whether a step that is started may take only so long.

        A step of a node whose `timeout` a change removed may take as long as it needs.
        """
        at_work = entry.turn is not None and entry.status in ("running", "interrupted")
        return at_work and self._run.plan.node_of(entry).timeout is not None

    def _is_over(self, entry: FrontierStep) -> bool:
        return (entry.step, entry.deadline) in self._over

    @property
    def has_fired_timers(self) -> bool:
        """Whether a timer has rung since the run's state was loaded."""
        return bool(self._over)

    def limit_step(self, entry: FrontierStep, node: PlanNode) -> None:
        """Sets the timer of a step that is started and may take only so long, once."""
        if node.timeout is not None and entry.turn is not None and not entry.deadline:
            due = due_in(node.timeout, self._run.at)
            self._run.record(j.TimerStarted(step=entry.step, deadline=due))

    def timed_out_steps(self) -> list[FrontierStep]:
        """The steps that are started and whose time is over, in the order of the frontier."""
        found = (each for each in self._timed_steps() if each.status != "waiting")
        return [entry for entry in found if self._is_over(entry)]

    def start_wait(self, entry: FrontierStep, node: PlanNode) -> None:
        """Starts a node that waits for a time."""
        self._run.record(j.StepStarted(step=entry.step))
        self._set(entry, node)

    async def continue_wait(self, entry: FrontierStep, node: PlanNode) -> None:
        """Moves a node that waits for a time and is started."""
        if entry.status == "waiting":
            if not self._is_over(entry):
                return
            self._run.record(j.TimerFired(step=entry.step))
        elif not entry.deadline:
            self._set(entry, node)
            return
        await self._complete(entry.step, because="its time has come")

    async def limit_requirement(self, entry: FrontierStep, node: PlanNode) -> None:
        """Moves a step that waits for a condition, for so long and no longer."""
        if node.within is None:
            return
        if not entry.deadline:
            due = due_in(node.within, self._run.at)
            self._run.record(j.TimerStarted(step=entry.step, deadline=due))
        elif self._is_over(entry):
            self._run.record(j.TimerFired(step=entry.step))
            await self._give_up_requirement(entry, late=True)

    def _set(self, entry: FrontierStep, node: PlanNode) -> None:
        wait = node.wait
        if wait is None:
            return
        due = milliseconds(wait.until) if wait.until else due_in(wait.seconds, self._run.at)
        self._run.record(j.TimerStarted(step=entry.step, deadline=due))


def deadline_of(entry: FrontierStep) -> int:
    """When the timer of a step rings, in milliseconds since the epoch; 0: it has none.

    A step waits for that time, or it is started and fails then if it is not done.
    """
    return entry.deadline if entry.status == "waiting" or entry.turn is not None else 0


def step_wait_text(entry: FrontierStep) -> str:
    """What a step waits for, for people.

    `backend.ready`, `until 2026-12-01 08:00 UTC`, or a condition with how long it is waited for.
    """
    if entry.status != "waiting" or not entry.deadline:
        return entry.requirement
    until = f"until {moment_words(entry.deadline)}"
    return f"{entry.requirement}, at most {until}" if entry.requirement else until


def next_message_text(talk: Conversation) -> str:
    """What a conversation waits for between two turns."""
    until = f", at most until {moment_words(talk.deadline)}" if talk.deadline else ""
    return f"the {'next' if talk.exchange else 'first'} message{until}"


def waking_message_text(rest: Idle) -> str:
    """What a run waits for whose agents hear, where nothing is to do."""
    until = f", at most until {moment_words(rest.deadline)}" if rest.deadline else ""
    return f"a message{until}"


def pause_text(state: CrewState) -> str:
    """Why a run that was paused or is being stopped does not move; empty: it is neither.

    Of a paused run, also how it is resumed, and the question that is open meanwhile.
    """
    by = f" by {state.status_reason.by}" if state.status_reason and state.status_reason.by else ""
    if state.status == "stopping":
        return f"stopping{by}: what runs is being cancelled"
    if state.status != "paused":
        return ""
    asked = first_interrupt_text(state)
    return f"paused{by}: crewlog resume {state.run}{f'; {asked}' if asked else ''}"


def first_interrupt_text(state: CrewState) -> str:
    """The first question that is open: `i1: Publish it?`; empty where none is."""
    first = next(iter(state.interrupts.values()), None)
    return f"{first.id}: {first.question}" if first is not None else ""


def run_wait_text(state: CrewState) -> str:
    """What a run waits for by its journal: people, a message, or a timer; empty: for none of them.

    What its calls wait for, such as a worker or a server, is not in the journal.
    """
    if asked := first_interrupt_text(state):
        return asked
    if state.is_conversation_idle and state.conversation is not None:
        return next_message_text(state.conversation)
    if state.idle is not None:
        return waking_message_text(state.idle)
    return _timer(state)


def status_by_journal(state: CrewState) -> str:
    """A run's status for people, as far as its journal tells it: one that waits is `waiting`."""
    return "waiting" if state.status == "running" and run_wait_text(state) else state.status


def _timer(state: CrewState) -> str:
    """The timer that a run waits for, where it waits for nothing else: `wait_1: until …`."""
    timed = [e for e in state.frontier.values() if e.status == "waiting" and e.deadline]
    if not timed or len(timed) < len(state.frontier):
        return ""
    first = min(timed, key=lambda entry: entry.deadline)
    return f"{first.node}: {step_wait_text(first)}"
