"""Lowers a definition to a plan: phases to nodes, their order to joins, permissions to rules.

A node waits for its sources (`Join`); there are no other edges but those of decisions, answers and
`else`. A decision is a node between what it follows and what follows it: it arrives downstream
only with the outcome `next`. What going back to an earlier node does to the joins
in between is `crewlog.graph.loops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from crewlog.authority.memory_scopes import WAYS, memory_scopes
from crewlog.authority.permissions import permission_text
from crewlog.authority.permissions import rules_of as call_rules
from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.artifacts import SCRATCH_TOOLS
from crewlog.definition.audiences import Audiences, scratch_tools
from crewlog.definition.conditions import (
    AllOf,
    AnyOf,
    Condition,
    Fact,
    Not,
    render_condition,
    skips_words,
)
from crewlog.definition.content import definition_hash
from crewlog.definition.context import SUMMING
from crewlog.definition.context_checks import window_of
from crewlog.definition.creatures import (
    channels_named,
    creature_nodes,
    creature_tools,
    creatures_of,
)
from crewlog.definition.decisions import reply_fields
from crewlog.definition.expand import expand
from crewlog.definition.findings import listed
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
from crewlog.definition.phases import Phase, at_work, phases
from crewlog.definition.reading import Form
from crewlog.definition.times import duration_words, time_words
from crewlog.definition.validate import standing
from crewlog.errors import InternalError, InvalidDefinition
from crewlog.graph.plan import (
    ASK_HUMAN,
    BUILT_IN_TOOLS,
    END,
    NEXT,
    SKIP,
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
from crewlog.state.components import Channel, ChannelAgent, Component

MERGED: dict[str, str] = {
    "union": "makes a list in which each value stands once",
    "sum": "is added up",
    "max": "keeps the greatest",
    "min": "keeps the least",
    "update": "is put together to one object",
    "agree": "must be the same",
}
"""What becomes of the values that several steps set, by how they are merged."""
ABOUT = 300
"""The most characters of what a channel is for, in the prompts of those who use it."""
TALKS = "each message begins the flow anew, and is answered at its end"
"""The rule of a crew that is talked to."""
ANY_WORDS = "any words"
"""What is said after the options of a question that takes words."""


def lower(definition: CrewDefinition) -> GraphPlan:
    """The plan of a definition.

    Raises:
        InvalidDefinition: where there is a fault, but for those that only new ones must not have.
    """
    faults = [each for each in standing(definition) if each.severity == "error"]
    if faults:
        raise InvalidDefinition([each.diagnostic() for each in faults])
    return lower_validated(definition)


def lower_validated(definition: CrewDefinition, address: ContentHash | None = None) -> GraphPlan:
    """The plan of a definition in which `check` has found no fault: it is not asked again.

    Args:
        definition: The definition.
        address: Its hash, where it is known.
    """
    address = address or definition_hash(definition)
    definition = expand(definition).definition
    found = phases(definition)
    nodes = {NodeName(phase.name): _node(phase) for phase in found}
    nodes |= {
        NodeName(name): PlanNode(kind="agent", agent=AgentName(agent), hears=True)
        for name, agent in creature_nodes(definition, found).items()
    }
    audiences = Audiences(definition)
    agents = {
        AgentName(name): _plan_agent(name, definition, audiences) for name in definition.agents
    }
    return GraphPlan(
        crew=CrewName(definition.crew),
        definition=address,
        nodes=nodes,
        agents=agents,
        tools={
            **{ToolName(name): _plan_tool(tool) for name, tool in definition.tools.items()},
            **_memory_tools(definition),
            **_note_tools(definition),
            **_channel_tools(definition),
        },
        permissions=_agents_by_tool(definition.permissions),
        approvals=_agents_by_tool(approvals_of(definition)),
        checks=tuple(call_rules(definition)),
        timezone=definition.timezone,
        merge=definition.merge,
        artifacts=_artifacts(definition, audiences),
        flags={FlagName(name): value for name, value in definition.flags.items()},
        rules=(
            *(rule for name, node in nodes.items() for rule in rules_of(name, node)),
            *_crew_coordination_rules(definition),
            *([TALKS] if definition.conversation is not None else []),
        ),
        limits=definition.limits,
        conversation=definition.conversation,
        graph=(definition.graph or GraphPolicy()) if definition.lives else None,
        topology=component_of(definition, found) if definition.lives else None,
        interrupts=definition.interrupts,
        policy=definition.policy,
    )


def _agents_by_tool(
    table: Mapping[str, tuple[str, ...] | None],
) -> dict[ToolName, tuple[AgentName, ...] | None]:
    return {
        ToolName(tool): None if named is None else tuple(AgentName(a) for a in named)
        for tool, named in table.items()
    }


def _artifacts(definition: CrewDefinition, audiences: Audiences) -> dict[str, PlanArtifact]:
    def agents(named: tuple[str, ...] | None) -> tuple[AgentName, ...] | None:
        return None if named is None else tuple(AgentName(a) for a in audiences.members(named))

    return {
        name: PlanArtifact(readers=agents(said.readers), writers=agents(said.writers))
        for name, said in definition.every_artifact.items()
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
            raise InternalError(f"the builder {item.use!r} was not put in its place")


def _plan_agent(name: str, definition: CrewDefinition, audiences: Audiences) -> PlanAgent:
    agent = definition.agents[name]
    reads = tuple(LogName(log) for log in audiences.reads(name))
    writes = tuple(LogName(log) for log in audiences.writes(name))
    # Inherited tools are sorted: the order of keys is lost in stores that keep JSON.
    listed_tools = sorted(definition.tools) if agent.tools is None else agent.tools
    tools = [tool for tool in dict.fromkeys(listed_tools) if tool not in BUILT_IN_TOOLS]
    if agent.writes_flags:
        tools.append("set_flag")
    if agent.outputs:
        tools.append("set_output")
    tools += scratch_tools(definition, audiences, name)
    tools += creature_tools(definition, name)
    if definition.memory is not None:
        tools += [
            f"memory_{way}" for way in WAYS if memory_scopes(definition, AgentName(name), way)
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
    """The form of an agent's replies; a fallback is filled in, as a reply of the model would be."""
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
    """Seconds that a model may take before an agent's own, which sums up for it."""
    window = window_of(definition, agent)
    return SUMMING if window is not None and window.model is not None else 0.0


Logs = tuple[LogName, ...]


def _output_audience(agent: AgentName, reads: Logs, shared: tuple[str, ...]) -> Logs:
    """The logs whose readers may see an agent's outputs, itself among them."""
    logs = tuple(LogName(log) for log in shared)
    return () if logs == (PUBLIC,) and PUBLIC in reads else (*logs, private_log(agent))


def _memory_tools(definition: CrewDefinition) -> dict[ToolName, PlanTool]:
    """The rules of the memory's tools: a repeated write writes nothing again."""
    if definition.memory is None:
        return {}
    return {
        ToolName(name): PlanTool(effects=effects, repeat="safe")
        for name, effects in zip(MEMORY_TOOLS, WAYS, strict=True)
    }


def _note_tools(definition: CrewDefinition) -> dict[ToolName, PlanTool]:
    """The rules of the tools of scratch notes: what is noted counts once, by the journal."""
    if all(agent.scratch is None for agent in definition.agents.values()):
        return {}
    return {ToolName(name): PlanTool(effects="read", repeat="safe") for name in SCRATCH_TOOLS}


def _channel_tools(definition: CrewDefinition) -> dict[ToolName, PlanTool]:
    """The rules of what creatures do: what is sent is a fact of the run, which counts once."""
    tools = {tool for name in definition.agents for tool in creature_tools(definition, name)}
    return {ToolName(name): PlanTool(effects="read", repeat="safe") for name in sorted(tools)}


def expanded_component(definition: CrewDefinition) -> Component:
    """The graph that the agents of a crew make, as it was written: with its builders."""
    whole = expand(definition).definition
    return component_of(whole, phases(whole))


def wake_nodes(definition: CrewDefinition) -> dict[NodeName, AgentName]:
    """Where agents of a crew hear, and which, as it was written: with its builders."""
    whole = expand(definition).definition
    nodes = creature_nodes(whole, phases(whole))
    return {NodeName(node): AgentName(name) for node, name in nodes.items()}


def component_of(definition: CrewDefinition, found: Sequence[Phase]) -> Component:
    """The graph that a crew's agents make.

    Args:
        definition: The crew.
        found: The phases of its flow, whose agents are in one graph.
    """
    living = creatures_of(definition)
    creatures = {name: definition.agents[name] for name in living}
    channels = {*definition.channels}
    for agent in creatures.values():
        channels.update(channels_named(agent))
    said = definition.channels

    @cache  # there may be hundreds, most of which are alike
    def made(born: str, about: str | None) -> Channel:
        return Channel(born=born, about=_about_line(about or ""))

    return Component(
        creatures={
            AgentName(name): ChannelAgent(
                listen=agent.listen,
                send=agent.send,
                wires=agent.wires,
                parent=AgentName(agent.parent) if agent.parent is not None else None,
                beside=AgentName(agent.beside) if agent.beside is not None else None,
                privileged=definition.is_privileged(name),
            )
            for name, agent in creatures.items()
        },
        channels={
            name: made(said[name].born, said[name].description) if name in said else made("", None)
            for name in sorted(channels)
        },
        flow=tuple(AgentName(name) for name in at_work(found) if name in creatures),
    )


def _about_line(about: str) -> str:
    """What a channel is for, as all who use it are told in their prompts: short, and plain.

    Agents may write it, too: it is no place for a page of orders, or for signs that nobody sees.
    """
    seen = "".join(c for c in " ".join(about.split()) if c.isprintable())
    return seen if len(seen) <= ABOUT else f"{seen[: ABOUT - 1]}…"


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


def rules_of(name: NodeName, node: PlanNode) -> Iterator[str]:
    """The coordination rules of a node as sentences."""
    waits: list[str] = []
    if node.hears:
        return
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
    if node.wait is not None:
        waits.append(wait_text(node.wait))
    if waits:
        yield f"{name} waits for {listed(waits)}"
    elif node.entry:
        yield f"{name} starts with the run"
    else:
        yield f"{name} starts when it is sent to"
    yield from _start_rules(name, node)
    yield from _failure_rules(name, node)
    yield from _target_rules(name, node)


def _target_rules(name: NodeName, node: PlanNode) -> Iterator[str]:
    """Where a node that works nothing itself sends the run."""
    if node.decide is not None and not node.decide.passes:
        yield f"{name}: {condition_branch_text(node.decide)}"
    if node.route is not None:
        yield f"{name}: {output_branch_text(node.route)}"
    if node.ask is not None:
        answers = [*node.ask.options, *([ANY_WORDS] if node.ask.words else [])]
        yield f"{name} asks people: {listed(answers, 'or')}"


def _failure_rules(name: NodeName, node: PlanNode) -> Iterator[str]:
    """What a node does that cannot run, and how long it waits for that."""
    if node.when is not None and node.otherwise != ASK_HUMAN:
        what = "is skipped" if node.otherwise == SKIP else f"gives way to {node.otherwise}"
        yield f"{name} {what} where {render_condition(node.when)} can no longer hold"
    elif node.for_each is not None and node.otherwise != ASK_HUMAN:
        what = "is skipped" if node.otherwise == SKIP else f"gives way to {node.otherwise}"
        yield f"{name} {what} where {node.for_each} cannot be worked on"
    if node.when is not None and node.within is not None:
        condition = render_condition(node.when)
        yield f"{name} waits for {condition} at most {duration_words(node.within)}"
    if node.timeout is not None:
        yield f"{name} fails where a step of it takes more than {duration_words(node.timeout)}"
    if node.on_error:
        yield f"where {name} fails, {on_error_text(node.on_error)}"


def on_error_text(policy: str) -> str:
    """What happens where a step fails, by the `on_error` of its phase or of its agent."""
    words = {
        "ask": "people are asked",
        "fail": "the run fails",
        "continue": "the run continues without it",
    }
    return words.get(policy, f"{policy} runs instead")


def wait_text(wait: Wait) -> str:
    """`2h`, or `2026-12-01 09:00 +01:00`."""
    return time_words(wait.until) if wait.until else duration_words(wait.seconds)


def _start_rules(name: NodeName, node: PlanNode) -> Iterator[str]:
    """What else a node needs to run once it is reached, and how often it runs."""
    if node.only_if is not None and node.ask is not None:
        yield f"{name} is asked only if {render_condition(node.only_if)}"
    elif node.only_if is not None and node.route is not None:
        yield f"{name} goes somewhere only if {render_condition(node.only_if)}"
    elif node.only_if is not None and node.wait is not None:
        yield f"{name} is waited for only if {render_condition(node.only_if)}"
    elif node.only_if is not None:
        yield f"{name} is {skips_words(node.only_if)}"
    if node.needs:
        who = node.agent if not node.by else "an item's agent"
        yield f"{name} is skipped unless {who} may call {listed(node.needs)}"
    if node.for_each is not None:
        yield f"{name} has a step for each item of {node.for_each}{concurrency_text(node)}"


def concurrency_text(node: PlanNode) -> str:
    """`, 2 at a time, by the agent that it names`."""
    said = f", {node.at_once} at a time" if node.at_once is not None else ""
    if node.by:
        said += f", by the agent that its {node.by!r} names"
    return said


def _crew_coordination_rules(definition: CrewDefinition) -> Iterator[str]:
    """The rules that are not about one node, as sentences."""
    for name, agent in definition.agents.items():
        if not agent.enabled:
            yield f"{name} is switched off: its phases are skipped"
    yield from _channel_coordination_rules(definition)
    for tool, named in approvals_of(definition).items():
        if named is None:
            yield f"every call of {tool} waits for a person's yes"
        elif named:
            yield f"calls of {tool} by {listed(named)} wait for a person's yes"
    for rule in call_rules(definition):
        yield permission_text(rule)
    for name, agent in definition.agents.items():
        if agent.parent is not None:
            yield f"{name} works for {agent.parent}, and may call no more than that"
    for key, how in definition.merge.items():
        if how == "append":
            yield f"what steps set of {key} makes a list"
        elif how != "last":
            yield f"what steps set of {key} {MERGED[how]}"


def _channel_coordination_rules(definition: CrewDefinition) -> Iterator[str]:
    """Who hears what, and whose words go where, as sentences."""
    for name, agent in definition.agents.items():
        if agent.listen:
            yield f"{name} has a turn for each message in {listed(agent.listen)}"
        if agent.wires:
            yield f"what {name} says at the end of a turn goes to {listed(agent.wires)}"


def condition_branch_text(decide: ConditionBranch) -> str:
    """`not approved → writer (≤ 3), else ask_human`."""
    bound = f" (≤ {decide.at_most})" if decide.at_most is not None else ""
    last = f", else {decide.otherwise}" if bound and decide.otherwise != NEXT else ""
    return f"{render_condition(decide.when)} → {decide.go}{bound}{last}"


def output_branch_text(route: Route) -> str:
    """`where router.next says: billing or technician (≤ 1), else end`."""
    used_up = f", then {route.used_up}" if route.used_up != END else ""
    bound = f"(≤ {route.at_most} each{used_up})"
    return f"where {route.by} says: {listed(route.to, 'or')} {bound}, else {route.otherwise}"


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
