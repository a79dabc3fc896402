"""Journals that leave positions out where another run came in: read, paged, made again, deleted."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.activities.hydrator import Hydrator
from crewlog.client.extract import gaps, join, last, pieces
from crewlog.client.rebuild import heads_after
from crewlog.errors import StoreIncomplete, UsageError
from crewlog.ids import PUBLIC, AgentName, ContentHash, CrewName, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.batch_codec import pack, unpack
from crewlog.state.calls import View
from crewlog.state.fold import fold_journal
from crewlog.state.model import CrewState, MergeOutcome
from crewlog.state.recorder import Journal
from crewlog.state.run_merge.surviving_state import transferred_state
from crewlog.store import Store
from crewlog.store.journal_reader import load_state
from crewlog.store.merged_runs import check_not_merged, find_surviving_runs
from crewlog.store.protocol import Snapshot
from message_order import sort_messages
from store.branches import BODIES, Branch, parted

ANN = AgentName("ann")
LATER = 40
"""How much further the run that joins is."""


def merges(one: Branch, two: Branch, started_at: int = 1) -> j.RunMerged:
    """Has a run take another one in that is further than it is."""
    joined = tuple(
        j.LogMerge(log=log, one=one.heads.get(log, ContentHash("")), two=head, more=1)
        for log, head in two.heads.items()
    )
    entry = j.RunMerged(
        position=max(one.position, two.position) + 1,
        previous_position=one.position,
        merged_run=two.run,
        merged_run_position=two.position,
        merged_run_started_at=started_at,
        merge="m",
        merged_state=transferred_state(CrewState(run=two.run, position=two.position)),
        merged_logs=joined,
        parents=(two.run,),
        graph_version=2,
        crew=CrewName("band"),
        definition=ContentHash("d2"),
    )
    one.add(entry)
    return entry


async def merged(store: Store, run: RunId, *, stored: bool = True) -> tuple[Branch, Branch]:
    """A run that has taken in another one, with what both said before and what was said after."""
    one, two = await parted(store, run)
    for _ in range(LATER):
        two.add(j.StepStarted(step=StepId("b#1")))
    await two.stored(store)
    one.say("yes")
    merges(one, two)
    one.say("never")
    if stored:
        await one.stored(store)
    return one, two


def positions(rows: Any) -> list[int]:
    return [row.position for row in rows]


async def test_it_is_read_over_what_it_leaves_out(store: Store, run: RunId) -> None:
    one, two = await merged(store, run)
    at = two.position + 1
    own = at - one.left_out - 1
    rows = await store.read_journal(run)
    assert positions(rows) == [*range(1, own + 1), at, at + 1]
    for after in (0, 1, own - 1, own, own + 1, at - 1, at, at + 1):
        wanted = [each for each in positions(rows) if each > after]
        assert positions(await store.read_journal(run, after)) == wanted
        for limit in (1, 2):
            assert positions(await store.read_journal(run, after, limit)) == wanted[:limit]
    row = await store.get_run(run)
    assert row is not None
    assert (row.definition, row.position) == ("d2", at)
    assert await store.last_permission_position(run) == at


async def test_any_other_gap_is_one(store: Store, run: RunId) -> None:
    one, _ = await merged(store, run, stored=False)
    batch = one.batch()
    pending = list(zip(batch.positions(), batch.entries, strict=True))
    said, merge, after = pending
    # What was said right before it comes late: from there on nothing is read.
    await store.append(run, j.Batch(first=merge[0], heads=one.before, entries=(merge[1], after[1])))
    known = positions(await store.read_journal(run))
    assert known == [*range(1, said[0])]
    assert await store.read_journal(run, said[0] - 1) == []
    # But what comes after it is: whoever knows what was before asks so.
    assert positions(await store.read_journal(run, said[0])) == [merge[0], after[0]]
    with pytest.raises(StoreIncomplete):
        await load_state(store, run, after[0])
    await store.append(run, j.Batch(first=said[0], heads=batch.heads, entries=(said[1],)))
    assert positions(await store.read_journal(run)) == [*known, said[0], merge[0], after[0]]


async def test_its_logs_are_read_in_order(store: Store, run: RunId) -> None:
    one, two = await merged(store, run)
    words = ["yes", "no", "perhaps", "never", "yes", "never"]
    links = await store.read_log(one.heads[PUBLIC])
    assert sorted(BODIES[link.body] for link in sort_messages(links)) == sorted(words)
    assert BODIES[sort_messages(links)[-1].body] == "never"
    found = await Hydrator(store).hydrate(run, ANN, View(heads=dict(one.heads)))
    assert [each.text for each in found] == [BODIES[link.body] for link in sort_messages(links)]
    assert await store.lineage(run) == {two.run}
    await store.delete([two.run], 1, grace=0)
    assert len(await Hydrator(store).hydrate(run, ANN, View(heads=dict(one.heads)))) == len(words)
    head = one.heads[PUBLIC]
    await store.delete([run], 1, grace=0)
    with pytest.raises(StoreIncomplete):
        await store.read_log(head)


async def test_its_states_are_folded_and_kept(store: Store, run: RunId) -> None:
    one, two = await merged(store, run)
    rows = await store.read_journal(run)
    entries = [j.entry_from_json(row.entry) for row in rows]
    wanted = fold_journal(run, entries)
    assert wanted.position == one.position
    assert wanted.merges["m"] == MergeOutcome(
        outcome="merged",
        other=two.run,
        position=two.position + 1,
        merged_position=two.position,
        merged_started_at=1,
    )
    assert await load_state(store, run) == wanted
    before = fold_journal(run, entries[:-1])
    await store.put_snapshot(run, Snapshot(position=before.position, state=before.to_json()))
    assert await load_state(store, run, one.position) == wanted
    # The journal is whole, so that what is not wanted may go.
    await store.prune(run, [], [before.position], one.position)
    assert await store.list_snapshots(run) == []


async def test_where_an_entry_lacks_no_snapshot_goes(store: Store, run: RunId) -> None:
    one, _ = await merged(store, run, stored=False)
    batch = one.batch()
    places = list(batch.positions())
    await store.append(run, j.Batch(first=places[1], heads=one.before, entries=batch.entries[1:]))
    state = CrewState(run=run, position=places[2])

    await store.put_snapshot(run, Snapshot(position=places[2], state=state.to_json()))
    await store.prune(run, [], [places[2]], places[2])
    assert await store.list_snapshots(run) == [places[2]]


async def test_forgotten_from_there_on_it_may_come_again(store: Store, run: RunId) -> None:
    one, two = await merged(store, run)
    rows = await store.read_journal(run)
    await store.truncate_journal(run, two.position)
    kept = await store.read_journal(run)
    assert kept == rows[:-2]
    assert await store.last_permission_position(run) == 0
    batch = j.Batch(
        first=rows[-2].position,
        heads=one.before_merge,
        entries=tuple(row.entry for row in rows[-2:]),
    )
    await store.append(run, batch)
    assert await store.read_journal(run) == rows


async def test_a_stored_entry_protects_the_merged_run_whatever_its_status(
    store: Store, run: RunId
) -> None:
    one, two = await parted(store, run)
    assert await find_surviving_runs(store, [one.run, two.run]) == {}
    merges(one, two, started_at=0)
    await one.stored(store)
    row = await store.get_run(two.run)
    assert row is not None
    assert row.status == "running", "it was terminated before it recorded the outcome"
    assert await find_surviving_runs(store, [one.run, two.run]) == {two.run: one.run}
    with pytest.raises(UsageError, match=f"cannot replace the run '{two.run}'") as caught:
        await check_not_merged(store, two.run, "replace")
    assert f"`crewlog delete {one.run}`" in caught.value.remedy
    await check_not_merged(store, one.run, "delete")
    await store.truncate_journal(two.run)
    assert await find_surviving_runs(store, [two.run]) == {two.run: one.run}
    await store.truncate_journal(one.run, two.position)
    assert await find_surviving_runs(store, [two.run]) == {}, "the entry is gone"


async def test_a_later_run_with_the_id_of_a_merged_run_is_not_protected(
    store: Store, run: RunId
) -> None:
    await merged(store, run)  # the entry names a run that was started at another time
    assert await find_surviving_runs(store, [run, RunId(f"{run}-other")]) == {}


async def test_a_run_whose_logs_alone_were_merged_is_not_protected(
    store: Store, run: RunId
) -> None:
    one, two = await parted(store, run)
    one.joins(two)
    await one.stored(store)
    assert any(link.by_merge for link in await store.lineage_links([two.run]))
    assert await find_surviving_runs(store, [two.run]) == {}


# -- batches ---------------------------------------------------------------------------------


def batches() -> tuple[j.Batch, Branch]:
    one, two = Branch(RunId("one")), Branch(RunId("two"))
    for _ in range(LATER):
        two.add(j.StepStarted(step=StepId("b#1")))
    two.say("no")
    one.say("yes")
    merges(one, two)
    for _ in range(3):
        one.say("never")
    return one.batch(), one


def test_batches_are_cut_and_joined_over_it() -> None:
    batch, one = batches()
    places = list(batch.positions())
    assert (batch.first, batch.last) == (1, one.position)
    assert places == [1, 2, *range(LATER + 3, LATER + 7)]
    assert last(batch) == places[-1]
    for size in range(1, 7):
        cut = list(pieces(one.run, batch, size))
        assert [place for piece in cut for place in piece.positions()] == places
        (again,) = join(cut)
        assert (again.first, again.entries) == (batch.first, batch.entries)
        assert gaps([again], batch.last) == []
        (overlapping,) = join([*cut, batch, *cut[1:]])
        assert overlapping.entries == batch.entries
    assert unpack(pack(batch, {}), {}) == batch
    assert heads_after(one.run, [batch], None) == one.heads
    first, second = list(pieces(one.run, batch, 3))
    assert heads_after(one.run, [first, second], None) == one.heads
    entries = list(map(j.entry_from_json, batch.entries))
    for count in range(1, len(entries)):
        assert heads_after(one.run, [batch], fold_journal(one.run, entries[:count])) == one.heads
    assert (
        heads_after(one.run, cut_after(batch, 2), fold_journal(one.run, entries[:2])) == one.heads
    )
    assert heads_after(one.run, cut_after(batch, 2), fold_journal(one.run, entries[:1])) is None


def cut_after(batch: j.Batch, count: int) -> list[j.Batch]:
    """What comes behind the first entries."""
    entries = batch.entries[count:]
    return [j.Batch(first=list(batch.positions())[count], entries=entries)]


def test_what_lacks_before_it_is_told() -> None:
    batch, one = batches()
    places = list(batch.positions())
    cut = list(pieces(one.run, batch, 1))
    assert gaps([*join(cut[:1]), *join(cut[2:])], places[-1]) == [(2, 2)]
    assert gaps(join(cut[:2]), places[-1]) == [(3, places[-1])]
    assert gaps([*join(cut[:2]), *join(cut[3:])], places[-1]) == [(3, places[2])]
    assert gaps(join(cut[2:]), places[-1]) == [(1, 2)]


def test_a_journal_pages_and_carries_over_it() -> None:
    batch, one = batches()
    journal = Journal(CrewState(run=one.run))
    for entry in batch.entries:
        journal.record(j.entry_from_json(entry))
    places = list(batch.positions())
    assert journal.state.position == places[-1]
    whole = journal.unpacked_batch()
    assert (whole.first, whole.entries) == (batch.first, batch.entries)
    for after in (0, 1, 2, 3, LATER, LATER + 2, LATER + 9):
        wanted = [place for place in places if place > after]
        assert [at for at, _ in journal.page(after, 100)] == wanted
        assert [at for at, _ in journal.page(after, 1)] == wanted[:1]
    for stored in places[:-1]:
        journal.mark_stored(stored)
        carried = Journal.from_carry(journal.state, journal.unpacked_batch())
        left = [place for place in places if place > stored]
        assert [at for at, _ in carried.page(0, 100)] == left
        assert carried.first == stored + 1
        assert carried.unpacked_batch() == journal.unpacked_batch()
    fresh = Journal(CrewState(run=one.run, position=2))
    fresh.record(j.entry_from_json(batch.entries[2]))
    assert fresh.first == 3
    assert [at for at, _ in fresh.page(2, 10)] == [LATER + 3]
