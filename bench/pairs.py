"""Interleaved rounds, and what is made of them: medians, quartiles, ratios within a round.

A machine's pace changes by the minute. So what is compared runs in the same round, one after the
other, and the order is turned around every time: what drifts over the rounds, and whatever
the one leaves behind for the other, weighs on both. A ratio is taken within each round, and the
median of those is told; never the ratio of two medians.
"""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")

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
    def spread(self) -> float:
        """How far the quartiles are apart."""
        low, high = self.quartiles
        return high - low


async def rounds(
    systems: Mapping[str, Callable[[], Awaitable[T]]],
    count: int,
    *,
    warm: int = 1,
    told: Callable[[int, Mapping[str, T]], None] | None = None,
) -> dict[str, list[T]]:
    """Runs each system once per round, the order turned around after every round.

    Args:
        systems: What is run, by name.
        count: How many rounds count.
        warm: Rounds before them that do not.
        told: Called after each round that counts, with its number from 1.

    Returns:
        For each system its results, one per round, in the order of the rounds.
    """
    found: dict[str, list[T]] = {name: [] for name in systems}
    for number in range(-warm, count):
        order = list(systems) if number % 2 == 0 else list(systems)[::-1]
        results = {name: await systems[name]() for name in order}
        if number < 0:
            continue
        for name, result in results.items():
            found[name].append(result)
        if told is not None:
            told(number + 1, results)
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
