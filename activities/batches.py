"""Inputs as activities get them, made whole: what the workflow left out is put back.

How activities store batches: as the execution that they work for.

Storing what an activity made after its effect: a reply that was paid for, a tool's result.

The effect must not be lost because the store is away for a moment, and must not be repeated. So
storing is tried a few times, and if the store stays away the body travels in the journal instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from temporalio import activity

from crewlog.activities.caches import LruCache
from crewlog.errors import StoreUnavailable
from crewlog.ids import AgentName, ContentHash, RunId, node_of
from crewlog.model import Json
from crewlog.state.batch_codec import needed, unpack, unpack_view
from crewlog.state.body_metadata import told
from crewlog.state.calls import CallInput
from crewlog.state.journal import Batch
from crewlog.store.protocol import Store


async def append(
    store: Store, run: RunId, batch: Batch, bodies: Mapping[ContentHash, Json] | None = None
) -> int:
    """Stores a batch and bodies; see `Store.append`.

    A run may have been replaced, or reset, while an activity of its was at work: what it stores
    then is of a history that does not count any more, and is refused.

    Returns:
        The last position at which the run's stored journal says who may call what.

    Raises:
        HistoryConflict: the run has another history.
        StoreUnavailable: the store is away.
    """
    return await store.append(run, batch, bodies, execution=current_execution_id())


def current_execution_id() -> str:
    """Temporal's run id of the execution that the activity works for; empty where there is none."""
    return (activity.info().workflow_run_id or "") if activity.in_activity() else ""


_WAITS = (0.1, 0.4, 1.0)


async def keep(store: Store, bodies: Mapping[ContentHash, Json]) -> bool:
    """Stores bodies; false where the store is away, and the journal must carry them."""
    return await _kept(lambda: store.put_bodies(bodies))


async def store_batch_and_bodies(
    store: Store, run: RunId, batch: Batch, bodies: Mapping[ContentHash, Json]
) -> bool:
    """Stores bodies and a batch in one round trip; false where the store is away."""
    return await _kept(lambda: append(store, run, batch, bodies))


async def _kept(put: Callable[[], Awaitable[object]]) -> bool:
    for wait in (*_WAITS, None):
        try:
            await put()
        except StoreUnavailable:
            if wait is not None:
                await asyncio.sleep(wait)
        else:
            return True
    return False


T = TypeVar("T", bound=CallInput)


class Batches:
    """Unpacks batches, with a memory of what this worker's own messages tell.

    Args:
        store: Where other workers' messages are read.
        most: How many messages are remembered.
    """

    def __init__(self, store: Store, most: int = 10_000) -> None:
        self._store = store
        self._told: LruCache[ContentHash, dict[str, Json]] = LruCache(most)

    def remember(self, hash_: ContentHash, body: dict[str, Json]) -> None:
        """Keeps what a body tells that this worker just made."""
        self._told.put(hash_, told(body))

    async def whole(self, batch: Batch) -> Batch:
        """The batch with whole entries.

        Raises:
            StoreUnavailable: where a message must be read that this worker did not make.
            StoreIncomplete: where the store lacks it.
        """
        wanted = set(needed(batch))
        # In the batch's order, not the set's: which one is forgotten next hangs on it.
        found = {h: kept for h in needed(batch) if (kept := self._told.get(h)) is not None}
        if missing := wanted - found.keys():
            bodies = await self._store.get_bodies(missing)
            found |= {hash_: told(body) for hash_, body in bodies.items()}
        return unpack(batch, found)

    async def filled(self, task: T) -> T:
        """A call's input with its run, its agent, its whole batch and all heads of its view."""
        batch = await self.whole(task.batch)
        run = task.run or RunId(activity.info().workflow_id or "")
        return task.model_copy(
            update={
                "run": run,
                "agent": task.agent or AgentName(node_of(task.step)),
                "batch": batch,
                "view": unpack_view(task.view, run, batch),
            }
        )
