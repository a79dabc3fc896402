"""The protocol of a run merge in simulated worlds: with faults, and in each order of events.

`test_run_merge_rules.py` and `test_run_merge_outcome.py` test each rule by itself.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from typing_extensions import override

from crewlog.ids import RunId
from crewlog.state import journal as j
from crewlog.state.model import CrewState, PendingMerge
from crewlog.state.run_merge import protocol
from crewlog.state.run_merge.protocol import OUTCOMES_KEPT, REQUEST_TIMEOUT, Refusal
from state.run_merge_world import (
    InvariantError,
    Preparation,
    Read,
    Run,
    World,
    copy_world,
    events,
    explore,
    proceed,
    random_faults,
)

SCHEDULES = 1_000
"""The number of random schedules; raise it to search longer."""
RINGS = 200
A, B, C = RunId("a"), RunId("b"), RunId("c")
Worlds = type[World]


# -- worlds ------------------------------------------------------------------------------------


def dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311


def new_world(sizes: dict[str, int], world: Worlds = World, **flows: bool) -> World:
    """A world of stored runs.

    Args:
        sizes: The number of agents of each run.
        world: The protocol.
        flows: Whether a run has a flow.
    """
    runs = [
        Run(name, agents, has_flow=flows.get(name, False), at=at)
        for at, (name, agents) in enumerate(sizes.items(), 1)
    ]
    made = world(runs)
    for run in runs:
        made.work(run)
        made.store(run)
    return made


def open_runs(world: World) -> list[Run]:
    return [run for run in world.runs.values() if run.is_open]


# -- random schedules --------------------------------------------------------------------------


def run_schedule(seed: int, world: Worlds = World) -> World:
    """Some runs request merges, much goes wrong, and then nothing more."""
    rng = dice(seed)
    names = "abcde"[: rng.choice((2, 2, 3, 4, 5))]
    flows = {name: rng.random() < 0.15 for name in names}
    made = new_world({name: rng.randrange(1, 4) for name in names}, world, **flows)
    for at, name in enumerate(names):
        if rng.random() < 0.7:
            made.request(made.runs[RunId(name)], RunId(names[(at + 1) % len(names)]))
    with_deaths, longest = rng.random() < 0.7, rng.choice((2_000, 20_000, 70_000))
    random_faults(made, rng, rng.randrange(10, 160), with_deaths=with_deaths, longest=longest)
    made.settle()
    return made


def run_schedules(monkeypatch: pytest.MonkeyPatch, world: Worlds = World) -> Counter[str]:
    """Counts the entries of all schedules.

    Raises:
        InvariantError: a schedule breaks an invariant.
    """
    counts: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        # With few outcomes kept, a schedule shows what follows when they are forgotten.
        monkeypatch.setattr(protocol, "OUTCOMES_KEPT", 1 if seed % 2 else OUTCOMES_KEPT)
        try:
            counts.update(run_schedule(seed, world).counts)
        except InvariantError as error:
            raise InvariantError(f"seed {seed}: {error}") from error
    return counts


def test_no_schedule_breaks_an_invariant(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = run_schedules(monkeypatch)
    assert counts["RunMerged"] > SCHEDULES / 4
    assert counts["MergeFailed"] > SCHEDULES / 4


# -- each order of events ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requesters", "with_deaths", "depth"),
    [("a", True, 9), ("b", True, 9), ("a", False, 12), ("b", False, 10), ("ab", True, 6)],
)
def test_no_order_of_events_breaks_an_invariant(
    requesters: str, with_deaths: bool, depth: int
) -> None:
    world = new_world({"a": 2, "b": 1})
    for name in requesters:
        world.request(world.runs[RunId(name)], B if name == "a" else A)
    assert explore(world, depth, with_faults=True, with_deaths=with_deaths) > 500


def next_event(world: World) -> Callable[[World], None] | None:
    """The next event without a fault, before the clock goes on; None: there is none."""
    for name, happen, run in events(world, with_faults=False, with_deaths=False):
        if name != "wait":
            return lambda w: happen(w, w.runs[run])
    return None


def crash(world: World, run: Run) -> None:
    world.crash(run)


def terminate(world: World, run: Run) -> None:
    world.terminate(run)


def terminate_and_reopen(world: World, run: Run) -> None:
    world.terminate(run)
    world.reopen(run)


@pytest.mark.parametrize("requester", [A, B], ids=["requester survives", "requester is merged"])
@pytest.mark.parametrize("victim", [A, B])
@pytest.mark.parametrize("fault", [crash, terminate, terminate_and_reopen])
def test_a_fault_at_each_step_of_a_merge_breaks_no_invariant(
    requester: RunId, victim: RunId, fault: Callable[[World, Run], None]
) -> None:
    world = new_world({"a": 2, "b": 1})
    world.request(world.runs[requester], B if requester == A else A)
    results: list[bool] = []
    while (event := next_event(world)) is not None:
        other = copy_world(world)
        is_stored = not other.runs[requester].is_behind
        fault(other, other.runs[victim])
        other.settle()
        a, b = other.runs[A], other.runs[B]
        is_merged = "b1.0" in a.live.flags
        if is_merged:
            assert b.live.surviving_run == A or (b.is_terminated and b.is_frozen)
        else:
            assert b.live.surviving_run is None
        results.append(is_merged)
        event(world)
        if fault is crash:  # it only delays a merge whose request is stored
            assert is_merged or (victim == requester and not is_stored)
    assert len(results) > 10
    assert world.runs[B].live.surviving_run == A
    assert True in results


# -- requests that meet ------------------------------------------------------------------------


def merge_each_other(
    sizes: tuple[int, int], claims: tuple[bool | None, bool | None], world: Worlds = World
) -> None:
    made = new_world({"a": sizes[0], "b": sizes[1]}, world)
    made.request(made.runs[A], B, survives=claims[0])
    made.request(made.runs[B], A, survives=claims[1])
    made.settle()
    assert made.counts["RunMerged"] == 1


@pytest.mark.parametrize("sizes", [(1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("claims", [(True, True), (None, None), (True, None), (None, True)])
def test_of_two_runs_that_request_each_other_one_survives(
    sizes: tuple[int, int], claims: tuple[bool | None, bool | None]
) -> None:
    """Even if both take themselves for the surviving one, by states that are out of date."""
    merge_each_other(sizes, claims)


def merge_ring(seed: int, world: Worlds = World) -> None:
    """Each run requests a merge with the next one; messages are late, or lost and sent again."""
    rng = dice(seed)
    names = "abcde"[: rng.choice((2, 3, 4, 5))]
    made = new_world({name: rng.randrange(1, 4) for name in names}, world)
    runs = list(made.runs.values())
    ring = list(enumerate(runs))
    rng.shuffle(ring)
    for at, run in ring:
        made.request(run, runs[(at + 1) % len(runs)].name)
        made.now += rng.randrange(2)
    for run in runs:
        made.store(run)
        run.updates = [each for each in run.updates if rng.random() < 0.5]
    for _ in range(rng.randrange(60)):
        proceed(made, rng.choice(runs), rng)
    made.settle()
    assert made.counts["RunMerged"] >= 1, seed
    agents = sum(len(run.live.flags) for run in open_runs(made))
    # Each run is as usable as before.
    while len(left := open_runs(made)) > 1:
        assert made.request(left[0], left[1].name)
        made.settle()
        assert len(open_runs(made)) == len(left) - 1
        assert sum(len(run.live.flags) for run in open_runs(made)) == agents


def test_of_requests_that_form_a_ring_one_succeeds() -> None:
    for seed in range(RINGS):
        merge_ring(seed)


# -- runs that get the id of another one -------------------------------------------------------


def freeze(world: World, run: Run) -> None:
    """A run does what an update asks, and stores it."""
    world.load(run)
    world.apply(run)
    world.store(run)
    assert run.is_frozen


def replace_the_coordinator(world: World) -> World:
    """A run with the id of the coordinator requests the same merge again."""
    a, b = world.runs[A], world.runs[B]
    world.request(a, B, command="x")
    world.store(a)
    freeze(world, b)
    world.terminate(a)
    world.replace(a)
    world.request(a, B, command="x")
    world.store(a)
    world.advance(b)
    world.receive(a)
    assert a.prepared is not None
    world.merge(a)
    world.settle()
    return world


def replace_the_merged_run(world: World) -> World:
    """A run with the id of the merged run freezes for the same round."""
    a, b = world.runs[A], world.runs[B]
    world.request(a, B)
    world.store(a)
    late = b.updates[0]
    freeze(world, b)
    world.receive(a)
    world.terminate(b)
    world.replace(b)
    b.updates.append(late)
    freeze(world, b)
    world.merge(a)
    world.settle()
    return world


def test_a_run_is_not_merged_by_another_run_with_the_id_of_the_coordinator() -> None:
    world = replace_the_coordinator(new_world({"a": 2, "b": 1}))
    assert world.counts["RunMerged"] == 0
    assert world.runs[B].is_open


def test_a_run_does_not_end_by_the_merge_of_another_run_with_its_id() -> None:
    world = replace_the_merged_run(new_world({"a": 2, "b": 1}))
    assert world.counts["RunMerged"] == 1
    assert world.runs[B].is_open


# -- that these tests can fail -----------------------------------------------------------------


class ImpatientFrozenRun(World):
    @override
    def next_entry(self, own: CrewState, *, has_drained: bool) -> Any:
        mine = own.pending_merge
        is_frozen = mine is not None and mine.status == "frozen"
        if mine is not None and is_frozen and self.now > mine.at + REQUEST_TIMEOUT:
            return j.MergeFailed(merge=mine.merge, other=mine.other, reason="late")
        return super().next_entry(own, has_drained=has_drained)


class MergeBeforeFrozen(World):
    @override
    def may_answer(self, own: PendingMerge) -> bool:
        return own.is_draining

    @override
    def is_frozen_for(self, own: CrewState, prepared: Preparation) -> bool:
        return prepared.state is not None and prepared.state.pending_merge is not None


class FreezeBeforeDrained(World):
    @override
    def next_entry(self, own: CrewState, *, has_drained: bool) -> Any:
        return super().next_entry(own, has_drained=True)


class EachCoordinatorIsGone(World):
    @override
    def find_outcome(self, own: CrewState, read: Read) -> Any:
        return super().find_outcome(own, read._replace(gone=True))


class NoRecall(World):
    @override
    def find_outcome(self, own: CrewState, read: Read) -> Any:
        return super().find_outcome(own, read._replace(recalled=True))


@pytest.mark.parametrize(
    ("world", "why"),
    [
        (ImpatientFrozenRun, r"is in \w and in \w"),
        (MergeBeforeFrozen, r"is in \w and in \w"),
        (FreezeBeforeDrained, "freezes with calls in flight"),
        (EachCoordinatorIsGone, "is frozen and gives up before"),
        (NoRecall, r"is in \w and in \w"),
    ],
)
def test_a_wrong_protocol_is_found(
    monkeypatch: pytest.MonkeyPatch, world: Worlds, why: str
) -> None:
    with pytest.raises(InvariantError, match=why):
        run_schedules(monkeypatch, world)


class AnyRound(World):
    """The preparation does not check for which round the other run is frozen."""

    @override
    def is_frozen_for(self, own: CrewState, prepared: Preparation) -> bool:
        theirs = prepared.state.pending_merge if prepared.state is not None else None
        frozen = (prepared.merge, own.run, "frozen")
        return theirs is not None and (theirs.merge, theirs.other, theirs.status) == frozen


class AnyMergedRun(World):
    """A frozen run does not compare the run that was merged."""

    @override
    def find_outcome(self, own: CrewState, read: Read) -> Any:
        mine, other = own.pending_merge, read.state
        outcome = other.merges.get(read.merge) if other is not None else None
        if mine is not None and other is not None and outcome is not None:
            merged = {
                "merged_position": mine.frozen_position,
                "merged_started_at": own.started_at,
            }
            outcomes = {read.merge: outcome.model_copy(update=merged)}
            read = read._replace(state=other.model_copy(update={"merges": outcomes}))
        return super().find_outcome(own, read)


@pytest.mark.parametrize(
    ("world", "replace", "why"),
    [
        (AnyRound, replace_the_coordinator, "b1.0 is in a and in b"),
        (AnyMergedRun, replace_the_merged_run, "b is not in a as it froze"),
    ],
)
def test_a_protocol_that_confuses_runs_with_one_id_is_found(
    world: Worlds, replace: Callable[[World], World], why: str
) -> None:
    with pytest.raises(InvariantError, match=why):
        replace(new_world({"a": 2, "b": 1}, world))


class NoWay(World):
    """A run in a merge refuses each other request."""

    @override
    def answer_request(
        self, own: CrewState, other: CrewState | None, merge: str
    ) -> Refusal | tuple[protocol.NextEntry, ...]:
        mine = own.pending_merge
        if mine is not None and mine.merge != merge:
            return Refusal("it is about to merge", may_retry=True)
        return super().answer_request(own, other, merge)


def test_a_protocol_in_which_no_run_gives_way_is_found() -> None:
    with pytest.raises(AssertionError):
        merge_each_other((2, 2), (True, True), NoWay)

    def merge_rings() -> None:
        for seed in range(RINGS):
            merge_ring(seed, NoWay)

    with pytest.raises(AssertionError):
        merge_rings()
