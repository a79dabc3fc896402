"""The labels of nodes and edges in a drawing.

Names and texts come from definitions, which may be hostile: labels have no control characters.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterator

from crewlog.authority.permissions import EVERY_CREW_HAS, is_approval_required
from crewlog.definition.conditions import render_condition
from crewlog.graph.lowering.coordination_rules import wait_text
from crewlog.graph.plan import ASK_HUMAN, END, NEXT, Ask, GraphPlan, PlanNode, Wait
from crewlog.ids import AgentName, NodeName, ToolName
from crewlog.state.excerpt import shortened

_CONDITION_LIMIT, WHOLE = 40, 100_000
"""Characters of a condition in a box and in a note."""


def clean(text: str) -> str:
    """One line without control, formatting or combining characters."""
    kept = (
        " " if c.isspace() else c
        for c in text
        if c.isspace() or (c.isprintable() and not unicodedata.combining(c))
    )
    return " ".join("".join(kept).split())


def short_text(text: str, longest: int) -> str:
    """A clean line of at most `longest` characters."""
    return shortened(clean(text), longest)


def start_label(node: PlanNode, longest: int = _CONDITION_LIMIT) -> str:
    """The join, the conditions and the list of a node; long conditions are cut."""
    parts: list[str] = []
    if node.join is not None and node.join.need < len(node.join.of):
        parts.append("any" if node.join.need == 1 else f"{node.join.need} of {len(node.join.of)}")
    if node.when is not None:
        parts.append(f"when {short_text(render_condition(node.when), longest)}")
    if node.only_if is not None:
        parts.append(f"if {short_text(render_condition(node.only_if), longest)}")
    if node.needs:
        parts.append(short_text(f"needs {' + '.join(node.needs)}", longest))
    if node.for_each is not None:
        parts.append(f"each {short_text(node.for_each, longest)}")
    if node.at_once is not None:
        parts.append(f"{node.at_once} at a time")
    return ", ".join(parts)


def is_switched_off(node: PlanNode, plan: GraphPlan) -> bool:
    """Whether every agent of a node is disabled."""
    return bool(node.agents) and not any(plan.agents[each].enabled for each in node.agents)


def tools_with_approval(node: PlanNode, plan: GraphPlan) -> list[str]:
    """The tools whose calls in a node need an approval."""
    found: dict[str, None] = {}
    for agent in node.agents:
        rules = plan.agents[agent]
        above = [each for each in rules.within if each in plan.agents]
        for tool in rules.tools:
            if all(_may_call(each, tool, plan) for each in (agent, *above)) and any(
                _needs_approval(each, tool, plan) for each in (agent, *above)
            ):
                found[tool] = None
    return [*found]


def _may_call(agent: AgentName, tool: ToolName, plan: GraphPlan) -> bool:
    """Whether an agent may call a tool, possibly after an approval or under a condition."""
    named = plan.permissions.get(tool)
    if tool not in plan.agents[agent].tools or (named is not None and agent not in named):
        return tool in EVERY_CREW_HAS
    rules = [rule for rule in plan.checks if rule.covers(agent, tool)]
    return not any(rule.do == "never" and rule.when is None for rule in rules)


def _needs_approval(agent: AgentName, tool: ToolName, plan: GraphPlan) -> bool:
    """Whether the calls of a tool by an agent need an approval, possibly under a condition."""
    rules = [rule for rule in plan.checks if rule.covers(agent, tool)]
    return is_approval_required(agent, tool, plan.approvals) or any(r.do == "ask" for r in rules)


def wait_label(wait: Wait) -> str:
    """`5m`, or `until 2026-11-29 04:00`."""
    return f"until {wait_text(wait)}" if wait.until else wait_text(wait)


def _answer_target(ask: Ask, option: str, nodes: Collection[str]) -> str:
    """The target of an answer: a node, `end` or `next`; the same as in `crewlog.graph.answers`."""
    if option in nodes:
        return option
    refuses = ask.sets is None and option == ask.options[-1] and len(ask.options) > 1
    return END if refuses or option == "stop" else NEXT


def can_continue(node: PlanNode, nodes: Collection[str]) -> bool:
    """Whether the run can continue from a node to its dependents."""
    ask = node.ask
    words = ask is not None and ask.words and ask.sets is not None
    return ask is None or words or any(_answer_target(ask, o, nodes) == NEXT for o in ask.options)


def outgoing_edges(node: PlanNode, nodes: Collection[str]) -> Iterator[tuple[NodeName, str]]:
    """The edges from a node that belong to no join, each with its label.

    Edges to people and to the dependents of the node are left out.
    """
    if node.decide is not None and node.decide.passes:
        return
    if node.decide is not None:
        when = render_condition(node.decide.when)
        bound = f" (≤ {node.decide.at_most})" if node.decide.at_most is not None else ""
        yield node.decide.go, f"{when}{bound}"
        if node.decide.otherwise not in (NEXT, ASK_HUMAN):
            yield NodeName(node.decide.otherwise), f"else {node.decide.otherwise}"
    elif node.route is not None:
        for to in node.route.to:
            yield to, f"{node.route.by} is {to}"
        if node.route.otherwise not in (NEXT, ASK_HUMAN, *node.route.to):
            yield NodeName(node.route.otherwise), f"else {node.route.otherwise}"
    elif node.ask is not None:
        for option in dict.fromkeys(node.ask.options):
            goes = _answer_target(node.ask, option, nodes)
            if goes != NEXT:
                yield NodeName(goes), option
    else:
        if node.gives_way and node.otherwise not in (ASK_HUMAN, "skip"):
            yield NodeName(node.otherwise), "else"
        if node.stand_in is not None:
            yield node.stand_in, ON_ERROR


ON_ERROR = "on error"
"""The label of the edge to a stand-in."""


def final_nodes(plan: GraphPlan) -> list[NodeName]:
    """The nodes without dependents from which the run can continue: it ends there."""
    return [
        name
        for name in nodes_without_dependents(plan)
        if can_continue(plan.nodes[name], plan.nodes)
    ]


def nodes_without_dependents(plan: GraphPlan) -> list[NodeName]:
    """The nodes that no join waits for, in the order of the plan."""
    waited = {source for node in plan.nodes.values() if node.join for source in node.join.of}
    return [name for name in plan.nodes if name not in waited]
