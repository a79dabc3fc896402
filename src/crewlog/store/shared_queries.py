"""Combines concurrent reads to one query, and concurrent writes to one statement.

`SharedRead`: many calls start together, and each reads the last permission change of its run. One
query serves all callers that asked before it started; later callers share the next query. So no
caller gets a value older than its request, and at most one query runs.

`SharedWrite`: many messages of a run arrive together. A write starts at once if none is running.
Otherwise its values are collected, and written by one statement when the running one has ended. If
a shared statement fails, the values of each caller are written alone, so that a value that the
database refuses fails only its own caller.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedRead(Generic[K, T]):
    """Combines concurrent reads of keys to one query.

    Args:
        read: Runs the query: the values of all keys.
    """

    def __init__(self, read: Callable[[Sequence[K]], Awaitable[Mapping[K, T]]]) -> None:
        self._read = read
        self._waiting: dict[K, asyncio.Future[T]] = {}
        self._task: asyncio.Task[None] | None = None

    async def get(self, key: K) -> T:
        """The value of a key, by a query that starts after this call.

        Raises:
            Exception: the error of the query, for all callers that share it.
        """
        value = self._waiting.get(key)
        if value is None:
            value = self._waiting[key] = asyncio.get_running_loop().create_future()
            if self._task is None:
                self._task = asyncio.create_task(self._run())
        # The cancellation of a caller must not cancel the query of the others.
        return await asyncio.shield(value)

    async def _run(self) -> None:
        """Reads all waiting keys."""
        group: dict[K, asyncio.Future[T]] = {}
        try:
            while self._waiting:
                group, self._waiting = self._waiting, {}
                try:
                    values = await self._read([*group])
                except Exception as error:  # noqa: BLE001 - raised in its callers
                    for value in group.values():
                        value.set_exception(error)
                        value.exception()  # callers may be cancelled; then it is not logged
                else:
                    for key, value in group.items():
                        value.set_result(values[key])
        finally:
            self._task = None
            for value in (*group.values(), *self._waiting.values()):  # if this task is cancelled
                value.cancel()
            self._waiting.clear()


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
