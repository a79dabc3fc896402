"""The words of an answer, which the store may get a moment after the run has told of them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.client import talking
from crewlog.client.run import Run
from crewlog.errors import StoreIncomplete
from crewlog.ids import AgentName, ContentHash, RunId
from crewlog.store.in_process import InMemoryStore
from crewlog.wire import Response

BODY: dict[str, Any] = {"type": "ai", "content": "Sorry."}
HASH = ContentHash(hash_json(BODY))
REPLY = Response(exchange=1, agent=AgentName("a"), body=HASH)


class Seen(InMemoryStore):
    """A store that tells that it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()

    async def get_bodies(self, hashes: Any) -> Any:
        self.asked.set()
        return await super().get_bodies(hashes)


def run_of(store: InMemoryStore) -> Run:
    run = object.__new__(Run)

    async def opened() -> InMemoryStore:
        return store

    run.__dict__["open_store"] = opened
    return run


async def test_words_that_are_about_to_be_stored_are_waited_for() -> None:
    store = Seen()
    told = asyncio.ensure_future(run_of(store).whole(REPLY))
    await asyncio.wait_for(store.asked.wait(), 10)
    await store.put_bodies(RunId("r"), {HASH: BODY})
    assert (await asyncio.wait_for(told, 10)).text == "Sorry."


async def test_words_that_never_come_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(talking, "STORED_WITHIN", 0.05)
    with pytest.raises(StoreIncomplete, match="no body"):
        await asyncio.wait_for(run_of(Seen()).whole(REPLY), 10)
