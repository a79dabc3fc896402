"""Takes out of what is counted what is not the unit's: the clock, and secrets of other tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from crewlog import redaction
from crewlog.activities import model_calls, permissions
from crewlog.activities.clock import Clock

LONG = 600.0
"""Seconds that nothing takes."""


@contextmanager
def steady() -> Iterator[None]:
    """Within the block, no reply is too late, no look is too old, and no two calls end at once.

    A reply that takes longer than `QUICK_SECONDS` is stored by a statement of its own, and what
    people ruled is looked at again after `FRESH`. A reply that ends in the same millisecond as the
    one before, by the clocks of their activities, has no time in the journal: 19 bytes less.

    No secret is known: a process that knows one searches every part of each message for it.
    """
    now, last = Clock.now, 0

    def later(clock: Clock) -> int:
        nonlocal last
        last = max(last + 1, now(clock))
        return last

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model_calls, "QUICK_SECONDS", LONG)
        patch.setattr(permissions, "FRESH", LONG)
        patch.setattr(Clock, "now", later)
        patch.setattr(redaction, "_SHARED", redaction.Redactor())
        yield
