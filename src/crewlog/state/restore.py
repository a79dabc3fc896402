"""Restore a state: for a rollback, a fork or a reopen.

    checkpoint_length(entries)    how many entries a checkpoint includes
    rollback_state(now, then)     the run's state after a rollback
    fork_state(then, run)         the first state of a fork
    reopen_point(run, tail)       the position from which an ended run continues
    reopen_state(then)            its state from there on

Pure: no plan and no store. One entry records the resulting state (`RunRolledBack`, `RunForked`,
`RunReopened`): the fields that their `FieldPolicy` names.
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
from crewlog.state.field_policy import Operation, fields_where
from crewlog.state.frontier import with_queued_steps
from crewlog.state.model import RECORDED, CrewState, FrontierStep, Interrupt

_KEPT_BY_ROLLBACK = fields_where(CrewState, lambda policy: policy.rollback in ("kept", "entry"))
_RESET_BY_FORK = fields_where(CrewState, lambda policy: policy.fork == "reset")

_CHECKPOINTS = (j.StepCompleted, j.ExchangeEnded, j.RunForked, j.RunRolledBack, j.RunReopened)
_ENDS = (j.StopRequested, j.RunStopped, j.RunFailed, j.RunCompleted)
"""What ends a run."""


# -- checkpoints -----------------------------------------------------------------------------


def checkpoint_length(entries: Sequence[j.JournalEntry]) -> int | None:
    """How many of these entries a checkpoint includes; None if no checkpoint is at the first.

    A checkpoint is named by one entry, such as the end of a step. Its state is that at the end of
    that entry's transaction: a run at an earlier state would wait for an event of the past.

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


# -- rollback --------------------------------------------------------------------------------


def recorded_state(state: CrewState, operation: Operation) -> dict[str, Json]:
    """The fields of a state that the entry of an operation records, as JSON."""
    recorded = RECORDED[operation]
    return {name: value for name, value in state.to_json().items() if name in recorded}


class RestoredState(NamedTuple):
    """A restored state, and what has to be done with it."""

    state: CrewState
    """The state, without open interrupts."""
    questions: tuple[Interrupt, ...]
    """Its interrupts, to be raised again, with the new step ids."""
    names: Mapping[StepId, StepId]
    """The new ids of its steps, by their former ones."""


def rollback_state(now: CrewState, then: CrewState, *, other_graph: bool = False) -> RestoredState:
    """The state of a run after a rollback from `now` to `then`.

    Args:
        now: The present state.
        then: The state of the checkpoint.
        other_graph: Whether the graph differs: it gets a new version.

    Every step that was not done gets a new visit number, so that its calls get new idempotency
    keys; it keeps the position inside its turn. Turns of removed nodes are dropped.
    """
    nodes = {*now.visits, *then.visits}
    visits = {node: max(now.visits.get(node, 0), then.visits.get(node, 0)) for node in nodes}
    steps = _continuing_steps(then, now.position)
    names = _new_step_ids([*steps.values(), *then.detached_steps.values()], visits)
    state = then.model_copy(
        update={
            **{name: getattr(now, name) for name in _KEPT_BY_ROLLBACK},
            "graph_version": now.graph_version + other_graph,
            "status": "paused" if now.status == "paused" else "running",
            "status_reason": now.status_reason if now.status == "paused" else None,
            "messages": _renamed_logs(then, names),
            "frontier": _renamed_steps(steps, names),
            "detached_steps": _renamed_steps(then.detached_steps, names),
            "visits": {node: visits[node] for node in sorted(visits)},
            "interrupts": {},
            "pending_change": None,
            "end_reason": "",
            "conversation": without_idle_deadline(then.conversation),
        }
    )
    return RestoredState(state, tuple(_renamed_interrupts(then, names)), names)


def without_idle_deadline(conversation: Conversation | None) -> Conversation | None:
    """A conversation that continues later: its wait for a message starts anew."""
    return (
        conversation.model_copy(update={"deadline": 0})
        if conversation is not None and conversation.deadline
        else conversation
    )


def _continuing_steps(then: CrewState, position: int) -> dict[StepId, FrontierStep]:
    """The steps that continue; a step queued behind a dropped one moves up."""
    steps = {
        step: entry for step, entry in _without_deadlines(then).items() if not entry.is_detached
    }
    return with_queued_steps(steps, position) if len(steps) < len(then.frontier) else steps


def _without_deadlines(then: CrewState) -> dict[StepId, FrontierStep]:
    """The frontier of a state that is loaded later: timeouts of started steps start anew."""
    return {
        step: entry.model_copy(update={"deadline": 0}) if entry.deadline and entry.turn else entry
        for step, entry in then.frontier.items()
    }


def _new_step_ids(
    steps: Sequence[FrontierStep], visits: dict[NodeName, int]
) -> dict[StepId, StepId]:
    """New ids for steps; `visits` counts them. A parent step comes before its child steps."""
    step_ids: dict[StepId, StepId] = {}
    for each in steps:
        if each.parent is not None:
            step_ids[each.step] = child_step_id(step_ids[each.parent], each.item)
            continue
        visits[each.node] = visits.get(each.node, 0) + 1
        step_ids[each.step] = step_id(each.node, visits[each.node])
    return step_ids


StepIds = Mapping[StepId, StepId]


def _renamed_steps(
    frontier: Mapping[StepId, FrontierStep], names: StepIds
) -> dict[StepId, FrontierStep]:
    result: dict[StepId, FrontierStep] = {}
    for step, entry in frontier.items():
        progress, turn = entry.child_steps, entry.turn
        if progress is not None:
            progress = progress.model_copy(update={"former_steps": (*progress.former_steps, step)})
        if turn is not None:
            turn = turn.with_renamed_entries(partial(_renamed_entry, names=names))
        parent = names[entry.parent] if entry.parent is not None else None
        changes = {"step": names[step], "parent": parent, "turn": turn, "child_steps": progress}
        result[names[step]] = entry.model_copy(update=changes)
    return result


def _renamed_entry(entry: Mapping[str, Json], names: StepIds) -> dict[str, Json]:
    """An entry of a buffered completion, as JSON, with the new id of its step."""
    renamed = dict(entry)
    if renamed.get("step") in names:
        renamed["step"] = names[renamed["step"]]
    if ref := renamed.get("ref"):
        logs = _log_names(names)
        renamed["ref"] = {**ref, "logs": [logs.get(log, log) for log in ref["logs"]]}
    return renamed


def _log_names(names: StepIds) -> dict[LogName, LogName]:
    return {child_step_log(old): child_step_log(new) for old, new in names.items()}


def _renamed_logs(state: CrewState, names: StepIds) -> dict[LogName, Json]:
    logs = _log_names(names)
    return {logs.get(log, log): head for log, head in state.messages.items()}


def _renamed_interrupts(then: CrewState, names: StepIds) -> Iterator[Interrupt]:
    for interrupt in then.interrupts.values():
        if interrupt.step is None or interrupt.step in names:
            step = names[interrupt.step] if interrupt.step is not None else None
            yield interrupt.model_copy(update={"step": step})


# -- fork ------------------------------------------------------------------------------------


def fork_state(then: CrewState, run: RunId) -> RestoredState:
    """The first state of a fork.

    Its logs start at the heads of the source run: nothing is copied. Steps and calls keep their
    ids, since all idempotency keys begin with the run. Its interrupts are its own.
    """
    steps = _continuing_steps(then, then.position)
    defaults = CrewState(run=run)
    state = then.model_copy(
        update={
            **{name: getattr(defaults, name) for name in _RESET_BY_FORK},
            "run": run,
            "frontier": steps,
            "conversation": without_idle_deadline(then.conversation),
        }
    )
    names = {step: step for step in (*steps, *then.detached_steps)}
    return RestoredState(state, tuple(_renamed_interrupts(then, names)), names)


# -- reopen ----------------------------------------------------------------------------------


class ReopenPoint(NamedTuple):
    """The position from which an ended run continues."""

    position: int
    """The position whose state it continues from."""
    decision: StepId | None = None
    """The branch step that ended it: people are asked before it decides again."""
    later_entries: tuple[tuple[int, j.JournalEntry], ...] = ()
    """The entries after the answer that ended it, with their positions: calls that were in flight
    at that time. They are not repeated."""


def reopen_point(
    run: RunId, tail: Sequence[tuple[int, j.JournalEntry]], *, rested: bool = False
) -> ReopenPoint:
    """The position from which an ended run continues: right before what ended it.

    Args:
        run: The run.
        tail: The last entries of its journal, with their positions: all, or from before its end on.
        rested: Whether it was idle when it ended: nothing was left to do.

    Raises:
        UsageError: it cannot continue.
    """
    rows = list(tail)
    while rows and isinstance(rows[-1][1], j.CommandRejected):  # rejected after the end
        rows.pop()
    if not rows:
        raise UsageError(f"the journal of the run {run!r} is empty")
    last = rows[-1][1]
    if isinstance(last, j.RunCompleted) and (last.exchanges or rested):
        return ReopenPoint(rows[-1][0] - 1)  # it was idle for too long
    if isinstance(last, j.RunCompleted):
        raise UsageError(
            f"the run {run!r} is completed: it has no work left",
            remedy=f"`crewlog checkpoints {run}` lists its checkpoints; fork one of them: "
            f"`crewlog fork {run}@POSITION`.",
        )
    if isinstance(last, j.RunEndedByMerge):
        raise UsageError(
            f"the run {run!r} is part of the run {last.run!r} now",
            remedy=f"`crewlog show {last.run}` shows it; its agents continue there.",
        )
    if isinstance(last, j.RunFailed):
        return _before_failure(rows)
    if isinstance(last, j.RunStopped):
        return _before_stop(rows)
    return ReopenPoint(rows[-1][0])  # it was terminated


def _before_failure(rows: Sequence[tuple[int, j.JournalEntry]]) -> ReopenPoint:
    """Before a branch that failed the run; else before the end, after what led to it."""
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
    answers = {number for stop in _stop_requests(rows) for number in _answer_that_stops(rows, stop)}
    if not answers:
        return ReopenPoint(_position_before(rows, end))
    first = min(answers)
    later = [
        row
        for number, row in enumerate(rows[first:end], first)
        if number not in answers and not isinstance(row[1], j.StopRequested)
    ]
    return ReopenPoint(_position_before(rows, first), later_entries=tuple(later))


def _position_before(rows: Sequence[tuple[int, j.JournalEntry]], at: int) -> int:
    return rows[at - 1][0] if at else rows[0][0] - 1


def _transaction_start(rows: Sequence[tuple[int, j.JournalEntry]], at: int) -> int:
    """The number of the row that begins the transaction of a row."""
    while at and rows[at][1].transaction:
        at -= 1
    return at


def _stop_requests(rows: Sequence[tuple[int, j.JournalEntry]]) -> Iterator[int]:
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
    """The state with which an ended run continues."""
    return then.model_copy(
        update={
            "status": "running",
            "status_reason": None,
            "error": "",
            "error_type": "",
            "end_reason": "",
            "pending_change": None,
            "idle": None,  # its idle time starts again
            "frontier": _without_deadlines(then),
            "conversation": without_idle_deadline(then.conversation),
        }
    )


def steps_without_interrupt(state: CrewState) -> Iterator[tuple[StepId, int | None]]:
    """The steps and calls of a failed run that wait for people without an interrupt."""
    interrupted = {(q.step, q.call) for q in state.interrupts.values()}
    steps = {step for step, _ in interrupted}
    for step, entry in state.frontier.items():
        calls = entry.turn.calls if entry.turn is not None else ()
        waiting = [call.call for call in calls if call.status == "interrupted"]
        without_interrupt = [call for call in waiting if (step, call) not in interrupted]
        for call in without_interrupt:
            yield step, call
        if entry.status == "interrupted" and not without_interrupt and step not in steps:
            yield step, None
