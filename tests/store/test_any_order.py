"""Batches in any order, twice, overlapping and in parallel give the same rows in both stores."""

import asyncio
import random

import pytest

from crewlog.ids import RunId
from crewlog.state.journal import Batch
from crewlog.store import InMemoryStore, PostgresStore, Store
from store.journals import Journal, random_journal, rows_of, seeded


async def reference(journal: Journal) -> dict[str, object]:
    """What one batch in order gives."""
    store = InMemoryStore()
    await store.append(journal.run, journal.batch(), journal.bodies)
    return await rows_of(store, journal)


def cut(journal: Journal, rng: random.Random) -> list[Batch]:
    """Batches that cover the journal, overlap, come twice, and are out of order."""
    batches: list[Batch] = []
    first = 1
    while first <= len(journal):
        last = min(len(journal), first + rng.randrange(6))
        batches.append(journal.batch(max(1, first - rng.randrange(5)), last))
        first = last + 1
    batches += rng.choices(batches, k=len(batches) // 2)
    rng.shuffle(batches)
    return batches


@pytest.mark.parametrize("seed", range(25))
async def test_any_order_gives_the_same_rows(store: Store, run: RunId, seed: int) -> None:
    rng = seeded(seed)
    journal = random_journal(run, rng)
    await store.put_bodies(journal.run, journal.bodies)
    for batch in cut(journal, rng):
        await store.append(run, batch)
    assert await rows_of(store, journal) == await reference(journal)


@pytest.mark.parametrize("seed", range(10))
async def test_in_parallel_too(postgres: PostgresStore, run: RunId, seed: int) -> None:
    rng = seeded(1000 + seed)
    journals = [random_journal(RunId(f"{run}-{n}"), rng) for n in range(4)]
    work = [(one, batch) for one in journals for batch in cut(one, rng)]
    rng.shuffle(work)
    # All runs say some of the same things: bodies meet as well as rows of one run.
    await asyncio.gather(*(postgres.append(one.run, batch, one.bodies) for one, batch in work))
    for journal in journals:
        assert await rows_of(postgres, journal) == await reference(journal)


async def test_two_processes_of_one_store(dsn: str, run: RunId) -> None:
    stores = [await PostgresStore.connect(dsn, max_size=4) for _ in range(3)]
    journal = random_journal(run, seeded(5), length=60)
    await asyncio.gather(*(s.append(run, journal.batch(), journal.bodies) for s in stores * 5))
    for one in stores:
        assert await rows_of(one, journal) == await reference(journal)
        await one.close()
