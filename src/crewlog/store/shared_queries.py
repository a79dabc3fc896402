"""Combines concurrent reads of one value to one query, and concurrent writes to one statement.

`SharedRead`: many calls of a run start together, and each reads the last permission change. One
query serves all callers that asked before it started; later callers share the next query. So no
caller gets a value older than its request, and at most two queries of a key run or wait.

`SharedWrite`: many messages of a run arrive together. A write starts at once if none is running.
Otherwise its values are collected, and written by one statement when the running one has ended. If
a shared statement fails, the values of each caller are written alone, so that a value that the
database refuses fails only its own caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedRead(Generic[K, T]):
    """Combines the reads of each key.

    Args:
        read: Runs the query of a key.
    """

    def __init__(self, read: Callable[[K], Awaitable[T]]) -> None:
        self._read = read
        self._running: dict[K, asyncio.Future[T]] = {}
        self._next: dict[K, asyncio.Future[T]] = {}

    async def get(self, key: K) -> T:
        """The value of a key, by a query that starts after this call.

        Raises:
            Exception: the error of the query, for all callers that share it.
        """
        task = self._next.get(key)
        if task is None:
            self._next[key] = task = asyncio.ensure_future(self._run(key))
        # The cancellation of a caller must not cancel the query of the others.
        return await asyncio.shield(task)

    async def _run(self, key: K) -> T:
        if (running := self._running.get(key)) is not None:
            await asyncio.wait({running})
        own = self._running[key] = self._next.pop(key)
        try:
            return await self._read(key)
        finally:
            if self._running.get(key) is own:
                del self._running[key]


V = TypeVar("V")

MOST_VALUES = 64
"""The most values of a statement, unless a single caller has more."""


class SharedWrite(Generic[K, V]):
    """Combines writes of values by their keys.

    Args:
        write: Stores values; idempotent.
    """

    def __init__(self, write: Callable[[Mapping[K, V]], Awaitable[None]]) -> None:
        self._write = write
        self._waiting: list[tuple[Mapping[K, V], asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    async def put(self, values: Mapping[K, V]) -> None:
        """Stores values.

        Raises:
            Exception: the error of the statement.
        """
        stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((values, stored))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        await stored

    async def _run(self) -> None:
        """Writes all waiting values."""
        group: list[tuple[Mapping[K, V], asyncio.Future[None]]] = []
        try:
            while self._waiting:
                group = self._next_group()
                try:
                    await self._write({k: v for values, _ in group for k, v in values.items()})
                except Exception as error:  # noqa: BLE001 - raised in its callers
                    await self._write_each(group, error)
                else:
                    for _, stored in group:
                        _complete(stored)
        finally:
            self._task = None
            for _, stored in (*group, *self._waiting):  # if this task is cancelled
                stored.cancel()
            self._waiting.clear()

    async def _write_each(
        self, group: list[tuple[Mapping[K, V], asyncio.Future[None]]], error: Exception
    ) -> None:
        for values, stored in group:
            failure: Exception | None = error
            if len(group) > 1:
                try:
                    await self._write(values)
                except Exception as own_error:  # noqa: BLE001 - raised in its caller
                    failure = own_error
                else:
                    failure = None
            _complete(stored, failure)

    def _next_group(self) -> list[tuple[Mapping[K, V], asyncio.Future[None]]]:
        """The callers whose values go into the next statement."""
        group: list[tuple[Mapping[K, V], asyncio.Future[None]]] = []
        count = 0
        for values, stored in self._waiting:
            count += len(values)
            if group and count > MOST_VALUES:
                break
            group.append((values, stored))
        del self._waiting[: len(group)]
        return group


def _complete(stored: asyncio.Future[None], error: Exception | None = None) -> None:
    if stored.done():  # the caller was cancelled
        return
    if error is None:
        stored.set_result(None)
    else:
        stored.set_exception(error)
