"""Heartbeats of a running activity: how the server notices that a worker is gone.

They are also how an activity learns that it was cancelled: the answer to a heartbeat says so.
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
    """Sends heartbeats; what a tool said last goes with each of them."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._details: tuple[Any, ...] = ()
        self._open = True
        self._timer: asyncio.TimerHandle | None = None

    def beat(self, *details: Any) -> None:
        """Sends a heartbeat with details; from any thread, and never after the activity's end."""
        if self._open:
            # An async activity's heartbeat belongs to its loop and its context.
            with suppress(RuntimeError):  # the loop is closed: the worker is gone
                self._loop.call_soon_threadsafe(self._send, details, context=self._context)

    def _send(self, details: tuple[Any, ...]) -> None:
        if self._open and not activity.info().is_local:
            self._details = redacted_values(details) or self._details
            activity.heartbeat(*self._details)

    def keep(self, interval: float) -> None:
        """Sends a heartbeat after every interval, in seconds, until it is closed.

        The first is not sent at once: the server counts from the start, and it is a round trip.
        """
        self._timer = self._loop.call_later(interval, self._tick, interval, context=self._context)

    def _tick(self, interval: float) -> None:
        self._send(())
        self.keep(interval)

    def close(self) -> None:
        """Says nothing any more."""
        self._open = False
        if self._timer is not None:
            self._timer.cancel()


@asynccontextmanager
async def send_heartbeats() -> AsyncGenerator[Heartbeat, None]:
    """Keeps the activity's heart beating at a third of its heartbeat timeout, if it has one."""
    pulse = Heartbeat()
    timeout = activity.info().heartbeat_timeout
    if timeout and not activity.info().is_local:
        pulse.keep(max(timeout.total_seconds() / 3, 0.05))
    try:
        yield pulse
    finally:
        pulse.close()
