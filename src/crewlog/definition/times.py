"""Times and durations as people write them. No clock is read here: they are data."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def parse_time(value: Any) -> str:
    """A time with its zone, as `2026-12-01T09:00:00+01:00`.

    Raises:
        ValueError: for what is no such time; the message says what is missing.
    """
    example = "a time is like '2026-12-01T09:00:00+01:00'"
    if not isinstance(value, str):
        raise ValueError(example)  # noqa: TRY004 - what a validator of a model raises
    try:
        time = datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError(example) from None
    if time.tzinfo is None:
        raise ValueError(f"it has no zone; {example}, or ends in 'Z'")
    return time.isoformat().replace("+00:00", "Z")


def milliseconds(time: str) -> int:
    """A time as milliseconds since the epoch; one before that is as the first of it."""
    return max(1, (datetime.fromisoformat(time) - _EPOCH) // timedelta(milliseconds=1))


def time_words(time: str) -> str:
    """A time for people: `2026-12-01 09:00 +01:00`, `2026-12-01 09:00 UTC`."""
    at = datetime.fromisoformat(time)
    zone = "UTC" if not at.utcoffset() else at.isoformat()[-6:]
    return f"{at:%Y-%m-%d} {_clock(at)} {zone}"


def moment_words(at: int) -> str:
    """Milliseconds since the epoch for people, in UTC: `2026-12-01 08:00 UTC`."""
    return time_words((_EPOCH + timedelta(milliseconds=at)).isoformat())


def _clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}" if at.second or at.microsecond else f"{at:%H:%M}"


def duration_words(seconds: float) -> str:
    """A duration as people write it: `2h`, `90s`, `1.5s`."""
    if seconds >= 1 and seconds == int(seconds):
        size, unit = next(each for each in _UNITS if int(seconds) % each[0] == 0)
        return f"{int(seconds) // size}{unit}"
    return f"{seconds:g}s"


def due_in(seconds: float, at: int) -> int:
    """When a time is over that begins at `at`; both are in milliseconds since the epoch."""
    return at + max(1, round(seconds * 1000))
