"""Rebuild, where the server holds an answer back that was stored before the rows were lost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from crewlog.client import rebuild as module
from crewlog.client.extract import Ends, Extracted
from crewlog.client.gateway import Gateway
from crewlog.client.histories import Chain, Execution
from crewlog.client.rebuild import Rebuild
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.store import InMemoryStore, Store

RUN = RunId("held")
HASH = ContentHash("a" * 64)


class Server:
    """Each look at the history finds other calls unanswered; `at_work` is what it says of them."""

    def __init__(self, looks: list[set[str]], at_work: set[str]) -> None:
        self.looks = looks
        self.seen = 0
        self.pending = [SimpleNamespace(activity_id=id_) for id_ in at_work]

    async def describe(self, run: RunId) -> Any:
        raw = SimpleNamespace(pending_activities=self.pending)
        return SimpleNamespace(run_id="one", raw_description=raw)

    def look(self) -> Chain:
        unanswered = self.looks[min(self.seen, len(self.looks) - 1)]
        self.seen += 1
        bodies: dict[ContentHash, Json] = {} if "pay" in unanswered else {HASH: {"paid": True}}
        found = Extracted(bodies=bodies)
        return Chain([Execution("one", Ends("", ""), found, frozenset(unanswered))])


async def rebuilt(server: Server, monkeypatch: pytest.MonkeyPatch) -> InMemoryStore:
    store = InMemoryStore()

    async def opened() -> Store:
        return store

    rebuild = Rebuild(cast("Gateway", server), opened, RUN)

    async def find(_: Store) -> Any:
        return module._Found(server.look(), [], 0, "stored")

    monkeypatch.setattr(rebuild, "_find", find)
    await rebuild()
    return store


async def test_the_histories_are_read_again_until_they_have_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server([{"pay", "ask"}, {"pay", "ask"}, {"ask"}], at_work={"ask"})
    store = await rebuilt(server, monkeypatch)
    assert server.seen == 3
    assert await store.get_bodies([HASH]) == {HASH: {"paid": True}}


async def test_a_call_that_is_at_work_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([{"pay"}], at_work={"pay"})
    await rebuilt(server, monkeypatch)
    assert server.seen == 1


async def test_calls_that_began_later_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server([{"pay"}, {"later"}], at_work=set())
    await rebuilt(server, monkeypatch)
    assert server.seen == 2


async def test_it_ends_although_the_answer_never_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_HELD_BACK", 0.2)
    server = Server([{"pay"}], at_work=set())
    await rebuilt(server, monkeypatch)
    assert 2 < server.seen < 20
