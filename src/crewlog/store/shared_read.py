"""Reads that callers share who ask for the same at the same time.

Many calls of one run begin together and each must know what people ruled last. One query answers
all who asked before it began; who asks while it is under way waits for the next one. So a caller
never gets a value that is older than its question, and however many ask, two queries are under way
or due at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedRead(Generic[K, T]):
    """Shares the queries of one kind.

    Args:
        read: Makes the query for a key.
    """

    def __init__(self, read: Callable[[K], Awaitable[T]]) -> None:
        self._read = read
        self._running: dict[K, asyncio.Future[T]] = {}
        self._next: dict[K, asyncio.Future[T]] = {}

    async def get(self, key: K) -> T:
        """The value of a key, by a query that begins after this call.

        Raises:
            Exception: what the query raises, for all who share it.
        """
        task = self._next.get(key)
        if task is None:
            self._next[key] = task = asyncio.ensure_future(self._run(key))
        # A caller that is cancelled must not take the value away from the others.
        return await asyncio.shield(task)

    async def _run(self, key: K) -> T:
        if (running := self._running.get(key)) is not None:
            await asyncio.wait({running})
        mine = self._running[key] = self._next.pop(key)
        try:
            return await self._read(key)
        finally:
            if self._running.get(key) is mine:
                del self._running[key]
