"""The protocol of a run merge, which is safe against lost messages.

    requested ──► surviving ────────────► RunMerged: the other run is part of this one
      │      └──► draining ──► offered ─► RunEndedByMerge: this run ends, and continues there
      └── each of them ──► MergeFailed: both continue alone

Each run records its status in its own journal, and stores it before it notifies the other run. A
notification carries no data: a run that gets one, or whose time has come, loads the stored state of
the other run, and `next_move` decides. So a notification may be lost, repeated, forged or late.

Why no agent is ever in two open runs, and none gets lost:

- A run merges the other one only if the *stored* state of that says `offered`, to itself, in the
  same round (`PendingMerge.position` and `other_position`: where each journal entered the merge).
  Then it has recorded the outcome, and never takes it back.
- A run that is `offered` records nothing that changes it (its commands wait), and leaves that
  status only by the *stored* outcome of the other run: `merged`, `failed`, or no trace of that
  round in a state that is newer than its start. An older state, of a slow read, decides nothing.
- The stored state may be behind the run, and is never ahead of it. So an outcome that was read is
  valid. If the other run was terminated, the store first refuses its further entries (`gone`): then
  what it recorded and never stored did not happen.
- A state keeps its last outcomes (`OUTCOMES_KEPT`), each with its round. If it has none of a round
  any more, the journal is searched for one (`recall`) before anything follows from that.

Why it ends: each status but `offered` has a deadline at which it fails, and an offered run gets the
outcome within the deadline of the other run. If requests meet, the first one (then: that of the
smaller run id) continues, and a run that has only requested gives up its own request for it. So in
a ring of requests the first one always continues. A run that is busy with another merge, or with a
change, does not answer: the request waits until its deadline, and is read again by notifications
that are repeated (`is_request_pending`). A paused run refuses: a merge must not end the pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from crewlog.errors import ChangeConflict, CommandRejected
from crewlog.ids import CommandId, RunId, StepId, merge_id
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.components import Rename
from crewlog.state.model import CrewState, MergeOutcome, PendingMerge

REQUEST_TIMEOUT = 60_000
"""Milliseconds for which a request waits for an answer."""
DRAIN_TIMEOUT = 60_000
"""Milliseconds in which the merged run must drain."""
OFFER_TIMEOUT = 150_000
"""Milliseconds for which the surviving run waits for the offer: more than the other run's
`DRAIN_TIMEOUT` and a read."""
READ_INTERVAL = 10_000
"""Milliseconds between two reads of the other run without a notification."""
MAX_READ_INTERVAL = 600_000
"""The longest such interval: it grows with the time of waiting, so that the history stays short."""
OUTCOMES_KEPT = 20
"""The most outcomes of merges that a state keeps; the journal has all of them."""


class Move(NamedTuple):
    """What a run does next in a merge.

    After `record`: ask for the next move. Once that is another one, or none: store the entries,
    and then notify each of the other runs (`to`). Before `merge` neither is needed: an offered run
    waits for the outcome alone.
    """

    does: Literal["record", "merge", "recall"]
    """`record`: record the entry. `merge`: make the merged definition now, from the state that was
    read, and record it while `may_merge` is true. `recall`: search the other run's journal for its
    `RunMerged` of the merge, see `recall`."""
    to: RunId
    """The other run."""
    entry: j.MergeAccepted | j.MergeOffered | j.MergeFailed | j.RunEndedByMerge | None = None
    """The entry to record."""


def merge_request(
    own: CrewState,
    other: RunId,
    command: CommandId,
    *,
    at: int,
    operation: Json,
    what: str,
    agents: int,
    has_flow: bool,
    by: str = "",
    reason: str = "",
) -> j.MergeRequested:
    """The entry by which a run requests a merge with another one.

    Args:
        own: The run.
        other: The run that is asked.
        command: The command that requests it.
        at: Now, in milliseconds since the epoch.
        operation: The operation that connects them, as JSON.
        what: The same, in a line.
        agents: The number of agents with channels of the run.
        has_flow: Whether it has a flow.
        by: The principal.
        reason: The reason that the principal gave.

    Raises:
        CommandRejected: the run cannot merge.
        ChangeConflict: another merge or a change is pending.
    """
    check_may_request(own, other)
    return j.MergeRequested(
        at=at,
        merge=merge_id(own.run, command),
        other=other,
        operation=operation,
        what=what,
        agents=agents,
        has_flow=has_flow,
        deadline=at + REQUEST_TIMEOUT,
        by=by,
        reason=reason,
        command=command,
    )


def check_may_request(own: CrewState, other: RunId) -> None:
    """Checks that a run may request a merge with another one.

    Raises:
        CommandRejected: the run cannot merge.
        ChangeConflict: another merge or a change is pending.
    """
    if other == own.run:
        raise CommandRejected(
            f"the run {other!r} cannot merge with itself",
            remedy="Name another run, or connect the agents without naming a run.",
        )
    if own.is_ended or own.status in ("stopping", "paused"):
        raise CommandRejected(
            f"the run is {own.status}: it cannot merge with {other!r}",
            remedy="Resume it first."
            if own.status == "paused"
            else "A run that is ending or has ended cannot be changed.",
        )
    check_no_merge(own)
    if own.pending_change is not None:
        raise ChangeConflict(
            f"the run is about to swap to graph v{own.pending_change.graph_version}",
            remedy="Retry once `GraphSwapped` or `SwapFailed` is in its journal.",
        )


def check_no_merge(own: CrewState) -> None:
    """Checks that no merge of the run is pending: its graph must not change before the outcome.

    Raises:
        ChangeConflict: a merge is pending.
    """
    if own.pending_merge is not None:
        raise ChangeConflict(
            f"the run is about to merge with {own.pending_merge.other!r}",
            remedy="Wait some minutes until the merge has ended (`RunMerged`, `RunEndedByMerge` or "
            "`MergeFailed` in the journal), and check the graph before you retry.",
        )


def merge_description(pending: PendingMerge) -> str:
    """What a run does in a merge, and what it waits for, for people."""
    other = pending.other
    return {
        "requested": f"asked {other} to merge: waits for its answer",
        "surviving": f"takes over the agents of {other}: waits until that has drained",
        "draining": f"merges into {other}: drains first",
        "offered": f"merges into {other}: waits for the outcome",
    }[pending.status]


# -- reads -----------------------------------------------------------------------------------


def next_read_at(own: CrewState, last_read: int) -> int | None:
    """When a run reads the other one again, in milliseconds since the epoch.

    None if no merge is pending.

    Args:
        own: The run.
        last_read: When it last did, or when its status began.
    """
    mine = own.pending_merge
    if mine is None:
        return None
    next_read = last_read + min(max(READ_INTERVAL, (last_read - mine.at) // 8), MAX_READ_INTERVAL)
    return min(next_read, mine.deadline) if mine.deadline > last_read else next_read


def run_to_read(own: CrewState, merge: str, named: RunId) -> RunId:
    """The run to read after a notification: the other run of a pending merge, whoever sent it.

    Args:
        own: The run.
        merge: The merge that the notification names.
        named: The run that it names.
    """
    mine = own.pending_merge
    return mine.other if mine is not None and mine.merge == merge else named


def is_request_pending(own: CrewState) -> bool:
    """Whether each read comes with another notification, in case the first one was lost."""
    return own.pending_merge is not None and own.pending_merge.status == "requested"


# -- moves -----------------------------------------------------------------------------------


def next_move(
    own: CrewState,
    other: CrewState | None,
    merge: str,
    at: int,
    *,
    has_drained: bool,
    ending_turns: Sequence[StepId] = (),
    gone: bool = False,
    agents: int = 0,
    has_flow: bool = False,
    refusal: str = "",
    recalled: bool = False,
) -> Move | None:
    """What a run does next in a merge; none: it waits, or the merge is not its own.

    Args:
        own: The run.
        other: The stored state of the other run; none: nothing is stored.
        merge: The merge.
        at: Now, in milliseconds since the epoch.
        has_drained: Whether the run has drained: no call is in flight, and no turn ends first.
        ending_turns: The turns of removed agents, which end before the merge.
        gone: Whether the other run was terminated, or does not exist. The store refuses its further
            entries, and `other` was loaded after that.
        agents: The number of agents with channels of the run.
        has_flow: Whether it has a flow.
        refusal: Why the run cannot do what is requested, by its engine; empty: it can.
        recalled: Whether `recall` added the outcome to `other`.
    """
    mine = own.pending_merge
    if own.is_ended:
        return None
    if mine is None or mine.merge != merge:
        if other is None or gone:
            return None
        return _action_on_request(own, other, merge, at, _RequestedRun(agents, has_flow, refusal))
    if other is not None and other.run != mine.other:
        return None
    if mine.status == "offered":
        return _move_of_offered(mine, other, gone=gone, recalled=recalled)
    if why := _failure_of(own, mine, other, at, ending_turns, gone=gone):
        return _fail(mine.merge, mine.other, why)
    if (
        other is None
        or other.pending_merge is None
        or not _is_same_merge(mine, other.pending_merge)
    ):
        return None
    return _action_in_status(mine, other, other.pending_merge, at, has_drained=has_drained)


def may_merge(own: CrewState, merge: str) -> bool:
    """Whether the prepared merge may be recorded.

    Since the read, the deadline may have passed, or people may have paused the run: a merge must
    not end the pause.
    """
    mine = own.pending_merge
    return (
        mine is not None
        and (mine.merge, mine.status) == (merge, "surviving")
        and own.status != "paused"
    )


class _RequestedRun(NamedTuple):
    """The run that a request asks."""

    agents: int
    has_flow: bool
    refusal: str


def _action_on_request(
    own: CrewState, other: CrewState, op: str, at: int, asked_run: _RequestedRun
) -> Move | None:
    """What follows from a request that is new to the run."""
    theirs, mine = other.pending_merge, own.pending_merge
    if (
        theirs is None
        or theirs.merge != op
        or theirs.status != "requested"
        or theirs.other != own.run
    ):
        return None
    is_over = op in own.merges or at >= theirs.deadline or "stopping" in (own.status, other.status)
    if is_over or other.is_ended or own.pending_change is not None:
        return None
    if mine is not None:
        if mine.status != "requested" or mine.priority <= theirs.priority:
            return None
        return _fail(mine.merge, mine.other, f"an earlier request of {other.run!r} comes first")
    if why := _refusal_of(own, other, theirs, asked_run):
        return _fail(op, other.run, why)
    survives = _survives(
        own.run, asked_run.agents, other.run, theirs.agents, (asked_run.has_flow, theirs.has_flow)
    )
    accepted = _acceptance(op, other, theirs, at, is_merged=not survives)
    request_fields = {
        "operation": theirs.operation,
        "agents": theirs.agents,
        "has_flow": theirs.has_flow,
        "requested_at": theirs.priority[0],
        "by": theirs.by,
    }
    return Move("record", other.run, accepted.model_copy(update=request_fields))


def _refusal_of(
    own: CrewState, other: CrewState, theirs: PendingMerge, asked_run: _RequestedRun
) -> str:
    """Why a run refuses a request; empty if it accepts."""
    if own.status == "paused":
        return f"{own.run!r} is paused: resume it, and retry"
    if asked_run.has_flow and theirs.has_flow:
        return (
            f"both {own.run!r} and {other.run!r} have a flow, and a run has only one: connect "
            "runs of which at most one has a flow"
        )
    return asked_run.refusal


def _survives(
    own: RunId, mine: int, other: RunId, theirs: int, has_flow: tuple[bool, bool]
) -> bool:
    """Whether a run survives the merge with another one.

    The one with a flow does, or the one with more agents, or the one with the smaller id.
    """
    if has_flow[0] != has_flow[1]:
        return has_flow[0]
    return (-mine, own) < (-theirs, other)


def _acceptance(
    op: str, other: CrewState, theirs: PendingMerge, at: int, *, is_merged: bool
) -> j.MergeAccepted:
    return j.MergeAccepted(
        at=at,
        merge=op,
        other=other.run,
        status="draining" if is_merged else "surviving",
        deadline=at + (DRAIN_TIMEOUT if is_merged else OFFER_TIMEOUT),
        other_position=theirs.position,
        other_started_at=other.started_at,
    )


def _fail(op: str, other: RunId, reason: str) -> Move:
    return Move("record", other, j.MergeFailed(merge=op, other=other, reason=reason))


def _is_same_merge(mine: PendingMerge, theirs: PendingMerge) -> bool:
    """Whether two runs are in the same round of the same merge."""
    same_positions = mine.other_position in (0, theirs.position) and theirs.other_position in (
        0,
        mine.position,
    )
    # One of the two was asked, and knew the other run from the beginning.
    return (
        theirs.merge == mine.merge
        and same_positions
        and bool(mine.other_position or theirs.other_position)
    )


def _failure_of(
    own: CrewState,
    mine: PendingMerge,
    other: CrewState | None,
    at: int,
    ending_turns: Sequence[StepId],
    *,
    gone: bool,
) -> str:
    """Why a run that has not offered itself gives up a merge; empty if it does not."""
    if own.status == "stopping":
        return f"{own.run!r} is being stopped"
    if at >= mine.deadline:
        return _timeout_reason(mine, other, ending_turns)
    if own.status == "paused" and mine.status != "requested":
        return f"{own.run!r} was paused: resume it, and retry"
    if other is None:
        missing = f"there is no run {mine.other!r}: `crewlog ps` lists the runs"
        return missing if gone or mine.other_position else ""
    return _obstacle_in(mine, other, gone=gone)


def _timeout_reason(
    mine: PendingMerge, other: CrewState | None, ending_turns: Sequence[StepId]
) -> str:
    remedy = "check that it has a worker, and retry"
    if mine.status == "requested":
        busy = other is not None and other.is_draining
        what = ", busy with another change," if busy else ""
        return f"{mine.other!r}{what} did not answer within {REQUEST_TIMEOUT // 1000} s: {remedy}"
    if mine.status == "draining":
        limit = DRAIN_TIMEOUT // 1000
        if ending_turns:
            return (
                f"the turns {', '.join(ending_turns)} of removed agents did not end in {limit} s:"
                " retry when `crewlog show` no longer lists them"
            )
        return f"its calls in flight did not complete within {limit} s: retry when they have"
    return f"{mine.other!r} did not drain within {OFFER_TIMEOUT // 1000} s: {remedy}"


def _obstacle_in(mine: PendingMerge, other: CrewState, *, gone: bool) -> str:
    """Why the other run cannot merge; empty if it can."""
    if mine.other_position and other.started_at != mine.other_started_at:
        return f"the id {mine.other!r} now belongs to another run"
    if other.position < mine.other_position and not gone:
        return ""  # the read was slow: the next one decides
    outcome = other.merges.get(mine.merge)
    if outcome is not None:
        return outcome.reason or f"{mine.other!r} gave the merge up"
    if other.surviving_run is not None:
        return f"{mine.other!r} was merged into {other.surviving_run!r}: name that run"
    if other.is_ended or gone:
        end = other.status if other.is_ended else "terminated"
        return f"{mine.other!r} has ended ({end}): `crewlog resume` may reopen it"
    if other.status == "stopping":
        return f"{mine.other!r} is being stopped"
    if mine.other_position and (
        other.pending_merge is None or not _is_same_merge(mine, other.pending_merge)
    ):
        return f"{mine.other!r} gave the merge up"
    return ""


def _action_in_status(
    mine: PendingMerge, other: CrewState, theirs: PendingMerge, at: int, *, has_drained: bool
) -> Move | None:
    """The next move in a merge that both runs know."""
    if mine.status == "requested":
        is_merged = theirs.status == "surviving"
        return Move(
            "record", other.run, _acceptance(mine.merge, other, theirs, at, is_merged=is_merged)
        )
    if mine.status == "draining" and has_drained:
        return Move("record", other.run, j.MergeOffered(merge=mine.merge, other=other.run))
    if mine.status == "surviving" and theirs.status == "offered":
        return Move("merge", other.run)
    return None


def _move_of_offered(
    mine: PendingMerge, other: CrewState | None, *, gone: bool, recalled: bool
) -> Move | None:
    """What follows for an offered run: only the outcome of the other one counts."""
    if other is None:
        return (
            _fail(mine.merge, mine.other, f"the run {mine.other!r} does not exist any more")
            if gone
            else None
        )
    if other.started_at != mine.other_started_at:
        return _fail(mine.merge, mine.other, f"the id {mine.other!r} now belongs to another run")
    if other.position < mine.other_position:
        return None
    outcome = other.merges.get(mine.merge)
    if outcome is not None and outcome.outcome == "merged":  # valid, whatever the run records later
        merged = j.RunEndedByMerge(
            merge=mine.merge, run=other.run, position=outcome.position, renames=outcome.renames
        )
        return Move("record", other.run, merged)
    if outcome is not None and outcome.start_position == mine.other_position:
        return _fail(mine.merge, mine.other, outcome.reason or f"{mine.other!r} gave the merge up")
    if other.pending_merge is not None and _is_same_merge(mine, other.pending_merge):
        ended = other.is_ended or gone
        why = f"{mine.other!r} ended before the merge"
        return _fail(mine.merge, mine.other, why) if ended else None
    if not recalled:
        return Move("recall", other.run)
    reason = outcome.reason if outcome is not None else ""
    return _fail(mine.merge, mine.other, reason or f"{mine.other!r} gave the merge up")


def state_for_merge(state: CrewState, merge: str) -> CrewState:
    """The part of another run's state that `next_move` needs, and no more.

    The history of the reading run contains it, and a notification can make a run read any other.

    Args:
        state: The other run.
        merge: The merge.
    """
    mine = state.pending_merge
    if mine is not None and mine.merge != merge:  # it only matters that it is busy
        mine = mine.model_copy(update={"operation": None, "by": ""})
    pending_change = state.pending_change
    if pending_change is not None:
        pending_change = pending_change.model_copy(update={"what": "", "by": ""})
    last = [key for key, outcome in state.merges.items() if outcome.outcome == "merged"][-1:]
    kept = {merge, *(last if state.surviving_run is not None else ())}
    return CrewState(
        run=state.run,
        position=state.position,
        status=state.status,
        started_at=state.started_at,
        pending_change=pending_change,
        pending_merge=mine,
        merges={key: outcome for key, outcome in state.merges.items() if key in kept},
    )


# -- outcomes --------------------------------------------------------------------------------


def outcome_changes(state: CrewState, merge: str, outcome: MergeOutcome) -> dict[str, Any]:
    """What the outcome of a merge changes in the state of a run."""
    mine = state.pending_merge
    if mine is not None and mine.merge == merge:
        outcome, mine = outcome.model_copy(update={"start_position": mine.position}), None
    outcomes = [*((k, v) for k, v in state.merges.items() if k != merge), (merge, outcome)]
    return {"merges": dict(outcomes[-OUTCOMES_KEPT:]), "pending_merge": mine}


def recall(
    other: CrewState, merge: str, position: int | None, renamed: tuple[Rename, ...] = ()
) -> CrewState:
    """A run's state with the outcome of a merge from its journal, for `next_move`.

    Args:
        other: The run.
        merge: The merge.
        position: The position of its `RunMerged`; none: the journal has none.
        renamed: The renames of that entry, which its state does not keep.
    """
    if position is None:
        return other
    merged = MergeOutcome(outcome="merged", other=other.run, position=position, renames=renamed)
    return other.model_copy(update={"merges": {**other.merges, merge: merged}})
