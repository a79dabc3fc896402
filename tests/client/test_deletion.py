"""What a client removes where the server lists no open run."""

from __future__ import annotations

from typing import Any, cast

import pytest

from crewlog.client.deletion import Deleting, ListRuns
from crewlog.client.session import Session
from crewlog.errors import StoreIncomplete
from crewlog.ids import CrewName, RunId
from crewlog.state import journal as j
from crewlog.store import InMemoryStore
from crewlog.store.protocol import GRACE
from store.journals import Journal
from store.test_deleting import talk

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


async def test_what_nobody_begins_with_is_gone_soon(alone: Alone) -> None:
    store, at = await alone.store(), 10 * GRACE
    definition = (await talk(store, RUN, "hello")).entries[0]["definition"]
    await delete(alone, RUN, at=at)
    assert await store.get_definition(definition)
    await delete(alone, at=at + GRACE // 30)
    with pytest.raises(StoreIncomplete):
        await store.get_definition(definition)
