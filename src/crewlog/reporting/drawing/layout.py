"""A layered layout of a small graph on a character grid, left to right.

The layer of a node is the length of the longest path to it. A line that passes a layer has a place
in it (a dummy), which all targets of one source share. Barycentres decide the order within a layer.
Rows come from the mean of the neighbours and from isotonic regression, which separates places that
overlap. Lanes have a distance of one, so the source of two lanes is between their rows. Rows
without a place are removed at the end. Two lanes take three rows, and three lanes also take three.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from itertools import pairwise
from statistics import fmean

_SWEEPS = 24


@dataclass(eq=False)
class Place:
    """A node of the graph, or a dummy for a line that passes the layer."""

    key: str
    """The key of the node; of a dummy, the key of its source."""
    layer: int
    dummy: bool = False
    y: float = 0.0
    row: int = 0
    before: list[Place] = field(default_factory=list["Place"], repr=False)
    after: list[Place] = field(default_factory=list["Place"], repr=False)


def arrange(
    keys: Sequence[str], edges: Sequence[tuple[str, str]], ranking: Sequence[tuple[str, str]] = ()
) -> list[list[Place]]:
    """Places by layer, each layer from top to bottom, with rows from 0.

    Args:
        keys: The nodes.
        edges: The edges, without cycles.
        ranking: Further pairs without a line: the second node is to the right of the first.
    """
    layers = _places(keys, edges, _ranks(keys, [*edges, *ranking]))
    _order(layers)
    _assign_rows(layers)
    _snap(layers)
    return layers


def transitive_reduction(
    edges: Sequence[tuple[str, str]], keep: Iterable[str]
) -> list[tuple[str, str]]:
    """The edges without those that a longer path implies; all edges to the nodes `keep` stay."""
    kept = set(keep)
    ahead: dict[str, list[str]] = {}
    for source, target in edges:
        ahead.setdefault(source, []).append(target)

    def further(start: str) -> set[str]:
        visited: set[str] = set()
        stack = [t2 for target in ahead.get(start, ()) for t2 in ahead.get(target, ())]
        while stack:
            node = stack.pop()
            if node not in visited:
                visited.add(node)
                stack.extend(ahead.get(node, ()))
        return visited

    implied = {source: further(source) for source in ahead}
    return [(s, t) for s, t in edges if t in kept or t not in implied[s]]


def _ranks(keys: Sequence[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    before: dict[str, list[str]] = {key: [] for key in keys}
    for source, target in edges:
        before[target].append(source)
    rank: dict[str, int] = {}
    for key in TopologicalSorter(before).static_order():
        rank[key] = max((rank[source] + 1 for source in before[key]), default=0)
    return rank


def _places(
    keys: Sequence[str], edges: Sequence[tuple[str, str]], rank: dict[str, int]
) -> list[list[Place]]:
    layers: list[list[Place]] = [[] for _ in range(max(rank.values()) + 1)]
    real = {key: Place(key, rank[key]) for key in keys}
    lines: dict[tuple[str, int], Place] = {(key, rank[key]): place for key, place in real.items()}
    for place in real.values():
        layers[place.layer].append(place)
    for source, target in edges:
        here = real[source]
        for layer in range(rank[source] + 1, rank[target]):
            passing = lines.get((source, layer))
            if passing is None:
                passing = lines[source, layer] = Place(source, layer, dummy=True)
                layers[layer].append(passing)
                _link(here, passing)
            here = passing
        _link(here, real[target])
    return layers


def _link(left: Place, right: Place) -> None:
    left.after.append(right)
    right.before.append(left)


def _order(layers: list[list[Place]]) -> None:
    """Sorts layers for few crossings; the order of the flow breaks ties."""
    positions = _positions(layers)
    first: dict[int, int] = {}
    stack = [place for layer in layers for place in layer if not place.before][::-1]
    while stack:  # depth first keeps the parts of a lane together
        place = stack.pop()
        if id(place) not in first:
            first[id(place)] = len(first)
            stack.extend(sorted(place.after, key=lambda p: -positions[id(p)]))
    for layer in layers:
        layer.sort(key=lambda p: first[id(p)])
    best, fewest = [list(layer) for layer in layers], _crossings(layers)
    for sweep in range(8):
        positions = _positions(layers)
        forward = sweep % 2 == 0
        for layer in layers if forward else reversed(layers):
            layer.sort(key=_barycentre(positions, forward))
            positions.update({id(p): i for i, p in enumerate(layer)})
        crossings = _crossings(layers)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    layers[:] = best


def _barycentre(positions: dict[int, int], forward: bool) -> Callable[[Place], float]:
    def centre(place: Place) -> float:
        near = place.before if forward else place.after
        return fmean(positions[id(p)] for p in near) if near else float(positions[id(place)])

    return centre


def _positions(layers: list[list[Place]]) -> dict[int, int]:
    return {id(place): i for layer in layers for i, place in enumerate(layer)}


def _crossings(layers: list[list[Place]]) -> int:
    """The number of crossings, without a loop over all pairs: a layer may have many lines."""
    positions = _positions(layers)
    count = 0
    for layer in layers:
        ends: list[int] = []  # of the lines further up, sorted
        for place in layer:
            here = sorted(positions[id(to)] for to in place.after)
            count += sum(len(ends) - bisect_right(ends, end) for end in here)
            ends = sorted([*ends, *here])
    return count


def _assign_rows(layers: list[list[Place]]) -> None:
    for layer in layers:
        for i, place in enumerate(layer):
            place.y = i - (len(layer) - 1) / 2
    for sweep in range(_SWEEPS):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = [_preferred_row(place) for place in layer]
            for place, y in zip(layer, _apart(wanted), strict=True):
                place.y = y


def _preferred_row(place: Place) -> float:
    """The best row of a place: a single neighbour counts more, so that lanes become straight."""
    total = weight = 0.0
    for side in (place.before, place.after):
        if side:
            strength = 4.0 if len(side) == 1 and (place.dummy or side[0].dummy) else 1.0
            total += strength * fmean(p.y for p in side)
            weight += strength
    return total / weight if weight else place.y


def _apart(wanted: list[float]) -> list[float]:
    """The nearest rows in this order with a distance of at least one (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for i, y in enumerate(wanted):
        mean, count = y - i, 1
        while blocks and blocks[-1][0] >= mean:
            before, size = blocks.pop()
            mean, count = (before * size + mean * count) / (size + count), size + count
        blocks.append((mean, count))
    flat = [mean for mean, count in blocks for _ in range(count)]
    return [mean + i for i, mean in enumerate(flat)]


def _snap(layers: list[list[Place]]) -> None:
    """Rounds rows to halves, makes single lanes straight, and removes rows without a place."""
    for layer in layers:
        for place in layer:
            place.row = round(place.y * 2)
        for upper, lower in pairwise(layer):
            lower.row = max(lower.row, upper.row + 1)
    for layer in layers:
        for i, place in enumerate(layer):
            if len(place.before) == 1 and len(place.before[0].after) == 1:
                row = place.before[0].row
                above = layer[i - 1].row if i else row - 1
                below = layer[i + 1].row if i + 1 < len(layer) else row + 1
                if above < row < below:
                    place.row = row
    rows = sorted({place.row for layer in layers for place in layer})
    compact = {row: i for i, row in enumerate(rows)}
    for layer in layers:
        for place in layer:
            place.row = compact[place.row]
