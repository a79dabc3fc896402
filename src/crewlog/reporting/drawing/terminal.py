"""A plan as box characters, for terminals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crewlog.definition.conditions import render_condition
from crewlog.definition.findings import listed
from crewlog.definition.times import duration_words
from crewlog.graph.loops import Loops
from crewlog.graph.lowering.coordination_rules import (
    ANY_WORDS,
    condition_branch_text,
    on_error_text,
    output_branch_text,
)
from crewlog.graph.plan import ASK_HUMAN, END, GraphPlan, PlanNode
from crewlog.ids import NodeName
from crewlog.reporting.drawing.box_characters import (
    Box,
    box_lines,
    nodes_with_unclear_edges,
    text_width,
)
from crewlog.reporting.drawing.labels import (
    WHOLE,
    clean,
    final_nodes,
    is_switched_off,
    nodes_without_dependents,
    outgoing_edges,
    short_text,
    start_label,
    tools_with_approval,
    wait_label,
)
from crewlog.reporting.drawing.layout import arrange, transitive_reduction

START_KEY, END_KEY = "\0start", "\0end"
_GLYPHS = {"done": "✓", "running": "●", "waiting": "◌", "ready": "○", "failed": "✗"}
_COLORS = {"done": "32", "running": "1;36", "waiting": "33", "ready": "2", "failed": "1;31"}


def terminal_drawing(
    plan: GraphPlan,
    statuses: Mapping[NodeName, str] | None = None,
    width: int = 100,
    color: bool = False,
    *,
    folds: bool = True,
) -> str:
    """The plan as text: nodes from left to right, with notes on branches and questions below.

    Notes are never cut: their end may say the most important, such as an `else`.

    Args:
        plan: The plan.
        statuses: `done`, `running`, `waiting`, `ready` or `failed`, by node.
        width: The columns of the terminal. A wider drawing continues in a band below.
        color: Whether to colour nodes by status with ANSI codes.
        folds: Whether notes are folded at the width; else each note is one line.
    """
    width = max(width, 24)
    boxes: dict[str, Box] = {
        name: _box(
            name,
            node,
            (statuses or {}).get(name, ""),
            color,
            width - 10,
            off=is_switched_off(node, plan),
        )
        for name, node in plan.nodes.items()
    }
    edges, ranking = _layout_edges(plan)
    keys: list[str] = [*plan.nodes]
    last = final_nodes(plan)
    edges += [
        (name, END_KEY)
        for name in nodes_without_dependents(plan)
        if name in last or any(to == END for to, _ in outgoing_edges(plan.nodes[name], plan.nodes))
    ]
    if any(target == END_KEY for _, target in edges):
        keys.append(END_KEY)
    entries = [name for name, node in plan.nodes.items() if node.entry]
    if len(entries) > 1:
        keys.insert(0, START_KEY)
        edges += [(START_KEY, name) for name in entries]
        boxes[START_KEY] = Box("")
    boxes[END_KEY] = Box("done")
    counted = [
        n for n, node in plan.nodes.items() if node.join and node.join.need < len(node.join.of)
    ]
    layers = arrange(keys, transitive_reduction(edges, [*counted, *entries]), ranking)
    lines = box_lines(layers, boxes, width)
    unclear, loops = nodes_with_unclear_edges(layers), Loops(plan)
    notes = [
        line
        for name, node in plan.nodes.items()
        for note in (
            *_cut_label(name, node, boxes[name].text),
            *_notes(name, node, plan, name in unclear, loops),
        )
        for line in (_folded_lines(clean(note), width) if folds else [clean(note)])
    ]
    return "\n".join([*lines, *([""] if notes else []), *notes]) + "\n"


def _cut_label(name: NodeName, node: PlanNode, box_text: str) -> Iterator[str]:
    """The whole label of a node, if its box has a part of it."""
    if (whole := clean(start_label(node, WHOLE))) and f"{whole})" not in box_text:
        yield f"… {name}: {whole}"


def _folded_lines(note: str, width: int) -> list[str]:
    """A note as lines, broken between words; all lines after the first are indented."""
    lines = [""]
    for word in note.split(" "):
        if lines[-1].strip() and text_width(f"{lines[-1]} {word}") > width:
            lines.append(" " * 4 + word)
        else:
            lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _box(
    name: NodeName, node: PlanNode, status: str, color: bool, longest: int, *, off: bool
) -> Box:
    sign = {"decide": "◇ ", "route": "◇ ", "ask": "? ", "wait": "◔ "}.get(node.kind, "")
    if node.decide is not None and node.decide.passes:
        sign = "· "
    if node.join is None and not node.entry:
        sign = f"⇢ {sign}"
    glyph = f"{_GLYPHS[status]} " if status in _GLYPHS else ""
    label = ", ".join(part for part in ("off" if off else "", start_label(node)) if part)
    text = f"{glyph}{sign}{name}" + (f" ({label})" if label else "")
    if len(text) > longest and start_label(node):
        text = f"{glyph}{sign}{name} ({'off, ' if off else ''}…)"  # a note has the whole label
    code = _COLORS.get(status, "") if color else ""
    return Box(short_text(text, longest), code)


def _layout_edges(plan: GraphPlan) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """The edges to draw, and pairs of nodes that only decide the order of layers."""
    edges: list[tuple[str, str]] = [
        (source, name) for name, node in plan.nodes.items() if node.join for source in node.join.of
    ]
    order = {name: i for i, name in enumerate(plan.nodes)}
    ranking: list[tuple[str, str]] = []
    for name, node in plan.nodes.items():
        for target, _ in outgoing_edges(node, plan.nodes):
            goal = plan.nodes.get(target)
            if goal is None or goal.join is not None or goal.entry or order[name] > order[target]:
                continue
            if not _reaches(target, name, [*edges, *ranking]):
                ranking.append((name, target))
    return edges, ranking


def _reaches(start: str, goal: str, edges: list[tuple[str, str]]) -> bool:
    visited, stack = {start}, [start]
    while stack:
        here = stack.pop()
        if here == goal:
            return True
        more = [target for source, target in edges if source == here and target not in visited]
        visited.update(more)
        stack.extend(more)
    return False


def _notes(
    name: NodeName, node: PlanNode, plan: GraphPlan, unclear: bool, loops: Loops
) -> Iterator[str]:
    if unclear and node.join is not None:
        yield f"⋈ {name} waits for {listed(node.join.of)}"
    if node.decide is not None and node.decide.passes:
        return
    if node.decide is not None:
        mark = "↺" if loops.joins(name, node.decide.go) else "⇢"
        yield f"{mark} {name}: {condition_branch_text(node.decide)}"
    elif node.route is not None:
        yield f"⇢ {name}: {output_branch_text(node.route)}"
    elif node.ask is not None:
        ends = {option for target, option in outgoing_edges(node, plan.nodes) if target == END}
        answers = [f"{option} → done" if option in ends else option for option in node.ask.options]
        answers += [ANY_WORDS] if node.ask.words else []
        yield f"? {name}: {clean(node.ask.question)} [{' / '.join(answers)}]"
    elif node.wait is not None:
        yield f"◔ {name}: waits {wait_label(node.wait)}"
    elif tools := tools_with_approval(node, plan):
        yield f"? {name}: asks before {listed(tools, 'and')}"
    yield from _limit_notes(name, node)


def _limit_notes(name: NodeName, node: PlanNode) -> Iterator[str]:
    """The timeouts of a node, and its alternatives."""
    if node.when is not None and node.otherwise != ASK_HUMAN:
        yield f"⇢ {name}: where {render_condition(node.when)} cannot come true → {node.otherwise}"
    elif node.for_each is not None and node.otherwise != ASK_HUMAN:
        yield f"⇢ {name}: where {node.for_each} cannot be worked on → {node.otherwise}"
    if node.when is not None and node.within is not None:
        most = duration_words(node.within)
        yield f"◔ {name}: waits for {render_condition(node.when)} at most {most}"
    if node.timeout is not None:
        yield f"◔ {name}: fails where a step takes more than {duration_words(node.timeout)}"
    if node.on_error:
        yield f"⇢ {name}: where it fails, {on_error_text(node.on_error)}"
