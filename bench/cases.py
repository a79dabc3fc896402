"""What a case is given, and which cases there are."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.pairs import Figure
from bench.site import Site

CASES: dict[str, str] = {
    "steps": "bench.steps",
    "fanout": "bench.fanout",
    "lanes": "bench.lanes",
    "pool": "bench.pool",
    "throughput": "bench.throughput",
    "slow_models": "bench.slow_models",
    "replay": "bench.replay",
    "compile": "bench.compiling",
    "memory": "bench.memory",
    "tools": "bench.tools",
    "authority": "bench.authority",
    "swap": "bench.swapping",
    "fork": "bench.forking",
    "pickup": "bench.pickup",
    "codec": "bench.codec",
    "stages": "bench.stages",
    "hub": "bench.talking",
    "graphs": "bench.graphs",
    "topology": "bench.topologies",
    "idle": "bench.resting",
}
"""The module of each case; its `run` measures it."""


@dataclass(frozen=True)
class Bench:
    """Where a case runs, and how often."""

    site: Site
    pairs: int = 10
    """Rounds that count."""

    def told(self, what: str, unit: str = "ms") -> Callable[[int, Mapping[str, float]], None]:
        """Says a line on standard error after each round."""

        def tell(number: int, results: Mapping[str, float]) -> None:
            said = "  ".join(f"{name} {value:.2f} {unit}" for name, value in results.items())
            print(f"{what}  {number}/{self.pairs}  {said}", file=sys.stderr, flush=True)

        return tell

    def refused(self, what: str) -> Callable[[str], None]:
        """Says a line on standard error for each round that does not count."""

        def tell(why: str) -> None:
            print(f"{what}  does not count: {why}", file=sys.stderr, flush=True)

        return tell


Case = Callable[[Bench], Awaitable[Sequence[Figure]]]


def case(name: str) -> Case:
    """The case of that name; modules are imported when they are used."""
    found: Case = importlib.import_module(CASES[name]).run
    return found
