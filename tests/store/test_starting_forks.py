"""Forks that were asked for and have not begun: their source stays until they have."""

from __future__ import annotations

import asyncio

import pytest

from crewlog.errors import StoreIncomplete, UsageError
from crewlog.ids import PUBLIC, ContentHash, CrewName, RunId
from crewlog.state.journal import Batch, ComponentChanged, SplitRun, entry_to_json
from crewlog.state.split import SplitContents
from crewlog.store import PostgresStore, Store
from store.test_deleting import NOW, begun, fork_of, said, talk
from store.waiting import held


async def test_a_source_stays_until_its_fork_has_begun(store: Store, run: RunId) -> None:
    fork = RunId(f"{run}-fork")
    journal = await talk(store, run, f"{run} one", f"{run} two")
    assert await store.add_pending_fork(run, fork, NOW)
    assert [(s.source, s.fork, s.at) for s in await store.list_pending_forks([run])] == [
        (run, fork, NOW)
    ]
    with pytest.raises(UsageError, match="has not started") as refused:
        await store.delete([run], NOW, grace=0)
    assert str(fork) in refused.value.message
    assert await store.read_journal(run), "nothing was removed"
    twig = fork_of(journal, fork, base=2)
    await begun(store, twig, 2)
    assert await store.list_pending_forks([run]) == []
    await store.delete([run], NOW, grace=0)
    assert await store.read_journal(run) == []
    assert await said(store, journal.heads[2][PUBLIC]) == [f"{run} one"]


async def test_a_fork_of_what_is_gone_is_not_noted(store: Store, run: RunId) -> None:
    fork = RunId(f"{run}-fork")
    assert not await store.add_pending_fork(run, fork, NOW)
    await talk(store, run)
    await store.delete([run], NOW, grace=0)
    assert not await store.add_pending_fork(run, fork, NOW)
    assert await store.list_pending_forks([run]) == []


async def test_a_note_goes_with_its_runs_and_when_it_is_void(store: Store, run: RunId) -> None:
    fork, other = RunId(f"{run}-fork"), RunId(f"{run}-other")
    await talk(store, run)
    await store.add_pending_fork(run, fork, NOW)
    await store.add_pending_fork(run, fork, NOW + 5)  # asked for again
    await store.add_pending_fork(run, other, NOW)
    assert [s.at for s in await store.list_pending_forks([run])] == [NOW + 5, NOW]
    await store.delete([fork], NOW, grace=0)
    await store.remove_pending_fork(run, other)
    assert await store.list_pending_forks([run]) == []
    await store.add_pending_fork(run, fork, NOW)
    await store.delete([run, fork], NOW, grace=0)  # both go
    assert await store.get_run(run) is None
    await talk(store, run)
    assert await store.list_pending_forks([run]) == []


async def test_a_source_stays_until_its_parts_have_begun(store: Store, run: RunId) -> None:
    part = RunId(f"{run}-part")
    journal = await talk(store, run, f"{run} one")
    await store.append(run, parted_into(part, 3))
    assert [(s.source, s.fork, s.at) for s in await store.list_pending_forks([run])] == [
        (run, part, NOW)
    ]
    await store.append(run, parted_into(part, 3))  # it comes again
    with pytest.raises(UsageError, match="has not started"):
        await store.delete([run], NOW, grace=0)
    assert await store.read_journal(run), "nothing was removed"
    await begun(store, fork_of(journal, part, base=2), 2)
    await store.delete([run], NOW, grace=0)
    assert await store.read_journal(run) == []


async def test_a_part_is_noted_by_the_first_batch_of_a_run(store: Store, run: RunId) -> None:
    part = RunId(f"{run}-part")
    await store.append(run, parted_into(part, 1))
    assert [s.fork for s in await store.list_pending_forks([run])] == [part]


def parted_into(part: RunId, position: int) -> Batch:
    """A batch with the entry that names a part."""
    change = ComponentChanged(
        at=NOW,
        change="split",
        graph_version=2,
        crew=CrewName("t"),
        definition=ContentHash("d"),
        split_runs=(
            SplitRun(
                run=part, definition=ContentHash("p"), contents=SplitContents(agents=(), nodes=())
            ),
        ),
    )
    return Batch(first=position, entries=(entry_to_json(change),))


async def test_a_run_whose_id_is_taken_over_goes_all_the_same(store: Store, run: RunId) -> None:
    await talk(store, run)
    await store.add_pending_fork(run, RunId(f"{run}-fork"), NOW)
    await store.delete([run], NOW, grace=0, ignore_pending_forks=True)
    assert await store.get_run(run) is None


@pytest.mark.parametrize("first", ["note", "deletion"])
async def test_of_a_note_and_a_deletion_at_once_one_is_first(
    postgres_store: PostgresStore, database: str, run: RunId, first: str
) -> None:
    store = postgres_store
    journal = await talk(store, run, f"{run} one")
    # Each is held up where it has looked, or written, and has not committed.
    locks = {
        "note": "LOCK TABLE crewlog.pending_forks IN EXCLUSIVE MODE",
        "deletion": "LOCK TABLE crewlog.journal_entries IN EXCLUSIVE MODE",
    }
    async with held(database, locks[first]) as gate:
        calls = {
            "note": store.add_pending_fork(run, RunId(f"{run}-fork"), NOW),
            "deletion": store.delete([run], NOW, grace=0),
        }
        begun = await gate.begin(calls.pop(first))
        (other,) = calls.values()
        then = await gate.begin(other)
    outcomes = await asyncio.gather(begun, then, return_exceptions=True)
    noted, deleted = outcomes if first == "note" else outcomes[::-1]
    if noted is True:
        assert isinstance(deleted, UsageError)
        assert await said(store, journal.heads[-1][PUBLIC])
    else:
        assert noted is False
        assert not isinstance(deleted, BaseException)
        with pytest.raises(StoreIncomplete):
            await store.read_log(journal.heads[-1][PUBLIC])
