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
        self._values: OrderedDict[K, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> T | None:
        """Returns the value of a key; None: it is not cached."""
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: K, value: T) -> T:
        """Caches a value, and returns it."""
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._most:
            self._values.popitem(last=False)
        return value


class LoadingCache(LruCache[K, T]):
    """Cached values that are made in a thread."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._loading: dict[K, asyncio.Future[T]] = {}

    async def get_or_load(self, key: K, make: Callable[[], T]) -> T:
        """Returns the value of a key, and makes it if it is not cached. Errors are not cached."""
        while True:
            value = self.get(key)
            if value is not None:
                return value
            if key not in self._loading:
                return await asyncio.shield(self._start(key, make))
            await asyncio.wait({self._loading[key]})

    def _start(self, key: K, make: Callable[[], T]) -> asyncio.Future[T]:
        loading = asyncio.ensure_future(asyncio.to_thread(make))

        def on_done(done: asyncio.Future[T]) -> None:
            del self._loading[key]
            if not done.cancelled() and done.exception() is None:
                self.put(key, done.result())

        self._loading[key] = loading
        loading.add_done_callback(on_done)
        return loading
