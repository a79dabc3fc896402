"""The limits at which each urgency begins."""

from __future__ import annotations

import pytest

from crewlog.workflows.urgency import DRAIN_BYTES, SHUT_BYTES, SHUT_EVENTS, stage

LIMIT = 2000


@pytest.mark.parametrize(
    ("events", "size", "asked", "reached"),
    [
        (LIMIT - 1, 0, False, "calm"),
        (LIMIT - 1, 0, True, "due"),
        (LIMIT, 0, False, "due"),
        (LIMIT * 3 // 2 - 1, 0, True, "due"),
        (LIMIT * 3 // 2, 0, False, "draining"),
        (10, DRAIN_BYTES - 1, True, "due"),
        (10, DRAIN_BYTES, True, "draining"),
        (SHUT_EVENTS - 1, SHUT_BYTES - 1, True, "draining"),
        (SHUT_EVENTS, 0, True, "shut"),
        (10, SHUT_BYTES, True, "shut"),
    ],
)
def test_each_urgency_begins_at_its_limit(
    events: int, size: int, asked: bool, reached: str
) -> None:
    assert stage(events, size, LIMIT, asked=asked) == reached
