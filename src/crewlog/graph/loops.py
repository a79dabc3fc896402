"""Loops: which joins restart when a node sends the run back to an earlier one.

A branch, an answer or a handoff at node D sends the run back to node G, and the joins between G and
D must fire once more. The body of the loop is every node on a forward path from G to D, D included.
Joins, branches, answers and `else` are edges. Back edges do not count, neither D's own nor another
loop's: by the back edge of an outer loop, an inner loop would seem to contain all of the outer one,
and would delete arrivals at its joins.

The loop starts a new generation at each join in its body. Sources outside the body will not arrive
again, so those that are done count as done; a join with all its sources inside starts at zero. G
itself is reached by the back edge and not by its join, so it restarts only if some of its sources
are in the body. All this follows from the plan: it is computed once for each back edge, and not
carried.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

from crewlog.definition.phases import reachable
from crewlog.graph.plan import GraphPlan
from crewlog.ids import NodeName

Joins = dict[NodeName, tuple[NodeName, ...]]
"""Joins by name, each with those of its sources that are outside of a loop's body."""


class Loops:
    """The loops of a plan."""

    def __init__(self, plan: GraphPlan) -> None:
        self._plan = plan
        self._forward = forward_edges(plan)
        self._backward: dict[str, list[str]] = {}
        for source, targets in self._forward.items():
            for target in targets:
                self._backward.setdefault(target, []).append(source)
        self._cache: dict[tuple[NodeName, NodeName], Joins] = {}

    def joins(self, source: NodeName, target: NodeName) -> Joins:
        """The joins that restart when `source` sends the run back to `target`."""
        key = (source, target)
        if key not in self._cache:
            self._cache[key] = self._find_joins(source, target)
        return self._cache[key]

    @cached_property
    def loop_bodies(self) -> list[tuple[set[str], Joins]]:
        """The body of each loop, and the joins in it."""
        loops = [(self._body(s, t), self.joins(s, NodeName(t))) for s, t, _ in _edges(self._plan)]
        return [(body, joins) for body, joins in loops if body]

    def _body(self, source: NodeName, target: NodeName) -> set[str]:
        """The body of the loop from `source` back to `target`; empty if that is no back edge."""
        after_target = reachable(target, self._forward)
        if source not in after_target:
            return set()
        return (after_target & reachable(source, self._backward)) | {source}

    def _find_joins(self, source: NodeName, target: NodeName) -> Joins:
        body = self._body(source, target)
        found: Joins = {}
        for name, node in self._plan.nodes.items():
            if name not in body or node.join is None:
                continue
            outside = tuple(s for s in node.join.of if s not in body)
            if name != target or len(outside) < len(node.join.of):
                found[name] = outside
        return found


def forward_edges(plan: GraphPlan) -> dict[str, list[str]]:
    """The edges of a plan without back edges: they have no cycle.

    Only edges with a limit can be back edges, so these are added last, in the order of the plan,
    each if it closes no cycle.
    """
    forward: dict[str, list[str]] = {}
    for source, target, has_limit in sorted(_edges(plan), key=lambda edge: edge[2]):
        if not has_limit or source not in reachable(target, forward):
            forward.setdefault(source, []).append(target)
    return forward


def _edges(plan: GraphPlan) -> Iterator[tuple[NodeName, NodeName, bool]]:
    """Source, target, and whether the edge has a limit, in the order of the plan."""
    for name, node in plan.nodes.items():
        for source in node.join.of if node.join else ():
            yield source, name, False
        branch_has_limit = node.decide is not None and node.decide.at_most is not None
        for key, target in node.sends:
            if target in plan.nodes:
                other_has_limit = node.route is not None or key == "answer"
                yield name, NodeName(target), branch_has_limit if key == "go" else other_has_limit
