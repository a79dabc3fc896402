"""Schedules say what happens where clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from temporalio.client import ScheduleCalendarSpec, ScheduleRange

from crewlog.client.clock_changes import clock_changes

NOW = datetime(2026, 11, 28, tzinfo=UTC)


def at(hour: int, minute: int) -> ScheduleCalendarSpec:
    days = (ScheduleRange(0, 6),)
    return ScheduleCalendarSpec(
        hour=(ScheduleRange(hour),), minute=(ScheduleRange(minute),), day_of_week=days
    )


@pytest.mark.parametrize(
    ("calendar", "zone", "found"),
    [
        (
            at(2, 30),
            "Europe/Berlin",
            [("2027-03-28", "02:30", "skipped"), ("2027-10-31", "02:30", "twice")],
        ),
        (at(0, 0), "America/Santiago", [("2027-09-05", "00:00", "skipped")]),
        (at(23, 30), "America/Santiago", [("2027-04-03", "23:30", "twice")]),
        (at(2, 15), "Australia/Lord_Howe", [("2027-10-03", "02:15", "skipped")]),
        (at(9, 0), "Europe/Berlin", []),
        (at(2, 30), "", []),
        (at(2, 30), "No/Where", []),
    ],
)
def test_hours_that_do_not_exist_or_exist_twice(
    calendar: ScheduleCalendarSpec, zone: str, found: list[tuple[str, str, str]]
) -> None:
    changes = clock_changes([calendar], zone, NOW)
    assert [(each.date, each.time, each.what) for each in changes] == found
    assert all("clocks" in each.words for each in changes)
