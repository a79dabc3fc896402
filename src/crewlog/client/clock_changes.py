"""What becomes of a schedule's times where clocks are changed: hours that are not, or are twice.

The server starts nothing at a time that does not exist on a day, and what is due in an hour that
exists twice is named, too: whoever made the schedule is told of the next of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from temporalio.client import ScheduleCalendarSpec, ScheduleRange

AHEAD = timedelta(days=400)
"""How far is looked: each zone that changes its clocks does so within a year."""
_HOUR, _MINUTE = timedelta(hours=1), timedelta(minutes=1)


@dataclass(frozen=True)
class ClockChange:
    """A day on which a time of a schedule does not exist, or exists twice."""

    date: str
    time: str
    """The first time of that kind, by the clocks of the zone."""
    what: Literal["skipped", "twice"]

    @property
    def words(self) -> str:
        """The same as a sentence."""
        if self.what == "skipped":
            return f"{self.date} has no {self.time}, as the clocks change: nothing starts then"
        return f"{self.date} has {self.time} twice, as the clocks change"


def clock_changes(
    calendars: Sequence[ScheduleCalendarSpec], zone: str, now: datetime
) -> tuple[ClockChange, ...]:
    """The next change of each kind that concerns a schedule, by date.

    Args:
        calendars: When it starts runs.
        zone: Its time zone; empty: UTC, where clocks are never changed.
        now: From when on.
    """
    try:
        clocks = ZoneInfo(zone or "UTC")
    except (ZoneInfoNotFoundError, ValueError):
        return ()
    found: dict[str, ClockChange] = {}
    for at in _changes(clocks, now):
        before, after = (_offset(clocks, at + by) for by in (-_MINUTE, timedelta(0)))
        start = (at + min(before, after)).replace(tzinfo=None)
        what: Literal["skipped", "twice"] = "skipped" if after > before else "twice"
        for n in range(int(abs(after - before) / _MINUTE)):
            time = start + n * _MINUTE
            if what not in found and any(_matches(each, time) for each in calendars):
                found[what] = ClockChange(f"{time:%Y-%m-%d}", f"{time:%H:%M}", what)
    return tuple(sorted(found.values(), key=lambda each: each.date))


def _changes(clocks: ZoneInfo, now: datetime) -> Iterator[datetime]:
    """The moments at which the clocks are changed, as UTC."""
    at = now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    end = at + AHEAD
    while at < end:
        if _offset(clocks, at) != _offset(clocks, at + _HOUR):
            moment = at
            while _offset(clocks, moment) == _offset(clocks, at):
                moment += _MINUTE
            yield moment
        at += _HOUR


def _offset(clocks: ZoneInfo, at: datetime) -> timedelta:
    return at.astimezone(clocks).utcoffset() or timedelta(0)


def _matches(calendar: ScheduleCalendarSpec, time: datetime) -> bool:
    return (
        _in(calendar.minute, time.minute, 0)
        and _in(calendar.hour, time.hour, 0)
        and _in(calendar.day_of_month, time.day, None)
        and _in(calendar.month, time.month, None)
        and _in(calendar.year, time.year, None)
        and _in(calendar.day_of_week, time.isoweekday() % 7, None)
    )


def _in(ranges: Sequence[ScheduleRange], value: int, alone: int | None) -> bool:
    """Whether a value is in one of some ranges; none of them means `alone`, or any value."""
    if not ranges:
        return alone is None or value == alone
    return any(
        value in range(each.start, max(each.start, each.end) + 1, max(1, each.step))
        for each in ranges
    )
