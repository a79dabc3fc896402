"""Runs of one fork tree share links, also those of what each said itself: a deletion takes none."""

from __future__ import annotations

import asyncio
import random

import pytest

from crewlog.errors import StoreIncomplete
from crewlog.ids import PUBLIC, ContentHash, CrewName, LogName, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.logs import Link, batch_links, heads_after_batch
from crewlog.state.model import CrewState, LogHead
from crewlog.store import PostgresStore, Store
from store.journals import PRIVATE, Journal, seeded
from store.test_deleting import NOW, begun, fork_of, said, talk
from store.waiting import held


class Twig:
    """A run of a tree, as far as it has come: its journal from its base on, and its links."""

    def __init__(self, run: RunId, source: Twig | None = None, base: int = 0) -> None:
        self.run = run
        self.base = base
        self.entries: list[j.JournalEntry] = []
        self.heads: list[dict[LogName, ContentHash]] = [{}]
        """After each position from the base on."""
        self.links: list[Link] = []
        if source is None:
            self.add(j.RunStarted(run=run, crew=CrewName("band"), definition=ContentHash("d" * 27)))
        else:
            state = source.state_at(base).model_copy(update={"run": run})
            forked = j.RunForked(run=run, source=source.run, to=base, state=state.to_json())
            self.add(forked)

    @property
    def end(self) -> int:
        return self.base + len(self.entries)

    def state_at(self, position: int) -> CrewState:
        heads = self.heads[position - self.base]
        return CrewState(
            run=self.run,
            crew=CrewName("band"),
            messages={log: LogHead(head=head, length=1) for log, head in heads.items()},
        )

    def batch(self, first: int, count: int | None = None) -> j.Batch:
        """The entries from a position on."""
        skipped = first - self.base - 1
        last = None if count is None else skipped + count
        entries = tuple(map(j.entry_to_json, self.entries[skipped:last]))
        return j.Batch(first=first, heads=self.heads[skipped], entries=entries)

    def add(self, entry: j.JournalEntry) -> None:
        self.entries.append(entry)
        self.heads.append(self.heads[-1])
        batch = self.batch(self.end)
        self.heads[-1] = heads_after_batch(self.run, self.heads[-2], batch)
        self.links += batch_links(self.run, batch)

    def grow(self, rng: random.Random) -> None:
        """Adds what others may say, too, in the same words and at the same positions."""
        match rng.randrange(8):
            case 0 | 1:
                self.add(j.StepStarted(step=StepId("a#1")))
            case 2:
                to = rng.randrange(self.base + 1, self.end + 1)
                self.add(j.RunRolledBack(to=to, state=self.state_at(to).to_json()))
            case 3:
                to = rng.randrange(self.base + 1, self.end + 1)
                self.add(j.RunReopened(to=to, state=self.state_at(to).to_json()))
            case _:
                logs = rng.choice([(PUBLIC,), (PUBLIC, PRIVATE)])
                self.say(rng.choice(["yes", "yes", "no"]), *logs)

    def joins(self, other: Twig) -> None:
        """Takes in the logs of another one."""
        heads = self.heads[-1]
        joins = [
            j.LogMerge(log=log, one=heads.get(log, ContentHash("")), two=two)
            for log, two in other.heads[-1].items()
        ]
        self.add(j.LogsMerged(merged_logs=tuple(joins), parents=(other.run,)))

    def say(self, text: str, *logs: LogName) -> None:
        journal = Journal(self.run)
        journal.say({"text": text}, *logs)
        self.add(j.entry_from_json(journal.entries[0]))

    async def stored(self, store: Store) -> None:
        bodies = {}
        for text in ("yes", "no"):
            journal = Journal(self.run)
            journal.say({"text": text})
            bodies |= journal.bodies
        await store.append(self.run, self.batch(self.base + 1), bodies)

    async def check(self, store: Store) -> None:
        """Reads every log as it was after every position."""
        for log, head in {each for heads in self.heads[1:] for each in heads.items()}:
            for link in await store.read_log(head):
                assert link.other or await store.get_bodies([link.body]), log


async def has(store: Store, link: Link) -> bool:
    try:
        await store.read_log(link.head, [link.previous, link.other or link.previous])
    except StoreIncomplete:
        return False
    return True


@pytest.mark.parametrize("seed", range(30))
async def test_whatever_a_run_of_a_tree_has_stays_until_the_last_that_has_it_goes(
    store: Store, run: RunId, seed: int
) -> None:
    rng = seeded(seed)
    root = Twig(run)
    runs, links = [root], list[Link]()
    for number in range(rng.randrange(12, 30)):
        alive = rng.choice(runs)
        match rng.randrange(6):
            case 0 | 1 if len(runs) < 7:
                base = rng.randrange(alive.base + 1, alive.end + 1)
                fork = Twig(RunId(f"{run}-{number}"), alive, base)
                runs.append(fork)
                alive = fork
            case 2 if len(runs) > 3:
                await deleted(store, runs, rng)
                continue
            case 3 if len(runs) > 1:
                alive.joins(rng.choice([each for each in runs if each is not alive]))
            case _:
                alive.grow(rng)
        for _ in range(3):
            alive.grow(rng)
        await alive.stored(store)
        links += alive.links
    while runs:
        await deleted(store, runs, rng)
    assert not [link for link in links if await has(store, link)]


async def deleted(store: Store, runs: list[Twig], rng: random.Random) -> None:
    """Deletes some of a tree's runs; the others have all that is theirs afterwards."""
    gone = rng.sample(runs, min(len(runs), rng.choice([1, 1, 1, 2])))
    for each in gone:
        runs.remove(each)
    await store.delete([each.run for each in gone], NOW, grace=0)
    for each in runs:
        await each.check(store)


async def test_forks_that_got_the_same_answers(store: Store, run: RunId) -> None:
    source = await talk(store, run, "one")
    first, second = (
        fork_of(source, RunId(f"{run}-{name}"), "same", "same again", base=2) for name in "xy"
    )
    for each in (first, second):
        await begun(store, each, 2)
    head = second.heads[-1][PUBLIC]
    assert first.heads[-1][PUBLIC] == head
    await store.delete([first.run], NOW, grace=0)
    assert await said(store, head) == ["one", "same", "same again"]
    await store.delete([second.run], NOW, grace=0)
    with pytest.raises(StoreIncomplete):
        await store.read_log(head, [second.heads[-2][PUBLIC]])


@pytest.mark.parametrize("lost", [(), ("-x",)])
async def test_a_source_says_the_same_as_its_fork(
    store: Store, run: RunId, lost: tuple[str, ...]
) -> None:
    root = Twig(run)
    root.say("yes", PUBLIC)
    forks = [Twig(RunId(f"{run}-x"), root, root.end)]
    forks.append(Twig(RunId(f"{run}-y"), forks[0], forks[0].end))
    root.add(j.StepStarted(step=StepId("a#1")))
    root.add(j.StepStarted(step=StepId("b#1")))
    for each in (root, forks[1]):
        each.say("no", PUBLIC)
        await each.stored(store)
    await forks[0].stored(store)
    assert root.heads[-1] == forks[1].heads[-1]
    # The fork that lies between is gone first, so that nothing names the root any more.
    for name in (*lost, "-y"):
        await store.delete([RunId(f"{run}{name}")], NOW, grace=0)
        await root.check(store)


async def test_what_a_run_with_a_batch_under_way_has_stays(store: Store, run: RunId) -> None:
    root = Twig(run)
    root.say("no", PUBLIC)
    first, second = (Twig(RunId(f"{run}-{name}"), root, root.end) for name in "xy")
    for each in (first, second):
        for _ in range(4):
            each.say("yes", PUBLIC)
    await root.stored(store)
    await first.stored(store)
    await second.stored(store)
    await store.truncate_journal(second.run)
    base = second.base
    await store.append(second.run, second.batch(base + 1, 2))
    await store.append(second.run, second.batch(base + 4))
    await store.delete([first.run], NOW, grace=0)
    await store.append(second.run, second.batch(base + 3, 1))
    await second.check(store)


async def test_what_is_said_while_a_twin_is_deleted_stays(
    postgres_store: PostgresStore, database: str, run: RunId
) -> None:
    store, root = postgres_store, Twig(run)
    root.say("no", PUBLIC)
    first, second = (Twig(RunId(f"{run}-{name}"), root, root.end) for name in "xy")
    for each in (root, first, second):
        if each is not root:
            each.say("yes", PUBLIC)
        await each.stored(store)
    for each in (first, second):
        each.say("yes", PUBLIC)
    await first.stored(store)
    # The deletion has looked at what is said, and waits right before links go.
    async with held(database, "LOCK TABLE crewlog.log_links IN EXCLUSIVE MODE") as gate:
        deletion = await gate.begin(store.delete([first.run], NOW, grace=0))
        saying = await gate.begin(second.stored(store))
    await asyncio.gather(deletion, saying)
    await second.check(store)
