"""Loading a state at any position: the same as folding, and quick."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from crewlog.errors import InternalError, StoreIncomplete, UsageError
from crewlog.ids import RunId
from crewlog.state import journal as j
from crewlog.state.fold import fold
from crewlog.state.model import CrewState
from crewlog.store import InMemoryStore, PostgresStore, Store
from crewlog.store.journal_reader import load_state
from crewlog.store.protocol import Snapshot
from graph.simulation import as_json
from store.conftest import new_database
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


async def keep(store: Store, run: LongRun, *positions: int) -> None:
    """Keeps snapshots of the run, as its executions do where they end."""
    for position in positions:
        state = run.states[position - 1].to_json()
        await store.put_snapshot(run.run, Snapshot(position=position, state=state))


ENDS = (200, 900)
"""Where the executions of the run end: within the first page of entries, and behind it."""


async def test_any_position_is_what_folding_gives(empty: Store, run_: LongRun) -> None:
    await run_.store(empty)
    await keep(empty, run_, *ENDS)
    near = [end + more for end in ENDS for more in (-1, 0, 1)]
    for position in [1, 2, *near, *run_.checkpoints[::17], len(run_.entries)]:
        loaded = await load_state(empty, run_.run, position)
        assert as_json(loaded) == as_json(run_.states[position - 1]), position
    assert await load_state(empty, run_.run) == run_.states[-1]


async def test_a_state_is_folded_from_the_newest_snapshot_before_it(
    empty: Store, run_: LongRun
) -> None:
    await run_.store(empty)
    await keep(empty, run_, *ENDS)
    counting = Counting(empty)
    for position in [1, ENDS[0] - 1, *ENDS, ENDS[0] + 1, *run_.checkpoints[::17]]:
        counting.read = 0
        await load_state(counting, run_.run, position)
        assert counting.read == position - max(at for at in (0, *ENDS) if at <= position)


async def test_other_tasks_run_while_a_long_journal_is_folded(run_: LongRun) -> None:
    store = InMemoryStore()
    await run_.store(store)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    await load_state(store, run_.run)
    task.cancel()
    # The store in memory never waits: what else runs does so between two entries.
    assert turns > 1


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


async def test_nothing_is_folded_over_a_gap(empty: Store, run_: LongRun) -> None:
    await empty.append(run_.run, run_.batch(1, 110))
    await empty.append(run_.run, run_.batch(120, 300))
    with pytest.raises(StoreIncomplete, match="its journal at position 111") as caught:
        await load_state(empty, run_.run, 200)
    assert "crewlog rebuild sim" in caught.value.remedy
    assert (await load_state(empty, run_.run)).position == 110
    # A snapshot behind the gap is all that is left of what was there.
    await keep(empty, run_, 119)
    assert as_json(await load_state(empty, run_.run, 200)) == as_json(run_.states[199])
    await empty.append(run_.run, run_.batch(110, 120))
    assert as_json(await load_state(empty, run_.run, 118)) == as_json(run_.states[117])


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


def forked(run: RunId, source: CrewState) -> j.RunForked:
    state = source.model_copy(update={"run": run}).to_json()
    return j.RunForked(at=9, run=run, source=source.run, to=source.position, state=state, by="eve")


async def test_a_forks_own_journal(empty: Store, run_: LongRun) -> None:
    base = 50
    fork = RunId("fork")
    entries = [
        j.entry_to_json(e)
        for e in (forked(fork, run_.states[base - 1]), j.Paused(), j.RunResumed())
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
        state = fold(state, j.entry_from_json(entry))
    return state
