"""Two statements at once in Postgres, in an order that a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import asyncpg


class Gate:
    """Holds a lock, so that what needs it waits where a test wants it."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection

    async def _blocked(self) -> int:
        await self._connection.execute("SELECT pg_stat_clear_snapshot()")
        waiting: int = await self._connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return waiting

    async def begin(self, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Starts a call, and returns once it waits for a lock, or has ended."""
        before = await self._blocked()
        task = asyncio.create_task(call)
        while await self._blocked() <= before and not task.done():  # noqa: ASYNC110 - Postgres tells
            await asyncio.sleep(0.01)
        return task


@asynccontextmanager
async def held(url: str, lock: str, *args: object) -> AsyncIterator[Gate]:
    """A lock that is held within the block: a statement that takes it, with its values."""
    connection = await asyncpg.connect(url)
    try:
        async with asyncio.timeout(30), connection.transaction():
            await connection.execute(lock, *args)
            yield Gate(connection)
    finally:
        await connection.close()
