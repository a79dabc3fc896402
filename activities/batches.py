"""Batches in activities: unpacking the inputs of calls, and storing batches and bodies.

The workflow omits from an input what the worker can restore: see `Batches`.

If the store is unavailable for a moment, the result of an effect, such as a message of a model or
of a tool, must not be lost, and the effect must not be repeated. So storing is retried a few times.
If the store remains unavailable, the journal carries the body instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from cachetools import LRUCache
from temporalio import activity

from crewlog.errors import StoreUnavailable
from crewlog.ids import AgentName, ContentHash, RunId, node_of
from crewlog.model import Json
from crewlog.state.batch_codec import required_bodies, unpack, unpack_view
from crewlog.state.body_metadata import body_metadata
from crewlog.state.calls import CallInput
from crewlog.state.journal import Batch
from crewlog.state.logs import message_or_queued
from crewlog.store.protocol import Store


async def append_batch(
    store: Store, run: RunId, batch: Batch, bodies: Mapping[ContentHash, Json] | None = None
) -> int:
    """Stores a batch and bodies; see `Store.append`.

    The store rejects the batch of an outdated history: the run was replaced or reset while its
    activity ran.

    Returns:
        The last position of the stored journal with a change of permissions.

    Raises:
        HistoryConflict: the run has another history.
        StoreUnavailable: the store does not answer.
    """
    return await store.append(run, batch, bodies, execution=current_execution_id())


def current_execution_id() -> str:
    """Returns Temporal's run id of the activity's execution; empty outside of an activity."""
    return (activity.info().workflow_run_id or "") if activity.in_activity() else ""


async def read_bodies(
    store: Store, batch: Batch, hashes: Iterable[ContentHash]
) -> dict[ContentHash, Json]:
    """Returns bodies by their hashes: those of a batch, which the store may not have, and others.

    Raises:
        StoreUnavailable: the store does not answer.
        StoreIncomplete: neither the batch nor the store has a body.
    """
    wanted = {*hashes}
    found: dict[ContentHash, Json] = {}
    for entry in batch.entries if wanted else ():
        for fields in (entry, message_or_queued(entry)):
            for key in ("body", "arguments", "prompt") if "inline" in fields else ():
                if (hash_ := fields.get(key)) is not None and hash_ in wanted:
                    found[hash_] = fields["inline"]
    missing = wanted - found.keys()
    return found | await store.get_bodies(missing) if missing else found


_RETRY_DELAYS = (0.1, 0.4, 1.0)


async def store_bodies(store: Store, run: RunId, bodies: Mapping[ContentHash, Json]) -> bool:
    """Stores bodies of a run; false if the store is unavailable: the journal must carry them."""
    return await _store_with_retries(lambda: store.put_bodies(run, bodies))


async def store_batch_and_bodies(
    store: Store, run: RunId, batch: Batch, bodies: Mapping[ContentHash, Json]
) -> bool:
    """Stores bodies and a batch in one round trip; false if the store is unavailable."""
    return await _store_with_retries(lambda: append_batch(store, run, batch, bodies))


async def _store_with_retries(store: Callable[[], Awaitable[object]]) -> bool:
    for delay in (*_RETRY_DELAYS, None):
        try:
            await store()
        except StoreUnavailable:
            if delay is not None:
                await asyncio.sleep(delay)
        else:
            return True
    return False


T = TypeVar("T", bound=CallInput)


class Batches:
    """Unpacks batches, with a cache of the metadata of this worker's own messages.

    Args:
        store: The store with the messages of other workers.
        most: The number of messages in the cache.
    """

    def __init__(self, store: Store, most: int = 10_000) -> None:
        self._store = store
        self._metadata: LRUCache[ContentHash, dict[str, Json]] = LRUCache(most)

    def add_body(self, hash_: ContentHash, body: dict[str, Json]) -> None:
        """Caches the metadata of a message that this worker made."""
        self._metadata[hash_] = body_metadata(body)

    async def unpack_batch(self, batch: Batch) -> Batch:
        """Returns a batch with unpacked entries.

        Raises:
            StoreUnavailable: the store does not answer, and the cache lacks a message.
            StoreIncomplete: the store and the cache lack a message.
        """
        hashes = [*required_bodies(batch)]
        # In the order of the batch, which decides what the cache drops next.
        metadata = {h: each for h in hashes if (each := self._metadata.get(h)) is not None}
        if missing := set(hashes) - metadata.keys():
            bodies = await self._store.get_bodies(missing)
            metadata |= {hash_: body_metadata(body) for hash_, body in bodies.items()}
        return unpack(batch, metadata)

    async def unpack_input(self, task: T) -> T:
        """Returns the input of a call with its run, agent, unpacked batch and all log heads."""
        batch = await self.unpack_batch(task.batch)
        run = task.run or RunId(activity.info().workflow_id or "")
        return task.model_copy(
            update={
                "run": run,
                "agent": task.agent or AgentName(node_of(task.step)),
                "batch": batch,
                "view": unpack_view(task.view, run, batch),
            }
        )
