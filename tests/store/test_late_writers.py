"""What an execution stores late, when its run's id has another history: it is refused."""

from __future__ import annotations

import asyncio

import pytest

from crewlog.errors import HistoryConflict
from crewlog.ids import PUBLIC, ContentHash, CrewName, RunId
from crewlog.state import journal as j
from crewlog.store import PostgresStore, Store
from crewlog.store.codec import dump_json
from store.journals import Journal
from store.waiting import held


def told(run: RunId, who: str, texts: int) -> Journal:
    """A run that was started by somebody, and said something."""
    entry = j.RunStarted(
        run=run, crew=CrewName("band"), definition=ContentHash("x" * 27), at=1, by=who
    )
    journal = Journal(run, [entry])
    for number in range(texts):
        journal.say({"text": f"{who} {number}"}, PUBLIC)
    return journal


async def kinds(store: Store, run: RunId) -> list[str]:
    return [row.entry.get("by", "") for row in await store.read_journal(run)][:1]


async def test_a_late_batch_does_not_mix_into_the_new_history(store: Store, run: RunId) -> None:
    old, new = told(run, "old", 6), told(run, "new", 2)
    await store.append(run, old.batch(1), old.bodies, execution="first")
    await store.reject_executions(run, ["first"])
    await store.reject_executions(run, ["first"])  # told again
    await store.delete([run], 1, grace=0)
    late = old.batch(5)  # beyond what the new one has said: no position would tell
    with pytest.raises(HistoryConflict):
        await store.append(run, late, old.bodies, execution="first")
    assert await store.read_journal(run) == []
    await store.append(run, new.batch(), new.bodies, execution="second")
    with pytest.raises(HistoryConflict):
        await store.append(run, late, execution="first")
    assert len(await store.read_journal(run)) == len(new)
    assert await kinds(store, run) == ["new"]
    row = await store.get_run(run)
    assert row is not None
    assert row.started_by == "new"
    other = RunId(f"{run}-other")
    await store.append(other, told(other, "third", 1).batch(), execution="first")
    assert await store.get_run(other) is not None, "it is shut for its run alone"


async def test_a_rebuild_may_store_what_a_shut_execution_said(store: Store, run: RunId) -> None:
    old = told(run, "old", 2)
    await store.reject_executions(run, ["first"])
    await store.append(run, old.batch(), old.bodies)
    assert len(await store.read_journal(run)) == len(old)


async def test_what_is_being_stored_when_it_is_shut_is_forgotten(
    postgres_store: PostgresStore, database: str, run: RunId
) -> None:
    store, old = postgres_store, told(run, "old", 20)

    async def replace() -> None:
        await store.reject_executions(run, ["first"])
        await store.delete([run], 1, grace=0)

    hash_, body = next(iter(old.bodies.items()))
    insert = "INSERT INTO crewlog.bodies (hash, body) VALUES ($1, $2)"
    # It has found the execution open, and waits for somebody else who stores the same body.
    async with held(database, insert, hash_, dump_json(body)) as gate:
        late = await gate.begin(store.append(run, old.batch(), old.bodies, execution="first"))
        replacing = await gate.begin(replace())
    await asyncio.gather(late, replacing, return_exceptions=True)
    assert await store.read_journal(run) == []
