"""Branches by the value of an output, as a pure function of the outputs.

    route: router.next    to: [billing, technician]    else: general    at_most: 1

A value names a node, or the agent of one. Outputs from before the current exchange do not count: a
router that failed must not send the run where it sent it last time. The state counts how often a
branch chose each node (`execution_count`), also beyond the limit. An exchange resets the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from crewlog.definition.findings import listed
from crewlog.graph.plan import END, GraphPlan, Route
from crewlog.ids import AgentName, NodeName
from crewlog.model import Json
from crewlog.state.excerpt import excerpt
from crewlog.state.model import Output

STOP = "stop"
"""The answer that ends the run."""
LONGEST = 80
"""The most characters of a value in texts for people."""


class BranchChoice(NamedTuple):
    """The target that a branch chose."""

    target: str
    """A node, `next`, `end`, `ask_human` or `fail`."""
    because: str
    """Why, for people."""
    is_refused: bool = False
    """Whether the target is another one than the value names: worth a warning."""
    exhausted_target: NodeName | None = None
    """The node that the value names, if the branch chose it as often as it may."""


def choose_target(
    plan: GraphPlan,
    name: NodeName,
    outputs: Mapping[AgentName, Mapping[str, Output]],
    counts: Mapping[NodeName, int],
    since: int,
) -> BranchChoice:
    """The target of a branch now, and why.

    Args:
        plan: The run's plan.
        name: The branch.
        outputs: The outputs by agent and key.
        counts: How often branches chose each node.
        since: The journal position up to which outputs do not count.
    """
    route = plan.nodes[name].route
    if route is None:
        return BranchChoice(END, "it has no targets")
    agent, _, key = route.by.partition(".")
    output = outputs.get(AgentName(agent), {}).get(key)
    if output is not None and output.position <= since:
        output = None
    value = output.value if output is not None else None
    if value == END:
        return BranchChoice(END, f"{route.by} is {END}")
    target = find_target(plan, route, value)
    if target is None:
        why = f"{route.by} was not set"
        if output is not None:
            why = f"{route.by} is {_value_text(value)}, none of {listed(route.to, 'or')}"
        if route.otherwise not in plan.nodes:
            return BranchChoice(route.otherwise, why, is_refused=True)
        return _limited_choice(route, NodeName(route.otherwise), counts, why, is_refused=True)
    why = f"{route.by} is {_value_text(value)}"
    return _limited_choice(route, target, counts, why, is_refused=False)


def find_target(plan: GraphPlan, route: Route, value: Json) -> NodeName | None:
    """The target of a branch that a value names: by node, by agent, or without regard to case."""
    if not isinstance(value, str):
        return None
    name = value.strip()
    for target in route.to:
        if target == name:
            return target
    by_agent = [each for each in route.to if plan.nodes[each].agent == name]
    by_case = [each for each in route.to if each.casefold() == name.casefold()]
    for matches in (by_agent, by_case):
        if len(matches) == 1:
            return matches[0]
    return None


def _limited_choice(
    route: Route, target: NodeName, counts: Mapping[NodeName, int], why: str, *, is_refused: bool
) -> BranchChoice:
    if counts.get(target, 0) < route.at_most:
        return BranchChoice(target, why, is_refused)
    times = "once" if route.at_most == 1 else f"{route.at_most} times"
    because = f"{why}, and the run went to {target} {times}, the most"
    return BranchChoice(route.used_up, because, is_refused=True, exhausted_target=target)


def branch_answer_options(route: Route) -> tuple[str, ...]:
    """The options of the interrupt of a branch."""
    return (*dict.fromkeys(each for each in (*route.to, END)), STOP)


def branch_question(name: NodeName, choice: BranchChoice) -> str:
    """The question of that interrupt."""
    return f"{name} does not know where to go: {choice.because}. Where to?"


def _value_text(value: Json) -> str:
    return repr(excerpt(value if isinstance(value, str) else str(value), LONGEST))
