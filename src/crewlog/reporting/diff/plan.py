"""The diff of two plans: nodes and edges added, removed and changed, and the other settings."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from crewlog.graph.plan import GraphPlan, PlanNode
from crewlog.ids import NodeName
from crewlog.json_diff import differences
from crewlog.model import Model

Edge = tuple[str, str, str]
"""Source, target, and what leads there: `join`, `go`, `to`, `answer`, `else`, `on_error`."""
_EDGES = frozenset({"join"})
"""Fields of a node that its edges show."""


class PlanDiff(Model):
    """All differences between two plans. It is false if there are none."""

    added: tuple[NodeName, ...] = ()
    removed: tuple[NodeName, ...] = ()
    changed: dict[NodeName, tuple[str, ...]] = Field(
        default_factory=dict[NodeName, tuple[str, ...]]
    )
    """Nodes of both plans that differ, with the fields."""
    edges_added: tuple[Edge, ...] = ()
    edges_removed: tuple[Edge, ...] = ()
    rules: dict[str, tuple[str, ...]] = Field(default_factory=dict[str, tuple[str, ...]])
    """The other settings that differ (`agents.writer`, `tools.read`, `permissions.read`, `limits`),
    each with its fields, `added` or `removed`."""

    def __bool__(self) -> bool:
        return bool(self.to_json())


def plan_diff(old: GraphPlan, new: GraphPlan) -> PlanDiff:
    """What was added, removed and changed from `old` to `new`. Plans have no prompts."""
    before, after = {*plan_edges(old)}, {*plan_edges(new)}
    kept = [name for name in new.nodes if name in old.nodes]
    changed = {name: _fields(old.nodes[name], new.nodes[name]) for name in kept}
    return PlanDiff(
        added=tuple(name for name in new.nodes if name not in old.nodes),
        removed=tuple(name for name in old.nodes if name not in new.nodes),
        changed={name: fields for name, fields in changed.items() if fields},
        edges_added=tuple(edge for edge in plan_edges(new) if edge not in before),
        edges_removed=tuple(edge for edge in plan_edges(old) if edge not in after),
        rules=dict(_rules(old, new)),
    )


def plan_edges(plan: GraphPlan) -> list[Edge]:
    """The edges of a plan in its order, each once."""
    return list(dict.fromkeys(_edges(plan)))


def _edges(plan: GraphPlan) -> Iterator[Edge]:
    for name, node in plan.nodes.items():
        for source in node.join.of if node.join else ():
            yield source, name, "join"
        for how, target in node.sends:
            if target in plan.nodes:
                yield name, target, how


def _fields(old: PlanNode, new: PlanNode) -> tuple[str, ...]:
    found = [f for f in _changed_fields(old, new) if f not in _EDGES]
    if old.join and new.join and old.join.need != new.join.need:
        found.append("join.need")
    return tuple(found)


def _changed_fields(old: Model, new: Model) -> list[str]:
    before, after = old.model_dump(mode="json"), new.model_dump(mode="json")
    return [each.path[0] for each in differences(before, after, depth=1)]


_SECTIONS = {
    "agents": 2,
    "tools": 2,
    "permissions": 1,
    "approvals": 1,
    "merge": 1,
    "flags": 1,
    "limits": 1,
    "interrupts": 1,
}
"""The other settings of a plan, with the number of levels at which they are compared."""
_SINGLE = frozenset({"limits", "interrupts"})
"""Sections that are one model, and not models or values by name."""


def _rules(old: GraphPlan, new: GraphPlan) -> Iterator[tuple[str, tuple[str, ...]]]:
    before, after = (plan.model_dump(mode="json", include={*_SECTIONS}) for plan in (old, new))
    for section, depth in _SECTIONS.items():
        found: dict[str, list[str]] = {}
        for each in differences(before[section], after[section], (section,), depth=depth):
            named = each.path[:1] if section in _SINGLE else each.path[:2]
            field = each.path[len(named) :]
            found.setdefault(".".join(named), []).append(field[0] if field else each.kind)
        yield from ((name, tuple(fields)) for name, fields in found.items())
