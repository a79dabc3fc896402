"""Checkpoints as states to go back to, to fork from, and to take up again: what each makes of one.

    settled(entries)         how far a checkpoint reaches: its step's end and what follows from that
    rewound(now, then)       the run's state once it has gone back
    forked(then, run)        another run's first state
    resumption(entries)      from where a run that has ended goes on
    reopened(then)           its state from there on

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
    item_number,
    node_of,
    step_id,
    visit_of,
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

_ANSWERS = (
    ["InterruptAnswered"],
    ["InterruptAnswered", "StepCompleted"],
    ["InterruptAnswered", "RunOutputSet", "StepCompleted"],
)
"""What an answer that ends the run records before `StopRequested`."""
LONGEST_ANSWER = max(map(len, _ANSWERS)) + 1
"""Entries of the longest answer, and the one before it."""
ENDINGS = ("StepCancelled", "StopRequested", "RunStopped", "RunFailed", "RunCompleted")
"""What stands after the end of a step from which nothing follows."""


# -- checkpoints -----------------------------------------------------------------------------


def checkpoint_length(entries: Sequence[j.JournalEntry]) -> int | None:
    """How many of these entries a checkpoint stands for; none where the first one is none.

    A checkpoint is named by the entry that ends a step. Its state has what follows from that end,
    too: where the run goes next, and for the last of a visit's items the end of that visit. A state
    between the two would wait for ever for what has happened already.

    Args:
        entries: The journal from the checkpoint on: as far as there is any, or some hundred.
    """
    first = entries[0] if entries else None
    if isinstance(first, j.NodesReached):
        return 1 if first.source is None and not first.because else None
    if isinstance(first, j.ExchangeEnded):
        return 1
    if isinstance(first, j.RunForked | j.RunRolledBack):
        return 1 + _count(entries[1:], j.InterruptRaised)
    if isinstance(first, j.RunReopened):
        return 1 + _count(entries[1:], j.StepRetried, j.InterruptDeadlineSet, j.InterruptRaised)
    if not isinstance(first, j.StepCompleted):
        return None
    if item_number(first.step):
        return _item_checkpoint_length(first.step, entries)
    # That a merge failed stands between, where the run ends first.
    after = next((each for each in entries[1:] if not isinstance(each, j.MergeFailed)), None)
    if isinstance(after, j.NodesReached) and len(entries) > 1 and after is not entries[1]:
        return 1
    if isinstance(after, j.NodesReached) and after.source == node_of(first.step):
        return 2
    if isinstance(after, j.NodesReached) and after.because == handoff_reason(first.step):
        return 2
    # Nothing follows from a decision that fails the run, or from a no that ends it.
    return None if after is None or after.kind in ENDINGS else 1


def _item_checkpoint_length(step: StepId, entries: Sequence[j.JournalEntry]) -> int | None:
    """The same for the end of an item's step: the last one of a visit ends that, too."""
    at = 1
    while at < len(entries):
        entry = entries[at]
        if isinstance(entry, j.StepCompleted) and entry.step == visit_of(step):
            rest = checkpoint_length(entries[at:])
            return None if rest is None else at + rest
        if not (isinstance(entry, j.InterruptAnswered) and entry.decision == "withdrawn"):
            break
        at += 1
    return 1


def handoff_reason(step: StepId) -> str:
    """Why the run goes where a step handed off to whose node a change had taken away."""
    return f"{step} handed off"


def _count(entries: Sequence[j.JournalEntry], *kinds: type[j.Entry]) -> int:
    """How many entries of some kinds stand first."""
    other = (at for at, entry in enumerate(entries) if not isinstance(entry, kinds))
    return next(other, len(entries))


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
    if len(rows) > 1 and isinstance(rows[-2][1], j.MergeFailed):
        del rows[-2]  # since it ended
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
    position, before = rows[-2] if len(rows) > 1 else (0, None)
    if isinstance(before, j.StepCompleted):
        return ReopenPoint(position - 1, decision=before.step)
    return ReopenPoint(position)


def _before_stop(rows: Sequence[tuple[int, j.JournalEntry]]) -> ReopenPoint:
    """Before the answers that ended the run, or else before its steps were cancelled."""
    kinds = [entry.kind for _, entry in rows]
    at = len(rows) - 2
    while at >= 0 and kinds[at] == "StepCancelled":
        at -= 1
    left = {number for asked in _stops(kinds) for number in _answer_of(rows, kinds, asked)}
    if not left:
        return ReopenPoint(rows[at][0] if at >= 0 else rows[0][0] - 1)
    first = min(left)
    landed = [number for number in range(first, at + 1) if number not in left]
    landed = [number for number in landed if kinds[number] != "StopRequested"]
    return ReopenPoint(rows[first][0] - 1, landed=tuple(rows[number] for number in landed))


def _stops(kinds: Sequence[str]) -> Iterator[int]:
    """Where a run was asked to stop that has stopped: since it began, or was last taken up."""
    for number in reversed(range(len(kinds))):
        if kinds[number] == "RunReopened":
            return
        if kinds[number] == "StopRequested":
            yield number


def _answer_of(
    rows: Sequence[tuple[int, j.JournalEntry]], kinds: Sequence[str], asked: int
) -> Iterable[int]:
    """The entries of the answer that asked a run to stop; none of the `stop` signal."""
    if getattr(rows[asked][1], "command", None) is None:
        for answer in _ANSWERS:
            begins = asked - len(answer)
            if begins > 0 and kinds[begins:asked] == answer:
                return range(begins, asked)
    return ()


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
