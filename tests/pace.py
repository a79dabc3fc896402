"""How long work takes, whatever machine it is done on and whatever else that machine does.

Time of the processor alone is not enough: where others use the same caches or the same core, the
same work takes twice as much of it. So a piece of work that never changes is timed just before and
just after, and what is looked at is told in seconds of a machine that does that piece in
`USUAL` seconds.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable

USUAL = 0.005
"""Seconds of the processor for one piece of work, where bounds are written as seconds."""
_WORD = re.compile(r"(\w+?)(?:s|ed|ing)?\b")
_TEXT = "the writers drafted what the checkers were checking and nobody was asking for " * 24


def cpu(call: Callable[[], object]) -> float:
    """Seconds of the processor that this thread spends in a call."""
    start = time.thread_time()
    call()
    return time.thread_time() - start


def paced(call: Callable[[], object]) -> float:
    """Seconds that a call takes on a machine of the usual pace."""
    before = _pace()
    took = cpu(call)
    return took / max(before, _pace()) * USUAL


def assert_within(seconds: float, call: Callable[[], object], tries: int = 3) -> None:
    """Fails where no try of a call takes less than that, on a machine of the usual pace."""
    taken: list[float] = []
    while len(taken) < tries:
        taken.append(paced(call))
        if taken[-1] < seconds:
            return
    told = ", ".join(f"{each:.3f}" for each in taken)
    raise AssertionError(f"it takes {told} s of the processor; the bound is {seconds} s")


def growth(small: Callable[[], object], large: Callable[[], object], tries: int = 3) -> float:
    """How many times as long the large call takes as the small one.

    Both are tried in turn, so that what slows one down slows down the other.
    """
    times = [(cpu(small), cpu(large)) for _ in range(tries)]
    return min(large for _, large in times) / max(min(small for small, _ in times), 1e-6)


def usual(seconds: float) -> float:
    """What seconds of the processor, just spent here, are on a machine of the usual pace."""
    return seconds / _pace() * USUAL


def _pace() -> float:
    return min(cpu(_work) for _ in range(3))


def _work() -> int:
    found: dict[str, list[tuple[int, int]]] = {}
    for _ in range(10):
        for match in _WORD.finditer(_TEXT):
            found.setdefault(match.group(1), []).append(match.span())
    return sum(end - start for spans in found.values() for start, end in sorted(spans))
