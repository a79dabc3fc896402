"""Joins and branches as pure functions: arrivals, outcomes, and what a loop resets.

A join waits for `need` of its sources. `Routing.arrivals` counts the arrivals of each source, and
`Routing.generations` what these counts were when the generation of a join started. The number of
complete generations is the `need`-th largest difference. The join fires whenever an arrival raises
that number: once per generation, also in loops. A late arrival at an `any` or a quorum changes
nothing.

A branch that leads back starts a new generation at the joins in the body of its loop. Sources
outside the body that are done count as done, though at least one new arrival is needed. So
`[a, b] → c → (not ok) go a` runs `a` and then `c`, and not `b`. A source inside the body that is
running then is late: its arrival belongs to the generation before.
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


Counts = dict[NodeName, int | None]
"""The arrivals at a join since its generation started, by source; None: it counts as done."""


def counts_at(name: NodeName, sources: Iterable[NodeName], routing: Routing) -> Counts:
    """The arrivals of these sources at the join of a node."""
    generation = routing.generations.get(name, {})
    starts = {source: generation.get(source, 0) for source in sources}
    return {
        source: None if start is None else routing.arrivals.get(source, 0) - start
        for source, start in starts.items()
    }


def complete_generations(join: Join, counts: Counts) -> int:
    """The number of complete generations of a join."""
    pending = sorted((count for count in counts.values() if count is not None), reverse=True)
    need = max(1, join.need - (len(join.of) - len(pending)))
    return pending[need - 1] if need <= len(pending) else 0


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


def missing_sources(plan: GraphPlan, name: NodeName, routing: Routing) -> tuple[NodeName, ...]:
    """The sources that a join still waits for, if others have arrived; else none."""
    join = plan.nodes[name].join
    if join is None:
        return ()
    counts = counts_at(name, join.of, routing)
    # A node that a branch or a handoff reached ran without its join.
    runs = max(complete_generations(join, counts), routing.firings.get(name, 0))
    runs += routing.sent.get(name, 0)
    arrived = counts
    if runs == 0 and routing.completed.get(name, 0) == 0:  # also the sources before a change
        arrived = counts_at(name, {*join.of, *routing.generations.get(name, {})}, routing)
    if max((count or 0 for count in arrived.values()), default=0) <= runs:
        return ()
    return tuple(source for source, count in counts.items() if count is not None and count <= runs)


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
    after = counts_at(target, join.of, routing)
    count = after[source]
    if count is None:
        return False
    before = complete_generations(join, {**after, source: count - 1})
    return complete_generations(join, after) > max(routing.firings.get(target, 0), before)


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


def next_generations(
    plan: GraphPlan, restarted: Joins, routing: Routing, active: Sequence[NodeName]
) -> dict[NodeName, Counts]:
    """The counts of sources at the start of the joins' next generations.

    Arrivals of steps inside of the loop that still run belong to the generation before. Sources
    outside of it that are done count as done; the others arrive once, in whichever generation.

    Args:
        plan: The run's plan.
        restarted: The joins that a loop restarts, each with its sources outside of the loop.
        routing: The run's routing.
        active: The nodes of the steps in the frontier.
    """
    generations: dict[NodeName, Counts] = {}
    for target, outside in restarted.items():
        join = plan.nodes[target].join
        counts: Counts = {}
        for source in join.of if join else ():
            if source not in outside:
                counts[source] = routing.arrivals.get(source, 0) + active.count(source)
            elif routing.completed.get(source, 0) or source in routing.passed:
                counts[source] = None
        generations[target] = counts
    return generations
