"""When an execution continues as new for its history's length, and what it does until then.

    calm      goes on as usual
    due       goes on as usual, and leaves at the first moment at which nothing is in flight
    draining  starts nothing new, so that this moment comes; commands are taken as ever
    shut      takes no update either: the server ends what has too long a history

Parallel lanes may have something in flight at all times: hence `draining`. What is in flight may
last for hours, which people must not be kept waiting for: hence no `shut` before it is near.
"""

from __future__ import annotations

from typing import Literal

Stage = Literal["calm", "due", "draining", "shut"]

DRAIN_FROM = 1.5
"""How many times the events that a history is to have it may get before it drains."""
DRAIN_BYTES = 12 * 1024 * 1024
"""Bytes of a history that drains; the server suggests to leave at 4 MB, and ends it at 50 MB."""
SHUT_EVENTS = 40_000
"""Events of a history that gets no update any more; the server ends it at 51,200."""
SHUT_BYTES = 40 * 1024 * 1024
"""Bytes of the same."""


def stage(events: int, size: int, limit: int, *, asked: bool) -> Stage:
    """How urgent it is to continue as new.

    Args:
        events: The history's events.
        size: Its bytes.
        limit: The events that it is to have, by the crew's limits.
        asked: Whether the server suggests it, or another build is current.
    """
    if events >= SHUT_EVENTS or size >= SHUT_BYTES:
        return "shut"
    if events >= limit * DRAIN_FROM or size >= DRAIN_BYTES:
        return "draining"
    return "due" if asked or events >= limit else "calm"
