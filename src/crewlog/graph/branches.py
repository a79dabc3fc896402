"""Routes: where a run goes by the value of an output, as a pure function of what was set.

    route: router.next    to: [billing, technician]    else: general    at_most: 1

A value names a node, or the agent of one. What was set before the turn of a conversation says
nothing of it: a router that failed must not send the run where it sent it last time. How often
each node was to be gone to is counted in the state (`execution_count`), so that it holds whichever
worker goes on, and begins anew with each turn. A try beyond the bound counts, too.
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
"""The answer of people to where it goes that ends the run."""
LONGEST = 80
"""Characters of a value that people are shown."""


class Choice(NamedTuple):
    """Where a route goes."""

    goes: str
    """A node, `next`, `end`, `ask_human` or `fail`."""
    because: str
    """Why, for people."""
    refused: bool = False
    """Whether it does not go where the value says: that is worth a warning."""
    used_up: NodeName | None = None
    """The node that it would go to, where it went there as often as it may."""


def choose_target(
    plan: GraphPlan,
    name: NodeName,
    outputs: Mapping[AgentName, Mapping[str, Output]],
    counts: Mapping[NodeName, int],
    since: int,
) -> Choice:
    """Where a route goes now, and why.

    Args:
        plan: The run's.
        name: The node that routes.
        outputs: What agents have set, by agent and key.
        counts: How often routes tried to go to each node.
        since: The journal position before which an output says nothing.
    """
    route = plan.nodes[name].route
    if route is None:
        return Choice(END, "it has no ways")
    agent, _, key = route.by.partition(".")
    output = outputs.get(AgentName(agent), {}).get(key)
    if output is not None and output.position <= since:
        output = None
    value = output.value if output is not None else None
    if value == END:
        return Choice(END, f"{route.by} is {END}")
    target = named_target(plan, route, value)
    if target is None:
        said = f"{route.by} is {_shown(value)}, none of {listed(route.to, 'or')}"
        why = said if output is not None else f"{route.by} was not set"
        if route.otherwise not in plan.nodes:
            return Choice(route.otherwise, why, refused=True)
        return _bounded(route, NodeName(route.otherwise), counts, why, refused=True)
    return _bounded(route, target, counts, f"{route.by} is {_shown(value)}", refused=False)


def named_target(plan: GraphPlan, route: Route, value: Json) -> NodeName | None:
    """The node that a value names, among those that a route may go to; none where it names none."""
    if not isinstance(value, str):
        return None
    said = value.strip()
    for target in route.to:
        if target == said:
            return target
    of_agent = [each for each in route.to if plan.nodes[each].agent == said]
    alike = [each for each in route.to if each.casefold() == said.casefold()]
    for found in (of_agent, alike):
        if len(found) == 1:
            return found[0]
    return None


def _bounded(
    route: Route, target: NodeName, counts: Mapping[NodeName, int], why: str, *, refused: bool
) -> Choice:
    used = counts.get(target, 0)
    if used < route.at_most:
        return Choice(target, why, refused)
    times = "once" if route.at_most == 1 else f"{route.at_most} times"
    because = f"{why}, and the run went to {target} {times}, the most"
    return Choice(route.used_up, because, refused=True, used_up=target)


def branch_answer_options(route: Route) -> tuple[str, ...]:
    """What people may answer where they are asked where a route goes."""
    return (*dict.fromkeys(each for each in (*route.to, END)), STOP)


def question(name: NodeName, choice: Choice) -> str:
    """What they are asked."""
    return f"{name} does not know where to go: {choice.because}. Where to?"


def _shown(value: Json) -> str:
    return repr(excerpt(value if isinstance(value, str) else str(value), LONGEST))
