"""Lowers a definition to a plan: phases to nodes, their order to joins, permissions to rules.

A node waits for its sources (`Join`); there are no other edges but those of decisions, answers and
`else`. A decision is a node between what it follows and what follows it: it arrives downstream
only with the outcome `next`.

Going back. A loop's decision D sends the run to an earlier node G, and the joins between G and D
must fire once more. The body of the loop is every node on a forward way from G to D, D included.
Joins, decisions, answers and `else` are ways; those that go back are not forward, neither D's own
nor another loop's: over the way back of an outer loop, an inner one would seem to contain it all,
and would take from the outer loop's joins what its other lanes have already brought there.
`Decide.reset` names each node of the body that has a join, and for it the sources outside of the
body: these will not arrive again, so those that are done count as done in the new generation. A
join with all its sources inside has an empty tuple: its arrivals start anew. G itself is reached
by the route and not by its join, so it is in `reset` only if some of its sources are in the body.
"""

from __future__ import annotations

from collections.abc import Iterator

from crewlog.definition.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Fact,
    Not,
    render_condition,
)
from crewlog.definition.content import definition_hash
from crewlog.definition.findings import listed
from crewlog.definition.model import (
    AgentDefinition,
    AgentPhase,
    AskPhase,
    CrewDefinition,
    DecisionPhase,
    ToolDefinition,
)
from crewlog.definition.phases import Phase, edges, phases, reachable
from crewlog.definition.validate import check
from crewlog.errors import InvalidDefinition
from crewlog.graph.plan import (
    ASK_HUMAN,
    NEXT,
    SKIP,
    AgentRules,
    Ask,
    Decide,
    GraphPlan,
    Join,
    PlanNode,
    ToolRules,
)
from crewlog.ids import AgentName, CrewName, FlagName, LogName, NodeName, ToolName


def lower(definition: CrewDefinition) -> GraphPlan:
    """The plan of a definition.

    Raises:
        InvalidDefinition: where `check` finds a fault.
    """
    faults = check(definition)
    if faults:
        raise InvalidDefinition(faults)
    found = phases(definition)
    nodes = {NodeName(phase.name): _node(phase, found) for phase in found}
    return GraphPlan(
        crew=CrewName(definition.crew),
        definition=definition_hash(definition),
        nodes=nodes,
        agents={
            AgentName(name): _agent_rules(name, agent, definition)
            for name, agent in definition.agents.items()
        },
        tools={ToolName(name): _tool_rules(tool) for name, tool in definition.tools.items()},
        permissions={
            ToolName(tool): None if allowed is None else tuple(AgentName(a) for a in allowed)
            for tool, allowed in definition.permissions.items()
        },
        flags={FlagName(name): value for name, value in definition.flags.items()},
        rules=tuple(rule for name, node in nodes.items() for rule in rules_of(name, node)),
        limits=definition.limits,
    )


def _node(phase: Phase, found: list[Phase]) -> PlanNode:
    join = None
    if phase.sources:
        join = Join(of=tuple(NodeName(s) for s in phase.sources), need=phase.need)
    match phase.item:
        case AgentPhase() as item:
            return PlanNode(
                kind="agent",
                agent=AgentName(item.agent),
                join=join,
                entry=phase.entry,
                when=item.when,
                only_if=item.only_if,
                otherwise=item.otherwise or ASK_HUMAN,
            )
        case DecisionPhase() as item:
            decide = Decide(
                when=item.if_,
                go=NodeName(item.go),
                at_most=item.at_most,
                otherwise=item.otherwise or NEXT,
                reset=_reset(phase, item.go, found),
            )
            return PlanNode(kind="decide", join=join, entry=phase.entry, decide=decide)
        case AskPhase() as item:
            sets = FlagName(item.sets) if item.sets else None
            ask = Ask(question=item.ask, options=item.options, sets=sets)
            return PlanNode(kind="ask", join=join, entry=phase.entry, ask=ask)


def _reset(decision: Phase, go: str, found: list[Phase]) -> dict[NodeName, tuple[NodeName, ...]]:
    """The joins that going back starts anew; see the module's docstring."""
    ahead = forward_ways(found)
    behind: dict[str, list[str]] = {}
    for source, targets in ahead.items():
        for target in targets:
            behind.setdefault(target, []).append(source)
    after_go = reachable(go, ahead)
    if decision.name not in after_go:
        return {}
    body = (after_go & reachable(decision.name, behind)) | {decision.name}
    reset: dict[NodeName, tuple[NodeName, ...]] = {}
    for phase in found:
        if phase.name not in body or not phase.sources:
            continue
        outside = tuple(NodeName(s) for s in phase.sources if s not in body)
        if phase.name == go and len(outside) == len(phase.sources):
            continue
        reset[NodeName(phase.name)] = outside
    return reset


def forward_ways(found: list[Phase]) -> dict[str, list[str]]:
    """The ways between phases without those that go back: the rest has no cycle.

    Only ways that are taken so often and no more can go back (`check` sees to it), so these are
    added last, in the order of the flow, each if it closes no cycle.
    """
    ways = edges(found)
    ahead: dict[str, list[str]] = {}
    for way in sorted(ways, key=lambda way: way.guarded):
        if not way.guarded or way.source not in reachable(way.target, ahead):
            ahead.setdefault(way.source, []).append(way.target)
    return ahead


def _agent_rules(name: str, agent: AgentDefinition, definition: CrewDefinition) -> AgentRules:
    # Inherited tools are sorted: the order of keys is lost in stores that keep JSON.
    listed_tools = sorted(definition.tools) if agent.tools is None else agent.tools
    tools: list[str] = []
    for tool in dict.fromkeys(listed_tools):
        allowed = definition.permissions.get(tool)
        if allowed is None or name in allowed:
            tools.append(tool)
    if agent.writes_flags:
        tools.append("set_flag")
    if agent.outputs:
        tools.append("set_output")
    return AgentRules(
        tools=tuple(ToolName(tool) for tool in tools),
        reads=tuple(LogName(log) for log in agent.reads),
        writes=tuple(LogName(log) for log in agent.writes),
        outputs=agent.outputs,
        flags=tuple(FlagName(flag) for flag in agent.writes_flags),
        max_calls=agent.max_calls,
        timeout=agent.timeout,
        heartbeat=agent.heartbeat,
        retry=agent.retry,
        on_error=agent.on_error,
    )


def _tool_rules(tool: ToolDefinition) -> ToolRules:
    return ToolRules(
        effects=tool.effects,
        repeat=tool.repeat,
        timeout=tool.timeout,
        heartbeat=tool.heartbeat,
        retry=tool.policy,
        on_error=tool.on_error,
        queue=tool.queue,
    )


def rules_of(name: NodeName, node: PlanNode) -> Iterator[str]:
    """The coordination rules of a node as sentences."""
    waits: list[str] = []
    if node.join is not None:
        of, need = node.join.of, node.join.need
        if need == len(of):
            waits.extend(of)
        elif need == 1:
            waits.append(f"the first of {listed(of)}")
        else:
            waits.append(f"{need} of {listed(of)}")
    if node.when is not None:
        waits.append(render_condition(node.when))
    if waits:
        yield f"{name} waits for {listed(waits)}"
    elif node.entry:
        yield f"{name} starts with the run"
    else:
        yield f"{name} starts when it is sent to"
    if node.only_if is not None:
        yield f"{name} is skipped unless {render_condition(node.only_if)}"
    if node.when is not None and node.otherwise != ASK_HUMAN:
        what = "is skipped" if node.otherwise == SKIP else f"gives way to {node.otherwise}"
        yield f"{name} {what} where {render_condition(node.when)} can no longer hold"
    if node.decide is not None:
        yield f"{name}: {decision_text(node.decide)}"
    if node.ask is not None:
        yield f"{name} asks people: {listed(node.ask.options, 'or')}"


def decision_text(decide: Decide) -> str:
    """`not approved → writer (≤ 3), else ask_human`."""
    bound = f" (≤ {decide.at_most})" if decide.at_most is not None else ""
    last = f", else {decide.otherwise}" if bound and decide.otherwise != NEXT else ""
    return f"{render_condition(decide.when)} → {decide.go}{bound}{last}"


def requirements(plan: GraphPlan) -> list[str]:
    """What nodes require besides their sources: `audio depends on backend.models_ready`.

    A bare flag that one agent alone writes is named with the agent.
    """
    return [
        f"{name} depends on {render_condition(_qualified(node.when, plan))}"
        for name, node in plan.nodes.items()
        if node.when is not None
    ]


def _qualified(condition: Condition, plan: GraphPlan) -> Condition:
    match condition:
        case Fact():
            writers = [name for name, rules in plan.agents.items() if condition.name in rules.flags]
            if condition.agent is None and len(writers) == 1:
                return condition.model_copy(update={"agent": writers[0]})
            return condition
        case Not():
            return Not(of=_qualified(condition.of, plan))
        case AllOf():
            return AllOf(of=tuple(_qualified(part, plan) for part in condition.of))
        case AnyOf():
            return AnyOf(of=tuple(_qualified(part, plan) for part in condition.of))
