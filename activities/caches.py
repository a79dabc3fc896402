"""A cache of values that take long to make: in a thread, and once for concurrent calls.

The first call makes the value, and the others wait and then read the cache. They do not share an
error of the first call, since an error names its run, and its cancellation must not affect the
others. Only the event loop accesses a cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from cachetools import LRUCache

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class LoadingCache(Generic[K, T]):
    """The values that were used last, by key; at most `most` of them. Errors are not cached."""

    def __init__(self, most: int) -> None:
        self._values: LRUCache[K, asyncio.Future[T]] = LRUCache(most)

    def __len__(self) -> int:
        return len(self._values)

    async def get_or_load(self, key: K, make: Callable[[], T]) -> T:
        """Returns the value of a key, and makes it if it is not cached."""
        while (value := self._values.get(key)) is not None:
            if value.done():
                return value.result()
            await asyncio.wait({value})
        value = asyncio.ensure_future(asyncio.to_thread(make))
        self._values[key] = value

        def on_done(done: asyncio.Future[T]) -> None:
            if (done.cancelled() or done.exception() is not None) and self._values.get(key) is done:
                del self._values[key]

        value.add_done_callback(on_done)
        return await asyncio.shield(value)
