"""The lag of a worker's event loop: whoever blocks it is named in the log.

Async tools have loops of their own (`crewlog.activities.event_loops`). What else may block the
worker's is a model's client, a server's tool, or Crewlog: everything stands still meanwhile,
heartbeats included, so the server takes the worker for dead. A thread sees it all the same.
"""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from sys import _current_frames as current_frames

import structlog

log: structlog.stdlib.BoundLogger = structlog.get_logger("crewlog.worker")

EVERY = 1.0
"""Seconds between two looks."""
LATE = 2.0
"""Seconds that the loop may take to answer: heartbeats are missed after five, by default."""
SHOWN = 8
"""Lines of code that are shown of where it stands, the innermost ones."""


@contextmanager
def watch_loop(every: float = EVERY, late: float = LATE) -> Generator[None]:
    """Watches the loop that runs for as long as the block does.

    Args:
        every: Seconds between two looks.
        late: Seconds that it may take to answer.
    """
    loop, ends = asyncio.get_running_loop(), threading.Event()
    watcher = threading.Thread(
        target=_watch,
        args=(loop, threading.get_ident(), ends, every, late),
        name="lag",
        daemon=True,
    )
    watcher.start()
    try:
        yield
    finally:
        ends.set()


def _watch(
    loop: asyncio.AbstractEventLoop, thread: int, ends: threading.Event, every: float, late: float
) -> None:
    while not ends.wait(every):
        answered = threading.Event()
        try:
            loop.call_soon_threadsafe(answered.set)
        except RuntimeError:  # it is closed
            return
        if answered.wait(late) or ends.is_set():
            continue
        log.warning("the worker's event loop is blocked", seconds=late, at=_where(thread))
        while not answered.wait(every) and not ends.is_set():
            pass


def _where(thread: int) -> list[str]:
    """Where a thread is: its innermost lines, the last one first."""
    frame = current_frames().get(thread)
    lines = traceback.extract_stack(frame)[-SHOWN:] if frame is not None else []
    return [f"{each.filename}:{each.lineno} {each.name}" for each in reversed(lines)]
