"""Heartbeats of a running activity, by which the server notices a lost worker.

An activity also learns of its cancellation from the answer to a heartbeat.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

from temporalio import activity

from crewlog.redaction import redacted_values


class Heartbeat:
    """Sends heartbeats, each with the last details of the tool."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._details: tuple[Any, ...] = ()
        self._open = True
        self._timer: asyncio.TimerHandle | None = None

    def beat(self, *details: Any) -> None:
        """Sends a heartbeat with details, from any thread. After `close` it does nothing."""
        if self._open:
            # An async activity must send heartbeats in its own loop and context.
            with suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._loop.call_soon_threadsafe(self._send, details, context=self._context)

    def _send(self, details: tuple[Any, ...]) -> None:
        if self._open and not activity.info().is_local:
            self._details = redacted_values(details) or self._details
            activity.heartbeat(*self._details)

    def send_after(self, interval: float) -> None:
        """Sends a heartbeat after each interval, in seconds, until it is closed.

        The first one is sent after an interval: the server counts from the start of the activity.
        """
        self._timer = self._loop.call_later(interval, self._tick, interval, context=self._context)

    def _tick(self, interval: float) -> None:
        self._send(())
        self.send_after(interval)

    def close(self) -> None:
        """Stops sending heartbeats."""
        self._open = False
        if self._timer is not None:
            self._timer.cancel()


@asynccontextmanager
async def send_heartbeats() -> AsyncGenerator[Heartbeat, None]:
    """Sends heartbeats at a third of the activity's heartbeat timeout, if it has one."""
    heartbeat = Heartbeat()
    timeout = activity.info().heartbeat_timeout
    if timeout and not activity.info().is_local:
        heartbeat.send_after(max(timeout.total_seconds() / 3, 0.05))
    try:
        yield heartbeat
    finally:
        heartbeat.close()
