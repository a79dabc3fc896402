"""A plan as a Mermaid flowchart, for web pages. Labels are escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from crewlog.definition.conditions import render_condition
from crewlog.graph.plan import GraphPlan, PlanNode
from crewlog.ids import NodeName
from crewlog.reporting.drawing.labels import (
    can_continue,
    clean,
    final_nodes,
    is_switched_off,
    outgoing_edges,
    short_text,
    start_label,
    tools_with_approval,
    wait_label,
)

_CLASSES = {
    "done": "fill:#d9f2df,stroke:#2e7d46,color:#12351e",
    "running": "fill:#d6eaff,stroke:#1b6ac9,color:#0b2f5b,stroke-width:3px",
    "waiting": "fill:#fff3cd,stroke:#b58105,color:#4d3800",
    "ready": "fill:#ffffff,stroke:#888888,color:#333333",
    "failed": "fill:#fde0e0,stroke:#c62828,color:#5c1010",
}


def mermaid(plan: GraphPlan, statuses: Mapping[NodeName, str] | None = None) -> str:
    """The plan as a Mermaid flowchart; see `MermaidDrawing`."""
    return MermaidDrawing(plan).text(statuses or {})


class MermaidDrawing:
    """A plan as a Mermaid flowchart that can be coloured repeatedly.

    Agents are rounded, branches are diamonds, questions are hexagons. Edges of branches, answers
    and `else` are dotted.
    """

    def __init__(self, plan: GraphPlan) -> None:
        self._ids = ids = {name: f"n{i}" for i, name in enumerate(plan.nodes)}
        lines = ["flowchart LR", "    start((start))"]
        lines += [f"    {ids[name]}{_shape(name, node, plan)}" for name, node in plan.nodes.items()]
        lines.append("    done([done])")
        for name, node in plan.nodes.items():
            lines += [f"    {way}" for way in _mermaid_edges(name, node, plan, ids)]
        lines += [f"    {ids[name]} --> done" for name in final_nodes(plan)]
        self._plain = "\n".join(lines) + "\n"

    def text(self, statuses: Mapping[NodeName, str]) -> str:
        """The flowchart in colours.

        Args:
            statuses: `done`, `running`, `waiting`, `ready` or `failed`, by node.
        """
        nodes: dict[str, list[str]] = {status: [] for status in _CLASSES}
        for name, id_ in self._ids.items():
            if (status := statuses.get(name, "")) in nodes:
                nodes[status].append(id_)
        used = [status for status, of in nodes.items() if of]
        lines = [f"    classDef {status} {_CLASSES[status]}\n" for status in used]
        lines += [f"    class {','.join(nodes[status])} {status}\n" for status in used]
        return "".join([self._plain, *lines])


def _escaped(text: str) -> str:
    """Text for a quoted Mermaid label: special characters become entities."""
    return "".join(
        c if c.isalnum() or c in " _-.,:=!?/()'→≤≥…" else f"#{ord(c)};" for c in clean(text)
    )


def _shape(name: NodeName, node: PlanNode, plan: GraphPlan) -> str:
    if node.decide is not None and node.decide.passes:
        return '(("' + _escaped(name) + '"))'
    if node.decide is not None:
        return '{"' + _escaped(f"{render_condition(node.decide.when)}?") + '"}'
    if node.route is not None:
        return '{"' + _escaped(f"{node.route.by}?") + '"}'
    if node.wait is not None:
        return '(["' + _escaped(f"{name}: {wait_label(node.wait)}") + '"])'
    if node.ask is not None:
        return '{{"' + _escaped(short_text(node.ask.question, 80)) + '"}}'
    who = ", ".join(node.agents)
    label = name if who in ("", str(name)) else f"{name}: {short_text(who, 60)}"
    if is_switched_off(node, plan):
        label += " (off)"
    if tools := tools_with_approval(node, plan):
        label += short_text(f", asks before {', '.join(tools)}", 80)
    return '("' + _escaped(label) + '")'


def _mermaid_edges(
    name: NodeName, node: PlanNode, plan: GraphPlan, ids: Mapping[NodeName, str]
) -> Iterator[str]:
    here = ids[name]
    label = start_label(node)
    arrow = f'-->|"{_escaped(label)}"|' if label else "-->"
    if node.entry:
        yield f"start {arrow} {here}"
    for source in node.join.of if node.join else ():
        if can_continue(plan.nodes[source], ids):
            yield f"{ids[source]} {arrow} {here}"
    for target, why in outgoing_edges(node, ids):
        to = ids.get(target, "done")
        yield f'{here} -.->|"{_escaped(why)}"| {to}'
