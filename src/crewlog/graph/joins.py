"""Routing as pure functions: arrivals at joins, decisions, and what going back resets.

A join waits for `need` of its sources. Arrivals are counted by source, and the join's level is the
`need`-th largest count: it fires whenever an arrival raises the level, so once per generation,
also in loops, and a late arrival at an `any` or a quorum changes nothing.

A decision that goes back begins a new generation at the joins in its loop's body: their counts
start anew, and sources outside the body that are done count as done (`base`), though at least one
fresh arrival is needed. So `[a, b] → c → (not ok) go a` runs `a` and then `c`, and not `b`. A
source inside the body that is under way then is late: what it brings belongs to the generation
before, and its count starts below zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from crewlog.definition.conditions import holds
from crewlog.graph.loops import Joins
from crewlog.graph.plan import ASK_HUMAN, END, FAIL, NEXT, GraphPlan, Join
from crewlog.ids import NodeName
from crewlog.model import Json
from crewlog.state.model import FrontierStep, Routing

RESERVED = frozenset({END, FAIL, NEXT, ASK_HUMAN})


def complete_generations(
    join: Join, arrivals: Mapping[NodeName, int], base: tuple[NodeName, ...]
) -> int:
    """How many generations of a join are complete."""
    waits = [source for source in join.of if source not in base]
    counts = sorted((arrivals.get(source, 0) for source in waits), reverse=True)
    need = max(1, join.need - (len(join.of) - len(waits)))
    return counts[need - 1] if need <= len(counts) else 0


def lost_targets(
    entry: FrontierStep, handoff: Iterable[NodeName], nodes: Collection[NodeName]
) -> Iterator[str]:
    """Where the run does not go after a step though it was sent there, for people.

    Args:
        entry: The step.
        handoff: Where its tools handed off to.
        nodes: The nodes that there are: a change may have taken others away since.
    """
    if entry.redirect is not None and entry.redirect not in nodes:
        yield f"people sent the run to {entry.redirect}, which is gone"
    yield from (
        f"it handed off to {target}, which is gone" for target in handoff if target not in nodes
    )


def times_met(join: Join, name: NodeName, routing: Routing) -> int:
    """How often a node's join was met: as its arrivals say, or had fired before it was changed."""
    met = complete_generations(
        join, routing.arrivals.get(name, {}), routing.completed_before.get(name, ())
    )
    return max(met, routing.fired.get(name, 0))


def missing_sources(plan: GraphPlan, name: NodeName, routing: Routing) -> tuple[NodeName, ...]:
    """The sources that a join lacks, where something has arrived there and made nothing run."""
    join = plan.nodes[name].join
    if join is None:
        return ()
    base = routing.completed_before.get(name, ())
    arrivals = routing.arrivals.get(name, {})
    counts = {source: arrivals.get(source, 0) for source in join.of if source not in base}
    # A node that was sent to ran without its join, which then waits for nothing.
    ran = times_met(join, name, routing) + routing.sent.get(name, 0)
    came = counts.values()
    if ran == 0 and routing.completed.get(name, 0) == 0:
        came = arrivals.values()  # also from sources that it had before a change of the graph
    if max(came, default=0) <= ran:
        return ()
    return tuple(source for source, count in counts.items() if count <= ran)


def dependents(plan: GraphPlan) -> dict[NodeName, tuple[NodeName, ...]]:
    """The joins that each node is a source of, in the plan's order."""
    found: dict[NodeName, list[NodeName]] = {name: [] for name in plan.nodes}
    for name, node in plan.nodes.items():
        for source in node.join.of if node.join else ():
            found[source].append(name)
    return {name: tuple(targets) for name, targets in found.items()}


def has_fired(plan: GraphPlan, target: NodeName, source: NodeName, routing: Routing) -> bool:
    """Whether the arrival of `source`, already counted in `routing`, made `target` fire."""
    join = plan.nodes[target].join
    if join is None:
        return False
    base = routing.completed_before.get(target, ())
    after = routing.arrivals.get(target, {})
    before = {**after, source: after.get(source, 0) - 1}
    fired = routing.fired.get(target, 0)
    return complete_generations(join, after, base) > max(
        fired, complete_generations(join, before, base)
    )


NOT_HELD = "the condition does not hold"


def is_branch_limit_reached(
    plan: GraphPlan, name: NodeName, routing: Routing, because: str
) -> bool:
    """Whether a decision would go back, and has done so as often as it may.

    Args:
        plan: The run's.
        name: The decision.
        routing: What was counted.
        because: Why it goes where it goes, as `branch_outcome` says it.
    """
    rule = plan.nodes[name].decide
    if rule is None or rule.at_most is None or because == NOT_HELD:
        return False
    return routing.loops.get(name, 0) >= rule.at_most


def branch_outcome(
    plan: GraphPlan,
    name: NodeName,
    routing: Routing,
    flags: Mapping[Any, Json],
    outputs: Mapping[Any, Mapping[str, Json]],
) -> tuple[str, str]:
    """Where a decision goes (`next`, `end`, `fail`, `ask_human` or a node), and why, for people."""
    rule = plan.nodes[name].decide
    if rule is None or not holds(rule.when, flags, outputs):
        return NEXT, NOT_HELD
    used = routing.loops.get(name, 0)
    if rule.at_most is not None and used >= rule.at_most:
        return rule.otherwise, f"went to {rule.go} {used} times, which is the most"
    return rule.go, f"time {used + 1} of {rule.at_most}" if rule.at_most else "the condition holds"


def next_generation(anew: Joins, routing: Routing) -> Joins:
    """The joins that going back begins anew, each with the sources that count as done."""
    return {
        join: tuple(source for source in outside if routing.completed.get(source, 0) > 0)
        for join, outside in anew.items()
    }


def owed_arrivals(
    plan: GraphPlan, anew: Joins, active: Sequence[NodeName]
) -> dict[NodeName, dict[NodeName, int]]:
    """What the nodes under way still owe to the joins that going back begins anew.

    Sources outside the loop's body owe nothing: they come once, for whichever generation it is.
    """
    found: dict[NodeName, dict[NodeName, int]] = {}
    for target, outside in anew.items():
        join = plan.nodes[target].join
        inside = [source for source in (join.of if join else ()) if source not in outside]
        owed = {source: active.count(source) for source in inside if source in active}
        if owed:
            found[target] = owed
    return found
