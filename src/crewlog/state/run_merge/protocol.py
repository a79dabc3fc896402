"""The protocol of a run merge, which the surviving run coordinates.

    coordinator   MergeRequested or MergeAccepted ──► RunMerged, or MergeFailed
                    │ an update asks the other run to freeze     │ a signal confirms the outcome
    other run       └──► MergeAccepted ──► MergeFrozen ──────────┴► RunEndedByMerge, or MergeFailed

The run of the command requests the merge. If it survives, it coordinates; otherwise it asks the
other run by an update to coordinate. A run that gets an update reads the stored state of the run
that sent it, and decides by that alone: an update or a signal may be lost, repeated, forged or
late. Each run stores what it records before it sends or answers anything.

Why no agent is ever in two open runs, and none gets lost:

- Only the coordinator decides, and its stored journal has the decision. It records `RunMerged` only
  after the other run has stored `MergeFrozen`, and never takes an outcome back.
- A frozen run records nothing that changes it (its commands wait), and leaves that status only by
  the stored outcome of the coordinator: merged, failed, or no trace of that round in a newer state
  than its start. An older state, of a slow read, decides nothing. So a timeout alone never decides.
- The stored state may be behind the run, and is never ahead of it. So an outcome that was read is
  valid. If the coordinator was terminated, the store first refuses its further entries (`gone`):
  then what it recorded and never stored did not happen.
- A state keeps its last outcomes (`OUTCOMES_KEPT`), each with its round. If it has none of a round
  any more, the journal is searched for one (`recall`) before anything follows from that.

Why it ends: each status but `frozen` has a deadline at which it fails, and a frozen run gets the
outcome within the deadline of the coordinator. A run in a merge refuses each other request, which
may be repeated later. Only a run that has asked another one to coordinate gives its own request up
if it is asked to freeze, and of two coordinators that ask each other the one that does not survive
does. So of requests that form a ring one succeeds: the smallest run of it coordinates nothing. A
paused run refuses: a merge must not end the pause.

A run has at most one read in flight, and enters a merge only by the result of one. So no read from
before it entered can decide how the merge ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from crewlog.errors import ChangeConflict, CommandRejected
from crewlog.ids import CommandId, RunId, StepId, merge_id
from crewlog.model import Json
from crewlog.state import journal as j
from crewlog.state.components import Component, survival_order
from crewlog.state.model import CrewState, MergeOutcome, PendingMerge

REQUEST_TIMEOUT = 60_000
"""Milliseconds in which the run that is asked to coordinate must ask this one to freeze."""
DRAIN_TIMEOUT = 60_000
"""Milliseconds in which the run that is asked to freeze must drain."""
FREEZE_TIMEOUT = 90_000
"""Milliseconds in which the other run must be frozen: its `DRAIN_TIMEOUT`, and time to answer."""
READ_INTERVAL = 10_000
"""Milliseconds between two reads of a frozen run without a confirmation."""
MAX_READ_INTERVAL = 600_000
"""The longest such interval: it grows with the time of waiting, so that the history stays short."""
OUTCOMES_KEPT = 20
"""The most outcomes of merges that a state keeps; the journal has all of them."""

NextEntry = j.MergeAccepted | j.MergeFrozen | j.MergeFailed
"""What a run records before the outcome."""


class Refusal(NamedTuple):
    """Why a run does not do what another one asks."""

    reason: str
    """Why, for people, with a remedy."""
    may_retry: bool = False
    """Whether the same request may succeed later."""


class RunSize(NamedTuple):
    """What decides which of two runs survives."""

    agents: int
    """The number of agents with channels."""
    has_flow: bool

    @classmethod
    def of(cls, component: Component | None) -> RunSize:
        """The size of a run with this component; None: it has no agents with channels."""
        if component is None:
            return cls(0, has_flow=False)
        return cls(len(component.agents), bool(component.flow))


def merge_request(
    own: CrewState,
    other: RunId,
    command: CommandId,
    *,
    survives: bool,
    at: int,
    operation: Json,
    what: str,
    size: RunSize,
    request: dict[str, Json] | None = None,
    expect: str = "",
    by: str = "",
    reason: str = "",
) -> j.MergeRequested:
    """The entry by which a run requests a merge with another one.

    Args:
        own: The run.
        other: The other run.
        command: The command that requests it.
        survives: Whether this run survives, by the last stored state of the other one.
        at: Now, in milliseconds since the epoch.
        operation: The operation that connects them, as JSON.
        what: The same, in a line.
        size: The size of the run.
        request: The command as it was sent, if it is signed.
        expect: The hash that the definition of both must have; empty: any.
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
        status="coordinating" if survives else "requested",
        operation=operation,
        what=what,
        agents=size.agents,
        has_flow=size.has_flow,
        request=request or {},
        expect=expect,
        deadline=at + (FREEZE_TIMEOUT if survives else REQUEST_TIMEOUT),
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
        "coordinating": f"takes over the agents of {other}: waits until that has drained",
        "draining": f"merges into {other}: drains first",
        "frozen": f"merges into {other}: waits for the outcome",
    }[pending.status]


# -- a request of another run ----------------------------------------------------------------


def answer_request(
    own: CrewState, other: CrewState | None, merge: str, at: int, size: RunSize
) -> Refusal | tuple[NextEntry, ...]:
    """What follows from an update by which another run asks this one to coordinate, or to freeze.

    Returns:
        Why this run refuses, or the entries to record; none if it has accepted before.

    Args:
        own: The run.
        other: The stored state of the other run; none: nothing is stored.
        merge: The merge.
        at: Now, in milliseconds since the epoch.
        size: The size of the run.
    """
    mine, theirs = own.pending_merge, other.pending_merge if other is not None else None
    if mine is not None and mine.merge == merge and mine.status != "requested":
        return ()
    if (
        other is None
        or theirs is None
        or (theirs.merge, theirs.other) != (merge, own.run)
        or theirs.status not in ("requested", "coordinating")
    ):
        return Refusal(f"the journal of the other run has no such request to {own.run!r}")
    if theirs.other_started_at not in (0, own.started_at):
        return Refusal(f"the id {own.run!r} now belongs to another run")
    if refusal := _refusal(own, other, theirs, at):
        return refusal
    survives = theirs.status == "requested"
    entries: list[NextEntry] = []
    if mine is not None and mine.merge != merge:
        if not _gives_way(own, mine, other, theirs):
            return Refusal(
                f"{own.run!r} is about to merge with {mine.other!r}: retry when that has ended",
                may_retry=True,
            )
        why = f"{own.run!r} merges by a request of {other.run!r}: retry when that has ended"
        entries.append(_failed(mine, Refusal(why, may_retry=True)))
    if size.has_flow and theirs.has_flow:
        return Refusal(
            f"both {own.run!r} and {other.run!r} have a flow, and a run has only one: connect "
            "runs of which at most one has a flow"
        )
    if survives != _survives(own.run, size, other.run, RunSize(theirs.agents, theirs.has_flow)):
        return Refusal(f"{own.run!r} was changed since the request: retry", may_retry=True)
    entries.append(
        j.MergeAccepted(
            at=at,
            merge=merge,
            other=other.run,
            status="coordinating" if survives else "draining",
            deadline=at + (FREEZE_TIMEOUT if survives else DRAIN_TIMEOUT),
            requester=theirs.requester,
            other_position=theirs.position,
            other_started_at=other.started_at,
            operation=theirs.operation,
            request=theirs.request,
            expect=theirs.expect,
            agents=size.agents,
            has_flow=size.has_flow,
            by=theirs.by,
        )
    )
    return tuple(entries)


def _refusal(own: CrewState, other: CrewState, theirs: PendingMerge, at: int) -> Refusal | None:
    """Why a run cannot merge now, whatever the request; None: it can."""
    if theirs.merge in own.merges or at >= theirs.deadline or other.is_ended:
        return Refusal(f"the request of {other.run!r} is over")
    if own.surviving_run is not None:
        return Refusal(f"{own.run!r} was merged into {own.surviving_run!r}: name that run")
    if own.is_ended:
        return Refusal(f"{own.run!r} has ended ({own.status}): `crewlog resume` may reopen it")
    if own.status == "stopping":
        return Refusal(f"{own.run!r} is being stopped")
    if other.status == "stopping":
        return Refusal(f"{other.run!r} is being stopped")
    if own.status == "paused":
        return Refusal(f"{own.run!r} is paused: resume it, and retry")
    if own.pending_change is not None:
        return Refusal(
            f"{own.run!r} is about to swap to graph v{own.pending_change.graph_version}: retry "
            "when it has",
            may_retry=True,
        )
    return None


def _gives_way(own: CrewState, mine: PendingMerge, other: CrewState, theirs: PendingMerge) -> bool:
    """Whether a run gives up its own merge for one in which another run asks it to freeze."""
    if theirs.status != "coordinating":
        return False
    if mine.status == "requested":
        return True
    # Of two coordinators that ask each other, the one that really survives refuses to freeze.
    return (mine.status, mine.other) == ("coordinating", other.run)


def _survives(own: RunId, size: RunSize, other: RunId, theirs: RunSize) -> bool:
    """Whether a run survives the merge with another one."""
    mine = survival_order(own, size.agents, has_flow=size.has_flow)
    return mine < survival_order(other, theirs.agents, has_flow=theirs.has_flow)


# -- the own merge ---------------------------------------------------------------------------


def next_entry(
    own: CrewState, at: int, *, has_drained: bool, ending_turns: Sequence[StepId] = ()
) -> j.MergeFrozen | j.MergeFailed | None:
    """What a run records next in its merge, whatever the other run does; None: nothing now.

    Args:
        own: The run.
        at: Now, in milliseconds since the epoch.
        has_drained: Whether the run has drained: no call is in flight, and no turn ends first.
        ending_turns: The turns of removed agents, which end before the merge.
    """
    mine = own.pending_merge
    if mine is None or mine.status == "frozen" or own.is_ended:
        return None
    if own.status == "stopping":
        return _failed(mine, Refusal(f"{own.run!r} is being stopped"))
    if own.status == "paused" and mine.status != "requested":
        return _failed(mine, Refusal(f"{own.run!r} was paused: resume it, and retry"))
    if at >= mine.deadline:
        return _failed(mine, Refusal(_timeout_reason(mine, ending_turns), may_retry=True))
    if mine.status == "draining" and has_drained:
        return j.MergeFrozen(merge=mine.merge, other=mine.other)
    return None


def _timeout_reason(mine: PendingMerge, ending_turns: Sequence[StepId]) -> str:
    remedy = "check that it has a worker, and retry"
    if mine.status == "requested":
        return f"{mine.other!r} did not answer within {REQUEST_TIMEOUT // 1000} s: {remedy}"
    if mine.status == "coordinating":
        return f"{mine.other!r} did not drain within {FREEZE_TIMEOUT // 1000} s: {remedy}"
    limit = DRAIN_TIMEOUT // 1000
    if ending_turns:
        return (
            f"the turns {', '.join(ending_turns)} of removed agents did not end in {limit} s:"
            " retry when `crewlog show` no longer lists them"
        )
    return f"its calls in flight did not complete within {limit} s: retry when they have"


def may_merge(own: CrewState, merge: str) -> bool:
    """Whether the coordinator may record the merge that it prepared.

    Meanwhile the deadline may have passed, or people may have paused the run: a merge must not end
    the pause.
    """
    mine = own.pending_merge
    return (
        mine is not None
        and (mine.merge, mine.status) == (merge, "coordinating")
        and own.status not in ("paused", "stopping")
    )


def is_frozen_for(
    other: CrewState, coordinator: RunId, merge: str, position: int, started_at: int
) -> bool:
    """Whether a stored state is frozen for a coordinator in this round: it may be merged.

    Args:
        other: The state of the other run.
        coordinator: The run that coordinates.
        merge: The merge.
        position: The journal position at which the coordinator entered it.
        started_at: When the coordinator was started, in milliseconds since the epoch.
    """
    theirs = other.pending_merge
    return (
        theirs is not None
        and (theirs.merge, theirs.other, theirs.status) == (merge, coordinator, "frozen")
        and (theirs.other_position, theirs.other_started_at) == (position, started_at)
    )


def merge_failed(own: CrewState, refusal: Refusal) -> j.MergeFailed | None:
    """The entry by which a run gives its merge up; None if it has none, or is frozen."""
    mine = own.pending_merge
    if mine is None or mine.status == "frozen" or own.is_ended:
        return None
    return _failed(mine, refusal)


def _failed(mine: PendingMerge, refusal: Refusal) -> j.MergeFailed:
    return j.MergeFailed(
        merge=mine.merge,
        other=mine.other,
        reason=refusal.reason[:2000],
        may_retry=refusal.may_retry,
    )


# -- the outcome -----------------------------------------------------------------------------


def next_read_at(own: CrewState, last_read: int) -> int | None:
    """When a frozen run reads the coordinator again, or any other one gives its merge up.

    In milliseconds since the epoch; None if no merge is pending.

    Args:
        own: The run.
        last_read: When it last did, or when its status began.
    """
    mine = own.pending_merge
    if mine is None:
        return None
    if mine.status != "frozen":
        return mine.deadline
    return last_read + min(max(READ_INTERVAL, (last_read - mine.at) // 8), MAX_READ_INTERVAL)


def find_outcome(
    own: CrewState, coordinator: CrewState | None, *, gone: bool = False, recalled: bool = False
) -> j.RunEndedByMerge | j.MergeFailed | Literal["recall"] | None:
    """What follows from the stored state of the other run, for a run that does not coordinate.

    Returns:
        The entry to record; `recall`: search the coordinator's journal for its `RunMerged` of the
        merge first, see `recall`; None: nothing is decided.

    Args:
        own: The run.
        coordinator: The stored state of the other run; none: nothing is stored.
        gone: Whether that run was terminated, or does not exist. The store refuses its further
            entries, and `coordinator` was loaded after that.
        recalled: Whether `recall` added the outcome to `coordinator`.
    """
    mine = own.pending_merge
    if mine is None or own.is_ended or mine.status == "coordinating":
        return None
    if coordinator is None:
        missing = Refusal(f"there is no run {mine.other!r}: `crewlog ps` lists the runs")
        return _failed(mine, missing) if gone else None
    if coordinator.run != mine.other:
        return None
    if mine.status == "requested":
        outcome = coordinator.merges.get(mine.merge)
        return _failed(mine, _given_up(mine, outcome)) if outcome is not None else None
    return _outcome_of_round(own, mine, coordinator, gone=gone, recalled=recalled)


def _outcome_of_round(
    own: CrewState, mine: PendingMerge, coordinator: CrewState, *, gone: bool, recalled: bool
) -> j.RunEndedByMerge | j.MergeFailed | Literal["recall"] | None:
    if coordinator.started_at != mine.other_started_at:
        return _failed(mine, Refusal(f"the id {mine.other!r} now belongs to another run"))
    if coordinator.position < mine.other_position:
        return None  # the read was slow: the next one decides
    outcome = coordinator.merges.get(mine.merge)
    if outcome is not None and outcome.outcome == "merged":
        merged = (outcome.merged_started_at, outcome.merged_position)
        if merged == (own.started_at, mine.frozen_position):
            # Valid, whatever the coordinator records later.
            return j.RunEndedByMerge(
                merge=mine.merge,
                run=coordinator.run,
                position=outcome.position,
                renames=outcome.renames,
            )
        if outcome.position > mine.other_position:
            why = f"{mine.other!r} merged another run with the id {own.run!r}"
            return _failed(mine, Refusal(why))
    if outcome is not None and outcome.start_position == mine.other_position:
        return _failed(mine, _given_up(mine, outcome))
    theirs = coordinator.pending_merge
    if theirs is not None and (theirs.merge, theirs.position) == (mine.merge, mine.other_position):
        ended = coordinator.is_ended or gone
        why = f"{mine.other!r} ended before the merge"
        return _failed(mine, Refusal(why)) if ended else None
    return _failed(mine, _given_up(mine, outcome)) if recalled else "recall"


def _given_up(mine: PendingMerge, outcome: MergeOutcome | None) -> Refusal:
    if outcome is None or not outcome.reason:
        return Refusal(f"{mine.other!r} gave the merge up")
    return Refusal(outcome.reason, outcome.may_retry)


def state_for_merge(state: CrewState, merge: str) -> CrewState:
    """The part of another run's state that a merge needs, and no more.

    The history of the reading run contains it, and an update can make a run read any other.

    Args:
        state: The other run.
        merge: The merge.
    """
    pending = state.pending_merge
    last = [key for key, outcome in state.merges.items() if outcome.outcome == "merged"][-1:]
    kept = {merge, *(last if state.surviving_run is not None else ())}
    return CrewState(
        run=state.run,
        position=state.position,
        status=state.status,
        started_at=state.started_at,
        pending_merge=pending if pending is not None and pending.merge == merge else None,
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


def recall(other: CrewState, merge: str, outcome: MergeOutcome | None) -> CrewState:
    """A run's state with the outcome of a merge from its journal, for `find_outcome`.

    Args:
        other: The run.
        merge: The merge.
        outcome: The outcome by its `RunMerged` behind the start of the round (`other_position`),
            with the renames, which its state does not keep; none: the journal has none.
    """
    if outcome is None:
        return other
    return other.model_copy(update={"merges": {**other.merges, merge: outcome}})
