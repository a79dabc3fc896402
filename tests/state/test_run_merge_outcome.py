"""The outcome of a run merge: what follows from the coordinator's state, and what a state keeps."""

from __future__ import annotations

import pytest

from crewlog.errors import CrewlogError
from crewlog.ids import ContentHash, StepId
from crewlog.state import journal as j
from crewlog.state.components import Rename
from crewlog.state.fold import fold
from crewlog.state.model import CrewState, MergeOutcome, PendingChange, PendingMerge
from crewlog.state.restore import fork_state, reopen_point, reopen_state, rollback_state
from crewlog.state.run_merge import protocol
from crewlog.state.run_merge.protocol import (
    OUTCOMES_KEPT,
)
from state.run_merge_states import (
    TWO,
    A,
    B,
    C,
    M,
    accept,
    fail,
    freeze,
    freeze_requester,
    merge_runs,
    new_run,
    pending,
    states,
    with_pending,
)

# -- the outcome -------------------------------------------------------------------------------


def forget(state: CrewState) -> CrewState:
    """A coordinator that keeps no outcome any more."""
    later = {"pending_merge": None, "merges": {}, "position": state.position + 9}
    return state.model_copy(update=later)


@pytest.mark.parametrize("may_retry", [True, False])
@pytest.mark.parametrize("which", ["requested", "draining", "frozen"])
def test_a_merge_fails_as_the_coordinator_says(which: str, may_retry: bool) -> None:
    own = states()[which]
    coordinator = states()["coordinating"]
    if which == "requested":
        coordinator = accept(new_run("b"), own, size=TWO)
    entry = protocol.find_outcome(own, fail(coordinator, may_retry=may_retry))
    assert isinstance(entry, j.MergeFailed)
    assert (entry.merge, entry.reason, entry.may_retry) == (M, "no room", may_retry)
    assert protocol.find_outcome(own, coordinator) is None


def test_a_coordinator_reads_no_outcome() -> None:
    a, b = freeze()
    assert protocol.find_outcome(a, fail(accept(new_run("b"), a))) is None
    assert protocol.find_outcome(a, None, gone=True) is None
    assert protocol.find_outcome(a, b, gone=True) is None


@pytest.mark.parametrize("which", ["requested", "draining", "frozen"])
def test_a_run_that_does_not_exist_ends_a_merge(which: str) -> None:
    own = states()[which]
    assert protocol.find_outcome(own, None) is None
    entry = protocol.find_outcome(own, None, gone=True)
    assert isinstance(entry, j.MergeFailed)
    assert f"there is no run {pending(own).other!r}: `crewlog ps`" in entry.reason


def test_the_state_of_a_third_run_decides_nothing() -> None:
    for own in states().values():
        assert protocol.find_outcome(own, new_run("c"), gone=True, recalled=True) is None


@pytest.mark.parametrize("which", ["draining", "frozen"])
def test_a_coordinator_that_ended_before_the_merge_ends_it(which: str) -> None:
    own, a = states()[which], states()["coordinating"]
    ended = a.model_copy(update={"status": "stopped"})
    for entry in (
        protocol.find_outcome(own, a, gone=True),
        protocol.find_outcome(own, ended),
    ):
        assert isinstance(entry, j.MergeFailed)
        assert entry.reason == "'a' ended before the merge"
    assert protocol.find_outcome(own, a) is None


@pytest.mark.parametrize("which", ["draining", "frozen"])
def test_another_run_with_the_id_of_the_coordinator_ends_the_merge(which: str) -> None:
    own, a = states()[which], states()["coordinating"]
    another = new_run("a").model_copy(update={"started_at": a.started_at + 1})
    entry = protocol.find_outcome(own, another)
    assert isinstance(entry, j.MergeFailed)
    assert entry.reason == "the id 'a' now belongs to another run"


def test_a_state_from_before_the_round_decides_nothing() -> None:
    _, b = freeze()
    before = new_run("a")
    assert before.position < pending(b).other_position
    for recalled in (False, True):
        assert protocol.find_outcome(b, before, recalled=recalled) is None


def test_an_outcome_that_is_not_kept_is_searched_in_the_journal() -> None:
    a, b = freeze()
    merged = merge_runs(a, b)
    renames = (Rename(kind="agent", run=B, was="x", now="y"),)
    outcome = merged.merges[M].model_copy(update={"renames": renames})
    forgot = forget(merged)
    assert protocol.find_outcome(b, forgot) == "recall"
    end = protocol.find_outcome(b, protocol.recall(forgot, M, outcome), recalled=True)
    assert isinstance(end, j.RunEndedByMerge)
    assert (end.position, end.renames) == (outcome.position, renames)
    entry = protocol.find_outcome(b, protocol.recall(forgot, M, None), recalled=True)
    assert isinstance(entry, j.MergeFailed)
    assert entry.reason == "'a' gave the merge up"


def test_the_outcome_of_another_round_decides_nothing() -> None:
    a, b = freeze()
    failed = fail(a).merges[M].model_copy(update={"start_position": 19, "position": 20})
    other_round = forget(a).model_copy(update={"merges": {M: failed}})
    assert protocol.find_outcome(b, other_round) == "recall"
    assert protocol.find_outcome(b, with_pending(a, position=19)) == "recall"
    unaware = with_pending(b, other_position=0)
    assert protocol.find_outcome(unaware, a) == "recall"


def test_a_frozen_run_ends_only_by_its_own_merge() -> None:
    a, b = freeze()
    merged = merge_runs(a, b)
    outcome = merged.merges[M]
    for changes in ({"merged_position": 99}, {"merged_started_at": b.started_at + 1}):
        another = {"merges": {M: outcome.model_copy(update=changes)}}
        entry = protocol.find_outcome(b, merged.model_copy(update=another))
        assert isinstance(entry, j.MergeFailed)
        assert entry.reason == "'a' merged another run with the id 'b'"
    # One from before the round says nothing of it.
    earlier = {"position": 1, "merged_position": 99, "start_position": 0}
    before = a.model_copy(update={"merges": {M: outcome.model_copy(update=earlier)}})
    assert protocol.find_outcome(b, before) is None


# -- what a run sees of another one ------------------------------------------------------------


def test_a_run_sees_of_another_one_only_what_the_merge_needs() -> None:
    """The history of the reading run has it, and an update can make a run read any other."""
    secret = "between us"
    change = PendingChange(command=secret, graph_version=2, definition=ContentHash("d"))
    mine = PendingMerge(
        merge="theirs",
        other=C,
        status="requested",
        operation={"op": secret},
        requester=B,
        position=3,
        by=secret,
    )
    others = {
        merge: MergeOutcome(outcome=outcome, other=C, position=3, reason=secret)
        for merge, outcome in (("first", "merged"), ("second", "failed"), ("third", "merged"))
    }
    own = MergeOutcome(outcome="failed", other=A, position=4, reason="it is busy")
    state = new_run("b").model_copy(
        update={
            "flags": {"key": secret},
            "pending_merge": mine,
            "pending_change": change,
            "merges": {**others, M: own},
        }
    )
    visible = protocol.state_for_merge(state, M)
    assert secret not in visible.model_dump_json()
    assert (visible.merges, visible.pending_merge) == ({M: own}, None)
    assert (visible.run, visible.position) == (B, state.position)
    assert (visible.status, visible.started_at) == (state.status, state.started_at)
    assert protocol.state_for_merge(state, "theirs").pending_merge == mine
    # The merge by which it ended names the run that survives.
    ended = state.model_copy(update={"status": "merged", "pending_merge": None})
    assert {*protocol.state_for_merge(ended, M).merges} == {M, "third"}


# -- the state ---------------------------------------------------------------------------------


def test_a_state_with_a_merge_is_read_as_it_was_written() -> None:
    assert not {"pending_merge", "merges"} & new_run("a").to_json().keys()
    a, b = freeze()
    for each in (a, b, *freeze_requester(), fail(a), merge_runs(a, b)):
        assert CrewState.from_json(each.to_json()) == each


def test_an_outcome_names_the_round() -> None:
    a, b = freeze()
    assert fail(a).merges[M].start_position == pending(a).position
    assert merge_runs(a, b).merges[M].start_position == pending(a).position
    # Of another merge, the run was never in it.
    failed = fold(a, j.MergeFailed(merge="o", other=C, reason="why"))
    assert (failed.merges["o"].start_position, failed.pending_merge) == (0, a.pending_merge)


def test_the_last_outcomes_are_kept_in_order() -> None:
    state = new_run("a")
    for number in range(OUTCOMES_KEPT + 5):
        state = fold(state, j.MergeFailed(merge=f"o{number}", other=B, reason="w" * 9_000))
    assert list(state.merges) == [f"o{number}" for number in range(5, OUTCOMES_KEPT + 5)]
    assert len(state.merges["o9"].reason) <= 500


def test_an_outcome_that_is_recorded_again_becomes_the_last_one() -> None:
    state = new_run("a")
    for merge in ("o1", "o2", "o1"):
        state = fold(state, j.MergeFailed(merge=merge, other=B, reason="why"))
    assert list(state.merges) == ["o2", "o1"]


def test_a_rollback_keeps_outcomes_and_a_fork_gets_none() -> None:
    a, b = freeze()
    done = merge_runs(a, b).model_copy(update={"merged_runs": {B: ()}})
    back = rollback_state(done, new_run("a")).state
    assert (back.merges, back.merged_runs) == (done.merges, {B: ()})
    assert rollback_state(new_run("a"), a).state.pending_merge is None
    copy = fork_state(a.model_copy(update={"merged_runs": {B: ()}}), C).state
    assert (copy.pending_merge, copy.merges, copy.merged_runs) == (None, {}, {})
    assert reopen_state(a).pending_merge == a.pending_merge


def test_a_merged_run_is_not_reopened() -> None:
    _, b = freeze()
    tail = [(b.position + 1, j.RunEndedByMerge(merge=M, run=A, position=9))]
    with pytest.raises(CrewlogError, match="part of the run 'a'") as refused:
        reopen_point(B, tail)
    assert "crewlog show a" in refused.value.remedy


def test_a_decision_that_ended_a_run_is_found_though_its_merge_failed() -> None:
    failed = j.MergeFailed(merge=M, other=B, reason="it ended first", transaction=8)
    done = j.StepCompleted(step=StepId("decide_1#1"))
    end = j.RunFailed(error="no", transaction=8)
    found = reopen_point(A, [(8, done), (9, failed), (10, end)])
    assert found == reopen_point(A, [(8, done), (9, end)])
    assert (found.position, found.decision) == (7, "decide_1#1")
