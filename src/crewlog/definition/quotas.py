"""Quotas as people write them: `5 per run`, `20 per hour`, `100 per day`."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Literal, NamedTuple, cast

QUOTA_PATTERN = r"^[1-9][0-9]{0,8} per (run|hour|day)$"
_QUOTA = re.compile(r"\s*0*(\d{1,9})\s+(?:per|a|an|each|every)\s+(run|hour|day)\s*")
_EXAMPLE = "a quota is like '5 per run', '20 per hour', '100 per day'"

Per = Literal["run", "hour", "day"]


class Quota(NamedTuple):
    """How many calls there may be, and over what."""

    most: int
    """How many."""
    per: Per
    """In a run, or within an hour or a day of the crew's time zone over all of its runs."""


def parse_quota(value: Any) -> str:
    """A quota in its one spelling.

    Raises:
        ValueError: for what is none; the message has examples.
    """
    match = _QUOTA.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(_EXAMPLE)
    if int(match[1]) == 0:
        raise ValueError("a quota of none is said by 'do: never'")
    return f"{int(match[1])} per {match[2]}"


def quota_of(text: str) -> Quota:
    """What a quota in its one spelling says."""
    most, _, per = text.split()
    return Quota(int(most), cast("Per", per))


def is_per_run(text: str) -> bool:
    """Whether a quota in its one spelling is counted in each run alone."""
    return quota_of(text).per == "run"


def window_of(per: Per, at: int, zone: tzinfo) -> str:
    """The hour or the day that a time is in: `2026-03-29` or `2026-03-29T02+01:00`.

    An hour that comes twice, when clocks are put back, is two: its offset is part of its name.

    Args:
        per: Hours or days.
        at: The time, in milliseconds since the epoch.
        zone: The crew's time zone.
    """
    there = _local(at, zone)
    if per == "day":
        return f"{there:%Y-%m-%d}"
    offset = there.isoformat()[-6:]
    return f"{there:%Y-%m-%dT%H}{offset}"


def window_ends(per: Per, at: int, zone: tzinfo) -> str:
    """When the next hour or day begins, for people: `2026-03-30 00:00 +02:00`."""
    there = _local(at, zone)
    if per == "day":
        ends = datetime(there.year, there.month, there.day, tzinfo=zone) + timedelta(days=1)
    else:
        # Hours are counted by the offset of now: the clock may be put on or back meanwhile.
        fixed = there.replace(tzinfo=timezone(there.utcoffset() or timedelta(0)))
        full = fixed.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        ends = full.astimezone(zone)
    return f"{ends:%Y-%m-%d %H:%M} {ends.isoformat()[-6:]}"


def _local(at: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(at / 1000, zone)
