"""When a schedule starts its next run, as the command line tells it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from crewlog.cli.scheduling import _coming
from crewlog.client.schedules import ScheduleView

NEXT = int(datetime(2026, 11, 30, 1, tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("zone", "told"),
    [
        ("Europe/Berlin", "next at 2026-11-30 02:00:00 Europe/Berlin"),
        ("UTC", "next at 2026-11-30 01:00:00 UTC"),
        ("Nowhere/At-all", "next at 2026-11-30 01:00:00 UTC"),
    ],
)
def test_the_next_run_is_told_by_the_clocks_of_the_schedule(zone: str, told: str) -> None:
    view = ScheduleView("n", "c", "0 2 * * *", False, "", (NEXT,), (), timezone=zone)
    assert _coming(view) == told
