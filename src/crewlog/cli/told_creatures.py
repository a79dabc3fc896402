"""A graph of creatures as tables: who listens, sends and is wired where; who speaks where to whom.

A picture of nodes says nothing of these: no way leads from one creature to the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from crewlog.cli.screen import Part, Screen, folded, plain
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, NodeName
from crewlog.reporting.drawing.view import ChannelView, channel_views
from crewlog.state.components import ChannelAgent, Component

_NONE = "–"  # noqa: RUF001
_GAP = 3
_WIDEST = 120
"""Columns that a table may take."""
_LEAST = 12
"""Columns that a column keeps, where others need room."""
_WORDS = {"running": "at work", "ready": "about to begin", "waiting": "waits", "failed": "failed"}
_STYLES = {"running": "cyan", "waiting": "yellow", "failed": "red"}


def show_creatures(screen: Screen, plan: GraphPlan, statuses: Mapping[NodeName, str]) -> None:
    """The creatures of a plan, each with what leads to it and from it; nothing where none lives.

    Args:
        screen: Where to.
        plan: The plan.
        statuses: What each node is.
    """
    graph = plan.component
    if graph is None:
        return
    rows = [_creature(name, graph, plan, statuses) for name in sorted(graph.agents)]
    _table(screen, ("agent", "listens to", "sends to", "wired to", ""), rows)


def show_channels(screen: Screen, plan: GraphPlan) -> None:
    """The channels of a plan's graph, each with who speaks and who hears there; and who is away."""
    if plan.component is None:
        return
    uses = channel_views(plan.component)
    if uses:
        screen.line("")
        _table(screen, ("channel", "from", "to"), [_channel(each) for each in uses])
    if plan.away:
        screen.line("")
    for name, home in sorted(plan.away.items()):
        screen.line("  ", (f"{plain(name)} lives in {plain(home)}", "dim"))


def _creature(
    name: AgentName, graph: Component, plan: GraphPlan, statuses: Mapping[NodeName, str]
) -> list[tuple[str, str]]:
    own = graph.agents[name]
    node = plan.wake_node_of(name)
    status = statuses.get(node, "") if node is not None else ""
    notes = [*_notes(name, own, graph, plan), *filter(None, [_WORDS.get(status)])]
    return [
        (plain(name), "bold"),
        (_names(own.listen), ""),
        (_names(own.send), ""),
        (_names(own.wires), ""),
        (", ".join(notes), _STYLES.get(status, "dim")),
    ]


def _notes(name: AgentName, own: ChannelAgent, graph: Component, plan: GraphPlan) -> Iterator[str]:
    if plan.graph is not None and plan.graph.root == name:
        yield "root"
    elif own.privileged:
        yield "privileged"
    if name in graph.flow:
        yield "in the flow"
    if own.parent is not None:
        yield f"works for {plain(own.parent)}"
    if own.beside is not None:
        yield f"beside {plain(own.beside)}"
    if not plan.agents[name].enabled:
        yield "switched off"


def _channel(use: ChannelView) -> list[tuple[str, str]]:
    speaks = [*use.senders, *(f"{name} (wire)" for name in use.wire_sources)]
    hears = (_names(use.listeners), "") if use.listeners else ("nobody", "yellow")
    return [(plain(use.name), "bold"), (_names(speaks), ""), hears]


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(plain, names)) or _NONE


def _table(
    screen: Screen, titles: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]
) -> None:
    """Columns whose texts are folded where all of them would not fit beside each other."""
    room = min(screen.width, _WIDEST) - 2
    widths = _widths(titles, rows, room) if screen.has_edge else _natural(titles, rows)
    _line(screen, [(title, "dim") for title in titles], widths)
    for row in rows:
        cells = [folded(text, width) for (text, _), width in zip(row, widths, strict=True)]
        for number in range(max(map(len, cells))):
            line = [
                (cell[number] if number < len(cell) else "", style)
                for cell, (_, style) in zip(cells, row, strict=True)
            ]
            _line(screen, line, widths)


def _line(screen: Screen, cells: Sequence[tuple[str, str]], widths: Sequence[int]) -> None:
    parts: list[Part] = ["  "]
    for (text, style), width in zip(cells, widths, strict=True):
        parts += [(text, style), " " * (max(0, width - len(text)) + _GAP)]
    screen.line(*parts)


def _natural(titles: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]]) -> list[int]:
    return [max(len(t), *(len(row[i][0]) for row in rows)) for i, t in enumerate(titles)]


def _widths(
    titles: Sequence[str], rows: Sequence[Sequence[tuple[str, str]]], room: int
) -> list[int]:
    """The columns' widths: the widest give way until all fit, but for names, which stay whole."""
    widths = _natural(titles, rows)
    left = room - _GAP * (len(widths) - 1)
    while sum(widths) > left:
        widest = max(range(1, len(widths)), key=lambda i: widths[i])
        if widths[widest] <= _LEAST:
            break
        widths[widest] -= 1
    return widths
