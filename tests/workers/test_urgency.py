"""The limits at which each urgency begins."""

from __future__ import annotations

import pytest

from crewlog.workflows.urgency import (
    CLOSE_BYTES,
    CLOSE_EVENTS,
    DRAIN_BYTES,
    continue_as_new_urgency,
)

LIMIT = 2000


@pytest.mark.parametrize(
    ("events", "size", "asked", "reached"),
    [
        (LIMIT - 1, 0, False, "normal"),
        (LIMIT - 1, 0, True, "suggested"),
        (LIMIT, 0, False, "suggested"),
        (LIMIT * 3 // 2 - 1, 0, True, "suggested"),
        (LIMIT * 3 // 2, 0, False, "draining"),
        (10, DRAIN_BYTES - 1, True, "suggested"),
        (10, DRAIN_BYTES, True, "draining"),
        (CLOSE_EVENTS - 1, CLOSE_BYTES - 1, True, "draining"),
        (CLOSE_EVENTS, 0, True, "closed"),
        (10, CLOSE_BYTES, True, "closed"),
    ],
)
def test_each_urgency_begins_at_its_limit(
    events: int, size: int, asked: bool, reached: str
) -> None:
    assert continue_as_new_urgency(events, size, LIMIT, is_suggested=asked) == reached
