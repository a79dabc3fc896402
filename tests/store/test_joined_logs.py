"""Logs of runs that part and come together: what is read of them, against sets of messages."""

from __future__ import annotations

import random

import pytest

from crewlog.activities.hydrator import Hydrator
from crewlog.errors import LogAccessDenied, StoreIncomplete
from crewlog.ids import PUBLIC, AgentName, ContentHash, LogName, RunId
from crewlog.state import journal as j
from crewlog.state.batch_codec import pack_view, unpack_view
from crewlog.state.calls import View
from crewlog.state.fold import fold_journal
from crewlog.state.logs import extended_logs, merged_head
from crewlog.store import Store
from crewlog.store.protocol import LineageLink, LogLink
from message_order import sort_messages
from store.branches import BODIES, Branch, Said, World, parted, texts
from store.journals import CHANNEL, PRIVATE

ANN = AgentName("ann")


def spots(links: list[LogLink]) -> list[tuple[int, ContentHash]]:
    return [(link.position, link.body) for link in sort_messages(links)]


@pytest.mark.parametrize("seed", range(20))
async def test_whatever_way_they_are_read_logs_have_what_was_said_in_them(
    store: Store, run: RunId, seed: int
) -> None:
    """Step by step with what is not stored yet, and at once, in any order, by a new worker."""
    world = World(run, seed, store)
    lasting = Hydrator(store)
    for _ in range(25):
        one = await world.step()
        if world.rng.random() < 0.7:  # what is under way is given with the call
            batch = one.batch()
            view = unpack_view(pack_view(one.view(), extended_logs(batch)), one.run, batch)
            assert view == one.view()
            found = await lasting.hydrate(one.run, ANN, view, batch)
            assert [each.text for each in found] == texts(one.said, BODIES)
        if world.rng.random() < 0.7:
            await one.stored(store)
        assert lasting.size == sum(each.size for each in lasting._runs.values())
    for one in world.all:
        await one.stored(store)
    places = [(one, *past) for one in world.all for past in one.past if past[0]]
    world.rng.shuffle(places)
    fresh = Hydrator(store)
    for one, heads, said in places[:12]:
        for worker in (lasting, fresh, Hydrator(store)):
            found = await worker.hydrate(one.run, ANN, View(heads=heads))
            assert [each.text for each in found] == texts(said, BODIES)
            chains = await worker.read_chains(one.run, View(heads=heads), j.Batch.EMPTY)
            for log, at in chains.items():
                assert at.chain[: at.length] == sorted(said[log])
                assert len(at.chain.heads) == len(at.chain)
        for log, head in heads.items():
            await check_reading(store, world.rng, head, said[log])


async def check_reading(store: Store, rng: random.Random, head: ContentHash, said: Said) -> None:
    links = await store.read_log(head)
    assert spots(links) == sorted(said)
    assert links[-1].head == head
    met = set[ContentHash]()
    for link in links:
        assert not {link.previous, link.other} & ({each.head for each in links} - met)
        met.add(link.head)
    known = {link.head for link in rng.sample(links, rng.randrange(min(4, len(links))))}
    by_head = {link.head: link for link in links}
    wanted, ahead = set[ContentHash](), [head]
    while ahead:
        at = ahead.pop()
        if at not in known and at not in wanted and at in by_head:
            wanted.add(at)
            ahead += by_head[at].parents
    assert {link.head for link in await store.read_log(head, known)} == wanted


async def test_the_dice_join_and_adopt_logs(store: Store, run: RunId) -> None:
    counts = {"joins": 0, "adopted": 0}
    for seed in range(10):
        world = World(RunId(f"{run}-{seed}"), seed, store)
        for _ in range(25):
            await world.step()
        counts = {name: counts[name] + world.counts[name] for name in counts}
    assert counts["joins"] > 40
    assert counts["adopted"] > 5


async def test_a_join_is_a_link_with_two_parents_and_no_message(store: Store, run: RunId) -> None:
    one, two = await parted(store, run)
    heads = one.heads[PUBLIC], two.heads[PUBLIC]
    one.joins(two)
    one.say("yes")
    await one.stored(store)
    links = await store.read_log(one.heads[PUBLIC])
    join = next(link for link in links if link.other)
    assert (join.previous, join.other) == join.parents == heads
    assert (join.body, join.head) == ("", merged_head(*heads, join.position))
    assert [BODIES[link.body] for link in sort_messages(links)] == [
        *("yes", "no", "perhaps", "never", "yes"),
    ]  # fmt: skip
    assert [link.head for link in links][-2:] == [join.head, one.heads[PUBLIC]]
    assert await store.read_log(one.heads[PUBLIC], [join.head]) == links[-1:]


async def test_a_join_adds_one_link_and_an_adopted_log_none(store: Store, run: RunId) -> None:
    one, two = await parted(store, run)
    two.say("no", CHANNEL)
    await two.stored(store)
    links = one.links
    one.joins(two)
    assert one.links == links + 1
    assert one.heads[CHANNEL] == two.heads[CHANNEL]
    await one.stored(store)
    assert len(await store.read_log(one.heads[CHANNEL])) == 1
    one.say("yes", CHANNEL)
    await one.stored(store)
    found = await Hydrator(store).hydrate(one.run, ANN, View(heads={CHANNEL: one.heads[CHANNEL]}))
    assert [each.text for each in found] == ["no", "yes"]


async def test_a_side_that_the_store_lacks_is_missed(store: Store, run: RunId) -> None:
    one = Branch(run)
    two = Branch(RunId(f"{run}-other"))
    for each in (one, two):
        each.say("yes")
    lost = two.heads[PUBLIC]
    two.pending.clear()
    one.joins(two)
    await one.stored(store)
    with pytest.raises(StoreIncomplete, match=f"no link of the log head '{lost}'"):
        await store.read_log(one.heads[PUBLIC])
    assert len(await store.read_log(one.heads[PUBLIC], [lost])) == 2


async def test_a_run_goes_on_from_those_whose_logs_came_in(store: Store, run: RunId) -> None:
    one, two = await parted(store, run)
    third, fourth = Branch(RunId(f"{run}-third")), Branch(RunId(f"{run}-fourth"))
    for each in (third, fourth):
        each.say("never")
        await each.stored(store)
    third.joins(fourth)
    await third.stored(store)
    two.joins(third)
    await two.stored(store)
    assert await store.lineage(two.run) == {one.run, third.run, fourth.run}
    assert await store.lineage(third.run) == {fourth.run}
    at, fifth = two.position, Branch(RunId(f"{run}-fifth"))
    fifth.say("never")
    await fifth.stored(store)
    two.joins(fifth)
    await two.stored(store)
    assert fifth.run in await store.lineage(two.run)
    await store.truncate_journal(two.run, at)
    await store.delete([third.run], 1)
    assert await store.lineage(two.run) == {one.run, third.run, fourth.run}
    child = Branch(RunId(f"{run}-child"), two)
    await child.stored(store)
    await store.delete([two.run], 1)
    assert await store.lineage(child.run) == {one.run, two.run, third.run, fourth.run}
    await store.delete([child.run], 1)
    assert await store.lineage(two.run) == set()


async def test_what_came_in_stays_when_its_run_is_deleted(store: Store, run: RunId) -> None:
    one, two = await parted(store, run)
    one.joins(two)
    await one.stored(store)
    await store.delete([two.run], 1, grace=0)
    found = await Hydrator(store).hydrate(one.run, ANN, one.view())
    assert [each.text for each in found] == ["yes", "no", "perhaps", "never"]
    head, theirs = one.heads[PUBLIC], two.heads[PUBLIC]
    await store.delete([one.run], 1, grace=0)
    for gone in (head, theirs):
        with pytest.raises(StoreIncomplete):
            await store.read_log(gone)


async def test_the_state_has_the_heads_and_the_lengths_of_joined_logs(
    store: Store, run: RunId
) -> None:
    one, two = await parted(store, run)
    two.say("no", CHANNEL)
    one.joins(two)
    one.say("never")
    rows = [j.entry_from_json(entry) for entry in one.pending]
    await one.stored(store)
    read = [j.entry_from_json(row.entry) for row in await store.read_journal(run)]
    assert read[-len(rows) :] == rows
    state = fold_journal(run, read)
    assert {log: at.head for log, at in state.messages.items()} == one.heads
    assert {log: at.length for log, at in state.messages.items()} == {PUBLIC: 5, CHANNEL: 1}


async def test_a_root_of_a_joined_log_that_is_another_log_s_is_refused(
    store: Store, run: RunId
) -> None:
    """Of the same run, of one that came in, and of a stranger."""
    one, two = await parted(store, run)
    stranger = Branch(RunId(f"{run}-stranger"))
    stranger.say("no")
    two.say("never", CHANNEL)
    for each in (two, stranger):
        await each.stored(store)
    one.joins(two)
    for log, head in ((PUBLIC, two.heads[CHANNEL]), (CHANNEL, stranger.heads[PUBLIC])):
        wrong = j.LogMerge(log=log, one=one.heads[log], two=head)
        one.add(j.LogsMerged(merged_logs=(wrong,)))
    await one.stored(store)
    for log in (PUBLIC, CHANNEL):
        with pytest.raises(LogAccessDenied, match=f"the head of '{log}' in the view"):
            await Hydrator(store).hydrate(run, ANN, View(heads={log: one.heads[log]}))


async def test_a_stranger_s_log_is_taken_once_its_run_is_said_to_come_in(
    store: Store, run: RunId
) -> None:
    """By the store, or by what is on its way to it."""
    one, two = Branch(run), Branch(RunId(f"{run}-other"))
    for each in (one, two):
        each.say("yes")
    await two.stored(store)
    await one.stored(store)
    theirs = View(heads={PUBLIC: two.heads[PUBLIC]})
    with pytest.raises(LogAccessDenied, match="no log of that name"):
        await Hydrator(store).hydrate(run, ANN, theirs)
    one.joins(two)
    assert len(await Hydrator(store).hydrate(run, ANN, one.view(), one.batch())) == 1
    await one.stored(store)
    assert len(await Hydrator(store).hydrate(run, ANN, one.view())) == 1


async def test_a_renamed_log_may_begin_under_its_older_names(store: Store, run: RunId) -> None:
    one, two = Branch(run), Branch(RunId(f"{run}-other"))
    for each in (one, two):
        each.say("yes", CHANNEL)
        each.say("no", PRIVATE)
    await two.stored(store)
    renamed, ann = LogName("channel:ops-2"), LogName("private:ann-2")
    kept = [
        j.LogMerge(log=log, two=two.heads[was]) for log, was in ((renamed, CHANNEL), (ann, PRIVATE))
    ]
    one.add(j.LogsMerged(merged_logs=tuple(kept), parents=(two.run,)))
    one.say("never", renamed)
    await one.stored(store)
    hydrator = Hydrator(store)
    view = View(heads={renamed: one.heads[renamed]}, former_names={renamed: (CHANNEL,)})
    assert View.from_json(view.to_json()) == view
    for head in (hydrator, Hydrator(store)):
        found = await head.hydrate(run, ANN, view)
        assert [each.text for each in found] == ["yes", "never"]
        for formerly in ({}, {renamed: (LogName("channel:x"),)}, {CHANNEL: (CHANNEL,)}):
            with pytest.raises(LogAccessDenied, match=f"the head of '{renamed}' in the view"):
                await head.hydrate(run, ANN, view.model_copy(update={"former_names": formerly}))
    # A name of another kind is none that it can have had.
    stolen = View(heads={renamed: one.heads[ann]}, former_names={renamed: (PRIVATE,)})
    with pytest.raises(LogAccessDenied):
        await hydrator.hydrate(run, ANN, stolen)
    assert "formerly" not in View(heads={renamed: one.heads[renamed]}).to_json()


async def test_each_step_of_a_lineage_is_told_in_both_directions(store: Store, run: RunId) -> None:
    one, two = await parted(store, run)
    third = Branch(RunId(f"{run}-third"))
    third.say("never")
    await third.stored(store)
    two.joins(third)
    await two.stored(store)
    row = await store.get_run(two.run)
    assert row is not None
    began = LineageLink(run=two.run, source=one.run, position=row.source_position)
    took = LineageLink(run=two.run, source=third.run, position=two.position, by_merge=True)
    assert await store.lineage_links([one.run]) == [began]
    assert await store.lineage_links([third.run]) == [took]
    assert await store.lineage_links([two.run, one.run]) == [began, took]
    assert await store.lineage_links([RunId("nobody")]) == []
    assert await store.lineage_links([]) == []
    await store.delete([third.run], 1)
    assert [(t.run, t.source) for t in await store.lineage_links([third.run])] == [
        (two.run, third.run)
    ]
    await store.delete([one.run], 1)
    assert (one.run, two.run) in [(t.source, t.run) for t in await store.lineage_links([one.run])]
