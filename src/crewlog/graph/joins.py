"""Joins and branches as pure functions: arrivals, outcomes, and what a loop resets.

A join waits for `need` of its sources. Arrivals are counted by source, and the number of complete
generations is the `need`-th largest count. The join fires whenever an arrival raises that number:
once per generation, also in loops. A late arrival at an `any` or a quorum changes nothing.

A branch that leads back starts a new generation at the joins in the body of its loop: their counts
start at zero, and sources outside the body that are done count as done (`completed_before`), though
at least one new arrival is needed. So `[a, b] → c → (not ok) go a` runs `a` and then `c`, and not
`b`. A source inside the body that is running then is late: its arrival belongs to the generation
before, so its count starts below zero.
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
    join: Join, arrivals: Mapping[NodeName, int], completed_before: tuple[NodeName, ...]
) -> int:
    """The number of complete generations of a join."""
    pending = [source for source in join.of if source not in completed_before]
    counts = sorted((arrivals.get(source, 0) for source in pending), reverse=True)
    need = max(1, join.need - (len(join.of) - len(pending)))
    return counts[need - 1] if need <= len(counts) else 0


def lost_targets(
    entry: FrontierStep, handoff: Iterable[NodeName], nodes: Collection[NodeName]
) -> Iterator[str]:
    """The targets of a step's redirect and handoffs that a change removed, for people.

    Args:
        entry: The step.
        handoff: The targets of its tools' handoffs.
        nodes: The nodes of the plan.
    """
    if entry.redirect is not None and entry.redirect not in nodes:
        yield f"people redirected the run to {entry.redirect}, which was removed"
    yield from (
        f"it handed off to {target}, which was removed" for target in handoff if target not in nodes
    )


def times_met(join: Join, name: NodeName, routing: Routing) -> int:
    """How often a node's join was met: by its arrivals, or before a change replaced it."""
    generations = complete_generations(
        join, routing.arrivals.get(name, {}), routing.completed_before.get(name, ())
    )
    return max(generations, routing.fired.get(name, 0))


def missing_sources(plan: GraphPlan, name: NodeName, routing: Routing) -> tuple[NodeName, ...]:
    """The sources that a join still waits for, if others have arrived; else none."""
    join = plan.nodes[name].join
    if join is None:
        return ()
    completed_before = routing.completed_before.get(name, ())
    arrivals = routing.arrivals.get(name, {})
    counts = {s: arrivals.get(s, 0) for s in join.of if s not in completed_before}
    # A node that a branch or a handoff reached ran without its join.
    runs = times_met(join, name, routing) + routing.sent.get(name, 0)
    arrived = counts.values()
    if runs == 0 and routing.completed.get(name, 0) == 0:
        arrived = arrivals.values()  # also from sources that it had before a change
    if max(arrived, default=0) <= runs:
        return ()
    return tuple(source for source, count in counts.items() if count <= runs)


def dependents(plan: GraphPlan) -> dict[NodeName, tuple[NodeName, ...]]:
    """The joins that each node is a source of, in the plan's order."""
    found: dict[NodeName, list[NodeName]] = {name: [] for name in plan.nodes}
    for name, node in plan.nodes.items():
        for source in node.join.of if node.join else ():
            found[source].append(name)
    return {name: tuple(targets) for name, targets in found.items()}


def has_fired(plan: GraphPlan, target: NodeName, source: NodeName, routing: Routing) -> bool:
    """Whether the arrival of `source`, already counted in `routing`, made the join fire."""
    join = plan.nodes[target].join
    if join is None:
        return False
    completed_before = routing.completed_before.get(target, ())
    after = routing.arrivals.get(target, {})
    before = {**after, source: after.get(source, 0) - 1}
    return complete_generations(join, after, completed_before) > max(
        routing.fired.get(target, 0), complete_generations(join, before, completed_before)
    )


CONDITION_FALSE = "the condition does not hold"


def is_branch_limit_reached(
    plan: GraphPlan, name: NodeName, routing: Routing, because: str
) -> bool:
    """Whether the condition of a branch holds, and the branch has reached its limit.

    Args:
        plan: The run's plan.
        name: The branch.
        routing: The run's routing.
        because: The reason that `branch_outcome` returned.
    """
    branch = plan.nodes[name].decide
    if branch is None or branch.at_most is None or because == CONDITION_FALSE:
        return False
    return routing.loops.get(name, 0) >= branch.at_most


def branch_outcome(
    plan: GraphPlan,
    name: NodeName,
    routing: Routing,
    flags: Mapping[Any, Json],
    outputs: Mapping[Any, Mapping[str, Json]],
) -> tuple[str, str]:
    """The outcome of a branch (`next`, `end`, `fail`, `ask_human` or a node), and the reason."""
    branch = plan.nodes[name].decide
    if branch is None or not holds(branch.when, flags, outputs):
        return NEXT, CONDITION_FALSE
    count, limit = routing.loops.get(name, 0), branch.at_most
    if limit is not None and count >= limit:
        return branch.otherwise, f"went to {branch.go} {count} times, which is the most"
    return branch.go, f"time {count + 1} of {limit}" if limit else "the condition holds"


def next_generation(restarted: Joins, routing: Routing) -> Joins:
    """The joins that a loop restarts, each with the sources that count as done."""
    return {
        join: tuple(source for source in outside if routing.completed.get(source, 0) > 0)
        for join, outside in restarted.items()
    }


def owed_arrivals(
    plan: GraphPlan, restarted: Joins, active: Sequence[NodeName]
) -> dict[NodeName, dict[NodeName, int]]:
    """The arrivals by join and source that belong to the generation before.

    They come from steps that run while a loop restarts the joins. Sources outside the body of the
    loop are not counted: they arrive once, in whichever generation.
    """
    owed: dict[NodeName, dict[NodeName, int]] = {}
    for target, outside in restarted.items():
        join = plan.nodes[target].join
        inside = [source for source in (join.of if join else ()) if source not in outside]
        counts = {source: active.count(source) for source in inside if source in active}
        if counts:
            owed[target] = counts
    return owed
