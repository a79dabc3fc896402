"""Storing what an activity made after its effect: a reply that was paid for, a tool's result.

The effect must not be lost because the store is away for a moment, and must not be repeated. So
storing is tried a few times, and if the store stays away the body travels in the journal instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from crewlog.activities.writing import append
from crewlog.errors import StoreUnavailable
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.state.journal import Batch
from crewlog.store.protocol import Store

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
