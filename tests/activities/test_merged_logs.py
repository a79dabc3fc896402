"""The logs of merged runs: windows, their size in the cache, and their cost."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from crewlog.activities.hydrator import Hydrator
from crewlog.activities.windows import CHUNK, TrimmedTranscript
from crewlog.definition.context import Window
from crewlog.ids import PUBLIC, AgentName, ContentHash, RunId, StepId
from crewlog.state.calls import CallInput
from crewlog.state.journal import Batch
from crewlog.state.logs import batch_links
from crewlog.store import InMemoryStore
from pace import usual
from store.branches import BODIES, WORDS, Branch, World, parted
from store.journals import CHANNEL, PRIVATE, seeded

ANN = AgentName("ann")


class Counting(InMemoryStore):
    def __init__(self) -> None:
        super().__init__()
        self.links_read = self.bodies_read = 0

    async def read_log(self, head: ContentHash, known: Collection[ContentHash] = ()) -> Any:
        found = await super().read_log(head, known)
        self.links_read += len(found)
        return found

    async def get_bodies(self, hashes: Collection[ContentHash]) -> Any:
        self.bodies_read += len(hashes)
        return await super().get_bodies(hashes)


async def windowed(hydrator: Hydrator, one: Branch, window: Window) -> TrimmedTranscript:
    task = CallInput(run=one.run, step=StepId("ann#9"), agent=ANN, definition=ContentHash("d"))
    return await hydrator.hydrate_window(task, one.view(), window, ())


def plainly(cut: TrimmedTranscript) -> dict[str, Any]:
    return {
        "shown": [each.text for each in cut.messages],
        "gap": [each.text for each in cut.gap],
        "covered": [(each.log, each.length) for each in cut.prefixes],
        "said": [[m.text for m in each.read_messages(0, each.length)] for each in cut.prefixes],
        "counts": (cut.omitted_groups, cut.unlisted_groups, cut.summarized_groups),
    }


@pytest.mark.parametrize("seed", range(30))
async def test_a_window_trims_merged_logs_like_one_log(seed: int) -> None:
    """Also where journals that went on side by side have messages at the same positions."""
    store, rng = InMemoryStore(), seeded(seed)
    one, two = await parted(store, RunId("r"))
    for n in range(rng.randrange(60, 160)):
        logs = rng.sample([PUBLIC, PRIVATE, CHANNEL], rng.choice([1, 1, 2]))
        rng.choice([one, two]).say(f"{n}: {rng.choice(WORDS)}", *logs)
    for each in (one, two):
        await each.stored(store)
    one.joins(two)
    for n in range(rng.randrange(20)):
        one.say(f"after {n}")
    await one.stored(store)
    spots = sorted(set().union(*one.said.values()))
    assert len({position for position, _ in spots}) < len(spots)
    plain, bodies = Branch(RunId("plain")), await store.get_bodies({body for _, body in spots})
    for spot in spots:
        logs = [log for log, said in one.said.items() if spot in said]
        plain.say(str(bodies[spot[1]]["content"]), *logs)
    await plain.stored(store)
    for last in (1, 3, 3 * CHUNK):
        for more in (
            {},
            {"tokens": 200},
            {"summary": "extract"},
            {"summary": "extract", "tokens": 240},
        ):
            window = Window(last=last, **more)
            cuts = [await windowed(Hydrator(store), each, window) for each in (one, plain)]
            assert plainly(cuts[0]) == plainly(cuts[1])
            assert cuts[0].omitted_groups


async def test_every_worker_computes_the_same_head_of_a_merged_log() -> None:
    """Summaries are found by it. As far as one side goes alone, it is that side's own."""
    store = InMemoryStore()
    one = Branch(RunId("r"))
    for n in range(2 * CHUNK):
        one.say(f"before {n}")
    await one.stored(store)
    two = Branch(RunId("r-other"), one)
    for each in (one, two):
        for n in range(2 * CHUNK):
            each.say(f"{each.run} {n}")
        await each.stored(store)
    window = Window(last=2, summary="extract")
    alone = await windowed(Hydrator(store), one, window)
    one.joins(two)
    warm = Hydrator(store)
    await warm.hydrate(one.run, ANN, one.view(), one.batch())
    await one.stored(store)
    found = [await windowed(each, one, window) for each in (warm, Hydrator(store))]
    (first,), (second,) = (each.prefixes for each in found)
    assert first.head == second.head
    assert first.length > alone.prefixes[0].length
    shared = [replace(each, length=2 * CHUNK).head for each in (first, second, alone.prefixes[0])]
    assert len(set(shared)) == 1
    own = replace(first, length=3 * CHUNK).head
    assert own != replace(alone.prefixes[0], length=3 * CHUNK).head


async def test_an_agent_continues_in_the_surviving_run() -> None:
    """Its transcript is made anew once; from there on a call reads nothing but what is new."""
    store = Counting()
    one, two = await parted(store, RunId("r"))
    hydrator = Hydrator(store)
    assert len(await hydrator.hydrate(one.run, ANN, one.view())) == 2
    one.joins(two)
    batch = one.batch()
    store.links_read = store.bodies_read = 0
    found = await hydrator.hydrate(one.run, ANN, one.view(), batch)
    assert [each.text for each in found] == ["yes", "no", "perhaps", "never"]
    assert store.bodies_read == 2, "what the other run said since they parted"
    await one.stored(store)
    read = store.links_read
    for n in range(5):
        one.say("yes")
        batch = one.batch()
        await one.stored(store)
        assert len(await hydrator.hydrate(one.run, ANN, one.view(), batch)) == 5 + n
    assert (store.links_read, store.bodies_read) == (read, 2)


async def test_the_size_of_a_merged_log_is_counted() -> None:
    store = InMemoryStore()
    one, two = await parted(store, RunId("r"))
    hydrator = Hydrator(store)
    await hydrator.hydrate(one.run, ANN, one.view())
    before = hydrator.size
    one.joins(two)
    await hydrator.hydrate(one.run, ANN, one.view(), one.batch())
    # Two links and two messages of the other's, the joined head, and the four links that it has.
    assert hydrator.size == before + 2 + 2 + 1 + 4
    assert hydrator.size == sum(each.size for each in hydrator._runs.values())


@pytest.mark.parametrize("seed", range(8))
async def test_a_small_cache_reads_the_same(seed: int) -> None:
    store = InMemoryStore()
    world, forgetful = World(RunId("r"), seed, store), Hydrator(store, max_entries=10)
    for _ in range(30):
        one = await world.step()
        await one.stored(store)
        for each in world.all:
            await each.stored(store)
            found = await forgetful.hydrate(each.run, ANN, each.view())
            every = sorted(set().union(*each.said.values()))
            assert [message.text for message in found] == [BODIES[body] for _, body in every]
        assert len(forgetful._runs) == 1 or forgetful.size <= 10


async def test_large_logs_are_merged_by_one_row() -> None:
    store = Counting()
    one = Branch(RunId("r"))
    two = Branch(RunId("r-other"), one)
    await one.stored(store)
    for each in (one, two):
        for n in range(1000):
            each.say(f"{each.run} {n} " + "x" * 10_240)
        await each.stored(store)
    rows = len(store._links), len(store._bodies)
    hydrator = Hydrator(store)
    await hydrator.hydrate(one.run, ANN, one.view())
    one.joins(two)
    batch = one.batch()
    assert len([link for link in batch_links(one.run, batch) if link.other]) == 1
    await one.stored(store)
    assert len(await hydrator.hydrate(one.run, ANN, one.view(), batch)) == 2000
    assert (len(store._links), len(store._bodies)) == (rows[0] + 1, rows[1])
    read = store.links_read, store.bodies_read
    assert read == (2000, 2000)
    best = 1.0
    for n in range(10):
        one.say(f"after {n}")
        batch = one.batch()
        await one.stored(store)
        begun = time.thread_time()
        assert len(await hydrator.hydrate(one.run, ANN, one.view(), batch)) == 2001 + n
        best = min(best, time.thread_time() - begun)
    assert (store.links_read, store.bodies_read) == read
    assert usual(best) < 0.004


async def test_a_batch_with_a_merge_and_a_rollback() -> None:
    """A step that is scheduled after both has them in one batch."""
    store, rng = InMemoryStore(), seeded(3)
    one, two = await parted(store, RunId("r"))
    one.joins(two)
    one.say("never", CHANNEL)
    before = one.position
    heads, said = dict(one.past[2][0]), dict(one.past[2][1])
    one.past[1:] = [(heads, said)]
    one.back(rng)
    assert one.position == before + 1
    one.joins(two)
    found = await Hydrator(store).hydrate(one.run, ANN, one.view(), one.batch())
    assert [each.text for each in found] == ["yes", "perhaps", "never"]
    assert Batch.EMPTY.entries == ()
