"""Writes that callers share who write at the same time.

Many replies of one run arrive together, and each is stored by a statement of its own unless they
share one. A write that comes while none is under way is sent at once. What comes while one is under
way is collected and sent as one statement as soon as that one has ended. A caller returns when its
own values are stored. Where a shared statement fails, each caller's values are written alone: a
value that the database refuses fails nobody else's.

Reads that callers share who ask for the same at the same time.

Many calls of one run begin together and each must know what people ruled last. One query answers
all who asked before it began; who asks while it is under way waits for the next one. So a caller
never gets a value that is older than its question, and however many ask, two queries are under way
or due at most.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
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


V = TypeVar("V")

MOST = 64
"""Values in one statement, at most, unless a single caller has more."""


class SharedWrite(Generic[K, V]):
    """Shares the statements that insert values by their keys.

    Args:
        write: Stores values; to store one twice does no harm.
    """

    def __init__(self, write: Callable[[Mapping[K, V]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: list[tuple[Mapping[K, V], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def put(self, values: Mapping[K, V]) -> None:
        """Stores values.

        Raises:
            Exception: what the statement raises.
        """
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((values, stored))
        if self._task is None:
            self._task = asyncio.create_task(self._send())
        await stored

    async def _send(self) -> None:
        """Sends what waits, until nothing does."""
        group: list[tuple[Mapping[K, V], asyncio.Future[None]]] = []
        try:
            while self._waiting:
                group = self._take()
                try:
                    await self._write({k: v for values, _ in group for k, v in values.items()})
                except Exception as error:  # noqa: BLE001 - each caller is given its own
                    await self._send_each(group, error)
                else:
                    for _, stored in group:
                        _end(stored)
        finally:
            self._task = None
            for _, stored in (*group, *self._waiting):  # left where this task is cancelled
                stored.cancel()
            self._waiting.clear()

    async def _send_each(
        self, group: list[tuple[Mapping[K, V], asyncio.Future[None]]], error: Exception
    ) -> None:
        for values, stored in group:
            failed: Exception | None = error
            if len(group) > 1:
                try:
                    await self._write(values)
                except Exception as own:  # noqa: BLE001 - as above
                    failed = own
                else:
                    failed = None
            _end(stored, failed)

    def _take(self) -> list[tuple[Mapping[K, V], asyncio.Future[None]]]:
        """The callers whose values go into the next statement."""
        group: list[tuple[Mapping[K, V], asyncio.Future[None]]] = []
        count = 0
        for values, stored in self._waiting:
            count += len(values)
            if group and count > MOST:
                break
            group.append((values, stored))
        del self._waiting[: len(group)]
        return group


def _end(stored: asyncio.Future[None], error: Exception | None = None) -> None:
    if stored.done():  # its caller was cancelled
        return
    if error is None:
        stored.set_result(None)
    else:
        stored.set_exception(error)
