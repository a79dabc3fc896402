"""Memories with a bound: what was used longest ago is forgotten.

What takes long to make is made in a thread, and once, although several calls want it at a time: the
first one begins, the others wait for its end and look. They look again rather than share its
outcome, since an error names the run that met it, and a call that is cancelled must not take what
it makes away from the others. The memory itself is touched by the event loop alone.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class LruCache(Generic[K, T]):
    """The values that were used last, by key; never more than `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, T] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> T | None:
        """The value of that key, if it is kept."""
        if key in self._kept:
            self._kept.move_to_end(key)
        return self._kept.get(key)

    def put(self, key: K, value: T) -> T:
        """Keeps a value, and returns it."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return value


class Made(LruCache[K, T]):
    """Values that are made in a thread where they are not kept."""

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self._making: dict[K, asyncio.Future[T]] = {}

    async def ready(self, key: K, make: Callable[[], T]) -> T:
        """The value of that key, made now if need be; what `make` raises is not kept."""
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
