"""Checkpoints as states to go back to, to fork from, and to take up again: what each makes of one.

    checkpoint_length(entries)    how far a checkpoint reaches: to the end of its transaction
    rollback_state(now, then)     the run's state after a rollback
    fork_state(then, run)         the first state of a fork
    reopen_point(run, tail)       from where a run that has ended continues
    reopen_state(then)            its state from there on

Pure: no plan and no store. One entry records the resulting state (`RunRolledBack`, `RunForked`,
`RunReopened`). What each operation does with a field of the state follows from its `FieldPolicy`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from crewlog.errors import UsageError
from crewlog.ids import (
    LogName,
    NodeName,
    RunId,
    StepId,
    child_step_id,
    child_step_log,
    step_id,
)
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.conversation import Conversation
from crewlog.state.field_policy import fields_where
from crewlog.state.frontier import with_queued_steps
from crewlog.state.model import CrewState, FrontierStep, Interrupt

_KEPT_BY_ROLLBACK = fields_where(
    CrewState, lambda policy: policy.rollback in ("kept", "never restored")
)
_RESET_BY_FORK = fields_where(CrewState, lambda policy: policy.fork == "reset")

_CHECKPOINTS = (j.StepCompleted, j.ExchangeEnded, j.RunForked, j.RunRolledBack, j.RunReopened)
_ENDS = (j.StopRequested, j.RunStopped, j.RunFailed, j.RunCompleted)
"""What ends a run."""


# -- checkpoints -----------------------------------------------------------------------------


def checkpoint_length(entries: Sequence[j.JournalEntry]) -> int | None:
    """How many of these entries a checkpoint stands for; none where the first one is none.

    A checkpoint is named by one entry: the end of a step, for example. Its state is the one at the
    end of that entry's transaction: before that, a state would wait for ever for what has happened
    already.

    Args:
        entries: The journal from the checkpoint on, at least to the end of its transaction.
    """
    first = entries[0] if entries else None
    if isinstance(first, j.NodesReached):
        is_checkpoint = first.source is None and not first.because
    else:
        is_checkpoint = isinstance(first, _CHECKPOINTS)
    if not is_checkpoint or ends_run(entries):
        return None
    return _rest_of_transaction(entries)


def ends_run(entries: Sequence[j.JournalEntry]) -> bool:
    """Whether the run ended in the transaction of the first entry, with that entry or after it."""
    return any(isinstance(entry, _ENDS) for entry in entries[: _rest_of_transaction(entries)])


def _rest_of_transaction(entries: Sequence[j.JournalEntry]) -> int:
    """How many entries belong to the transaction of the first one."""
    others = (at for at, entry in enumerate(entries) if at and not entry.transaction)
    return next(others, len(entries))


# -- going back ------------------------------------------------------------------------------


class RestoredState(NamedTuple):
    """Where a run is once it has gone back."""

    state: CrewState
    """The state, with no question open."""
    questions: tuple[Interrupt, ...]
    """What was asked there, to be asked anew, with the steps as they are called now."""
    names: Mapping[StepId, StepId]
    """What the steps are called now that are taken up again, by what they were called there."""


def rollback_state(now: CrewState, then: CrewState, *, other_graph: bool = False) -> RestoredState:
    """The state of a run that goes back from `now` to `then`.

    `other_graph` says whether the graph there is another one than the run has: it gets a version
    of its own then.

    Every step that was under way gets a visit of its own, so that what is done again has keys of
    its own; its place in its turn stays. A step whose node a change had taken away is not taken up
    again: the plan of the checkpoint does not have it.
    """
    known = {*now.visits, *then.visits}
    visits = {node: max(now.visits.get(node, 0), then.visits.get(node, 0)) for node in known}
    there = _there(then, now.position)
    names = _fresh_names([*there.values(), *then.detached_steps.values()], visits)
    state = then.model_copy(
        update={
            **{name: getattr(now, name) for name in _KEPT_BY_ROLLBACK},
            "graph_version": now.graph_version + other_graph,
            "status": "paused" if now.status == "paused" else "running",
            "status_reason": now.status_reason if now.status == "paused" else None,
            "messages": _renamed_logs(then, names),
            "frontier": _renamed(there, names),
            "detached_steps": _renamed(then.detached_steps, names),
            "visits": {node: visits[node] for node in sorted(visits)},
            "interrupts": {},
            "pending_change": None,
            "conversation": without_idle_deadline(then.conversation),
        }
    )
    return RestoredState(state, tuple(_questions(then, names)), names)


def without_idle_deadline(talk: Conversation | None) -> Conversation | None:
    """A conversation that goes on later: how long it waits for a message is counted anew."""
    return talk.model_copy(update={"deadline": 0}) if talk is not None and talk.deadline else talk


def _there(then: CrewState, position: int) -> dict[StepId, FrontierStep]:
    """The steps that are taken up again; what was queued behind another one moves up."""
    there = {
        step: entry for step, entry in _without_deadlines(then).items() if not entry.is_detached
    }
    return with_queued_steps(there, position) if len(there) < len(then.frontier) else there


def _without_deadlines(then: CrewState) -> dict[StepId, FrontierStep]:
    """The frontier of a state that is loaded later: the time of a started step begins anew."""
    return {
        step: entry.model_copy(update={"deadline": 0}) if entry.deadline and entry.turn else entry
        for step, entry in then.frontier.items()
    }


def _fresh_names(
    steps: Sequence[FrontierStep], visits: dict[NodeName, int]
) -> dict[StepId, StepId]:
    """New ids for steps; `visits` counts them. A parent step comes before its child steps."""
    names: dict[StepId, StepId] = {}
    for each in steps:
        if each.parent is not None:
            names[each.step] = child_step_id(names[each.parent], each.item)
            continue
        visits[each.node] = visits.get(each.node, 0) + 1
        names[each.step] = step_id(each.node, visits[each.node])
    return names


Names = Mapping[StepId, StepId]


def _renamed(frontier: Mapping[StepId, FrontierStep], names: Names) -> dict[StepId, FrontierStep]:
    found: dict[StepId, FrontierStep] = {}
    for step, entry in frontier.items():
        mapped, turn = entry.child_steps, entry.turn
        if mapped is not None:
            mapped = mapped.model_copy(update={"former_steps": (*mapped.former_steps, step)})
        if turn is not None:
            turn = turn.with_renamed_entries(partial(_renamed_entry, names=names))
        parent = names[entry.parent] if entry.parent is not None else None
        changes = {"step": names[step], "parent": parent, "turn": turn, "child_steps": mapped}
        found[names[step]] = entry.model_copy(update=changes)
    return found


def _renamed_entry(fact: Mapping[str, Json], names: Names) -> dict[str, Json]:
    """An entry to be, as JSON, under the new name of its step."""
    made = dict(fact)
    if made.get("step") in names:
        made["step"] = names[made["step"]]
    if ref := made.get("ref"):
        logs = _log_names(names)
        made["ref"] = {**ref, "logs": [logs.get(log, log) for log in ref["logs"]]}
    return made


def _log_names(names: Names) -> dict[LogName, LogName]:
    return {child_step_log(old): child_step_log(new) for old, new in names.items()}


def _renamed_logs(state: CrewState, names: Names) -> dict[LogName, Json]:
    logs = _log_names(names)
    return {logs.get(log, log): head for log, head in state.messages.items()}


def _questions(then: CrewState, names: Names) -> Iterator[Interrupt]:
    for asked in then.interrupts.values():
        if asked.step is None or asked.step in names:
            step = names[asked.step] if asked.step is not None else None
            yield asked.model_copy(update={"step": step})


# -- forking ---------------------------------------------------------------------------------


def fork_state(then: CrewState, run: RunId) -> RestoredState:
    """The first state of a run that goes on from where another one was.

    The logs are the other run's, by their heads: nothing is copied. Steps and calls keep their
    names, since all keys begin with the run. Its questions are its own.
    """
    there = _there(then, then.position)
    fresh = CrewState(run=run)
    state = then.model_copy(
        update={
            **{name: getattr(fresh, name) for name in _RESET_BY_FORK},
            "recipe": then.definition,
            "frontier": there,
            "conversation": without_idle_deadline(then.conversation),
        }
    )
    names = {step: step for step in (*there, *then.detached_steps)}
    return RestoredState(state, tuple(_questions(then, names)), names)


# -- taking up again -------------------------------------------------------------------------


class ReopenPoint(NamedTuple):
    """From where a run that has ended goes on."""

    position: int
    """The position whose state it goes on with."""
    decision: StepId | None = None
    """The decision that ended it: people are asked before it decides again."""
    landed: tuple[tuple[int, j.JournalEntry], ...] = ()
    """What was recorded after the answer that ended it, with the positions: calls that were under
    way when people gave it. What they did is done, and is not done again."""


def reopen_point(
    run: RunId, tail: Sequence[tuple[int, j.JournalEntry]], *, rested: bool = False
) -> ReopenPoint:
    """From where a run that has ended goes on: right before what ended it.

    Args:
        run: The run.
        tail: The last entries of its journal, with their positions: from before what ended it, or
            from its beginning.
        rested: Whether it waited for a message when it ended: nothing was left undone.

    Raises:
        UsageError: it is done.
    """
    rows = list(tail)
    while rows and isinstance(rows[-1][1], j.CommandRejected):  # what came too late
        rows.pop()
    if not rows:
        raise UsageError(f"the journal of the run {run!r} says nothing")
    last = rows[-1][1]
    if isinstance(last, j.RunCompleted) and (last.exchanges or rested):
        return ReopenPoint(rows[-1][0] - 1)  # nobody had said anything for long enough
    if isinstance(last, j.RunCompleted):
        raise UsageError(
            f"the run {run!r} is completed: there is nothing left to go on with",
            remedy=f"`crewlog checkpoints {run}` lists where to go on from in another run: "
            f"`crewlog fork {run}@POSITION`.",
        )
    if isinstance(last, j.RunEndedByMerge):
        raise UsageError(
            f"the run {run!r} is part of the run {last.run!r} now",
            remedy=f"`crewlog show {last.run}` shows it; all that it was goes on there.",
        )
    if isinstance(last, j.RunFailed):
        return _before_failure(rows)
    if isinstance(last, j.RunStopped):
        return _before_stop(rows)
    return ReopenPoint(rows[-1][0])  # it was ended from outside


def _before_failure(rows: Sequence[tuple[int, j.JournalEntry]]) -> ReopenPoint:
    """Before a decision that failed the run; else before the end, after what led to it."""
    first = _transaction_start(rows, len(rows) - 1)
    for position, entry in reversed(rows[first:]):
        if isinstance(entry, j.StepCompleted):
            return ReopenPoint(position - 1, decision=entry.step)
    at = len(rows) - 1
    while at > first and isinstance(rows[at - 1][1], j.SwapFailed | j.MergeFailed):
        at -= 1
    return ReopenPoint(_position_before(rows, at))


def _before_stop(rows: Sequence[tuple[int, j.JournalEntry]]) -> ReopenPoint:
    """Before the answers that stopped the run, or else before its steps were cancelled."""
    end = _transaction_start(rows, len(rows) - 1)
    answers = {number for stop in _stops(rows) for number in _answer_that_stops(rows, stop)}
    if not answers:
        return ReopenPoint(_position_before(rows, end))
    first = min(answers)
    landed = [
        row
        for number, row in enumerate(rows[first:end], first)
        if number not in answers and not isinstance(row[1], j.StopRequested)
    ]
    return ReopenPoint(_position_before(rows, first), landed=tuple(landed))


def _position_before(rows: Sequence[tuple[int, j.JournalEntry]], at: int) -> int:
    return rows[at - 1][0] if at else rows[0][0] - 1


def _transaction_start(rows: Sequence[tuple[int, j.JournalEntry]], at: int) -> int:
    """The number of the row that begins the transaction of a row."""
    while at and rows[at][1].transaction:
        at -= 1
    return at


def _stops(rows: Sequence[tuple[int, j.JournalEntry]]) -> Iterator[int]:
    """The requests to stop a run that has stopped: since it began, or was last reopened."""
    for number in reversed(range(len(rows))):
        entry = rows[number][1]
        if isinstance(entry, j.RunReopened):
            return
        if isinstance(entry, j.StopRequested):
            yield number


def _answer_that_stops(rows: Sequence[tuple[int, j.JournalEntry]], stop: int) -> Iterable[int]:
    """The entries of the answer that stopped a run; none of the `stop` signal."""
    first = _transaction_start(rows, stop)
    return range(first, stop) if isinstance(rows[first][1], j.InterruptAnswered) else ()


def reopen_state(then: CrewState) -> CrewState:
    """The state that a run goes on with which had ended: as it was, and at work."""
    return then.model_copy(
        update={
            "status": "running",
            "status_reason": None,
            "error": "",
            "error_type": "",
            "pending_change": None,
            "frontier": _without_deadlines(then),
            "conversation": without_idle_deadline(then.conversation),
        }
    )


def steps_without_interrupt(state: CrewState) -> Iterator[tuple[StepId, int | None]]:
    """Steps and calls that wait for people who are not asked: what failed, and ended its run."""
    asked = {(q.step, q.call) for q in state.interrupts.values()}
    steps = {step for step, _ in asked}
    for step, entry in state.frontier.items():
        calls = entry.turn.calls if entry.turn is not None else ()
        waiting = [call.call for call in calls if call.status == "interrupted"]
        lost = [call for call in waiting if (step, call) not in asked]
        for call in lost:
            yield step, call
        if entry.status == "interrupted" and not lost and step not in steps:
            yield step, None
