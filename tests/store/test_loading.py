"""Loading a state at any position: the same as folding, and quick."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from crewlog.errors import InternalError, StoreIncomplete, UsageError
from crewlog.ids import RunId
from crewlog.state import journal as j
from crewlog.state.model import CrewState
from crewlog.state.reduce import fold, reduce
from crewlog.store import InMemoryStore, PostgresStore, Store
from crewlog.store.loading import EVERY, is_due, keep_snapshots, load_state
from crewlog.store.protocol import Snapshot
from graph.simulation import as_json
from store.conftest import new_database
from store.journals import Journal, started
from store.long_runs import LongRun, long_run


@pytest.fixture
async def own(request: pytest.FixtureRequest, postgres_dsn: str) -> AsyncIterator[Store]:
    """A store of the test's own: simulated runs have one id."""
    store = await PostgresStore.connect(await new_database(postgres_dsn))
    yield store
    await store.close()


@pytest.fixture(params=["memory", "postgres"])
def empty(request: pytest.FixtureRequest) -> Store:
    found: Store = InMemoryStore() if request.param == "memory" else request.getfixturevalue("own")
    return found


@pytest.fixture
async def run_() -> LongRun:
    return await long_run(250)


async def test_any_position_is_what_folding_gives(empty: Store, run_: LongRun) -> None:
    await run_.store(empty)
    await keep_snapshots(empty, run_.run, len(run_.entries))
    for position in [1, 2, EVERY - 1, EVERY, EVERY + 1, *run_.checkpoints[::17], len(run_.entries)]:
        loaded = await load_state(empty, run_.run, position)
        assert as_json(loaded) == as_json(run_.states[position - 1]), position
    assert await load_state(empty, run_.run) == run_.states[-1]


async def test_snapshots_are_dense_and_come_once(empty: Store, run_: LongRun) -> None:
    await run_.store(empty)
    whole = len(run_.entries)
    await keep_snapshots(empty, run_.run, whole)
    due = list(range(EVERY, whole + 1, EVERY))
    assert await empty.list_snapshots(run_.run) == due
    counting = Counting(empty)
    await keep_snapshots(counting, run_.run, whole)
    assert counting.read == 0, "nothing is folded where nothing is due"
    for position in run_.checkpoints:
        counting.read = 0
        await load_state(counting, run_.run, position)
        assert counting.read < EVERY


class Counting:
    """A store that counts the entries read from it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.read = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def read_journal(self, run: RunId, after: int = 0, limit: int = 1000) -> Any:
        rows = await self._store.read_journal(run, after, limit)
        self.read += len(rows)
        return rows


async def test_snapshots_come_as_far_as_the_journal_goes(empty: Store, run_: LongRun) -> None:
    await empty.append(run_.run, run_.batch(1, EVERY + 10))
    await empty.append(run_.run, run_.batch(EVERY + 20, 3 * EVERY))
    await keep_snapshots(empty, run_.run, 3 * EVERY)
    assert await empty.list_snapshots(run_.run) == [EVERY]
    with pytest.raises(StoreIncomplete, match=f"its journal at position {EVERY + 11}") as caught:
        await load_state(empty, run_.run, 2 * EVERY)
    assert "crewlog rebuild sim" in caught.value.remedy
    assert (await load_state(empty, run_.run)).position == EVERY + 10
    await empty.append(run_.run, run_.batch(EVERY + 10, EVERY + 20))
    await keep_snapshots(empty, run_.run, 3 * EVERY)
    assert await empty.list_snapshots(run_.run) == [EVERY, 2 * EVERY, 3 * EVERY]


@pytest.mark.parametrize(
    ("first", "length", "due"),
    [
        (1, EVERY - 1, False),
        (1, EVERY, True),
        (EVERY, 1, True),
        (EVERY + 1, 9, False),
        (9, 0, False),
    ],
)
def test_a_batch_is_due(first: int, length: int, due: bool) -> None:
    entries = ({"kind": "StepCompleted"},) * length
    assert is_due(j.Batch(first=first, entries=entries)) is due


async def test_no_journal_at_all(empty: Store) -> None:
    for position in (0, 1):
        with pytest.raises(StoreIncomplete, match="its journal at position 1"):
            await load_state(empty, RunId("nobody"), position)


async def test_a_state_of_a_newer_build(empty: Store, run_: LongRun) -> None:
    await empty.append(run_.run, run_.batch(1, 10))
    await empty.put_snapshot(run_.run, Snapshot(position=5, state={"run": "sim", "no_such": 1}))
    with pytest.raises(InternalError, match="position 5 of the run 'sim'") as caught:
        await load_state(empty, run_.run, 7)
    assert "Update Crewlog" in caught.value.remedy


def forked(run: RunId, source: CrewState) -> j.Forked:
    state = source.model_copy(update={"run": run}).to_json()
    return j.Forked(at=9, run=run, source=source.run, to=source.position, state=state, by="eve")


async def test_a_forks_own_journal(empty: Store, run_: LongRun) -> None:
    base = 50
    fork = RunId("fork")
    entries = [
        j.entry_to_json(e) for e in (forked(fork, run_.states[base - 1]), j.Paused(), j.Resumed())
    ]
    await empty.append(fork, j.Batch(first=base + 1, entries=tuple(entries)))
    state = await load_state(empty, fork, base + 2)
    begun = CrewState(run=fork, position=base)
    assert state == fold_on(begun, entries[:2])
    assert state.status == "paused"
    assert (await load_state(empty, fork)).position == base + 3
    with pytest.raises(UsageError, match=f"begins after position {base}") as caught:
        await load_state(empty, fork, base)
    assert f"sim@{base}" in caught.value.remedy


def fold_on(state: CrewState, entries: list[dict[str, Any]]) -> CrewState:
    for entry in entries:
        state = reduce(state, j.entry_from_json(entry))
    return state


async def test_no_snapshot_outlives_its_journal(empty: Store) -> None:
    run = RunId("reset")
    journal = Journal(run, [started(run), *(j.Paused(at=n) for n in range(9))])
    await empty.append(run, journal.batch())
    rows = await empty.read_journal(run)
    old = Snapshot(
        position=5, state=fold(run, (j.entry_from_json(r.entry) for r in rows[:5])).to_json()
    )
    await empty.put_snapshot(run, old, rows[4].digest)
    await empty.forget(run, 4)
    assert await empty.list_snapshots(run) == []
    await empty.put_snapshot(run, old, rows[4].digest)  # by who had folded it before
    assert await empty.list_snapshots(run) == []
    other = j.entry_to_json(j.Resumed(at=7))
    await empty.append(run, j.Batch(first=5, entries=(other,)))
    await empty.put_snapshot(run, old, rows[4].digest)
    assert await empty.list_snapshots(run) == []
    assert (await load_state(empty, run)).status == "running"
