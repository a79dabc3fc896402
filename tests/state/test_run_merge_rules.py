"""The rules of a run merge: what a run requests, answers, and records by itself.

`test_run_merge_protocol.py` simulates runs that follow them.
"""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import ChangeConflict, CommandRejected, CrewlogError
from crewlog.ids import CommandId, ContentHash, StepId, merge_id
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState, MergeOutcome, PendingChange
from crewlog.state.run_merge import protocol
from crewlog.state.run_merge.protocol import (
    DRAIN_TIMEOUT,
    FREEZE_TIMEOUT,
    MAX_READ_INTERVAL,
    READ_INTERVAL,
    REQUEST_TIMEOUT,
    Refusal,
    RunSize,
)
from state.run_merge_states import (
    CHANGE,
    NOW,
    ONE,
    TWO,
    A,
    B,
    C,
    M,
    accept,
    advance,
    answer,
    freeze,
    freeze_requester,
    merge_runs,
    new_run,
    pending,
    request_merge,
    states,
    status,
)

# -- both ways of a merge ----------------------------------------------------------------------


def test_a_run_that_survives_asks_the_other_one_to_freeze() -> None:
    a = request_merge()
    assert (status(a), a.commands["x"].ok, a.is_draining) == ("coordinating", True, False)
    b = accept(new_run("b"), a)
    assert (status(b), pending(b).operation, b.is_draining) == ("draining", {"op": "t"}, True)
    assert protocol.next_entry(b, NOW, has_drained=False) is None
    b = advance(b)
    assert (status(b), pending(b).frozen_position) == ("frozen", b.position)
    assert protocol.is_frozen_for(b, A, M, pending(a).position, a.started_at)
    assert protocol.may_merge(a, M)
    a = merge_runs(a, b)
    assert not protocol.may_merge(a, M)
    end = protocol.find_outcome(b, a)
    assert isinstance(end, j.RunEndedByMerge)
    assert (end.run, end.position) == (A, a.merges[M].position)
    b = fold(b, end)
    assert (b.status, b.is_ended, b.surviving_run, b.pending_merge) == ("merged", True, A, None)
    assert protocol.find_outcome(b, a) is None


def test_a_run_that_is_merged_asks_the_other_one_to_coordinate() -> None:
    a = request_merge(survives=False)
    assert (status(a), a.commands["x"].ok, a.is_draining) == ("requested", True, False)
    entered_at = pending(a).position
    b = accept(new_run("b"), a, size=TWO)
    assert (status(b), b.is_draining) == ("coordinating", False)
    a = accept(a, b)
    assert (status(a), pending(a).position, a.is_draining) == ("draining", entered_at, True)
    a = advance(a)
    assert protocol.is_frozen_for(a, B, M, pending(b).position, b.started_at)
    assert pending(a).requester == pending(b).requester == A
    assert isinstance(protocol.find_outcome(a, merge_runs(b, a)), j.RunEndedByMerge)


# -- requests ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("survives", "limit"), [(True, FREEZE_TIMEOUT), (False, REQUEST_TIMEOUT)])
def test_a_request_names_the_merge_its_deadline_and_the_size_of_the_run(
    survives: bool, limit: int
) -> None:
    entry = protocol.merge_request(
        new_run("a"),
        B,
        CommandId("x"),
        survives=survives,
        at=NOW,
        operation={"op": "t"},
        what="connect",
        size=RunSize(3, has_flow=True),
        request={"command": "x"},
        by="ann",
        reason="why not",
    )
    assert (entry.merge, entry.other, entry.command) == (M, B, "x")
    assert entry.status == ("coordinating" if survives else "requested")
    assert (entry.at, entry.deadline) == (NOW, NOW + limit)
    assert (entry.agents, entry.has_flow, entry.request) == (3, True, {"command": "x"})
    assert (entry.operation, entry.what) == ({"op": "t"}, "connect")
    assert (entry.by, entry.reason) == ("ann", "why not")


@pytest.mark.parametrize(
    ("own", "other", "kind", "why"),
    [
        (new_run("a"), "a", CommandRejected, "with itself"),
        (new_run("a", j.Paused()), "b", CommandRejected, "paused"),
        (new_run("a", j.StopRequested()), "b", CommandRejected, "stopping"),
        (new_run("a", j.RunCompleted()), "b", CommandRejected, "completed"),
        (request_merge(), "c", ChangeConflict, "merge with 'b'"),
        (new_run("a", CHANGE), "b", ChangeConflict, "graph v2"),
    ],
)
def test_a_run_that_cannot_request_a_merge_says_why(
    own: CrewState, other: str, kind: type[CrewlogError], why: str
) -> None:
    with pytest.raises(kind, match=why) as refused:
        request_merge(other=other, own=own)
    assert refused.value.remedy


def test_a_run_in_a_merge_accepts_no_other_change() -> None:
    protocol.check_no_merge(new_run("a"))
    for state in (*freeze(), *freeze_requester()):
        with pytest.raises(ChangeConflict, match="is about to merge with"):
            protocol.check_no_merge(state)


def test_a_description_says_what_a_run_waits_for() -> None:
    a, b = freeze()
    texts = {
        protocol.merge_description(pending(each))
        for each in (request_merge(survives=False), a, accept(new_run("b"), a), b)
    }
    assert texts == {
        "asked b to merge: waits for its answer",
        "takes over the agents of b: waits until that has drained",
        "merges into a: drains first",
        "merges into a: waits for the outcome",
    }


# -- answers -----------------------------------------------------------------------------------


@pytest.mark.parametrize("survives", [True, False], ids=["freeze", "coordinate"])
def test_a_run_records_what_it_accepts(survives: bool) -> None:
    a = request_merge(survives=survives, by="ann", request={"command": "x"})
    size = ONE if survives else RunSize(2, has_flow=True)
    (entry,) = answer(new_run("b"), a, at=NOW + 7, size=size)
    assert isinstance(entry, j.MergeAccepted)
    assert (entry.merge, entry.other, entry.requester) == (M, A, A)
    assert entry.status == ("draining" if survives else "coordinating")
    limit = DRAIN_TIMEOUT if survives else FREEZE_TIMEOUT
    assert (entry.at, entry.deadline) == (NOW + 7, NOW + 7 + limit)
    assert (entry.other_position, entry.other_started_at) == (pending(a).position, a.started_at)
    assert (entry.operation, entry.request, entry.by) == ({"op": "t"}, {"command": "x"}, "ann")
    assert (entry.agents, entry.has_flow) == size


def test_a_run_accepts_a_request_once() -> None:
    for own, other in (freeze(), freeze_requester(), freeze()[::-1], freeze_requester()[::-1]):
        assert answer(own, other) == ()
        assert answer(own, None) == ()


@pytest.mark.parametrize(
    ("a", "b", "survivor"),
    [
        ((1, False), (1, False), "a"),  # the smaller id
        ((1, False), (2, False), "b"),  # the one with more agents
        ((2, False), (1, False), "a"),
        ((1, True), (9, False), "a"),  # the one with a flow
        ((9, False), (1, True), "b"),
    ],
)
def test_the_survivor_has_the_flow_or_more_agents_or_the_smaller_id(
    a: tuple[int, bool], b: tuple[int, bool], survivor: str
) -> None:
    right = request_merge(survives=survivor == "a", size=RunSize(*a))
    wrong = request_merge(survives=survivor != "a", size=RunSize(*a))
    accepted = accept(new_run("b"), right, size=RunSize(*b))
    assert status(accepted) == ("coordinating" if survivor == "b" else "draining")
    refusal = answer(new_run("b"), wrong, size=RunSize(*b))
    assert refusal == Refusal("'b' was changed since the request: retry", may_retry=True)


MERGED = new_run("b", j.RunEndedByMerge(merge="z", run=C, position=9))
OVER = "the request of 'a' is over"


@pytest.mark.parametrize(
    ("own", "other", "why", "may_retry"),
    [
        ({}, {"status": "completed"}, OVER, False),
        ({"merges": {M: MergeOutcome(outcome="failed", other=A, position=3)}}, {}, OVER, False),
        ({"status": "merged", "merges": MERGED.merges}, {}, "merged into 'c': name that", False),
        ({"status": "failed"}, {}, "'b' has ended (failed): `crewlog resume`", False),
        ({"status": "stopping"}, {}, "'b' is being stopped", False),
        ({}, {"status": "stopping"}, "'a' is being stopped", False),
        ({"status": "paused"}, {}, "'b' is paused: resume it, and retry", False),
        (
            {
                "pending_change": PendingChange(
                    command="c", graph_version=2, definition=ContentHash("d")
                )
            },
            {},
            "'b' is about to swap to graph v2: retry",
            True,
        ),
    ],
)
@pytest.mark.parametrize("survives", [True, False], ids=["freeze", "coordinate"])
def test_a_run_that_cannot_merge_refuses(
    survives: bool, own: dict[str, Any], other: dict[str, Any], why: str, may_retry: bool
) -> None:
    asking, asked = request_merge(survives=survives), new_run("b")
    size = ONE if survives else TWO
    assert accept(asked, asking, size=size)
    refusal = answer(asked.model_copy(update=own), asking.model_copy(update=other), size=size)
    assert isinstance(refusal, Refusal)
    assert why in refusal.reason
    assert refusal.may_retry == may_retry


def test_a_run_refuses_a_request_whose_deadline_has_passed() -> None:
    for survives, limit in ((True, FREEZE_TIMEOUT), (False, REQUEST_TIMEOUT)):
        a, size = request_merge(survives=survives), ONE if survives else TWO
        assert isinstance(answer(new_run("b"), a, at=NOW + limit - 1, size=size), tuple)
        assert answer(new_run("b"), a, at=NOW + limit, size=size) == Refusal(OVER)


def test_two_runs_with_a_flow_do_not_merge() -> None:
    a = request_merge(size=RunSize(1, has_flow=True))
    refusal = answer(new_run("b"), a, size=RunSize(1, has_flow=True))
    assert "both 'b' and 'a' have a flow" in refusal.reason
    assert not refusal.may_retry


def test_a_run_refuses_a_request_that_is_not_stored() -> None:
    a, b = freeze()
    for own, other in (
        (new_run("b"), None),
        (new_run("b"), new_run("a")),
        (new_run("b"), request_merge("a", "c")),
        (new_run("c"), a),  # it asks another run
        (new_run("a"), b),  # it does not ask
        (new_run("a"), accept(new_run("b"), a)),
    ):
        refusal = answer(own, other)
        assert "the journal of the other run has no such request" in refusal.reason
        assert not refusal.may_retry
    assert "no such request" in answer(new_run("b"), a, "a/another").reason


def test_a_run_refuses_a_request_to_the_run_that_had_its_id() -> None:
    a, b = freeze_requester()
    again = new_run("a").model_copy(update={"started_at": a.started_at + 1})
    assert answer(again, b) == Refusal("the id 'a' now belongs to another run")


@pytest.mark.parametrize("survives", [True, False], ids=["freeze", "coordinate"])
def test_a_run_in_another_merge_refuses_for_now(survives: bool) -> None:
    asking = request_merge(survives=survives)
    by_c = request_merge("c")
    merge = merge_id(C, CommandId("x"))
    busy = [
        request_merge("b", "c"),
        accept(new_run("b"), by_c, merge, size=RunSize(0, has_flow=False)),
        *(() if survives else (request_merge("b", "c", survives=False),)),
        *(() if survives else (request_merge("b", "a"), request_merge("b", "a", survives=False))),
    ]
    for own in busy:
        refusal = answer(own, asking, size=ONE if survives else TWO)
        assert "'b' is about to merge with" in refusal.reason
        assert refusal.may_retry


@pytest.mark.parametrize(
    "own",
    [
        request_merge("b", "c", survives=False),
        request_merge("b", "a", survives=False),
        request_merge("b", "a"),  # of two coordinators that ask each other
    ],
)
def test_a_run_gives_its_own_request_up_to_freeze(own: CrewState) -> None:
    failed, accepted = answer(own, request_merge())
    assert isinstance(failed, j.MergeFailed)
    assert (failed.merge, failed.other) == (pending(own).merge, pending(own).other)
    assert "'b' merges by a request of 'a': retry" in failed.reason
    assert failed.may_retry
    assert (accepted.merge, accepted.status) == (M, "draining")
    after = accept(own, request_merge())
    assert (pending(after).merge, after.merges[failed.merge].outcome) == (M, "failed")


def test_of_two_coordinators_the_one_that_survives_does_not_freeze() -> None:
    a, b = request_merge(size=TWO), request_merge("b", "a")
    assert [type(each) for each in answer(b, a)] == [j.MergeFailed, j.MergeAccepted]
    refusal = answer(a, b, merge_id(B, CommandId("x")), size=TWO)
    assert refusal == Refusal("'a' was changed since the request: retry", may_retry=True)


# -- the own merge -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("which", "limit", "why"),
    [
        (
            "requested",
            REQUEST_TIMEOUT,
            "'b' did not answer within 60 s: check that it has a worker",
        ),
        ("coordinating", FREEZE_TIMEOUT, "'b' did not drain within 90 s: check that it has a work"),
        ("draining", DRAIN_TIMEOUT, "its calls in flight did not complete within 60 s: retry when"),
    ],
)
def test_each_status_but_frozen_has_a_deadline(which: str, limit: int, why: str) -> None:
    own = states()[which]
    assert protocol.next_read_at(own, NOW) == NOW + limit
    assert protocol.next_entry(own, NOW + limit - 1, has_drained=False) is None
    for has_drained in (True, False):
        entry = protocol.next_entry(own, NOW + limit, has_drained=has_drained)
        assert isinstance(entry, j.MergeFailed)
        assert (entry.merge, entry.other) == (M, pending(own).other)
        assert why in entry.reason
        assert entry.may_retry
        after = fold(own, entry)
        assert (after.pending_merge, after.is_draining) == (None, False)


def test_a_run_names_the_turns_that_did_not_end() -> None:
    entry = protocol.next_entry(
        states()["draining"],
        NOW + DRAIN_TIMEOUT,
        has_drained=False,
        ending_turns=[StepId("x#1"), StepId("y#2")],
    )
    assert isinstance(entry, j.MergeFailed)
    assert "the turns x#1, y#2 of removed agents did not end in 60 s" in entry.reason
    assert "crewlog show" in entry.reason


def test_a_frozen_run_records_nothing_by_itself() -> None:
    frozen = states()["frozen"]
    for own in (frozen, fold(frozen, j.StopRequested())):
        for at in (NOW, NOW + DRAIN_TIMEOUT, NOW + 10**9):
            assert protocol.next_entry(own, at, has_drained=True) is None
    assert protocol.merge_failed(frozen, Refusal("why")) is None


def test_a_run_without_a_merge_records_nothing() -> None:
    ended = states()["coordinating"].model_copy(update={"status": "failed"})
    for own in (new_run("a"), ended):
        assert protocol.next_entry(own, NOW + 10**9, has_drained=True) is None
        assert protocol.merge_failed(own, Refusal("why")) is None
    assert protocol.next_read_at(new_run("a"), NOW) is None


def test_only_a_draining_run_freezes() -> None:
    for which in ("requested", "coordinating"):
        assert protocol.next_entry(states()[which], NOW, has_drained=True) is None
    entry = protocol.next_entry(states()["draining"], NOW, has_drained=True)
    assert entry == j.MergeFrozen(merge=M, other=A)


@pytest.mark.parametrize("which", ["requested", "coordinating", "draining"])
def test_a_run_that_is_stopped_gives_its_merge_up(which: str) -> None:
    entry = protocol.next_entry(fold(states()[which], j.StopRequested()), NOW, has_drained=True)
    assert isinstance(entry, j.MergeFailed)
    assert "is being stopped" in entry.reason
    assert not entry.may_retry


@pytest.mark.parametrize("which", ["coordinating", "draining"])
def test_a_run_that_is_paused_gives_its_merge_up(which: str) -> None:
    entry = protocol.next_entry(fold(states()[which], j.Paused()), NOW, has_drained=True)
    assert isinstance(entry, j.MergeFailed)
    assert "was paused: resume it, and retry" in entry.reason


def test_a_paused_run_may_wait_for_an_answer() -> None:
    """The merge fails when the coordinator asks it to freeze."""
    own = fold(states()["requested"], j.Paused())
    assert protocol.next_entry(own, NOW, has_drained=True) is None
    coordinator = accept(new_run("b"), states()["requested"], size=TWO)
    assert "'a' is paused: resume it" in answer(own, coordinator).reason


def test_a_refused_run_gives_its_merge_up() -> None:
    for which in ("requested", "coordinating", "draining"):
        own = states()[which]
        entry = protocol.merge_failed(own, Refusal("w" * 9_000, may_retry=True))
        assert entry is not None
        assert (entry.merge, entry.other, entry.reason) == (M, pending(own).other, "w" * 2_000)
        assert entry.may_retry
        assert fold(own, entry).merges[M].may_retry


def test_only_a_coordinator_that_runs_may_merge() -> None:
    for which, own in states().items():
        assert protocol.may_merge(own, M) == (which == "coordinating")
    own = states()["coordinating"]
    assert not protocol.may_merge(own, "a/another")
    assert not protocol.may_merge(new_run("a"), M)
    assert not protocol.may_merge(fold(own, j.Paused()), M)
    assert not protocol.may_merge(fold(own, j.StopRequested()), M)


def test_a_state_is_frozen_for_one_round_of_one_coordinator() -> None:
    a, b = freeze()
    entered_at, started_at = pending(a).position, a.started_at
    assert protocol.is_frozen_for(b, A, M, entered_at, started_at)
    assert not protocol.is_frozen_for(b, C, M, entered_at, started_at)
    assert not protocol.is_frozen_for(b, A, "a/another", entered_at, started_at)
    assert not protocol.is_frozen_for(b, A, M, entered_at + 1, started_at)
    assert not protocol.is_frozen_for(b, A, M, entered_at, started_at + 1)
    draining = states()["draining"]
    assert not protocol.is_frozen_for(draining, A, M, entered_at, started_at)
    assert not protocol.is_frozen_for(new_run("b"), A, M, entered_at, started_at)


def test_a_frozen_run_reads_again_after_growing_intervals() -> None:
    frozen = states()["frozen"]
    read_at, count = NOW, 0
    while read_at < NOW + 24 * 3_600_000:
        again = protocol.next_read_at(frozen, read_at)
        assert again is not None
        assert READ_INTERVAL <= again - read_at <= MAX_READ_INTERVAL
        read_at, count = again, count + 1
    assert count < 200
    assert protocol.next_read_at(frozen, NOW) == NOW + READ_INTERVAL
