"""A crew's policy for checkpoints: what goes, and that nothing is lost by it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crewlog.definition.model import CheckpointPolicy
from crewlog.ids import NodeName, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.checkpoints import CheckpointKind
from crewlog.store import InMemoryStore, Store
from crewlog.store.checkpoints import find_prunable, prune
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import CheckpointRow, Snapshot
from graph.simulation import as_json
from store.journals import Journal, started
from store.long_runs import long_run


def row(position: int, node: str = "n", kind: CheckpointKind = "step", *tags: str) -> CheckpointRow:
    return CheckpointRow(
        run=RunId("r"),
        position=position,
        kind=kind,
        step=StepId(f"{node}#{position}"),
        node=NodeName(node),
        tags=tags,
    )


ROWS = [
    row(2, "", "start"),
    row(10, "a"),
    row(20, "b", "step", "good"),
    row(30, "a"),
    row(35, "", "rollback"),
    row(40, "b"),
    row(50, "b"),
]
SNAPSHOTS = [5, 15, 25, 38, 45]


@pytest.mark.parametrize(
    ("policy", "checkpoints", "snapshots"),
    [
        (CheckpointPolicy(), (), ()),
        (CheckpointPolicy(keep_tagged=False), (), ()),
        (CheckpointPolicy(keep_last=1), (10, 30, 40), (5, 38)),
        (CheckpointPolicy(keep_last=9), (), ()),
        (CheckpointPolicy(keep_per_phase=1), (10, 40), (5, 38)),
        (CheckpointPolicy(keep_last=1, keep_tagged=False), (10, 20, 30, 40), (5, 15, 38)),
        (CheckpointPolicy(keep_last=2, keep_per_phase=2, keep_tagged=False), (20,), (15,)),
    ],
)
def test_what_goes(
    policy: CheckpointPolicy, checkpoints: tuple[int, ...], snapshots: tuple[int, ...]
) -> None:
    gone = find_prunable(policy, ROWS, SNAPSHOTS)
    assert gone.checkpoints == checkpoints
    assert gone.snapshots == snapshots


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=40),
    st.sets(st.integers(1, 400)),
    st.one_of(st.none(), st.integers(1, 5)),
    st.one_of(st.none(), st.integers(1, 5)),
    st.booleans(),
)
def test_what_stays_loads_as_before(
    steps: list[tuple[str, bool]],
    snapshots: set[int],
    keep_last: int | None,
    keep_per_phase: int | None,
    keep_tagged: bool,
) -> None:
    policy = CheckpointPolicy(
        keep_last=keep_last, keep_per_phase=keep_per_phase, keep_tagged=keep_tagged
    )
    rows = [row(10 * n, node, "step", *["t"] * tag) for n, (node, tag) in enumerate(steps, 1)]
    there = sorted(snapshots)
    gone = find_prunable(policy, rows, there)
    left = [each for each in rows if each.position not in gone.checkpoints]
    assert set(gone.checkpoints) <= {each.position for each in rows}
    if keep_last:
        assert [e.position for e in rows][-keep_last:] == [
            e.position for e in left if e in rows[-keep_last:]
        ]
    if keep_tagged:
        assert not [each for each in rows if each.tags and each not in left]
    for each in left:
        before = [at for at in there if at <= each.position]
        after = [at for at in before if at not in gone.snapshots]
        assert before[-1:] == after[-1:]
    again = find_prunable(policy, left, [at for at in there if at not in gone.snapshots])
    assert not any(again), "done again, it does nothing"


async def test_a_pruned_checkpoint_is_not_listed_and_can_be_loaded() -> None:
    run, store = await long_run(250), InMemoryStore()
    await run.store(store)
    ends = range(100, len(run.entries), 100)
    for at in ends:
        state = run.states[at - 1].to_json()
        await store.put_snapshot(run.run, Snapshot(position=at, state=state))
    policy = CheckpointPolicy(keep_last=3, keep_per_phase=1)
    await prune(store, run.run, policy, len(run.entries))
    listed = await store.list_checkpoints(run.run)
    assert len(listed) < 30
    assert await store.list_snapshots(run.run) == [
        at for at in ends if at >= listed[1].position - 100
    ]
    everything = await store.list_checkpoints(run.run, pruned=True)
    assert [each.position for each in everything if each.kind == "step"] == run.checkpoints
    for position in run.checkpoints[:: len(run.checkpoints) // 7]:
        state = await load_state(store, run.run, position)
        assert as_json(state) == as_json(run.states[position - 1])


def steps(run: RunId, count: int) -> Journal:
    """A start and as many steps, at even positions."""
    journal = Journal(run, [started(run)])
    for n in range(1, count + 1):
        journal.add(j.StepCompleted(step=StepId(f"n#{n}"), at=n))
        journal.add(j.Paused(at=n))
    return journal


async def test_pruned_by_both_stores(store: Store, run: RunId) -> None:
    journal = steps(run, 5)
    await store.append(run, journal.batch())
    await store.prune(run, [2, 4, 6], [], len(journal))
    assert [each.position for each in await store.list_checkpoints(run)] == [8, 10]
    await store.append(run, journal.batch())  # by an activity that is tried again
    assert [each.position for each in await store.list_checkpoints(run)] == [8, 10]
    journal.add(j.CheckpointTagged(checkpoint=4, tag="good"))
    await store.append(run, journal.batch(len(journal)))
    rows = await store.list_checkpoints(run)
    assert [(r.position, r.tags) for r in rows] == [(4, ("good",)), (8, ()), (10, ())]
    rows = await store.list_checkpoints(run, pruned=True)
    assert [r.position for r in rows if r.pruned] == [2, 6]


async def test_no_snapshot_goes_where_the_journal_has_a_gap(store: Store, run: RunId) -> None:
    journal = steps(run, 9)
    await store.append(run, journal.batch(1, 5))
    await store.append(run, journal.batch(9))
    for position in (5, 8, 12):
        await store.put_snapshot(run, Snapshot(position=position, state={}))
    await store.prune(run, [], [5, 8], 12)
    assert await store.list_snapshots(run) == [5, 8, 12]
    await store.append(run, journal.batch(6, 8))
    await store.prune(run, [], [5, 8], 12)
    assert await store.list_snapshots(run) == [12]
