"""What a client removes where the server lists no open run."""

from __future__ import annotations

from typing import Any, cast

import pytest

from crewlog.client import deletion
from crewlog.client.deletion import Deleting, ListRuns
from crewlog.client.run_summary import RunSummary
from crewlog.client.session import Session
from crewlog.errors import StoreIncomplete
from crewlog.ids import CrewName, RunId
from crewlog.state import journal as j
from crewlog.store import InMemoryStore
from crewlog.store.protocol import GRACE
from store.branches import Branch
from store.journals import Journal
from store.test_deleting import talk
from store.test_merged_runs import merges

RUN = RunId("old")


class Alone:
    """A session with a server that lists no open run."""

    gateway: Any = None

    def __init__(self, store: InMemoryStore) -> None:
        self._store = store

    async def store(self) -> InMemoryStore:
        return self._store

    async def nobody(self, _: Any) -> bool:
        return False

    async def forget(self, _: RunId) -> None:
        """The server has nothing of it."""


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Alone:
    found = Alone(InMemoryStore())
    monkeypatch.setattr(Deleting, "_anybody", found.nobody)
    monkeypatch.setattr(Deleting, "_forget", found.forget)
    return found


async def delete(client: Alone, *runs: RunId, at: int) -> None:
    deleting: Any = Deleting(cast("Session", client), cast("ListRuns", None))
    await deleting._delete(runs, at)


async def test_a_run_that_begins_unseen_keeps_what_it_has_put(alone: Alone) -> None:
    store, at = await alone.store(), 10 * GRACE
    journal = await talk(store, RUN, "hello")
    body = journal.entries[1]["ref"]["body"]
    # Another run begins with the same, and is not listed yet.
    definition = await store.put_definition(RunId("new"), {"crew": RUN})
    await store.put_bodies(journal.run, journal.bodies)
    await delete(alone, RUN, at=at)
    begun = j.RunStarted(run=RunId("new"), crew=CrewName("band"), definition=definition, at=1)
    other = Journal(RunId("new"), [begun])
    other.say({"text": "hello"})
    await store.append(other.run, other.batch())
    await delete(alone, at=at + GRACE)
    assert await store.get_definition(definition) == {"crew": RUN}
    assert await store.get_bodies([body]) == journal.bodies


async def delete_ended(client: Alone, *runs: RunId) -> list[RunId]:
    """Deletes those of some ended runs that no other run needs."""

    async def ended(*, limit: int) -> list[RunSummary]:
        return [RunSummary(run, "band", "merged", 1, 2, None) for run in runs[:limit]]

    deleting = Deleting(cast("Session", client), ended)
    found = await deleting.ended_before(3, 10 * GRACE, statuses=(), dry_run=False)
    return [each.run for each in found.runs]


async def test_a_chain_of_merged_runs_goes_with_the_last_one(alone: Alone) -> None:
    """A run stays while one stays that shows it, directly or by a run in between."""
    store = await alone.store()
    three, one, two = (Branch(RunId(name)) for name in ("three", "one", "two"))
    two.say("hello")
    merges(one, two, started_at=0)
    merges(three, one, started_at=0)
    for each in (two, one, three):
        await each.stored(store)
    for kept in ([two.run], [one.run, two.run], [two.run, one.run]):
        assert await delete_ended(alone, *kept) == []
    assert await delete_ended(alone, two.run, three.run) == [three.run], "`one` stays, and needs it"
    assert await delete_ended(alone, two.run, one.run) == [one.run, two.run]
    assert await store.count_runs() == 0


async def test_a_surviving_run_goes_before_its_merged_runs(
    alone: Alone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is deleted in several parts may be interrupted between any two of them."""
    monkeypatch.setattr(deletion, "_BATCH", 1)
    store = await alone.store()
    three, one, two = (Branch(RunId(name)) for name in ("three", "one", "two"))
    merges(one, two, started_at=0)
    merges(three, one, started_at=0)
    for each in (two, one, three):
        await each.stored(store)
    assert await delete_ended(alone, two.run, one.run, three.run) == [three.run, one.run, two.run]


async def test_what_nobody_begins_with_is_gone_soon(alone: Alone) -> None:
    store, at = await alone.store(), 10 * GRACE
    definition = (await talk(store, RUN, "hello")).entries[0]["definition"]
    await delete(alone, RUN, at=at)
    assert await store.get_definition(definition)
    await delete(alone, at=at + GRACE // 30)
    with pytest.raises(StoreIncomplete):
        await store.get_definition(definition)
