"""Logs where a worker's event loop is blocked.

Async tools have loops of their own (`crewlog.activities.event_loops`). The worker's loop may still
be blocked by the client of a model, by a tool of an MCP server, or by Crewlog. Then no heartbeat is
sent, and the server regards the worker as lost. A thread watches the loop.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from sys import _current_frames as current_frames  # pyright: ignore[reportPrivateUsage] - documented

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger("crewlog.worker")

CHECK_INTERVAL = 1.0
"""Seconds between two checks."""
BLOCKED_AFTER = 2.0
"""Seconds without an answer after which the loop is blocked; the default heartbeat timeout is five
seconds."""
STACK_LINES = 8
"""The innermost lines of code that are logged."""


@contextmanager
def watch_loop(
    interval: float = CHECK_INTERVAL, blocked_after: float = BLOCKED_AFTER
) -> Generator[None]:
    """Watches the running event loop until the block ends.

    Args:
        interval: Seconds between two checks.
        blocked_after: Seconds without an answer after which the loop is blocked.
    """
    loop, ends = asyncio.get_running_loop(), threading.Event()
    watcher = threading.Thread(
        target=_watch,
        args=(loop, threading.get_ident(), ends, interval, blocked_after),
        name="lag",
        daemon=True,
    )
    watcher.start()
    try:
        yield
    finally:
        ends.set()


def _watch(
    loop: asyncio.AbstractEventLoop,
    thread: int,
    ends: threading.Event,
    interval: float,
    blocked_after: float,
) -> None:
    while not ends.wait(interval):
        answered = threading.Event()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # it is closed
            return
        if answered.wait(blocked_after) or ends.is_set():
            continue
        log.warning(
            "the worker's event loop is blocked", seconds=blocked_after, at=_stack_lines(thread)
        )
        while not answered.wait(interval) and not ends.is_set():
            pass


def _stack_lines(thread: int) -> list[str]:
    """Returns the innermost lines of a thread, the last one first."""
    frame = current_frames().get(thread)
    lines = traceback.extract_stack(frame)[-STACK_LINES:] if frame is not None else []
    return [f"{each.filename}:{each.lineno} {each.name}" for each in reversed(lines)]
