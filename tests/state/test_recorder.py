"""A journal in memory: its unstored batches, cut anywhere, add up to the whole journal."""

from __future__ import annotations

import random
from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.ids import CommandId, ContentHash, LogName, RunId
from crewlog.state import journal as j
from crewlog.state.batch_codec import unpack
from crewlog.state.logs import Link, batch_links, chain, heads_after_batch
from crewlog.state.model import CrewState
from crewlog.state.recorder import Journal
from crewlog.store import InMemoryStore
from graph.simulation import RUN, Simulation, crew_run, dice

SEEDS = range(30)


def recomputed(journal: list[dict[str, Any]]) -> list[Link]:
    """The links of the whole journal at once, from the roots."""
    return list(batch_links(RUN, j.Batch(first=1, entries=tuple(journal))))


def heads_of(links: list[Link]) -> dict[LogName, ContentHash]:
    return {link.log: link.head for link in links}


async def replayed(sim: Simulation, rng: random.Random, store: InMemoryStore) -> list[j.Batch]:
    """Records the run again, and stores what is not stored at random places.

    An activity that is under way while others are scheduled stores what they store too, and the
    journal hears of it late or never.
    """
    journal = Journal(CrewState(run=RUN))
    batches: list[j.Batch] = []
    under_way: list[int] = []
    for data in sim.journal:
        journal.record(j.entry_from_json(data))
        if rng.random() < 0.3:
            batches.append(unpack(journal.batch(), {}))
            under_way.append(journal.state.position)
        if under_way and rng.random() < 0.3:
            journal.mark_stored(under_way.pop(rng.randrange(len(under_way))))
    batches.append(unpack(journal.batch(), {}))
    for batch in rng.sample(batches, len(batches)):
        await store.append(RUN, batch)
    return batches


async def test_batches_cut_anywhere_are_the_whole_journal() -> None:
    for seed in SEEDS:
        sim, store = await crew_run(seed), InMemoryStore()
        await replayed(sim, dice(seed), store)
        rows = await store.read_journal(RUN)
        assert [row.entry for row in rows] == sim.journal
        assert [row.position for row in rows] == list(range(1, len(sim.journal) + 1))


async def test_logs_that_were_stored_in_pieces_are_those_of_the_whole_journal() -> None:
    for seed in SEEDS:
        sim, store = await crew_run(seed), InMemoryStore()
        await replayed(sim, dice(seed), store)
        links = recomputed(sim.journal)
        heads = heads_of(links)
        known = {name: log.head for name, log in sim.state.messages.items()}
        assert {log: heads[log] for log in known} == known
        # What an item's step said while it worked is forgotten when that is done.
        assert all("#" in log for log in heads.keys() - known)
        for log, head in heads_of(links).items():
            expected = [(x.position, x.body) for x in links if x.log == log]
            found = await store.read_log(head)
            assert [(x.position, x.body) for x in found] == expected
            assert log not in known or len(found) == sim.state.messages[log].length


async def test_every_batch_says_where_it_joins_on() -> None:
    for seed in SEEDS:
        sim = await crew_run(seed)
        links = recomputed(sim.journal)
        chained = ContentHash("")
        for at, entry in enumerate(sim.journal, 1):
            chained = chain(chained, at, hash_json(entry))
        assert chained == sim.state.execution_trace.head
        for batch in await replayed(sim, dice(seed), InMemoryStore()):
            if not batch.entries:
                continue
            last = batch.first + len(batch.entries) - 1
            mine = [link for link in links if batch.first <= link.position <= last]
            assert list(batch_links(RUN, batch)) == mine
            assert set(batch.heads) == {link.log for link in mine}


async def test_a_journal_that_goes_on_from_a_state_joins_on() -> None:
    sim = await crew_run(3)
    for cut in range(1, len(sim.journal), 7):
        first = Journal(CrewState(run=RUN))
        for data in sim.journal[:cut]:
            first.record(j.entry_from_json(data))
        second = Journal(CrewState.from_json(first.state.to_json()))
        for data in sim.journal[cut:]:
            second.record(j.entry_from_json(data))
        assert second.first == cut + 1
        assert second.state == sim.state
        batches = [unpack(each.batch(), {}) for each in (first, second)]
        links = [link for batch in batches for link in batch_links(RUN, batch)]
        assert links == recomputed(sim.journal)


async def test_a_journal_that_begins_with_what_was_carried_joins_on() -> None:
    for seed in SEEDS:
        rng, sim, store = dice(seed), await crew_run(seed), InMemoryStore()
        journal = Journal(CrewState(run=RUN))
        for data in sim.journal:
            journal.record(j.entry_from_json(data))
            if rng.random() < 0.2:
                await store.append(RUN, unpack(journal.batch(), {}))
                journal.mark_stored(journal.state.position)
            if rng.random() < 0.2:
                carried = j.Batch.from_json(journal.unpacked_batch().to_json())
                journal = Journal.from_carry(CrewState.from_json(journal.state.to_json()), carried)
                assert journal.unpacked_batch() == carried
                assert [data for _, data in journal.page(0, 999)] == list(carried.entries)
        await store.append(RUN, unpack(journal.batch(), {}))
        assert journal.state == sim.state
        rows = await store.read_journal(RUN)
        assert [row.entry for row in rows] == sim.journal
        links = recomputed(sim.journal)
        for log, head in heads_of(links).items():
            found = await store.read_log(head)
            expected = [(x.position, x.body) for x in links if x.log == log]
            assert [(x.position, x.body) for x in found] == expected


def entries(count: int, run: str = "r") -> Journal:
    journal = Journal(CrewState(run=RUN, position=10))
    for n in range(count):
        journal.record(j.RunFailed(error=f"{run}{n}"))
    return journal


@pytest.mark.parametrize(
    ("after", "limit", "expected"),
    [(0, 2, [11, 12]), (10, 2, [11, 12]), (11, 9, [12, 13, 14]), (13, 1, [14]), (14, 5, [])],
)
def test_pages_have_the_positions_of_the_run(after: int, limit: int, expected: list[int]) -> None:
    journal = entries(4)
    page = journal.page(after, limit)
    assert [position for position, _ in page] == expected
    assert [data["error"] for _, data in page] == [f"r{at - 11}" for at in expected]


def test_what_is_stored_leaves_the_batch_and_its_size() -> None:
    journal = entries(3)
    whole = journal.unstored_bytes
    assert journal.has_unstored(11)
    journal.mark_stored(12)
    assert (journal.has_unstored(12), journal.has_unstored(13)) == (False, True)
    assert journal.batch().first == 13
    assert len(journal.batch().entries) == 1
    assert 0 < journal.unstored_bytes < whole
    journal.mark_stored(11)
    assert len(journal.batch().entries) == 1, "what is stored stays stored"
    journal.mark_stored(13)
    assert not journal.has_unstored(13)
    assert journal.batch() == j.Batch.EMPTY
    assert journal.unstored_bytes == 0
    assert len(journal.entries) == 3


def test_a_message_that_waits_for_its_turn_is_in_no_log_yet() -> None:
    journal = entries(1)
    ref = j.MessageRef(body=ContentHash("b"), logs=(LogName("public"),))
    journal.record(j.MessageQueued(ref=ref, command=CommandId("c1")))
    journal.record(j.MessageAdded(ref=ref))
    links = list(batch_links(journal.state.run, journal.unpacked_batch()))
    assert [link.position for link in links] == [journal.state.position]
    assert links[0].head == journal.state.messages[LogName("public")].head


@pytest.mark.parametrize("cut", range(6))
def test_batches_that_join_logs_join_on_wherever_they_are_cut(cut: int) -> None:
    public, channel = LogName("public"), LogName("channel:c")

    def said(*logs: LogName) -> j.MessageAdded:
        return j.MessageAdded(ref=j.MessageRef(body=hash_json(logs), logs=logs))

    one, other = Journal(CrewState(run=RUN)), Journal(CrewState(run=RunId("other")))
    for journal in (one, other):
        journal.record(said(public))
    other.record(said(channel))
    theirs = other.state.messages
    heads = {log: at.head for log, at in one.state.messages.items()}
    joins = [
        j.LogMerge(log=log, one=heads.get(log, ContentHash("")), two=at.head, more=at.length)
        for log, at in theirs.items()
    ]
    joins.append(joins[-1].model_copy(update={"one": theirs[channel].head, "more": 0}))
    entries = [said(public), said(channel)]
    for entry in (j.LogsMerged(merged_logs=tuple(joins), parents=(RunId("other"),)), *entries):
        one.record(entry)
    whole = one.unpacked_batch()
    parts = Journal(CrewState(run=RUN))
    found: list[Link] = []
    for position, data in enumerate(whole.entries, 1):
        parts.record(j.entry_from_json(data))
        if position == cut:
            found += batch_links(RUN, unpack(parts.batch(), {}))
            parts.mark_stored(position)
    found += batch_links(RUN, unpack(parts.batch(), {}))
    assert found == list(batch_links(RUN, whole))
    assert [(link.log, bool(link.other)) for link in found] == [
        *[(public, False), (public, True)],  # the channel's log is the other's: nothing is linked
        *[(public, False), (channel, False)],
    ]
    after = heads_after_batch(RUN, {}, whole)
    assert after == {log: at.head for log, at in one.state.messages.items()}
    assert {log: at.length for log, at in one.state.messages.items()} == {public: 3, channel: 2}
    assert parts.state == one.state
