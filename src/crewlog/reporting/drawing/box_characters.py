"""Paints a layout with box-drawing characters, in bands that fit a width."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crewlog.reporting.drawing.layout import Place

_LEFT, _RIGHT, _UP, _DOWN = 1, 2, 4, 8
_BOXES = " ╴╶─╵┘└┴╷┐┌┬│┤├┼"


@dataclass(frozen=True)
class Box:
    """The text at a place, in one line, and its ANSI colour code."""

    text: str
    code: str = ""


@dataclass(eq=False)
class _Bus:
    """A vertical line between two layers: all its sources lead to all its targets."""

    sources: list[Place]
    targets: list[Place]
    track: int = -1
    """Its column among the tracks; -1: a straight horizontal line."""

    @property
    def rows(self) -> list[int]:
        return sorted(place.row for place in [*self.sources, *self.targets])


@dataclass
class _Grid:
    cells: dict[tuple[int, int], tuple[str, str]] = field(
        default_factory=dict[tuple[int, int], tuple[str, str]]
    )
    bits: dict[tuple[int, int], int] = field(default_factory=dict[tuple[int, int], int])
    crossings: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])

    def text(self, row: int, column: int, text: str, code: str = "") -> None:
        for character in text:
            self.cells[row, column] = (character, code)
            column += 1
            if unicodedata.east_asian_width(character) in "WF":
                self.cells[row, column] = ("", code)
                column += 1

    def across(self, row: int, first: int, last: int) -> None:
        for column in range(first, last + 1):
            self.add(row, column, _LEFT | _RIGHT)

    def add(self, row: int, column: int, bits: int) -> None:
        self.bits[row, column] = self.bits.get((row, column), 0) | bits

    def lines(self) -> list[str]:
        drawn = {at: (_BOXES[bits], "") for at, bits in self.bits.items()}
        drawn.update(dict.fromkeys(self.crossings, ("│", "")))
        drawn.update(self.cells)
        by_row: dict[int, dict[int, tuple[str, str]]] = {}
        for (row, column), cell in drawn.items():
            by_row.setdefault(row, {})[column] = cell
        return [_line(by_row[row]) for row in sorted(by_row)]


def _line(cells: dict[int, tuple[str, str]]) -> str:
    out: list[str] = []
    current = ""
    for column in range(max(cells) + 1):
        character, code = cells.get(column, (" ", ""))
        if code != current:
            out.append(("\x1b[0m" if current else "") + (f"\x1b[{code}m" if code else ""))
            current = code
        out.append(character)
    if current:
        out.append("\x1b[0m")
    return "".join(out).rstrip()


def text_width(text: str) -> int:
    """The columns of a text in a terminal."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def box_lines(layers: Sequence[Sequence[Place]], boxes: Mapping[str, Box], width: int) -> list[str]:
    """The lines of a drawing; bands are separated by an empty line."""
    gutters = [_buses(layer) for layer in layers[:-1]]
    widths = [max(_box_width(place, boxes) for place in layer) for layer in layers]
    tracks = [max((bus.track for bus in buses), default=-1) + 1 for buses in gutters]
    lines: list[str] = []
    first = 0
    while first < len(layers):
        last = _band_end(layers, widths, tracks, first, width)
        if lines:
            lines.append("")
        lines += _band(layers, gutters, widths, tracks, boxes, first, last)
        first = last + 1
    return lines


def nodes_with_unclear_edges(layers: Sequence[Sequence[Place]]) -> set[str]:
    """The nodes whose sources are not clear from the lines, so that they need a note.

    Sources are unclear if a line continues behind a vertical line with other sources, or shares a
    row with the line of another vertical line.
    """
    keys: set[str] = set()
    for layer in layers:
        buses = [bus for bus in _buses(layer) if bus.track >= 0]
        for bus in buses:
            rows = {target.row for target in bus.targets}
            for other in buses:
                if other is bus:
                    continue
                runs_on = other.track > bus.track and rows & {p.row for p in other.sources}
                shares = len(bus.sources) > 1 and any(p in bus.sources for p in other.sources)
                if runs_on or shares:
                    keys |= _targets([*bus.targets, *other.targets])
    return keys


def _targets(places: list[Place]) -> set[str]:
    stack, keys = list(places), set[str]()
    while stack:
        place = stack.pop()
        if place.dummy:
            stack.extend(place.after)
        else:
            keys.add(place.key)
    return keys


def _box_width(place: Place, boxes: Mapping[str, Box]) -> int:
    if place.dummy:
        return 1
    text = boxes[place.key].text
    return text_width(text) + 2 if text else 0


def _gutter(tracks: int) -> int:
    return tracks * 2 + 1 if tracks else 2


def _band_end(
    layers: Sequence[Sequence[Place]], widths: list[int], tracks: list[int], first: int, width: int
) -> int:
    """The last layer that fits; an earlier one if the cut crosses fewer lines there."""
    used = (2 + _gutter(tracks[first - 1]) if first else 0) + widths[first]
    ends = [first]
    starts = [used]
    for layer in range(first + 1, len(layers)):
        used += _gutter(tracks[layer - 1]) + widths[layer]
        if used + (3 if layer + 1 < len(layers) else 0) > width:
            break
        ends.append(layer)
        starts.append(used)
    if ends[-1] + 1 >= len(layers):
        return ends[-1]
    far_enough = [e for e, at in zip(ends, starts, strict=True) if at >= width * 0.55] or ends[-1:]
    return min(far_enough, key=lambda e: (len(layers[e]), -e))


def _buses(layer: Sequence[Place]) -> list[_Bus]:
    """Groups the lines out of a layer: targets with the same sources share one vertical line."""
    sources_of: dict[int, tuple[Place, list[Place]]] = {}
    for place in layer:
        for target in place.after:
            sources_of.setdefault(id(target), (target, []))[1].append(place)
    grouped: dict[tuple[int, ...], _Bus] = {}
    for target, sources in sources_of.values():
        bus = grouped.setdefault(tuple(id(s) for s in sources), _Bus(sources, []))
        bus.targets.append(target)
    buses = sorted(grouped.values(), key=lambda bus: (bus.rows[0], bus.rows[-1]))
    ends: list[int] = []
    for bus in buses:
        low, high = bus.rows[0], bus.rows[-1]
        shared = any(len(source.after) > len(bus.targets) for source in bus.sources)
        if low == high and not shared:
            continue
        free = [i for i, end in enumerate(ends) if end < low and not shared]
        bus.track = free[0] if free else len(ends)
        if free:
            ends[bus.track] = high
        else:
            ends.append(10**6 if shared else high)
    return buses


def _band(
    layers: Sequence[Sequence[Place]],
    gutters: list[list[_Bus]],
    widths: list[int],
    tracks: list[int],
    boxes: Mapping[str, Box],
    first: int,
    last: int,
) -> list[str]:
    grid = _Grid()
    column = 0
    if first:
        for place in layers[first - 1]:
            if place.after:
                grid.text(place.row, 0, "┄")
                grid.across(place.row, 1, 1)
        _paint_gutter(grid, gutters[first - 1], 2, tracks[first - 1])
        column = 2 + _gutter(tracks[first - 1])
    for index in range(first, last + 1):
        for place in layers[index]:
            _paint_node(grid, place, boxes, column, widths[index])
        column += widths[index]
        if index == last:
            for place in layers[index]:
                if place.after:
                    grid.across(place.row, column, column)
                    grid.text(place.row, column + 1, "┄")
        elif index < len(gutters):
            _paint_gutter(grid, gutters[index], column, tracks[index])
            column += _gutter(tracks[index])
    return grid.lines()


def _paint_node(
    grid: _Grid, place: Place, boxes: Mapping[str, Box], column: int, width: int
) -> None:
    end = column
    if not place.dummy and (text := boxes[place.key].text):
        grid.text(place.row, column, f" {text} ", "")
        grid.text(place.row, column + 1, text, boxes[place.key].code)
        end = column + text_width(text) + 2
    if place.after:
        grid.across(place.row, end, column + width - 1)


def _paint_gutter(grid: _Grid, buses: list[_Bus], column: int, tracks: int) -> None:
    end = column + _gutter(tracks) - 1
    verticals: dict[tuple[int, int], _Bus] = {}
    for bus in buses:
        at = column + 2 * bus.track + 1
        if bus.track < 0:
            grid.across(bus.sources[0].row, column, end)
            continue
        low, high = bus.rows[0], bus.rows[-1]
        for row in range(low, high + 1):
            bits = (_UP if row > low else 0) | (_DOWN if row < high else 0)
            grid.add(row, at, bits)
            verticals[row, at] = bus
        for source in bus.sources:
            grid.across(source.row, column, at - 1)
            grid.add(source.row, at, _LEFT)
        for target in bus.targets:
            grid.add(target.row, at, _RIGHT)
            grid.across(target.row, at + 1, end)
    for (row, at), bus in verticals.items():
        ends_here = any(place.row == row for place in [*bus.sources, *bus.targets])
        passes = grid.bits[row, at] & (_LEFT | _RIGHT)
        if passes and not ends_here:
            grid.crossings.add((row, at))
