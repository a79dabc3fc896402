"""Loops: which joins begin anew when a node sends the run back to an earlier one.

A decision, an answer or a hand-off D sends the run back to a node G, and the joins between G and D
must fire once more. The body of the loop is every node on a forward way from G to D, D included.
Joins, decisions, answers and `else` are ways; those that go back are not forward, neither D's own
nor another loop's: over the way back of an outer loop, an inner one would seem to contain it all,
and would take from the outer loop's joins what its other lanes have already brought there.

Going back begins a new generation at each join in the body. Its sources outside of the body will
not arrive again, so those that are done count as done; a join with all its sources inside has none
such, and its arrivals start anew. G itself is reached by the route and not by its join, so it
begins anew only if some of its sources are in the body. All this follows from the plan: it is
computed once for each way back, and no execution has to carry it.
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
    """The ways back of a plan."""

    def __init__(self, plan: GraphPlan) -> None:
        self._plan = plan
        self._ahead = forward_edges(plan)
        self._behind: dict[str, list[str]] = {}
        for source, targets in self._ahead.items():
            for target in targets:
                self._behind.setdefault(target, []).append(source)
        self._known: dict[tuple[NodeName, NodeName], Joins] = {}

    def joins(self, source: NodeName, target: NodeName) -> Joins:
        """The joins that begin anew when `source` sends the run back to `target`."""
        key = (source, target)
        if key not in self._known:
            self._known[key] = self._joins(source, target)
        return self._known[key]

    @cached_property
    def loop_bodies(self) -> list[tuple[set[str], Joins]]:
        """For each way of the plan that goes back: its loop's body, and the joins in that."""
        found = [(self._body(s, t), self.joins(s, NodeName(t))) for s, t, _ in _ways(self._plan)]
        return [(body, joins) for body, joins in found if body]

    def _body(self, source: NodeName, target: NodeName) -> set[str]:
        """The nodes between a node and one that it sends the run back to; none where it is not."""
        after_target = reachable(target, self._ahead)
        if source not in after_target:
            return set()
        return (after_target & reachable(source, self._behind)) | {source}

    def _joins(self, source: NodeName, target: NodeName) -> Joins:
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
    """The ways between nodes without those that go back: the rest has no cycle.

    Only ways that are taken so often and no more can go back, so these are added last, in the
    order of the plan, each if it closes no cycle.
    """
    ahead: dict[str, list[str]] = {}
    for source, target, guarded in sorted(_ways(plan), key=lambda way: way[2]):
        if not guarded or source not in reachable(target, ahead):
            ahead.setdefault(source, []).append(target)
    return ahead


def _ways(plan: GraphPlan) -> Iterator[tuple[NodeName, NodeName, bool]]:
    """Source, target, and whether the way is guarded, in the order of the plan."""
    for name, node in plan.nodes.items():
        for source in node.join.of if node.join else ():
            yield source, name, False
        bounded = node.decide is not None and node.decide.at_most is not None
        for key, target in node.sends:
            if target in plan.nodes:
                guarded = bounded if key == "go" else node.route is not None or key == "answer"
                yield name, NodeName(target), guarded
