"""Interleaved rounds, and what is made of them: medians, quartiles, ratios within a round.

A machine's pace changes by the minute. So what is compared runs in the same round, one after the
other, and the order is turned around every time: what drifts over the rounds, and whatever
the one leaves behind for the other, weighs on both. A ratio is taken within each round, and the
median of those is told; never the ratio of two medians.

A difference of a few hundredths is smaller than what the machine makes of the same twice. To show
that it is below a limit, `compared` takes rounds until the interval of the median is narrow, and
none of a time when others were at work.
"""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb, inf
from typing import TypeVar

from bench import quiet

T = TypeVar("T")

NARROW = 0.015
"""Half of the width of a ratio's interval, at which it is known well enough."""
MOST = 10
"""Rounds of a comparison at most, for each that was asked for."""
OUTLIER = 1.5
"""How many times its own median makes a result that of a disturbed machine."""

Tell = Callable[[str], None]
"""Told one line after each round."""


@dataclass(frozen=True)
class Figure:
    """What was measured under one name."""

    name: str
    values: tuple[float, ...]
    """One for each round."""

    @property
    def median(self) -> float:
        """The median of the values."""
        return statistics.median(self.values)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile; both are the value where there is only one."""
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the median lies of all rounds that could be made, with 95 % confidence.

        Between two of the values: nothing is supposed of how they are distributed. None where
        there are so few that not even the outermost would do.
        """
        count, below, place = len(self.values), 0.0, 0
        while (below := below + comb(count, place) / 2**count) <= 0.025:
            place += 1
        ordered = sorted(self.values)
        return (ordered[place - 1], ordered[count - place]) if place else None

    @property
    def spread(self) -> float:
        """How far the quartiles are apart."""
        low, high = self.quartiles
        return high - low


async def rounds(
    systems: Mapping[str, Callable[[], Awaitable[T]]],
    count: int,
    *,
    warm: int = 1,
    turned: bool = False,
    told: Callable[[int, Mapping[str, T]], None] | None = None,
) -> dict[str, list[T]]:
    """Runs each system once per round, the order turned around after every round.

    Args:
        systems: What is run, by name.
        count: How many rounds count.
        warm: Rounds before them that do not.
        turned: Whether the first of them that counts begins with the last system.
        told: Called after each round that counts, with its number from 1.

    Returns:
        For each system its results, one per round, in the order of the rounds.
    """
    found: dict[str, list[T]] = {name: [] for name in systems}
    for number in range(-warm, count):
        order = list(systems)[:: 1 if (number % 2 == 1) is turned else -1]
        results = {name: await systems[name]() for name in order}
        if number < 0:
            continue
        for name, result in results.items():
            found[name].append(result)
        if told is not None:
            told(number + 1, results)
    return found


class Disturbed(Exception):
    """Others were at work on the machine, in most rounds."""


@dataclass(frozen=True)
class Sample:
    """What one run of a system took."""

    ms: float
    """A step."""
    cpu_ms: float | None = None
    """Processor time of its worker for all of the run; None where the system does not say."""


async def compared(
    systems: Mapping[str, Callable[[], Awaitable[Sample]]],
    by: str,
    least: int,
    *,
    told: Callable[[int, Mapping[str, float]], None] | None = None,
    refused: Tell | None = None,
) -> dict[str, list[Sample]]:
    """Rounds that the machine did not disturb, until every ratio is known well enough.

    A round is refused where others were at work meanwhile, or where a system took far longer than
    it mostly does: whichever it is, so that neither side is favoured. Another takes its place.

    Args:
        systems: What is run, by name.
        by: The system that the others are compared with.
        least: How many rounds count at least; there are `MOST` times as many in all.
        told: Called after each round that counts, with its number from 1.
        refused: Told why a round does not count.

    Returns:
        For each system its results, one per round that counts, in the order of the rounds.

    Raises:
        Disturbed: fewer than `least` rounds count.
    """
    taken: list[Mapping[str, Sample]] = []
    why = "each had a result far above the others"
    for number in range(MOST * least):
        before = quiet.look()
        one = await rounds(systems, 1, warm=0 if number else 1, turned=number % 2 == 1)
        # What warms up is in the time of the first, and may be disturbed as well.
        if reason := quiet.disturbed(before, quiet.look()):
            why = reason
            if refused is not None:
                refused(reason)
            continue
        taken.append({name: results[0] for name, results in one.items()})
        if told is not None:
            told(len(taken), {name: sample.ms for name, sample in taken[-1].items()})
        if len(kept := usual(taken)) >= least and _known(kept, by):
            break
    if len(kept := usual(taken)) < least:
        raise Disturbed(
            f"only {len(kept)} of {MOST * least} rounds count, {least} are needed; {why}: leave "
            f"the machine alone and measure again"
        )
    return {name: [one[name] for one in kept] for name in systems}


def usual(taken: Sequence[Mapping[str, Sample]]) -> list[Mapping[str, Sample]]:
    """The rounds in which no system took far longer than it mostly does."""
    if not taken:
        return []
    limits = {name: OUTLIER * statistics.median(one[name].ms for one in taken) for name in taken[0]}
    return [one for one in taken if all(one[name].ms <= limits[name] for name in limits)]


def _known(kept: Sequence[Mapping[str, Sample]], by: str) -> bool:
    """Whether the interval of each ratio is narrow."""
    for name in kept[0]:
        found = Figure(name, tuple(one[name].ms / one[by].ms for one in kept)).interval
        low, high = found or (-inf, inf)
        if (high - low) / 2 >= NARROW:
            return False
    return True


def ratios(name: str, ours: Sequence[Sample], theirs: Sequence[Sample]) -> list[Figure]:
    """Ours by theirs, round by round: in time, and as `…_cpu` in the workers' processor time."""
    found = [ratio(name, [one.ms for one in ours], [one.ms for one in theirs])]
    pairs = [
        (one.cpu_ms, other.cpu_ms)
        for one, other in zip(ours, theirs, strict=True)
        if one.cpu_ms and other.cpu_ms
    ]
    if pairs:
        found.append(ratio(f"{name}_cpu", *zip(*pairs, strict=True)))
    return found


def figure(name: str, values: Sequence[float]) -> Figure:
    """The figure of what was measured in each round.

    Raises:
        ValueError: there are none.
    """
    if not values:
        raise ValueError(f"{name!r} has no values")
    return Figure(name, tuple(values))


def ratio(name: str, ours: Sequence[float], theirs: Sequence[float]) -> Figure:
    """The figure of ours by theirs, round by round.

    Raises:
        ValueError: they are not of the same rounds.
    """
    return figure(name, [a / b for a, b in zip(ours, theirs, strict=True)])
