"""Lowers a definition to a plan: phases to nodes, their order to joins, permissions to rules.

A node waits for its sources (`Join`). The only other edges are those of branches, answers and
`else`. A branch is a node of its own: the nodes after it wait for it, and it arrives at them only
with the outcome `next`. What a loop does to the joins in its body is `crewlog.graph.loops`.
"""

from __future__ import annotations

from collections.abc import Mapping

from crewlog.authority.memory_scopes import ACCESSES, memory_scopes
from crewlog.authority.permissions import definition_permissions
from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.artifacts import SCRATCH_TOOLS
from crewlog.definition.audiences import Audiences, scratch_tools
from crewlog.definition.content import definition_hash
from crewlog.definition.context import SUMMING
from crewlog.definition.context_checks import window_of
from crewlog.definition.creatures import creature_nodes, creature_tools
from crewlog.definition.decisions import reply_fields
from crewlog.definition.expand import expand
from crewlog.definition.interrupting import approvals_of
from crewlog.definition.model import (
    MEMORY_TOOLS,
    AgentDefinition,
    AgentPhase,
    AskPhase,
    BuilderPhase,
    CrewDefinition,
    DecisionPhase,
    GraphPolicy,
    RoutePhase,
    ToolDefinition,
    WaitPhase,
)
from crewlog.definition.parent_checks import ancestors
from crewlog.definition.phases import Phase, phases
from crewlog.definition.reading import Form
from crewlog.definition.validate import standing
from crewlog.errors import InternalError, InvalidDefinition
from crewlog.graph.lowering.components import component_of
from crewlog.graph.lowering.coordination_rules import crew_rules, node_rules
from crewlog.graph.plan import (
    ASK_HUMAN,
    BUILT_IN_TOOLS,
    END,
    NEXT,
    Ask,
    ConditionBranch,
    GraphPlan,
    Join,
    PlanAgent,
    PlanArtifact,
    PlanNode,
    PlanStructuredOutput,
    PlanTool,
    Route,
    Wait,
)
from crewlog.ids import (
    PUBLIC,
    AgentName,
    ContentHash,
    CrewName,
    FlagName,
    LogName,
    NodeName,
    ToolName,
    private_log,
)


def lower(definition: CrewDefinition) -> GraphPlan:
    """Checks a definition and lowers it to a plan.

    Raises:
        InvalidDefinition: it has an error, other than those that concern only new definitions.
    """
    errors = [each for each in standing(definition) if each.severity == "error"]
    if errors:
        raise InvalidDefinition([each.diagnostic() for each in errors])
    return lower_validated(definition)


def lower_validated(definition: CrewDefinition, hash_: ContentHash | None = None) -> GraphPlan:
    """Lowers a definition to a plan without checking it.

    Args:
        definition: The definition.
        hash_: Its hash, if the caller knows it.
    """
    hash_ = hash_ or definition_hash(definition)
    definition = expand(definition).definition
    flow = phases(definition)
    nodes = {NodeName(phase.name): _node(phase) for phase in flow}
    nodes |= {
        NodeName(name): PlanNode(kind="agent", agent=AgentName(agent), is_wake_node=True)
        for name, agent in creature_nodes(definition, flow).items()
    }
    audiences = Audiences(definition)
    agents = {
        AgentName(name): _plan_agent(name, definition, audiences) for name in definition.agents
    }
    return GraphPlan(
        crew=CrewName(definition.crew),
        definition=hash_,
        nodes=nodes,
        agents=agents,
        tools={
            **{ToolName(name): _plan_tool(tool) for name, tool in definition.tools.items()},
            **_memory_tools(definition),
            **_note_tools(definition),
            **_message_tools(definition),
        },
        permissions=_agents_by_tool(definition.permissions),
        approvals=_agents_by_tool(approvals_of(definition)),
        checks=tuple(definition_permissions(definition)),
        timezone=definition.timezone,
        merge=definition.merge,
        artifacts=_artifacts(definition, audiences),
        flags={FlagName(name): value for name, value in definition.flags.items()},
        rules=(
            *(rule for name, node in nodes.items() for rule in node_rules(name, node)),
            *crew_rules(definition),
        ),
        limits=definition.limits,
        conversation=definition.conversation,
        graph=(definition.graph or GraphPolicy()) if definition.lives else None,
        component=component_of(definition, flow) if definition.lives else None,
        interrupts=definition.interrupts,
        policy=definition.policy,
    )


def _agents_by_tool(
    table: Mapping[str, tuple[str, ...] | None],
) -> dict[ToolName, tuple[AgentName, ...] | None]:
    return {
        ToolName(tool): None if agents is None else tuple(AgentName(a) for a in agents)
        for tool, agents in table.items()
    }


def _artifacts(definition: CrewDefinition, audiences: Audiences) -> dict[str, PlanArtifact]:
    def agents(names: tuple[str, ...] | None) -> tuple[AgentName, ...] | None:
        return None if names is None else tuple(AgentName(a) for a in audiences.members(names))

    return {
        name: PlanArtifact(readers=agents(artifact.readers), writers=agents(artifact.writers))
        for name, artifact in definition.every_artifact.items()
    }


def _node(phase: Phase) -> PlanNode:
    join = None
    if phase.sources:
        join = Join(of=tuple(NodeName(s) for s in phase.sources), need=phase.need)
    match phase.item:
        case AgentPhase() as item:
            return PlanNode(
                kind="agent",
                agent=AgentName(item.agent) if item.agent else None,
                join=join,
                entry=phase.entry,
                when=item.when,
                only_if=item.only_if,
                within=item.within,
                otherwise=item.otherwise or ASK_HUMAN,
                timeout=item.timeout,
                on_error=item.on_error or "",
                needs=tuple(ToolName(tool) for tool in item.needs),
                for_each=item.for_each,
                at_once=item.at_once,
                by=item.by or "",
                among=tuple(AgentName(name) for name in item.among),
            )
        case DecisionPhase() as item:
            decide = ConditionBranch(
                when=item.if_,
                go=NodeName(item.go),
                at_most=item.at_most,
                otherwise=item.otherwise or NEXT,
            )
            return PlanNode(kind="decide", join=join, entry=phase.entry, decide=decide)
        case AskPhase() as item:
            sets = FlagName(item.sets) if item.sets else None
            ask = Ask(
                question=item.ask,
                options=item.options,
                sets=sets,
                words=item.words,
                shows=item.shows or "",
            )
            return PlanNode(kind="ask", join=join, entry=phase.entry, only_if=item.only_if, ask=ask)
        case WaitPhase() as item:
            wait = Wait(seconds=item.wait or 0, until=item.wait_until or "")
            return PlanNode(
                kind="wait", join=join, entry=phase.entry, only_if=item.only_if, wait=wait
            )
        case RoutePhase() as item:
            route = Route(
                by=item.route,
                to=tuple(NodeName(to) for to in item.to),
                otherwise=item.otherwise or END,
                at_most=item.at_most,
                used_up=item.else_used_up,
            )
            return PlanNode(
                kind="route", join=join, entry=phase.entry, only_if=item.only_if, route=route
            )
        case BuilderPhase() as item:
            raise InternalError(f"the builder {item.use!r} was not expanded")


def _plan_agent(name: str, definition: CrewDefinition, audiences: Audiences) -> PlanAgent:
    agent = definition.agents[name]
    reads = tuple(LogName(log) for log in audiences.reads(name))
    writes = tuple(LogName(log) for log in audiences.writes(name))
    # Inherited tools are sorted: the order of keys is lost in stores that keep JSON.
    names = sorted(definition.tools) if agent.tools is None else agent.tools
    tools = [tool for tool in dict.fromkeys(names) if tool not in BUILT_IN_TOOLS]
    if agent.writes_flags:
        tools.append("set_flag")
    if agent.outputs:
        tools.append("set_output")
    tools += scratch_tools(definition, audiences, name)
    tools += creature_tools(definition, name)
    if definition.memory is not None:
        tools += [
            f"memory_{way}" for way in ACCESSES if memory_scopes(definition, AgentName(name), way)
        ]
    outputs = outputs_of(agent)
    return PlanAgent(
        tools=tuple(ToolName(tool) for tool in tools),
        reads=reads,
        writes=writes,
        outputs=outputs,
        shares=_output_audience(AgentName(name), reads, audiences.shares(name)) if outputs else (),
        flags=tuple(FlagName(flag) for flag in agent.writes_flags),
        max_calls=agent.max_calls,
        reply=_plan_structured_output(name, definition),
        on_cap=agent.on_cap,
        timeout=agent.timeout + _summary_seconds(definition, agent),
        heartbeat=agent.heartbeat,
        retry=agent.retry,
        on_error=agent.on_error.failure,
        bad_reply=agent.on_error.bad_reply,
        ask_below=agent.ask_below,
        inputs=tuple(dict.fromkeys(each.from_ for each in agent.inputs)),
        enabled=agent.enabled,
        scratch=bool({*tools} & {*SCRATCH_TOOLS}),
        within=tuple(AgentName(each) for each in ancestors(definition, name)),
        does=agent.does,
        in_order=agent.in_order,
        send=agent.send,
        wires=agent.wires,
    )


def _plan_structured_output(name: str, definition: CrewDefinition) -> PlanStructuredOutput | None:
    """The structured output of an agent, with the fallback parsed like a reply of the model."""
    reply = definition.agents[name].reply
    if reply is None:
        return None
    fallback = None if reply.fallback is None else Form.of(definition, name).fields_of_fallback()
    return PlanStructuredOutput(
        decision=reply.decision or "",
        tries=reply.tries,
        fields=reply_fields(reply),
        tagged=reply.tagged,
        fallback=fallback,
    )


def _summary_seconds(definition: CrewDefinition, agent: AgentDefinition) -> float:
    """The extra timeout for the model call that summarizes the window."""
    window = window_of(definition, agent)
    return SUMMING if window is not None and window.model is not None else 0.0


Logs = tuple[LogName, ...]


def _output_audience(agent: AgentName, reads: Logs, shared: tuple[str, ...]) -> Logs:
    """The logs whose readers may see an agent's outputs, including the agent itself."""
    logs = tuple(LogName(log) for log in shared)
    return () if logs == (PUBLIC,) and PUBLIC in reads else (*logs, private_log(agent))


def _memory_tools(definition: CrewDefinition) -> dict[ToolName, PlanTool]:
    """The tools of memory: a repeated write has no effect."""
    if definition.memory is None:
        return {}
    return {
        ToolName(name): PlanTool(effects=effects, repeat="safe")
        for name, effects in zip(MEMORY_TOOLS, ACCESSES, strict=True)
    }


def _note_tools(definition: CrewDefinition) -> dict[ToolName, PlanTool]:
    """The tools of notes: the journal records each note once."""
    if all(agent.scratch is None for agent in definition.agents.values()):
        return {}
    return {ToolName(name): PlanTool(effects="read", repeat="safe") for name in SCRATCH_TOOLS}


def _message_tools(definition: CrewDefinition) -> dict[ToolName, PlanTool]:
    """The tools of agents with channels: the journal records each message once."""
    tools = {tool for name in definition.agents for tool in creature_tools(definition, name)}
    return {ToolName(name): PlanTool(effects="read", repeat="safe") for name in sorted(tools)}


def _plan_tool(tool: ToolDefinition) -> PlanTool:
    return PlanTool(
        effects=tool.effects,
        repeat=tool.repeat,
        timeout=tool.timeout,
        heartbeat=tool.heartbeat,
        retry=tool.policy,
        on_error=tool.on_error,
        queue=tool.queue,
        placed=tool.placed,
        risk=tool.risk,
    )
