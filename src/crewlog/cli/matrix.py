"""The matrix of agents and tools on a screen, and the rules behind one of its cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from crewlog.cli.screen import Part, Screen, ago, plain
from crewlog.definition.findings import listed
from crewlog.definition.quotas import quota_of, window_ends
from crewlog.graph.plan import BUILT_IN_TOOLS

if TYPE_CHECKING:
    from crewlog.reporting.permission_matrix.view import (
        PermissionExplanationView,
        PermissionMatrixView,
    )
    from crewlog.wire import LivePermissionView, PermissionView

GLYPHS = {"allow": ("✓", "green"), "ask": ("?", "yellow"), "deny": ("✗", "red")}
_HAS_NOT = ("·", "dim")
SET = "*"
"""Behind what people set at run time."""
_GAP = 2
_MANY = 40
"""Cells from which on those that nothing is said of are told together."""
_LONGEST_NAME = 24
"""Columns of an agent's name."""


def show_matrix(screen: Screen, page: PermissionMatrixView, *, whole: bool = False) -> None:
    """All cells: first as a table, then each with its reason.

    Args:
        screen: Where it is shown.
        page: The cells.
        whole: Whether the tools that every crew has are shown, too, where nothing is said of them.
    """
    cells = [c for c in page.cells if whole or c.live_permission or c.tool not in BUILT_IN_TOOLS]
    seen = "" if page.live else " · from the store"
    head = f"  crew {plain(page.crew)} · run {plain(page.run)} · graph v{page.graph_version}{seen}"
    screen.line((head, "bold"))
    screen.line()
    if not cells:
        screen.line("  ", ("no agent of the run has a tool", "dim"))
        return
    for table in tables(cells, screen.width):
        for row in table:
            screen.line(*row)
        screen.line()
    for line in _legend(cells, screen.width - 2):
        screen.line("  ", *line)
    for agent, found in groupby(cells, key=lambda cell: cell.agent):
        screen.line()
        screen.line(f"  {plain(agent)}")
        _reasons(screen, list(found), brief=not whole and len(cells) > _MANY)


def tables(cells: Sequence[PermissionView], width: int) -> Iterator[list[list[Part]]]:
    """The cells as tables that fit, each with some of the tools.

    Args:
        cells: The cells, row by row.
        width: Columns of the screen.
    """
    rows = {agent: list(found) for agent, found in groupby(cells, key=lambda cell: cell.agent)}
    tools = list(dict.fromkeys(cell.tool for cell in cells))
    first = min(_LONGEST_NAME, max(len(plain(agent)) for agent in rows))
    start = 0
    while start < len(tools):
        end, used = start, 2 + first
        while end < len(tools) and (end == start or used + _GAP + len(tools[end]) <= width):
            used += _GAP + len(tools[end])
            end += 1
        shown = tools[start:end]
        table: list[list[Part]] = [[" " * (2 + first), *_headings(shown)]]
        for agent, row in rows.items():
            by_tool = {cell.tool: cell for cell in row}
            line: list[Part] = [f"  {_cut(plain(agent), first):{first}}"]
            for tool in shown:
                line += _mark(by_tool.get(tool), len(tool))
            table.append(line)
        yield table
        start = end


def _headings(tools: Sequence[str]) -> Iterator[Part]:
    for tool in tools:
        yield (f"{' ' * _GAP}{plain(tool)}", "dim")


def _mark(cell: PermissionView | None, width: int) -> Iterator[Part]:
    if cell is None:
        yield " " * (_GAP + width)
        return
    glyph, style = GLYPHS[cell.outcome] if cell.has_tool or cell.live_permission else _HAS_NOT
    mark = SET if cell.live_permission is not None else ""
    yield " " * _GAP
    yield (glyph, style)
    yield (f"{mark:{max(0, width - 1)}}", "bold")


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _legend(cells: Sequence[PermissionView], width: int) -> Iterator[list[Part]]:
    """What the marks mean, in as many lines as it takes."""
    line: list[Part] = []
    used = 0
    for mark, meaning in _meanings(cells):
        length = len(meaning) + 5
        if line and used + length > width:
            yield line
            line, used = [], 0
        line += [mark, (f" {meaning}   ", "dim")]
        used += length
    yield line


def _meanings(cells: Sequence[PermissionView]) -> Iterator[tuple[Part, str]]:
    meanings = {"allow": "may", "ask": "a person must say yes", "deny": "may not"}
    shown = {cell.outcome for cell in cells if cell.has_tool or cell.live_permission}
    for outcome, meaning in meanings.items():
        if outcome in shown:
            yield GLYPHS[outcome], meaning
    if any(not cell.has_tool and not cell.live_permission for cell in cells):
        yield _HAS_NOT, "does not have it"
    if any(cell.live_permission for cell in cells):
        yield (SET, "bold"), "set at run time"


def _reasons(screen: Screen, cells: Sequence[PermissionView], *, brief: bool) -> None:
    """The cells of an agent, each with its reason; those that it does not have in one line.

    Where it is to be brief, so are those that it may call and nothing more is said of.
    """
    shown = [cell for cell in cells if cell.has_tool or cell.live_permission]
    if brief:
        may = [cell for cell in shown if _is_plain(cell)]
        shown = [cell for cell in shown if not _is_plain(cell)]
        if may:
            tools = listed(plain(cell.tool) for cell in may)
            screen.wrapped(["    ", GLYPHS["allow"], " "], f"among its tools: {tools}", indent=6)
    width = max((len(plain(cell.tool)) for cell in shown), default=0)
    for cell in shown:
        cell_line(screen, cell, width=width, agent=False)
    without = [plain(cell.tool) for cell in cells if not cell.has_tool and not cell.live_permission]
    if without:
        screen.wrapped(["    ", _HAS_NOT, " "], f"does not have {listed(without)}", indent=6)


def _is_plain(cell: PermissionView) -> bool:
    """Whether a tool is an agent's without a rule, a ruling or a quota."""
    said = cell.rule or cell.live_permission or cell.quotas or cell.may_change
    return cell.outcome == "allow" and not said


def cell_line(screen: Screen, cell: PermissionView, *, width: int = 0, agent: bool = True) -> None:
    """A cell with its reason, what is left, and who set it."""
    glyph, style = GLYPHS[cell.outcome]
    name = f"{plain(cell.agent)} · {plain(cell.tool)}" if agent else f"{plain(cell.tool):{width}}"
    head: list[Part] = ["    ", (glyph, style), f" {name}  "]
    more = [plain(cell.reason), *_left(cell)]
    if cell.live_permission is not None:
        more.append(set_words(cell.live_permission))
    if cell.may_change:
        more.append("flags and outputs may change it")
    screen.wrapped(head, "; ".join(more), indent=8 + len(name), style="")


def _left(cell: PermissionView) -> Iterator[str]:
    for quota in cell.quotas:
        if cell.outcome == "deny":
            continue  # the reason says it, or nothing is counted
        if quota.remaining_calls is not None:
            yield f"{quota.remaining_calls} left of {quota.quota} ({quota.rule})"
        else:
            yield f"{quota.quota} ({quota.rule})"


def next_window(cell: PermissionView) -> Iterator[str]:
    """Of a cell's quotas over runs that are used up: when calls are counted anew."""
    for quota in cell.quotas:
        if quota.remaining_calls != 0 or not quota.zone:
            continue
        per = quota_of(quota.quota).per
        now = int(datetime.now().astimezone().timestamp() * 1000)
        with suppress(KeyError, ValueError, OSError):  # a zone that this machine does not know
            ends = window_ends(per, now, ZoneInfo(quota.zone))
            yield f"{quota.quota} ({quota.rule}); the next {per} begins at {ends}"


def set_words(said: LivePermissionView) -> str:
    """`set by ana 3 minutes ago (position 12)`."""
    by = f" by {plain(said.by)}" if said.by else " at run time"
    when = f" {ago(said.at)}" if said.at else ""
    where = f" (position {said.position})" if said.position else ""
    why = f": {plain(said.reason)}" if said.reason else ""
    return f"set{by}{when}{where}{why}"


# -- one cell --------------------------------------------------------------------------------

_VERBS = {
    "allow": "may call",
    "ask": "must wait for a person's yes to call",
    "deny": "may not call",
}


def show_why(screen: Screen, view: PermissionExplanationView) -> None:
    """Shows whether an agent may call a tool, every check, and the commands that change it."""
    glyph, style = GLYPHS[view.outcome]
    said = f"{plain(view.agent)} {_VERBS[view.outcome]} {plain(view.tool)}"
    screen.line("  ", (glyph, style), (f" {said}", "bold"))
    screen.wrapped(["    "], plain(view.reason), indent=4)
    if view.live_permission is not None:
        screen.wrapped(["    "], set_words(view.live_permission), indent=4)
    screen.line()
    width = max(len(check.rule) for check in view.checks)
    for check in view.checks:
        glyph, style = GLYPHS.get(check.outcome, ("–", "dim"))  # noqa: RUF001
        if not check.applies:
            style = "dim"
        mark: Part = ("▸ ", "bold") if check.decides else "  "
        head: list[Part] = [mark, (glyph, style), f" {check.rule:{width}}  "]
        aside = "" if check.applies or not check.outcome else " (does not count now)"
        screen.wrapped(
            ["  ", *head],
            f"{plain(check.text)}{aside}",
            indent=8 + width,
            style="" if check.applies else "dim",
        )
    if left := [*_left(view), *next_window(view)]:
        screen.line()
        screen.line("  ", ("Quota   ", "dim"), "; ".join(left))
    if not view.live:
        screen.line()
        screen.line("  ", ("From the store: the run does not answer, or has ended.", "dim"))
        return
    screen.line()
    for number, remedy in enumerate(view.remedies):
        screen.line("  ", ("Change  " if number == 0 else "        ", "dim"), remedy.command)
        screen.line("          ", (remedy.effect, "dim"))
