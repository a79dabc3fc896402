"""Inputs as activities get them, made whole: what the workflow left out is put back."""

from __future__ import annotations

from typing import TypeVar

from temporalio import activity

from crewlog.activities.recent import LruCache
from crewlog.ids import AgentName, ContentHash, RunId, node_of
from crewlog.model import Json
from crewlog.state.calls import CallInput
from crewlog.state.journal import Batch
from crewlog.state.packing import needed, unpack, unpack_view
from crewlog.state.told import told
from crewlog.store.protocol import Store

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
