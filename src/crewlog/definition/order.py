"""Flows whose order cannot be kept: every cycle of them, and what is left without the cycles.

What else is wrong with such a flow is told in the same run. So its cycles are cut, as an author
will cut them: a way back gets a bound, and of phases that wait for each other one waits no more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from crewlog.definition.model import AgentPhase, DecisionPhase
from crewlog.definition.phases import Edge, Phase, cycles, edges, successors

MOST = 100
"""Cycles that are told."""


@dataclass(frozen=True)
class Endless:
    """A way back without a bound."""

    way: Edge
    around: list[str]
    """The cycle that it closes, from where it goes back to."""


@dataclass(frozen=True)
class Order:
    """The cycles of a flow."""

    waits: tuple[list[str], ...]
    """Phases that wait for each other; no two have a phase in common."""
    endless: tuple[Endless, ...]
    cut: tuple[Phase, ...]
    """The flow without them."""
    whole: bool
    """Whether `cut` has no cycle left."""

    @property
    def stuck(self) -> set[str]:
        """The phases that cannot start because they wait for each other."""
        return {name for cycle in self.waits for name in cycle}


def order_of(found: Sequence[Phase]) -> Order:
    """The cycles of a flow. A name that means two phases makes none that anybody wrote."""
    counts = Counter(phase.name for phase in found)
    ways = [way for way in edges(found) if counts[way.source] == counts[way.target] == 1]
    waiting = list(islice(cycles(successors(w for w in ways if w.key == "after")), MOST))
    back = {(cycle[-1], cycle[0]) for cycle in waiting}
    ways = [way for way in ways if way.key != "after" or (way.source, way.target) not in back]
    endless = tuple(_endless(ways))
    cut = tuple(_cut(phase, back, [each.way for each in endless]) for phase in found)
    left = successors(way for way in edges(cut) if not way.guarded)
    return Order(tuple(_apart(waiting)), endless, cut, whole=not any(cycles(left)))


def _apart(found: list[list[str]]) -> Iterator[list[str]]:
    seen: set[str] = set()
    for cycle in found:
        if seen.isdisjoint(cycle):
            seen.update(cycle)
            yield cycle


def _endless(ways: Sequence[Edge]) -> Iterator[Endless]:
    seen: set[Edge] = set()
    unguarded = [way for way in ways if not way.guarded]
    back = {(w.source, w.target): w for w in reversed(unguarded) if w.key != "after"}
    for cycle in islice(cycles(successors(unguarded)), MOST):
        pairs = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        # The way that closes it, if it is one; a walk may also have begun inside of a loop.
        way = next((back[pair] for pair in reversed(pairs) if pair in back), None)
        if way is not None and way not in seen:
            seen.add(way)
            start = cycle.index(way.target)
            yield Endless(way, cycle[start:] + cycle[:start])


_CUTS: dict[str, dict[str, object]] = {
    "go": {"at_most": 1},
    "else": {"otherwise": None},
    "on_error": {"on_error": None},
}
"""What an author will change so that a way back is gone, or has a bound; by the way's key."""


def _cut(phase: Phase, back: set[tuple[str, str]], endless: Sequence[Edge]) -> Phase:
    sources = tuple(source for source in phase.sources if (source, phase.name) not in back)
    if len(sources) < len(phase.sources):
        need = phase.need - len(phase.sources) + len(sources)
        need = max(1, need) if sources else 0
        phase = replace(phase, sources=sources, need=need, entry=phase.entry or not sources)
    for way in endless:
        item = phase.item
        if way.source != phase.name or not isinstance(item, DecisionPhase | AgentPhase):
            continue
        change = _CUTS[way.key]
        phase = replace(phase, item=item.model_copy(update=change))
    return phase
