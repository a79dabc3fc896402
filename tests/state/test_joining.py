"""Two runs that become one: what follows for each from what is stored of the other."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from crewlog.errors import ChangeConflict, CommandRejected
from crewlog.ids import CommandId, ContentHash, RunId, merge_id
from crewlog.state import journal as j
from crewlog.state.fold import fold, fold_journal
from crewlog.state.model import CrewState, MergeOutcome, PendingChange, PendingMerge
from crewlog.state.restore import fork_state, reopen_point, reopen_state, rollback_state
from crewlog.state.run_merge import protocol
from crewlog.state.run_merge.protocol import (
    DRAIN_TIMEOUT,
    MAX_READ_INTERVAL,
    OFFER_TIMEOUT,
    OUTCOMES_KEPT,
    READ_INTERVAL,
    REQUEST_TIMEOUT,
    Move,
    next_move,
)
from state.merging_world import SETTLES, Broken, NextMove, Run, World, explore, mess

SCHEDULES = 20_000
A, B, C = RunId("a"), RunId("b"), RunId("c")
OP = merge_id(A, CommandId("x"))
NOW = 1_000_000


def begun(run: str, *facts: j.JournalEntry) -> CrewState:
    start = j.RunStarted(at=5, run=RunId(run), crew="t", definition="d")  # type: ignore[arg-type]
    return fold_journal(RunId(run), [start, *facts])


def asks(run: str = "a", other: str = "b", *, at: int = NOW, **more: Any) -> CrewState:
    own = begun(run)
    fields: dict[str, Any] = {"what": "connect", "agents": 1, "has_flow": False, **more}
    command = CommandId("x")
    request = protocol.merge_request(
        own, RunId(other), command, at=at, operation={"op": "t"}, **fields
    )
    return fold(own, request)


def go(own: CrewState, other: CrewState | None, op: str = OP, at: int = NOW, **how: Any) -> Any:
    """The next move, and the state after it."""
    how = {"has_drained": True, "agents": 1, **how}
    move = next_move(own, other, op, at, **how)
    if move is None or move.entry is None:
        return move, own
    return move, fold(own, move.entry.model_copy(update={"at": at}))


def agreed(**asked: Any) -> tuple[CrewState, CrewState]:
    """`a` has asked, and takes `b` in, which has offered itself; or the other way round."""
    a = asks(**asked)
    _, b = go(begun("b"), a)
    _, a = go(a, b)
    _, b = go(b, a)
    _, a = go(a, b)
    return a, b


def stage(state: CrewState) -> str:
    return state.pending_merge.status if state.pending_merge is not None else ""


# -- what follows ------------------------------------------------------------------------------


def test_two_runs_become_one_by_five_facts() -> None:
    a = asks()
    assert (stage(a), a.commands["x"].ok) == ("requested", True)
    move, b = go(begun("b"), a)
    assert (type(move.entry), move.to, stage(b)) == (j.MergeAccepted, A, "draining")
    assert b.pending_merge is not None
    assert b.pending_merge.operation == {"op": "t"}
    waits, _ = go(b, a, has_drained=False)
    assert waits is None
    move, b = go(b, a)
    assert (type(move.entry), stage(b)) == (j.MergeOffered, "offered")
    assert b.is_draining
    assert not a.is_draining
    assert go(b, a)[0] is None
    move, a = go(a, b)
    assert (type(move.entry), stage(a)) == (j.MergeAccepted, "surviving")
    assert go(a, b)[0] == Move("merge", B)
    assert protocol.may_merge(a, OP)
    word = MergeOutcome(outcome="merged", other=B, position=40)
    a = a.model_copy(update=protocol.outcome_changes(a, OP, word))
    assert not protocol.may_merge(a, OP)
    move, b = go(b, a)
    assert (type(move.entry), move.entry.position) == (j.RunEndedByMerge, 40)
    assert (b.status, b.is_ended, b.surviving_run, b.pending_merge) == ("merged", True, A, None)
    assert next_move(b, a, OP, NOW, has_drained=True) is None


@pytest.mark.parametrize(
    ("a", "b", "stays"),
    [
        ((1, False), (1, False), "a"),  # the smaller id
        ((1, False), (2, False), "b"),  # the one with more creatures
        ((2, False), (1, False), "a"),
        ((1, True), (9, False), "a"),  # the one with a flow
        ((9, False), (1, True), "b"),
    ],
)
def test_which_run_takes_the_other_one_in(
    a: tuple[int, bool], b: tuple[int, bool], stays: str
) -> None:
    asking = asks(agents=a[0], has_flow=a[1])
    _, asked = go(begun("b"), asking, agents=b[0], has_flow=b[1])
    assert stage(asked) == ("surviving" if stays == "b" else "draining")
    _, asking = go(asking, asked)
    assert stage(asking) == ("surviving" if stays == "a" else "draining")


@pytest.mark.parametrize(
    ("own", "how", "why"),
    [
        (begun("b"), {"has_flow": True}, "have a flow"),
        (begun("b"), {"refusal": "nobody is called z"}, "nobody is called z"),
        (begun("b", j.Paused()), {}, "is paused"),
    ],
)
def test_a_run_that_refuses_says_why_and_was_never_in_it(
    own: CrewState, how: dict[str, Any], why: str
) -> None:
    a = asks(has_flow=True)
    move, b = go(own, a, **how)
    assert isinstance(move.entry, j.MergeFailed)
    assert why in b.merges[OP].reason
    assert (b.pending_merge, b.merges[OP].start_position) == (None, 0)
    assert go(b, a)[0] is None  # once
    move, a = go(a, b)
    assert isinstance(move.entry, j.MergeFailed)
    assert why in a.merges[OP].reason


@pytest.mark.parametrize(
    "own",
    [
        begun("b", j.ChangeAccepted(graph_version=2, definition="e")),  # type: ignore[arg-type]
        asks("b", "c", at=NOW - 1),
        go(begun("b"), asks("c"), merge_id(C, CommandId("x")))[1],
    ],
)
def test_a_run_that_is_busy_leaves_a_request_waiting(own: CrewState) -> None:
    a = asks()
    assert go(own, a)[0] is None
    move, a = go(a, own, at=NOW + REQUEST_TIMEOUT)
    assert isinstance(move.entry, j.MergeFailed)
    assert "did not answer within 60 s" in a.merges[OP].reason


@pytest.mark.parametrize("crosses", [True, False])
def test_a_run_gives_its_own_request_up_for_an_earlier_one(crosses: bool) -> None:
    a, b = asks(at=NOW - 1), asks("b", "a" if crosses else "c")
    own = merge_id(B, CommandId("x"))
    assert go(a, b, own)[0] is None
    move, b = go(b, a)
    assert (type(move.entry), move.entry.merge) == (j.MergeFailed, own)
    move, b = go(b, a)
    assert (type(move.entry), stage(b)) == (j.MergeAccepted, "draining")


def test_a_hint_of_a_stranger_means_nothing() -> None:
    a, b = agreed()
    assert next_move(a, asks("c", "b"), OP, NOW, has_drained=True) is None
    assert next_move(begun("c"), a, OP, NOW, has_drained=True) is None
    assert next_move(begun("b"), a, "a/other", NOW, has_drained=True) is None
    assert protocol.run_to_read(a, OP, C) == B
    assert protocol.run_to_read(b, "c/other", C) == C


@pytest.mark.parametrize("which", ["requested", "draining", "surviving"])
@pytest.mark.parametrize(
    ("update", "how", "why"),
    [
        ({"status": "completed"}, {}, "has ended (completed)"),
        ({"status": "stopping"}, {}, "is being stopped"),
        ({}, {"gone": True}, "has ended (terminated)"),
        (
            {"merges": {OP: MergeOutcome(outcome="failed", other=A, position=9, reason="no room")}},
            {},
            "no room",
        ),
        (
            {
                "status": "merged",
                "merges": {"o": MergeOutcome(outcome="merged", other=C, position=9)},
            },
            {},
            "merged into 'c'",
        ),
    ],
)
def test_a_merge_fails_at_once_where_the_other_run_cannot_go_on(
    which: str, update: dict[str, Any], how: dict[str, Any], why: str
) -> None:
    a = asks()
    b = begun("b")
    if which != "requested":
        _, b = go(b, a)
    if which == "surviving":
        _, a = go(a, b)
    own, other = (b, a) if which == "draining" else (a, b)
    assert stage(own) == which
    move, after = go(own, other.model_copy(update=update), has_drained=False, **how)
    assert isinstance(move.entry, j.MergeFailed)
    assert why in after.merges[OP].reason
    assert after.pending_merge is None
    assert not after.is_draining


def test_a_run_that_is_not_there_is_told_from_one_that_is_not_stored_yet() -> None:
    assert go(asks(), None)[0] is None
    move, a = go(asks(), None, gone=True)
    assert isinstance(move.entry, j.MergeFailed)
    assert "there is no run 'b'" in a.merges[OP].reason


@pytest.mark.parametrize(
    ("which", "limit"),
    [("requested", REQUEST_TIMEOUT), ("draining", DRAIN_TIMEOUT), ("surviving", OFFER_TIMEOUT)],
)
def test_each_stage_but_the_offer_has_its_time(which: str, limit: int) -> None:
    a = asks()
    _, b = go(begun("b"), a)
    own, other = {
        "requested": (a, begun("b")),
        "draining": (b, a),
        "surviving": (go(a, b)[1], b),
    }[which]
    assert go(own, other, at=NOW + limit - 1, has_drained=False)[0] is None
    move, after = go(own, other, at=NOW + limit, has_drained=False)
    assert isinstance(move.entry, j.MergeFailed)
    assert f"within {limit // 1000} s" in after.merges[OP].reason


def test_an_offered_run_waits_for_as_long_as_it_takes() -> None:
    a, b = agreed()
    assert stage(b) == "offered"
    for later in (DRAIN_TIMEOUT, OFFER_TIMEOUT, 10**9):
        assert go(b, a, at=NOW + later)[0] is None
    over, _ = go(b, a, gone=True)
    assert isinstance(over.entry, j.MergeFailed)
    _, a = go(a, b, at=NOW + OFFER_TIMEOUT)
    move, b = go(b, a)
    assert isinstance(move.entry, j.MergeFailed)
    assert "did not drain within" in b.merges[OP].reason


def test_an_offered_run_believes_no_older_state_and_asks_the_journal() -> None:
    a, b = agreed()
    before = begun("a")  # of a look that took long
    assert before.position < a.position
    assert next_move(b, before, OP, NOW, has_drained=True) is None
    assert next_move(b, before, OP, NOW, has_drained=True, recalled=True) is None
    forgot = a.model_copy(update={"pending_merge": None, "position": a.position + 9})
    assert go(b, forgot)[0] == Move("recall", A)
    move, _ = go(b, protocol.recall(forgot, OP, 7), recalled=True)
    assert (type(move.entry), move.entry.position) == (j.RunEndedByMerge, 7)
    move, _ = go(b, protocol.recall(forgot, OP, None), recalled=True)
    assert isinstance(move.entry, j.MergeFailed)
    # What another round of the same merge came to says nothing of this one.
    other = MergeOutcome(outcome="failed", other=B, position=20, start_position=19)
    assert go(b, forgot.model_copy(update={"merges": {OP: other}}))[0] == Move("recall", A)
    another = forgot.model_copy(update={"started_at": 77, "position": 1})
    move, _ = go(b, another)
    assert isinstance(move.entry, j.MergeFailed)


@pytest.mark.parametrize("which", ["draining", "surviving"])
def test_a_run_tells_an_older_state_from_another_run_of_that_id(which: str) -> None:
    a = asks()
    _, b = go(begun("b"), a)
    _, a = go(a, b)
    own, other = (b, a) if which == "draining" else (a, b)
    before = begun(other.run)
    assert go(own, before, has_drained=False)[0] is None
    move, after = go(own, before.model_copy(update={"started_at": 77}), has_drained=False)
    assert isinstance(move.entry, j.MergeFailed)
    assert "now belongs to another run" in after.merges[OP].reason


def test_a_run_takes_nobody_in_who_offered_itself_in_another_round() -> None:
    a, b = agreed()
    assert a.pending_merge is not None
    assert b.pending_merge is not None
    for mine, theirs in (({"position": 9}, {}), ({}, {"position": 9}), ({}, {"other_position": 9})):
        a2 = a.model_copy(update={"pending_merge": a.pending_merge.model_copy(update=mine)})
        b2 = b.model_copy(update={"pending_merge": b.pending_merge.model_copy(update=theirs)})
        move, _ = go(a2, b2)
        assert isinstance(move.entry, j.MergeFailed)
    assert isinstance(go(a, b.model_copy(update={"status": "stopping"}))[0].entry, j.MergeFailed)


def test_a_run_that_is_stopped_or_paused_gives_a_merge_up() -> None:
    a = asks()
    _, b = go(begun("b"), a)
    for own, fact in ((a, j.StopRequested()), (b, j.StopRequested()), (b, j.Paused())):
        other = b if own is a else a
        assert isinstance(go(fold(own, fact), other)[0].entry, j.MergeFailed)
    stays, offered = agreed()
    assert go(fold(offered, j.StopRequested()), a)[0] is None  # the other one's word first
    assert protocol.may_merge(stays, OP)
    paused = fold(stays, j.Paused())
    # An agent would come to stand still.
    assert isinstance(go(paused, offered)[0].entry, j.MergeFailed)
    assert not protocol.may_merge(paused, OP)


# -- asking ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "other", "kind", "why"),
    [
        (begun("a"), "a", CommandRejected, "with itself"),
        (begun("a", j.Paused()), "b", CommandRejected, "paused"),
        (begun("a", j.StopRequested()), "b", CommandRejected, "stopping"),
        (begun("a", j.RunCompleted()), "b", CommandRejected, "completed"),
        (asks(), "c", ChangeConflict, "merge with 'b'"),
        (
            begun("a", j.ChangeAccepted(graph_version=2, definition="e")),  # type: ignore[arg-type]
            "b",
            ChangeConflict,
            "graph v2",
        ),
    ],
)
def test_who_may_not_ask_is_told_what_to_do(
    own: CrewState, other: str, kind: type[Exception], why: str
) -> None:
    with pytest.raises(kind, match=why) as refused:
        protocol.merge_request(
            own,
            RunId(other),
            CommandId("y"),
            at=NOW,
            operation=None,
            what="",
            agents=1,
            has_flow=False,
        )
    assert getattr(refused.value, "remedy", "")


def test_a_run_looks_every_ten_seconds_when_its_time_is_over_and_then_ever_more_rarely() -> None:
    assert protocol.next_read_at(begun("a"), NOW) is None
    a, b = agreed()
    assert protocol.next_read_at(a, NOW) == NOW + READ_INTERVAL
    assert protocol.next_read_at(a, NOW + OFFER_TIMEOUT - 1) == NOW + OFFER_TIMEOUT
    looked, count = NOW, 0
    while looked < NOW + 24 * 3_600_000:
        again = protocol.next_read_at(b, looked)
        assert again is not None
        assert READ_INTERVAL <= again - looked <= MAX_READ_INTERVAL
        looked, count = again, count + 1
    assert count < 200
    assert protocol.is_request_pending(asks())
    assert not protocol.is_request_pending(a)


# -- the state ---------------------------------------------------------------------------------


def test_a_state_without_merges_is_what_it_was() -> None:
    state = begun("a")
    assert not {"joining", "merges"} & state.to_json().keys()
    a, b = agreed()
    for each in (a, b, go(b, a, gone=True)[1]):
        assert CrewState.from_json(each.to_json()) == each


def test_the_last_outcomes_are_kept_in_order() -> None:
    state = begun("a")
    for number in range(OUTCOMES_KEPT + 5):
        state = fold(state, j.MergeFailed(merge=f"o{number}", other=B, reason="w" * 9_000))
    assert list(state.merges) == [f"o{number}" for number in range(5, OUTCOMES_KEPT + 5)]
    assert len(state.merges["o9"].reason) <= 500


def test_a_merge_does_not_come_back_and_nobody_else_gets_it() -> None:
    a, _ = agreed()
    merged = protocol.outcome_changes(a, OP, MergeOutcome(outcome="merged", other=B, position=9))
    done = a.model_copy(update={**merged, "merged_runs": {B: ()}})
    back = rollback_state(done, begun("a")).state
    assert (back.merges, back.merged_runs) == (done.merges, {B: ()})
    assert rollback_state(begun("a"), a).state.pending_merge is None
    copy = fork_state(a.model_copy(update={"merged_runs": {B: ()}}), C).state
    assert (copy.pending_merge, copy.merges, copy.merged_runs) == (None, {}, {})
    assert reopen_state(a).pending_merge == a.pending_merge


def test_a_run_that_is_part_of_another_one_is_not_taken_up_again() -> None:
    _, b = agreed()
    tail = [(b.position + 1, j.RunEndedByMerge(merge=OP, run=A, position=9))]
    with pytest.raises(Exception, match="part of the run 'a'") as refused:
        reopen_point(B, tail)
    assert "crewlog show a" in getattr(refused.value, "remedy", "")


def test_a_decision_that_ended_a_run_is_found_though_a_merge_failed_with_it() -> None:
    failed = j.MergeFailed(merge=OP, other=B, reason="it ended first", transaction=8)
    done = j.StepCompleted(step="decide_1#1")  # type: ignore[arg-type]
    end = j.RunFailed(error="no", transaction=8)
    found = reopen_point(A, [(8, done), (9, failed), (10, end)])
    assert found == reopen_point(A, [(8, done), (9, end)])
    assert (found.position, found.decision) == (7, "decide_1#1")


# -- whatever happens --------------------------------------------------------------------------


def dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311


def runs(names: str, rng: random.Random | None = None) -> list[Run]:
    sized = rng or dice(1)
    return [
        Run(name, sized.randrange(1, 4), flow=rng is not None and sized.random() < 0.15, at=at)
        for at, name in enumerate(names, 1)
    ]


def start(made: list[Run], **more: Any) -> World:
    world = World(made, **more)
    for run in made:
        world.work(run)
        world.flush(run)
    return world


def schedule(seed: int, move: NextMove = next_move) -> World:
    """Some runs ask each other, much goes wrong, and then nothing more."""
    rng = dice(seed)
    names = "abcde"[: rng.choice((2, 2, 3, 4, 5))]
    world = start(runs(names, rng), next_move=move)
    for at, name in enumerate(names):
        if rng.random() < 0.7:
            world.ask(world.runs[RunId(name)], RunId(names[(at + 1) % len(names)]))
    deaths, longest = rng.random() < 0.7, rng.choice((2_000, 20_000, 70_000))
    mess(world, rng, rng.randrange(10, 120), deaths=deaths, longest=longest)
    world.settle(SETTLES)
    return world


def test_no_schedule_leaves_a_creature_in_two_runs_or_in_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counts: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        # With few outcomes kept, what is forgotten matters, too.
        monkeypatch.setattr(protocol, "OUTCOMES_KEPT", 1 if seed % 2 else OUTCOMES_KEPT)
        try:
            world = schedule(seed)
        except Broken as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        counts.update(world.counts)
        counts["merged"] += world.merged
    assert counts["merged"] > SCHEDULES / 4
    assert counts["MergeFailed"] > SCHEDULES / 4


@pytest.mark.parametrize(
    ("ask", "deaths", "depth"), [("a", True, 11), ("a", False, 12), ("ab", True, 8)]
)
def test_two_runs_whatever_comes_next(ask: str, deaths: bool, depth: int) -> None:
    world = start(runs("ab"))
    for name in ask:
        world.ask(world.runs[RunId(name)], B if name == "a" else A)
    assert explore(world, depth, deaths=deaths) > 3_000


def test_of_runs_that_ask_in_a_ring_some_become_one() -> None:
    """Nobody dies, and what is lost is given again."""
    for seed in range(1_000):
        rng = dice(seed)
        names = "abcde"[: rng.choice((2, 3, 4, 5))]
        world = start(runs(names))
        ring = list(enumerate(names))
        rng.shuffle(ring)
        for at, name in ring:
            world.ask(world.runs[RunId(name)], RunId(names[(at + 1) % len(names)]))
            world.now += rng.randrange(2)
        for run in world.runs.values():
            world.flush(run)
            run.heard = [each for each in run.heard if rng.random() < 0.5]
        world.settle(SETTLES)
        assert world.merged, seed
        left = [run for run in world.runs.values() if run.at_work]
        assert sum(len(run.live.flags) for run in left) == len(names)
        # Each is as usable as before.
        if len(left) > 1:
            assert world.ask(left[0], left[1].name)
            world.settle(SETTLES)
            assert sum(run.at_work for run in left) == len(left) - 1


# -- that these can fail -----------------------------------------------------------------------


def _impatient(own: CrewState, other: Any, op: str, at: int, **how: Any) -> Move | None:
    """An offered run that gives up after a minute."""
    mine = own.pending_merge
    if (
        mine is not None
        and mine.merge == op
        and mine.status == "offered"
        and at > mine.at + REQUEST_TIMEOUT
    ):
        entry = j.MergeFailed(merge=op, other=mine.other, reason="late")
        return Move("record", mine.other, entry)
    return next_move(own, other, op, at, **how)


def _greedy(own: CrewState, other: Any, op: str, at: int, **how: Any) -> Move | None:
    """A run that takes in who has not offered itself yet."""
    theirs: PendingMerge | None = other.pending_merge if other is not None else None
    taken = theirs is not None and theirs.merge == op and theirs.status == "draining"
    if taken and protocol.may_merge(own, op):
        return Move("merge", other.run)
    return next_move(own, other, op, at, **how)


def _hasty(own: CrewState, other: Any, op: str, at: int, **how: Any) -> Move | None:
    """A run that offers itself before all has landed."""
    return next_move(own, other, op, at, **{**how, "has_drained": True})


def _unfenced(own: CrewState, other: Any, op: str, at: int, **how: Any) -> Move | None:
    """An offered run that takes any other one for ended."""
    offered = own.pending_merge is not None and own.pending_merge.status == "offered"
    return next_move(own, other, op, at, **{**how, "gone": how["gone"] or offered})


@pytest.mark.parametrize("move", [_impatient, _greedy, _hasty, _unfenced])
def test_a_protocol_that_is_wrong_is_found_out(move: NextMove) -> None:
    def found() -> None:
        for seed in range(SCHEDULES):
            schedule(seed, move)

    with pytest.raises(Broken):
        found()


def test_a_ring_in_which_nobody_gives_way_is_found_out() -> None:
    def stubborn(own: CrewState, other: Any, op: str, at: int, **how: Any) -> Move | None:
        mine = own.pending_merge
        if mine is not None and mine.merge != op:
            return None
        return next_move(own, other, op, at, **how)

    world = start(runs("abc"), next_move=stubborn)
    for one, other in ("ab", "bc", "ca"):
        world.ask(world.runs[RunId(one)], RunId(other))
    world.settle(SETTLES)
    assert not world.merged


def test_of_another_run_nothing_is_seen_but_what_the_merge_needs() -> None:
    """It is in the history of whoever looks, who may have been told to look by anybody."""
    secret = "between us"
    mine = PendingMerge(
        merge="theirs",
        other=C,
        status="requested",
        operation={"op": secret},
        priority=(NOW, B),
        position=3,
        by=secret,
    )
    words = {
        op: MergeOutcome(outcome=outcome, other=C, position=3, reason=secret)
        for op, outcome in (("first", "merged"), ("second", "failed"), ("third", "merged"))
    }
    own = MergeOutcome(outcome="failed", other=A, position=4, reason="it is busy")
    state = begun("b").model_copy(
        update={"flags": {"key": secret}, "pending_merge": mine, "merges": {**words, OP: own}}
    )
    seen = protocol.state_for_merge(state, OP)
    assert secret not in seen.model_dump_json()
    assert (seen.merges, seen.position) == ({OP: own}, state.position)
    assert seen.pending_merge is not None
    assert seen.pending_merge.priority == mine.priority
    # By what it became part of another one, it is led there.
    gone = state.model_copy(update={"status": "merged", "pending_merge": None})
    assert {*protocol.state_for_merge(gone, OP).merges} == {OP, "third"}


@pytest.mark.parametrize(
    ("own", "other"),
    [
        ({"status": "stopping"}, {}),
        ({}, {"status": "stopping"}),
        ({}, {"status": "stopped"}),
        (
            {
                "pending_change": PendingChange(
                    command="c", graph_version=2, definition=ContentHash("d")
                )
            },
            {},
        ),
    ],
    ids=["it stops", "the other stops", "the other has ended", "it changes"],
)
def test_a_request_that_cannot_be_met_yet_or_any_more_is_passed_over(
    own: dict[str, Any], other: dict[str, Any]
) -> None:
    asked, mine = asks(), begun("b")
    assert isinstance(go(mine, asked)[0].entry, j.MergeAccepted)
    assert go(mine.model_copy(update=own), asked.model_copy(update=other))[0] is None


def test_a_request_to_a_third_run_is_not_taken_for_ones_own() -> None:
    assert go(begun("c"), asks())[0] is None


def test_whoever_took_nobody_in_and_ended_has_given_it_up() -> None:
    """The server may say so later than the journal."""
    other, own = agreed()
    assert go(own, other)[0] is None
    assert isinstance(
        go(own, other.model_copy(update={"status": "stopped"}))[0].entry, j.MergeFailed
    )


def test_two_who_never_heard_of_each_other_are_in_no_round_together() -> None:
    """Both have asked, for one merge by its id, and neither has learned of the other."""
    other, own = (unaware(each) for each in agreed())
    assert go(own, other)[0].does == "recall"


def unaware(state: CrewState) -> CrewState:
    assert state.pending_merge is not None
    return state.model_copy(
        update={"pending_merge": state.pending_merge.model_copy(update={"other_position": 0})}
    )
