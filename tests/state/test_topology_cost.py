"""How long operations on large graphs take: what is pure of them."""

from __future__ import annotations

import gc

from bench.topologies import Case, cases, cost

MOST = 5.0
"""Milliseconds of this thread's processor that an operation on one graph may take."""
UNION = 7.5
"""The same of two that become one: it takes nearly 5 ms on a quiet machine, agent by agent."""
TRIES = 20
"""How often it is tried: a machine in use has a quiet moment among these."""


def test_an_operation_on_a_large_graph_takes_few_milliseconds() -> None:
    gc.collect()
    for name, case in cases().items():
        most = MOST if case.other is None else UNION
        least = _least(case, most)
        assert least < most, name


def _least(case: Case, most: float) -> float:
    """The least of a few medians: others who use the machine make it longer, and never shorter."""
    found = cost(case.pure, 9)
    for _ in range(TRIES):
        if found < most:
            break
        found = min(found, cost(case.pure, 9))
    return found
