"""Durations and times in words: `two hours`, `an hour and a half`, `1 December 2026 at 9:00 UTC`.

No clock is read here: what needs one to be understood (`tomorrow`, a time of day without a date) is
no time. What is vague (`a few minutes`, `two months`) is no duration.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from crewlog.definition.times import parse_time
from crewlog.prompt.grammar.phrase import Unit, number

_SECONDS: dict[str, float] = {
    unit: seconds
    for units, seconds in (
        ("second seconds sec secs s", 1.0),
        ("minute minutes min mins m", 60.0),
        ("hour hours hr hrs h", 3_600.0),
        ("day days d", 86_400.0),
        ("week weeks", 604_800.0),
        ("fortnight fortnights", 1_209_600.0),
    )
    for unit in units.split()
}
_SHORT = re.compile(r"(?:[0-9]+(?:[.,][0-9]+)?(?:s|sec|min|m|h|hr|hrs|d))+")
_SHORT_PART = re.compile(r"([0-9]+(?:[.,][0-9]+)?)([a-z]+)")
_ONE = frozenset(["a", "an", "one", "another"])
_VAGUE_UNITS = frozenset(
    [
        "month",
        "months",
        "year",
        "years",
        "quarter",
        "quarters",
        "decade",
        "decades",
        "century",
        "moment",
        "moments",
        "while",
        "bit",
        "weekday",
        "weekdays",
        "weekend",
        "weekends",
        "night",
        "nights",
    ]
)
_SOME = frozenset(["few", "some", "several", "many", "couple", "multiple"])
_WORKING = frozenset(["working", "business", "week", "bank", "calendar"])


@dataclass(frozen=True, slots=True)
class Lapse:
    """A duration and where its words end."""

    end: int
    seconds: float | None
    """None where the words are vague."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A time and where its words end."""

    end: int
    time: str = ""
    """With its zone, in ISO 8601; empty where the words do not say it."""
    assumed: tuple[str, ...] = ()
    """What is not said and was taken as something: `UTC`."""
    why: str = ""
    """Why the words say no time."""


# -- durations -------------------------------------------------------------------------------------


def lapse_at(words: Sequence[str], at: int) -> Lapse | None:
    """The duration whose words begin at a place."""
    found = _part(words, at)
    if found is None or found.seconds is None:
        return found
    end, total = found.end, found.seconds
    while more := _more(words, end, total):
        end, total = more
    return Lapse(end, total)


def _more(words: Sequence[str], end: int, total: float) -> tuple[int, float] | None:
    """`and 30 minutes` behind `two hours`: a part that is shorter than what was said."""
    size = _SECONDS.get(words[end - 1], 0.0)
    if list(words[end : end + 3]) == ["and", "a", "half"] and size:
        return end + 3, total + size / 2
    at = end
    while at < len(words) and words[at] in {",", "and"} and at < end + 2:
        at += 1
    follows = _part(words, at) if at < len(words) else None
    if follows is None or follows.seconds is None or words[at] == "another":
        return None
    smaller = _SECONDS.get(words[follows.end - 1], 0.0)
    return (follows.end, total + follows.seconds) if 0 < smaller < size else None


def _part(words: Sequence[str], at: int) -> Lapse | None:
    word = words[at]
    if _SHORT.fullmatch(word):
        return Lapse(at + 1, _short(word))
    if "-" in word and (joined := _hyphened(word)) is not None:
        return Lapse(at + 1, joined)
    if word in {"half", "quarter", "three"} or word == "a":
        fraction = _fraction(words, at)
        if fraction is not None:
            return fraction
    if (vague := _vague(words, at)) is not None:
        return vague
    return _counted(words, at)


def _short(word: str) -> float:
    parts = _SHORT_PART.findall(word)
    return sum(float(count.replace(",", ".")) * _SECONDS[unit] for count, unit in parts)


def _hyphened(word: str) -> float | None:
    """`two-hour`, `30-minute`."""
    count, _, unit = word.rpartition("-")
    times = _number(count) or (1.0 if count in _ONE else None)
    return times * _SECONDS[unit] if times and len(unit) > 1 and unit in _SECONDS else None


_TENS = {"seventy": 70.0, "eighty": 80.0, "ninety": 90.0}


def _number(word: str) -> float | None:
    """`two`, `2.5`, `forty-five`."""
    tens, _, ones = word.partition("-")
    first = _TENS.get(tens) or number(tens)
    if not ones or first is None:
        return first if not ones else None
    last = number(ones)
    fits = first >= 20 and first % 10 == 0 and last is not None and 0 < last < 10
    return first + last if fits and last is not None else None


_FRACTIONS: tuple[tuple[tuple[str, ...], float], ...] = (
    (("half", "an"), 0.5),
    (("half", "a"), 0.5),
    (("a", "half"), 0.5),
    (("three", "quarters", "of", "an"), 0.75),
    (("three", "quarters", "of", "a"), 0.75),
    (("a", "quarter", "of", "an"), 0.25),
    (("a", "quarter", "of", "a"), 0.25),
    (("quarter", "of", "an"), 0.25),
)


def _fraction(words: Sequence[str], at: int) -> Lapse | None:
    for way, share in _FRACTIONS:
        end = at + len(way)
        if tuple(words[at:end]) == way and words[end : end + 1] and words[end] in _SECONDS:
            return Lapse(end + 1, share * _SECONDS[words[end]])
    return None


def _counted(words: Sequence[str], at: int) -> Lapse | None:
    """`two hours`, `twenty four hours`, `one and a half days`, `another hour`."""
    begin = at
    again = words[at] == "another"
    at += again
    if at >= len(words):
        return None
    count = _number(words[at])
    if count is None and words[at] in _ONE:
        count = 1.0
    if count is None and again:
        count, at = 1.0, at - 1
    if count is None or words[at] in {"once", "twice", "thrice"}:
        return None
    at += 1
    if count >= 20 and count % 10 == 0 and at < len(words):
        ones = _number(words[at])
        if ones is not None and 0 < ones < 10 and words[at].isalpha() and words[at - 1].isalpha():
            count, at = count + ones, at + 1
    if list(words[at : at + 3]) == ["and", "a", "half"]:
        count, at = count + 0.5, at + 3
    while at < len(words) and words[at] in {"full", "whole", "more", "further"}:
        at += 1
    if at < len(words) and words[at] in _WORKING | _VAGUE_UNITS:
        ends = at + 1 + (words[at] in _WORKING)
        return Lapse(min(ends, len(words)), None) if at > begin else None
    size = _SECONDS.get(words[at]) if at < len(words) else None
    return Lapse(at + 1, count * size) if size and count > 0 else None


def _vague(words: Sequence[str], at: int) -> Lapse | None:
    """`a few minutes`, `some hours`, `a while`."""
    begin = at
    at += words[at] in {"a", "the", "another"}
    while at < len(words) and words[at] in {"little", "short", "long", "good", "brief"}:
        at += 1
    if at < len(words) and words[at] in {"while", "bit", "moment"} and at > begin:
        return Lapse(at + 1, None)
    if at >= len(words) or words[at] not in _SOME:
        return None
    at += 1
    at += words[at : at + 1] == ["of"]
    unit = words[at : at + 1] and (words[at] in _SECONDS or words[at] in _VAGUE_UNITS | {"time"})
    return Lapse(at + 1, None) if unit else None


# -- times -----------------------------------------------------------------------------------------

_MONTHS = "january february march april may june july august september october november december"
_MONTH = {
    name: at + 1 for at, month in enumerate(_MONTHS.split()) for name in {month, month[:3]}
} | {"sept": 9}
_DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
_ZONES = {"z": 0, "utc": 0, "gmt": 0, "wet": 0, "west": 1, "cet": 1, "cest": 2, "eet": 2} | {
    "eest": 3,
    "edt": -4,
    "est": -5,
    "cdt": -5,
    "mdt": -6,
    "mst": -7,
    "pdt": -7,
    "pst": -8,
}
"""Hours before UTC; none that mean different zones to different people."""
_NAME = "|".join(sorted(_MONTH, key=len, reverse=True))
_TH = r"(?:st|nd|rd|th)?"
_DATE = (
    rf"(?:(?:{'|'.join(_DAYS)}|{'|'.join(day[:3] for day in _DAYS)})\.?,?\s+(?:the\s+)?)?"
    rf"(?:(?P<iso>[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}})(?![0-9-])"
    rf"|(?P<d1>[0-9]{{1,2}}){_TH}\s+(?:of\s+)?(?P<m1>{_NAME})\.?,?\s+(?P<y1>[0-9]{{4}})(?![0-9])"
    rf"|(?P<m2>{_NAME})\.?\s+(?:the\s+)?(?P<d2>[0-9]{{1,2}}){_TH},?\s+(?P<y2>[0-9]{{4}})(?![0-9]))"
)
_AMPM = r"[ap]\.?m\b\.?(?!\w)"
_CLOCK = (
    rf"(?:(?P<h>[0-9]{{1,2}})(?:[:.](?P<mi>[0-9]{{2}})(?::(?P<s>[0-9]{{2}})(?:\.(?P<f>[0-9]{{1,6}}))?)?"
    rf"(?:\s?(?P<ap1>{_AMPM})|\s?h\b|\s?hrs\b|\s?hours\b)?|\s?(?P<ap2>{_AMPM})|\s?(?P<oc>o['’]clock))|(?P<noon>noon))"
)
_ZONE = (
    rf"(?:\(?(?P<zn>{'|'.join(sorted(_ZONES, key=len, reverse=True))})\b"
    r"(?:\s?(?P<zo>[+-][0-9]{1,2}(?::?[0-9]{2})?)(?![0-9]))?\)?"
    r"|\(?(?P<off>[+-][0-9]{2}:?[0-9]{2}(?::[0-9]{2})?)(?![0-9])\)?)"
)
_WHOLE = re.compile(
    rf"{_DATE}(?:(?:t|,?\s+(?:at\s+)?|,\s*){_CLOCK}(?:\s?{_ZONE})?)?", re.IGNORECASE
)
_TURNED = re.compile(rf"{_CLOCK}(?:\s?{_ZONE})?,?\s+(?:on\s+)?(?:the\s+)?{_DATE}", re.IGNORECASE)
_BEGINS = re.compile(
    rf"[0-9]|(?:{_NAME}|noon|{'|'.join(d for d in _DAYS)}|{'|'.join(d[:3] for d in _DAYS)})\b",
    re.IGNORECASE,
)
_ANY_ZONE = re.compile(
    r"\s?\(?(?:[A-Z][a-z]+/[A-Z][A-Za-z_]+|local(?: time)?\b|[A-Z][a-z]+ time\b|[A-Z]{2,4}T\b|my time\b|our time\b)"
)
_LONGEST = 60
"""Characters of a time."""
ZONED = "with the zone, e.g. '2026-12-01 09:00 UTC' or '2026-12-01 09:00 +01:00'"


def moment_at(text: str, units: Sequence[Unit], at: int) -> Moment | None:
    """The time whose words begin at a unit.

    Args:
        text: The whole prompt.
        units: A sentence of it.
        at: The first unit.
    """
    start = units[at].start
    stretch = text[start : min(units[-1].end, start + _LONGEST)]
    if not _BEGINS.match(stretch):
        return None
    found = _WHOLE.match(stretch) or _TURNED.match(stretch)
    if found is None:
        return None
    stop = start + found.end()
    end = at
    while end < len(units) and units[end].start < stop:
        end += 1
    end += end < len(units) and stretch[found.end() - 1] == "(" and units[end].text == ")"
    return _moment(found, end, stretch[found.end() :])


def _moment(found: re.Match[str], end: int, follows: str) -> Moment:
    said = found.groupdict()
    try:
        offset, zoned = _offset(said)
        date = _date(said)
        clock = _clock(said)
    except ValueError as error:
        return Moment(end, why=str(error))
    assumed: list[str] = []
    if clock is None:
        clock = timedelta()
        assumed.append("the beginning of the day")
    if not zoned:
        if _ANY_ZONE.match(follows):
            return Moment(end, why=f"the zone is not known: say the time {ZONED}")
        assumed.append("UTC")
    weekday = next((d for d in _DAYS if found[0].lower().startswith(d[:3])), "")
    if weekday and _DAYS[date.weekday()] != weekday:
        return Moment(end, why=f"{date:%Y-%m-%d} is a {_DAYS[date.weekday()].capitalize()}")
    time = (date + clock).replace(tzinfo=timezone(offset))
    return Moment(end, parse_time(time.isoformat()), tuple(assumed))


def _date(said: dict[str, str | None]) -> datetime:
    if said["iso"]:
        year, month, day = map(int, said["iso"].split("-"))
    else:
        name = str(said["m1"] or said["m2"]).lower()
        month = _MONTH[name]
        day, year = int(said["d1"] or said["d2"] or 0), int(said["y1"] or said["y2"] or 0)
    try:
        return datetime(year, month, day)
    except ValueError:
        raise ValueError("there is no such day") from None


def _clock(said: dict[str, str | None]) -> timedelta | None:
    if said["noon"]:
        return timedelta(hours=12)
    if not said["h"]:
        return None
    hour, minute, second = (int(said[key] or 0) for key in ("h", "mi", "s"))
    half = str(said["ap1"] or said["ap2"] or "")[:1].lower()
    if half:
        if not 1 <= hour <= 12:
            raise ValueError("there is no such time of day")
        hour = hour % 12 + (12 if half == "p" else 0)
    if hour > 23 or minute > 59 or second > 59:
        raise ValueError("there is no such time of day")
    fraction = int(str(said["f"] or "0").ljust(6, "0"))
    return timedelta(hours=hour, minutes=minute, seconds=second, microseconds=fraction)


def _offset(said: dict[str, str | None]) -> tuple[timedelta, bool]:
    """How far the zone is before UTC, and whether it is said."""
    out = timedelta(hours=_ZONES[said["zn"].lower()]) if said["zn"] else timedelta()
    if more := said["zo"] or said["off"]:
        digits = more[1:].replace(":", "").ljust(4 if len(more) > 3 else 2, "0")
        if len(more) <= 3:
            digits = f"{int(more[1:]):02}00"
        elif len(digits) == 3:
            digits = f"0{digits}"
        hours, minutes = int(digits[:2]), int(digits[2:4])
        if hours > 14 or minutes > 59:
            raise ValueError("there is no such zone")
        out += timedelta(hours=hours, minutes=minutes) * (-1 if more[0] == "-" else 1)
    return out, bool(said["zn"] or said["off"])
