"""Joining: how two runs become one, whatever gets lost on the way.

    asked ──► survives ─────────────────────► RunMerged: the other one is part of this run
      │  └──► joins ──► offered ────────────► RunEndedByMerge: this run ends, and goes on there
      └── each of them ──► MergeFailed: both go on by themselves

Either run records where it is in its own journal, and has that stored before it tells the other one
to look. What it tells is a hint and nothing more: whoever gets one, or whose time has come, loads
what the store has of the other run, and `next_move` says what follows. So a hint may be lost,
doubled, forged or come too late.

Why no creature is ever in two runs that live, and none gets lost:

- A run takes the other one in only if the *stored* state of that says `offered`, to itself, in this
  round (`PendingMerge.position` and `theirs`: where either journal came into the merge). It has
  then recorded its word, and never takes it back.
- A run that is `offered` records nothing that changes it (its commands wait), and leaves that stage
  only by the *stored* word of the other one: `merged`, `failed`, or no trace of that round though
  what is stored is newer than where it began. An older state, of a look that took long, says
  nothing: what follows from it may be untrue by now.
- What is stored is behind what is so, and never ahead of it. So the word, once read, holds. Where
  the other run was ended from outside, whoever calls has the store take nothing more of it first
  (`gone`): what it recorded and never stored has not been, then.
- The last outcomes are kept in a state (`KEPT`), each with its round. Where a state has no word of
  a round any more, the journal is searched for one (`recall`) before anything follows from that.

Why it comes to an end: each stage but `offered` has a time by which it fails, and an offered run
gets the other one's word within that run's time. Of requests that meet, the one that was made first
(then: by the run with the smaller id) goes on, and a run that has only asked gives its own up for
it. So of a ring of requests the first one never gives way. A run that is busy with another merge,
or with a change, does not answer: the request waits as long as it may, and is looked at again by
the hints that are repeated meanwhile (`is_request_pending`). Runs that are paused refuse: that
they stand still is not to end because another run takes them in.
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

ASK_LIMIT = 60_000
"""Milliseconds for which a request waits for an answer."""
DRAIN_LIMIT = 60_000
"""Milliseconds in which a run that joins another one must land what is under way."""
OFFER_LIMIT = 150_000
"""Milliseconds for which a run waits until the one that it takes in has offered itself: more than
that one's `DRAIN_LIMIT` and a look."""
LOOK_EVERY = 10_000
"""Milliseconds from one look at the other run to the next, where no hint comes."""
LOOK_MOST = 600_000
"""The same, at most: who waits for long looks ever more rarely, and its history stays short."""
KEPT = 20
"""Outcomes of merges that a state keeps; the journal has all of them."""


class Move(NamedTuple):
    """What follows for a run.

    After `record`: ask for the next move. Once that is another one, or none: store what was
    recorded, and then give each of the other runs (`to`) a hint. Before `unite` neither is needed:
    a run that has offered itself waits for the word alone.
    """

    does: Literal["record", "unite", "recall"]
    """`record`: an entry; `unite`: the union with the other run is to be made now, from the state
    that was looked at, and recorded while `may_merge` holds; `recall`: the other run's journal is
    to be searched for its `RunMerged` of the merge, see the function of that name."""
    to: RunId
    """The other run."""
    entry: j.MergeAccepted | j.MergeOffered | j.MergeFailed | j.RunEndedByMerge | None = None
    """The entry that is to be recorded."""


def merge_request(
    own: CrewState,
    other: RunId,
    command: CommandId,
    *,
    at: int,
    operation: Json,
    what: str,
    creatures: int,
    flow: bool,
    by: str = "",
    reason: str = "",
) -> j.MergeRequested:
    """The `MergeRequested` by which a run asks another one to be one graph with it.

    Args:
        own: The run.
        other: The run that is asked.
        command: The command that wants it.
        at: Now, in milliseconds since the epoch.
        operation: What ties them, as JSON.
        what: The same, in a line.
        creatures: How many creatures the run has.
        flow: Whether it has a flow.
        by: Who wants it.
        reason: Why.

    Raises:
        CommandRejected: the run cannot be part of a merge.
        ChangeConflict: another merge or a change is under way.
    """
    check_may_request(own, other)
    return j.MergeRequested(
        at=at,
        merge=merge_id(own.run, command),
        other=other,
        operation=operation,
        what=what,
        agents=creatures,
        has_flow=flow,
        deadline=at + ASK_LIMIT,
        by=by,
        reason=reason,
        command=command,
    )


def check_may_request(own: CrewState, other: RunId) -> None:
    """Checks that a run may ask another one to be one graph with it.

    Raises:
        CommandRejected: the run cannot be part of a merge.
        ChangeConflict: another merge or a change is under way.
    """
    if other == own.run:
        raise CommandRejected(
            f"the run {other!r} is one graph with itself already",
            remedy="Name another run, or connect the two without naming any.",
        )
    if own.is_ended or own.status in ("stopping", "paused"):
        raise CommandRejected(
            f"the run is {own.status}: it does not become one graph with {other!r}",
            remedy="Resume it first."
            if own.status == "paused"
            else "Nothing can be changed in a run that ends or has ended.",
        )
    check_no_merge(own)
    if own.pending_change is not None:
        raise ChangeConflict(
            f"the run is about to go on with graph v{own.pending_change.graph_version}",
            remedy="Ask again once `GraphSwapped` or `SwapFailed` is in its journal.",
        )


def check_no_merge(own: CrewState) -> None:
    """Checks that a run is in no merge: while it is, its graph stays as it is.

    Raises:
        ChangeConflict: it is.
    """
    if own.pending_merge is not None:
        raise ChangeConflict(
            f"the run is about to be one graph with {own.pending_merge.other!r}",
            remedy="Look at the graph once the merge has ended (`RunMerged`, `RunEndedByMerge` or "
            "`MergeFailed` in the journal, within minutes), and decide anew.",
        )


def merge_description(joining: PendingMerge) -> str:
    """What a run does with another one, and what it waits for, for people."""
    other = joining.other
    return {
        "requested": f"asks {other} to be one graph with it: waits for its answer",
        "surviving": f"takes in {other}: waits until that has landed what is under way",
        "draining": f"becomes part of {other}: what is under way lands first",
        "offered": f"becomes part of {other}: waits for its word",
    }[joining.status]


# -- when to look ----------------------------------------------------------------------------


def next_read_at(own: CrewState, looked: int) -> int | None:
    """When a run is to look at the other one again, in milliseconds since the epoch.

    None where it is in no merge.

    Args:
        own: The run.
        looked: When it last did, or when its stage began.
    """
    mine = own.pending_merge
    if mine is None:
        return None
    again = looked + min(max(LOOK_EVERY, (looked - mine.at) // 8), LOOK_MOST)
    return min(again, mine.deadline) if mine.deadline > looked else again


def run_to_read(own: CrewState, op: str, hinted: RunId) -> RunId:
    """The run to look at after a hint: in a merge of one's own it is known, whoever hints.

    Args:
        own: The run.
        op: The merge that the hint names.
        hinted: The run that it names.
    """
    mine = own.pending_merge
    return mine.other if mine is not None and mine.merge == op else hinted


def is_request_pending(own: CrewState) -> bool:
    """Whether each look goes with another hint: the other run may not know of the merge yet."""
    return own.pending_merge is not None and own.pending_merge.status == "requested"


# -- what follows ----------------------------------------------------------------------------


def next_move(
    own: CrewState,
    other: CrewState | None,
    op: str,
    at: int,
    *,
    landed: bool,
    ends: Sequence[StepId] = (),
    gone: bool = False,
    creatures: int = 0,
    flow: bool = False,
    refusal: str = "",
    recalled: bool = False,
) -> Move | None:
    """What a run does next in a merge; none: it waits, or the merge is no matter of its own.

    Args:
        own: The run as it is.
        other: The other run, as far as it is stored; none: nothing of it is.
        op: The merge.
        at: Now, in milliseconds since the epoch.
        landed: Whether no call of the run is under way, and no turn that ends first.
        ends: The turns that end before the run is part of another one, since whoever has them was
            removed.
        gone: Whether the other run was ended from outside, or never was. The store takes nothing
            more of it, and `other` was loaded after that.
        creatures: How many creatures the run has.
        flow: Whether it has a flow.
        refusal: Why the run cannot be what the request wants of it, as its engine says; empty: it
            can.
        recalled: Whether `recall` made `other` of what was loaded.
    """
    mine = own.pending_merge
    if own.is_ended:
        return None
    if mine is None or mine.merge != op:
        if other is None or gone:
            return None
        return _action_on_request(own, other, op, at, _RequestedRun(creatures, flow, refusal))
    if other is not None and other.run != mine.other:
        return None
    if mine.status == "offered":
        return _offered(mine, other, gone=gone, recalled=recalled)
    if why := _failed(own, mine, other, at, ends, gone=gone):
        return _fail(mine.merge, mine.other, why)
    if (
        other is None
        or other.pending_merge is None
        or not _is_same_merge(mine, other.pending_merge)
    ):
        return None
    return _action_in_status(mine, other, other.pending_merge, at, landed=landed)


def may_merge(own: CrewState, op: str) -> bool:
    """Whether the union that was made for a merge may be recorded.

    The time may be over by now, or people have paused the run: nobody comes to stand still.
    """
    mine = own.pending_merge
    return (
        mine is not None
        and (mine.merge, mine.status) == (op, "surviving")
        and own.status != "paused"
    )


class _RequestedRun(NamedTuple):
    """What a run is that is asked."""

    creatures: int
    flow: bool
    refusal: str


def _action_on_request(
    own: CrewState, other: CrewState, op: str, at: int, body: _RequestedRun
) -> Move | None:
    """What follows from a request, of which the run knows nothing yet."""
    theirs, mine = other.pending_merge, own.pending_merge
    if (
        theirs is None
        or theirs.merge != op
        or theirs.status != "requested"
        or theirs.other != own.run
    ):
        return None
    over = op in own.merges or at >= theirs.deadline or "stopping" in (own.status, other.status)
    if over or other.is_ended or own.pending_change is not None:
        return None
    if mine is not None:
        if mine.status != "requested" or mine.priority <= theirs.priority:
            return None
        return _fail(mine.merge, mine.other, f"it gives way to an earlier request of {other.run!r}")
    if why := _refused(own, other, theirs, body):
        return _fail(op, other.run, why)
    stays = _stays(own.run, body.creatures, other.run, theirs.agents, (body.flow, theirs.has_flow))
    accepted = _acceptance(op, other, theirs, at, joins=not stays)
    asked = {
        "operation": theirs.operation,
        "agents": theirs.agents,
        "has_flow": theirs.has_flow,
        "requested_at": theirs.priority[0],
        "by": theirs.by,
    }
    return Move("record", other.run, accepted.model_copy(update=asked))


def _refused(own: CrewState, other: CrewState, theirs: PendingMerge, body: _RequestedRun) -> str:
    """Why a run does not agree to a request; empty where it does."""
    if own.status == "paused":
        return f"{own.run!r} is paused: resume it, and ask again"
    if body.flow and theirs.has_flow:
        return (
            f"both {own.run!r} and {other.run!r} have a flow, and a run has one: connect creatures "
            "of runs of which one at most has a flow"
        )
    return body.refusal


def _stays(own: RunId, mine: int, other: RunId, theirs: int, flows: tuple[bool, bool]) -> bool:
    """Whether a run takes the other one in, and not the other way round.

    The one with a flow does, or the one with more creatures, or the one with the smaller id.
    """
    if flows[0] != flows[1]:
        return flows[0]
    return (-mine, own) < (-theirs, other)


def _acceptance(
    op: str, other: CrewState, theirs: PendingMerge, at: int, *, joins: bool
) -> j.MergeAccepted:
    return j.MergeAccepted(
        at=at,
        merge=op,
        other=other.run,
        status="draining" if joins else "surviving",
        deadline=at + (DRAIN_LIMIT if joins else OFFER_LIMIT),
        other_position=theirs.position,
        other_started_at=other.started_at,
    )


def _fail(op: str, other: RunId, why: str) -> Move:
    return Move("record", other, j.MergeFailed(merge=op, other=other, reason=why))


def _is_same_merge(mine: PendingMerge, theirs: PendingMerge) -> bool:
    """Whether two runs are in the same merge, and came into it for each other."""
    known = mine.other_position in (0, theirs.position) and theirs.other_position in (
        0,
        mine.position,
    )
    # One of the two was asked, and has known the other from the beginning.
    return (
        theirs.merge == mine.merge and known and bool(mine.other_position or theirs.other_position)
    )


def _failed(
    own: CrewState,
    mine: PendingMerge,
    other: CrewState | None,
    at: int,
    ends: Sequence[StepId],
    *,
    gone: bool,
) -> str:
    """Why a run that has offered nothing gives a merge up; empty where it does not."""
    if own.status == "stopping":
        return f"{own.run!r} is being stopped"
    if at >= mine.deadline:
        return _late(mine, other, ends)
    if own.status == "paused" and mine.status != "requested":
        return f"{own.run!r} was paused: resume it, and ask again"
    if other is None:
        missing = f"there is no run {mine.other!r}: `crewlog ps` lists those that there are"
        return missing if gone or mine.other_position else ""
    return _without(mine, other, gone=gone)


def _late(mine: PendingMerge, other: CrewState | None, ends: Sequence[StepId]) -> str:
    again = "look whether it is at work, and ask again"
    if mine.status == "requested":
        busy = other is not None and other.is_draining
        what = ", busy with another change," if busy else ""
        return f"{mine.other!r}{what} did not answer within {ASK_LIMIT // 1000} s: {again}"
    if mine.status == "draining":
        limit = DRAIN_LIMIT // 1000
        if ends:
            return (
                f"{', '.join(ends)} of those who were removed from it did not end within "
                f"{limit} s: ask again when `crewlog show` tells of no such turn any more"
            )
        return f"what was under way did not land within {limit} s: ask again when it has"
    return f"{mine.other!r} had not landed all within {OFFER_LIMIT // 1000} s: {again}"


def _without(mine: PendingMerge, other: CrewState, *, gone: bool) -> str:
    """Why there can be no merge with a run as it is; empty where there can."""
    if mine.other_position and other.started_at != mine.other_started_at:
        return f"{mine.other!r} is another run by now"
    if other.position < mine.other_position and not gone:
        return ""  # the look took long: what is so by now, the next one says
    ended = other.merges.get(mine.merge)
    if ended is not None:
        return ended.reason or f"{mine.other!r} gave it up"
    if other.surviving_run is not None:
        return f"{mine.other!r} is part of {other.surviving_run!r} by now: ask that run"
    if other.is_ended or gone:
        how = other.status if other.is_ended else "from outside"
        return f"{mine.other!r} has ended ({how}): `crewlog resume` may take it up again"
    if other.status == "stopping":
        return f"{mine.other!r} is being stopped"
    if mine.other_position and (
        other.pending_merge is None or not _is_same_merge(mine, other.pending_merge)
    ):
        return f"{mine.other!r} gave it up"
    return ""


def _action_in_status(
    mine: PendingMerge, other: CrewState, theirs: PendingMerge, at: int, *, landed: bool
) -> Move | None:
    """The next stage of a merge in which both runs are."""
    if mine.status == "requested":
        joins = theirs.status == "surviving"
        return Move("record", other.run, _acceptance(mine.merge, other, theirs, at, joins=joins))
    if mine.status == "draining" and landed:
        return Move("record", other.run, j.MergeOffered(merge=mine.merge, other=other.run))
    if mine.status == "surviving" and theirs.status == "offered":
        return Move("unite", other.run)
    return None


def _offered(
    mine: PendingMerge, other: CrewState | None, *, gone: bool, recalled: bool
) -> Move | None:
    """What follows for a run that has offered itself: only the other one's word counts."""
    if other is None:
        return (
            _fail(mine.merge, mine.other, f"there is no run {mine.other!r} any more")
            if gone
            else None
        )
    if other.started_at != mine.other_started_at:
        return _fail(mine.merge, mine.other, f"{mine.other!r} is another run by now")
    if other.position < mine.other_position:
        return None
    word = other.merges.get(mine.merge)
    if word is not None and word.outcome == "merged":  # it says so once, whatever it says later
        merged = j.RunEndedByMerge(
            merge=mine.merge, run=other.run, position=word.position, renames=word.renames
        )
        return Move("record", other.run, merged)
    if word is not None and word.start_position == mine.other_position:
        return _fail(mine.merge, mine.other, word.reason or f"{mine.other!r} gave it up")
    if other.pending_merge is not None and _is_same_merge(mine, other.pending_merge):
        over = other.is_ended or gone
        why = f"{mine.other!r} ended before it took this run in"
        return _fail(mine.merge, mine.other, why) if over else None
    if not recalled:
        return Move("recall", other.run)
    said = word.reason if word is not None else ""
    return _fail(mine.merge, mine.other, said or f"{mine.other!r} gave it up")


def state_for_merge(state: CrewState, op: str) -> CrewState:
    """What of another run's state `next_move` needs, and nothing else of it.

    What is looked at is in the history of the run that looks; and whoever may signal a run can have
    it look at any other one.

    Args:
        state: The other run.
        op: The merge.
    """
    mine = state.pending_merge
    if mine is not None and mine.merge != op:  # that it is busy is all that matters
        mine = mine.model_copy(update={"operation": None, "by": ""})
    changing = state.pending_change
    if changing is not None:
        changing = changing.model_copy(update={"what": "", "by": ""})
    last = [key for key, word in state.merges.items() if word.outcome == "merged"][-1:]
    told = {op, *(last if state.surviving_run is not None else ())}
    return CrewState(
        run=state.run,
        position=state.position,
        status=state.status,
        started_at=state.started_at,
        pending_change=changing,
        pending_merge=mine,
        merges={key: word for key, word in state.merges.items() if key in told},
    )


# -- outcomes --------------------------------------------------------------------------------


def outcome_changes(state: CrewState, op: str, outcome: MergeOutcome) -> dict[str, Any]:
    """What is otherwise in a run once a merge has ended for it, as a change of its state."""
    mine = state.pending_merge
    if mine is not None and mine.merge == op:
        outcome, mine = outcome.model_copy(update={"start_position": mine.position}), None
    kept = [*((k, v) for k, v in state.merges.items() if k != op), (op, outcome)]
    return {"merges": dict(kept[-KEPT:]), "pending_merge": mine}


def recall(
    other: CrewState, op: str, position: int | None, renamed: tuple[Rename, ...] = ()
) -> CrewState:
    """A run's state that tells of a merge as its journal does: for `next_move`.

    Args:
        other: The run.
        op: The merge.
        position: Where its journal has the `RunMerged` of it; none: nowhere.
        renamed: What of the run that it took in has another name since, by that entry: its state
            does not keep that.
    """
    if position is None:
        return other
    merged = MergeOutcome(outcome="merged", other=other.run, position=position, renames=renamed)
    return other.model_copy(update={"merges": {**other.merges, op: merged}})
