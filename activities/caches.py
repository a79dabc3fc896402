"""Caches with a limit: the value that was used longest ago is dropped.

A value that takes long to make is made in a thread, and once for concurrent calls: the first call
makes it, and the others wait and then read the cache. They do not share the result of the first
call, since an error names its run, and its cancellation must not affect the others. Only the event
loop accesses a cache.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class LruCache(Generic[K, T]):
    """The values that were used last, by key; at most `most` of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> T | None:
        """Returns the value of a key; None: it is not cached."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: K, value: T) -> T:
        """Caches a value, and returns it."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return value


class Made(LruCache[K, T]):
    """Cached values that are made in a thread."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._making: dict[K, asyncio.Future[T]] = {}

    async def ready(self, key: K, make: Callable[[], T]) -> T:
        """Returns the value of a key, and makes it if it is not cached. Errors are not cached."""
        while True:
            found = self.get(key)
            if found is not None:
                return found
            if key not in self._making:
                return await asyncio.shield(self._begin(key, make))
            await asyncio.wait({self._making[key]})

    def _begin(self, key: K, make: Callable[[], T]) -> asyncio.Future[T]:
        making = asyncio.ensure_future(asyncio.to_thread(make))

        def made(done: asyncio.Future[T]) -> None:
            del self._making[key]
            if not done.cancelled() and done.exception() is None:
                self.put(key, done.result())

        self._making[key] = making
        making.add_done_callback(made)
        return making
