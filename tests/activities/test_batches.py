"""The cache of message metadata with which a worker unpacks batches."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from activity_kit import RUN, Log

from crewlog.activities.batches import Batches
from crewlog.canonical_json import hash_json
from crewlog.ids import ContentHash, LogName
from crewlog.model import Json
from crewlog.state.batch_codec import pack
from crewlog.state.body_metadata import body_metadata
from crewlog.state.calls import CallModelResult
from crewlog.state.journal import Batch, MessageRef, ModelCallCompleted
from crewlog.store.in_process import InMemoryStore


class Noting(InMemoryStore):
    """Notes which bodies are read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[set[ContentHash]] = []

    async def get_bodies(self, hashes: Collection[ContentHash]) -> Any:
        self.read.append(set(hashes))
        return await super().get_bodies(hashes)


def reply(call: int) -> CallModelResult:
    body: dict[str, Json] = {
        "type": "ai",
        "content": f"reply {call}",
        "name": "backend",
        "id": f"backend#1/{call}",
    }
    return CallModelResult(body=body, hash=hash_json(body), stored=True)


def packed(*replies: CallModelResult) -> tuple[Batch, Batch]:
    """A batch of replies, whole and as it travels."""
    log = Log()
    for call, result in enumerate(replies, 1):
        said = body_metadata(result.body)
        ref = MessageRef(body=result.hash, logs=(LogName("public"),))
        log.add(ModelCallCompleted.model_validate({**said, "call": call, "ref": ref}))
    whole = log.batch()
    return whole, pack(whole, {result.hash: body_metadata(result.body) for result in replies})


async def test_only_messages_of_other_workers_are_read() -> None:
    mine, theirs = reply(1), reply(2)
    whole, short = packed(mine, theirs)
    assert short != whole
    store = Noting()
    await store.put_bodies(RUN, {theirs.hash: theirs.body})
    batches = Batches(store)
    batches.add_body(mine.hash, mine.body)
    assert (await batches.unpack_batch(short)).entries == whole.entries
    assert store.read == [{theirs.hash}]


async def test_a_workers_own_messages_are_not_read() -> None:
    mine = [reply(1), reply(2)]
    whole, short = packed(*mine)
    store = Noting()
    batches = Batches(store)
    for result in mine:
        batches.add_body(result.hash, result.body)
    assert (await batches.unpack_batch(short)).entries == whole.entries
    assert store.read == []


async def test_the_oldest_messages_are_dropped_and_read_again() -> None:
    made = [reply(1), reply(2), reply(3)]
    whole, short = packed(*made)
    store = Noting()
    await store.put_bodies(RUN, {result.hash: result.body for result in made})
    batches = Batches(store, most=2)
    for result in made:
        batches.add_body(result.hash, result.body)
    assert len(batches._metadata) == 2
    assert (await batches.unpack_batch(short)).entries == whole.entries
    assert store.read == [{made[0].hash}]
