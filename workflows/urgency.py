"""How urgently an execution must continue as new, by the length of its history.

    normal     not at all
    suggested  as soon as no call is in flight
    draining   no call starts, so that none is in flight soon; commands are applied
    closed     updates are rejected, too: the server would terminate the execution

With parallel calls, one may be in flight at all times, so a long history drains. Calls may take
hours, and people must not wait for them, so the execution closes only near the server's limit.
"""

from __future__ import annotations

from typing import Literal

Urgency = Literal["normal", "suggested", "draining", "closed"]

DRAIN_FACTOR = 1.5
"""A history drains at this multiple of `limits.events`."""
DRAIN_BYTES = 12 * 1024 * 1024
"""Bytes at which a history drains; the server suggests to continue at 4 MB and allows 50 MB."""
CLOSE_EVENTS = 40_000
"""Events at which an execution rejects updates; the limit of the server is 51,200."""
CLOSE_BYTES = 40 * 1024 * 1024
"""Bytes at which an execution rejects updates."""


def continue_as_new_urgency(events: int, size: int, limit: int, *, is_suggested: bool) -> Urgency:
    """How urgently an execution must continue as new.

    Args:
        events: The events of its history.
        size: The bytes of its history.
        limit: `limits.events` of the crew.
        is_suggested: Whether the server suggests it, or another build of the workers is current.
    """
    if events >= CLOSE_EVENTS or size >= CLOSE_BYTES:
        return "closed"
    if events >= limit * DRAIN_FACTOR or size >= DRAIN_BYTES:
        return "draining"
    return "suggested" if is_suggested or events >= limit else "normal"
