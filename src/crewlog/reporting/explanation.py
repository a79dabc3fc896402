"""The explanation of a node: everything that a definition says of it, as a typed view."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from crewlog.authority.memory_scopes import ACCESSES, memory_scopes
from crewlog.authority.permissions import (
    Decision,
    authorize_tool,
    definition_permissions,
    limit_to_parent,
    permission_text,
)
from crewlog.definition.artifacts import SCRATCH_TOOLS
from crewlog.definition.conditions import render_condition
from crewlog.definition.context import EXTRACT, OFF
from crewlog.definition.context_checks import window_of
from crewlog.definition.decisions import reply_fields
from crewlog.definition.doing import DoneCall
from crewlog.definition.expand import expand
from crewlog.definition.findings import Path, did_you_mean, listed
from crewlog.definition.model import MEMORY_TOOLS, AgentDefinition, AgentPhase, CrewDefinition
from crewlog.definition.phases import phases
from crewlog.definition.replies import Reply
from crewlog.definition.times import duration_words
from crewlog.errors import UsageError
from crewlog.graph.joins import dependents
from crewlog.graph.lowering.coordination_rules import on_error_text, wait_text
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import (
    ASK_HUMAN,
    BUILT_IN_TOOLS,
    END,
    NEXT,
    SKIP,
    GraphPlan,
    PlanAgent,
    PlanNode,
)
from crewlog.ids import AgentName, LogName, NodeName, ToolName, private_log
from crewlog.model import Json, Model
from crewlog.reporting.drawing.labels import outgoing_edges


class EdgeView(Model):
    """An edge from or to a node."""

    to: str
    """The node at its other end, `people`, or `end`."""
    condition: str = ""
    """When the run takes it; empty: always."""
    join: str = ""
    """What else the target waits for; empty: nothing."""


class ToolAccessView(Model):
    """Whether the agent of a node may call a tool."""

    tool: ToolName
    is_allowed: bool
    reason: str
    """Why, or why not."""
    needs_approval: bool = False
    """Whether a call needs an approval."""
    effects: str = ""
    """`read`, `write` or `external`."""
    retry_mode: str = ""
    """The retry mode: `safe`, `keyed` or `never`."""
    risk: str = "low"


class ClauseView(Model):
    """A clause of a prompt, and what became of it."""

    clause: int
    """Its number."""
    line: int
    column: int
    start: int
    """The offset of its first character in the prompt, from 0."""
    end: int
    """The offset after its last character."""
    text: str
    kind: str
    status: str
    """Its status in the clause ledger; `open`: the ledger has no entry for it."""
    reason: str
    """The reason for the status, for people."""
    parts: tuple[str, ...]
    """The parts of the crew that come from it, as text."""


class ExplanationView(Model):
    """The explanation of a node."""

    crew: str
    node: NodeName
    kind: Literal["agent", "decide", "ask", "wait", "route"]
    agent: AgentName | None = None
    item_agents: tuple[AgentName, ...] = ()
    """The agents that an item of its list may name."""
    path: tuple[str | int, ...] = ()
    """Its path in the definition."""
    part: str = ""
    """The builder or pattern that made it: `the pattern 'review_loop' of 'author'`; else empty."""
    is_entry_point: bool = False
    """Whether it is an entry point."""
    sources: tuple[NodeName, ...] = ()
    """The sources of its join."""
    need: int = 0
    """The number of sources that the join waits for."""
    conditions: tuple[str, ...] = ()
    """Its conditions and timeouts with their alternatives, as sentences."""
    outgoing_edges: tuple[EdgeView, ...] = ()
    """The edges from it."""
    incoming_edges: tuple[EdgeView, ...] = ()
    """The edges to it that are not part of its join; `to` is the source."""
    question: str | None = None
    options: tuple[str, ...] = ()
    task: str | None = None
    prompt: str | None = None
    description: str | None = None
    model: str | None = None
    tool_calls: tuple[str, ...] = ()
    """Of an agent without a model: its tool calls, with the arguments."""
    in_order: bool = False
    """Whether it makes these calls one after another."""
    pattern: str | None = None
    """The pattern of the agent."""
    reads: tuple[LogName, ...] = ()
    """The logs that it may read."""
    writes: tuple[LogName, ...] = ()
    """The logs of its final messages."""
    readable_artifacts: tuple[str, ...] = ()
    """The artifacts that it may read; `AGENT.notes` are scratch notes."""
    writable_artifacts: tuple[str, ...] = ()
    """The artifacts that its tools may change."""
    tools: tuple[ToolAccessView, ...] = ()
    """All tools of the crew; those that it may call come first."""
    groups: tuple[str, ...] = ()
    """Its groups."""
    rules: tuple[str, ...] = ()
    """The permissions of the crew that apply to it, as sentences."""
    restrictions: tuple[str, ...] = ()
    """Its parent agent, its structured output, and what it reads, as sentences."""
    flags: tuple[str, ...] = ()
    """The run outputs that it may set."""
    outputs: tuple[str, ...] = ()
    """Its outputs, without `text`."""
    limits: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The limits of its turns, and what follows a failure."""
    clauses: tuple[ClauseView, ...] | None = None
    """The clauses that the node comes from; none if the crew does not come from a prompt."""


def explain(definition: CrewDefinition, node: str) -> ExplanationView:
    """The explanation of a node.

    Raises:
        InvalidDefinition: the definition has an error.
        UsageError: it has no such node.
    """
    plan = lower(definition)
    name = NodeName(node)
    if name not in plan.nodes:
        there = f"Its nodes are: {', '.join(plan.nodes)}."
        raise UsageError(
            f"the crew {str(plan.crew)!r} has no node {node!r}",
            remedy=did_you_mean(node, plan.nodes, there),
        )
    found = plan.nodes[name]
    phase_path, part, task = _phase_of(definition, node)
    data: dict[str, Json] = {
        "crew": plan.crew,
        "node": name,
        "kind": found.kind,
        "agent": found.agent,
        "item_agents": found.among,
        "path": phase_path,
        "part": part,
        "is_entry_point": found.entry,
        "sources": found.join.of if found.join else (),
        "need": found.join.need if found.join else 0,
        "conditions": tuple(_conditions(found)),
        "outgoing_edges": tuple(_outgoing_views(plan, name, found)),
        "incoming_edges": tuple(_incoming_views(plan, name)),
    }
    if found.ask is not None:
        data |= {"question": found.ask.question, "options": found.ask.options}
    if found.agent is not None:
        data |= _agent(definition, plan, found.agent, task, policy=found.on_error)
    return ExplanationView.model_validate(data)


def _phase_of(definition: CrewDefinition, node: str) -> tuple[Path, str, str | None]:
    """The path of a node in the definition, what made it, and the task of its phase."""
    expanded = expand(definition)
    for phase in phases(expanded.definition):
        if phase.name == node:
            origin = expanded.origin(phase.path)
            path, part = (origin.phase, origin.part) if origin else (phase.path, "")
            return path, part, phase.item.task if isinstance(phase.item, AgentPhase) else None
    return (), "", None


def _conditions(node: PlanNode) -> Iterator[str]:
    if node.when is not None:
        when = render_condition(node.when)
        then = {
            ASK_HUMAN: "where it can no longer come true, people are asked",
            SKIP: "where it can no longer come true, this is skipped",
        }.get(node.otherwise, f"where it can no longer come true, {node.otherwise} runs instead")
        bound = f" for at most {duration_words(node.within)}" if node.within is not None else ""
        yield f"once reached, it waits{bound} until {when}; {then}"
    if node.wait is not None:
        yield f"it waits {'until ' if node.wait.until else ''}{wait_text(node.wait)}"
    if node.only_if is not None:
        yield f"skipped unless {render_condition(node.only_if)}"
    if node.needs:
        who = node.agent if not node.by else "an item's agent"
        yield f"skipped where {who} may not call {listed(node.needs)}"
    if node.for_each is not None:
        yield from _item_conditions(node)
    if node.timeout is not None:
        yield f"fails where a step takes more than {duration_words(node.timeout)}"
    if node.on_error:
        yield f"where it fails, {on_error_text(node.on_error)}"


def _item_conditions(node: PlanNode) -> Iterator[str]:
    """How the child steps of a node run, as sentences."""
    how = "side by side" if node.at_once is None else f"{node.at_once} at a time"
    yield f"a step for each item of {node.for_each}, {how}; an item waits for those of its 'after'"
    if node.by:
        other = f"; by {node.agent} where it names none" if node.agent else ""
        yield f"by the agent that the item's {node.by!r} names: {listed(node.among, 'or')}{other}"
    if node.otherwise != ASK_HUMAN:
        then = "this is skipped" if node.otherwise == SKIP else f"{node.otherwise} runs instead"
        yield f"where the list cannot be worked on, {then}"


def _outgoing_views(plan: GraphPlan, name: NodeName, node: PlanNode) -> Iterator[EdgeView]:
    for target, why in outgoing_edges(node, plan.nodes):
        yield EdgeView(to=target, condition=why)
    if node.route is not None and node.route.otherwise == ASK_HUMAN:
        yield EdgeView(to="people", condition="else")
    if node.route is not None and NEXT not in (node.route.otherwise, node.route.used_up):
        return
    if node.decide is not None and node.decide.otherwise == ASK_HUMAN:
        yield EdgeView(to="people", condition=f"else, after {node.decide.at_most} times")
    following = dependents(plan)[name]
    when = "the condition does not hold" if node.decide is not None else ""
    if node.route is not None:
        when = "else" if node.route.otherwise == NEXT else "it is used up"
    for target in following:
        join = plan.nodes[target].join
        others = [source for source in join.of if source != name] if join else []
        counted = ""
        if join is not None and others and join.need == len(join.of):
            counted = f"once {listed(others)} {'is' if len(others) == 1 else 'are'} done, too"
        elif join is not None and others and join.need == 1:
            counted = f"with the first of {listed(join.of)}"
        elif join is not None and others:
            counted = f"once {join.need} of {listed(join.of)} are done"
        yield EdgeView(to=target, condition=when, join=counted)
    if not following:
        yield EdgeView(to=END, condition=when)


def _incoming_views(plan: GraphPlan, name: NodeName) -> Iterator[EdgeView]:
    for source, node in plan.nodes.items():
        for target, why in outgoing_edges(node, plan.nodes):
            if target == name:
                yield EdgeView(to=source, condition=why)


def _agent(
    definition: CrewDefinition,
    plan: GraphPlan,
    name: AgentName,
    task: str | None,
    *,
    policy: str | None,
) -> dict[str, Json]:
    agent, rules = definition.agents[name], plan.agents[name]
    return {
        "task": task,
        "prompt": agent.prompt or None,
        "description": agent.description,
        "model": None if agent.does else agent.model or definition.model,
        "tool_calls": tuple(map(_call_text, agent.does)),
        "in_order": agent.in_order,
        "pattern": agent.pattern.use if agent.pattern else None,
        "reads": (*rules.reads, private_log(name)),
        "writes": rules.writes,
        "readable_artifacts": tuple(
            n for n, a in plan.artifacts.items() if _is_named(name, a.readers)
        ),
        "writable_artifacts": tuple(
            n for n, a in plan.artifacts.items() if _is_named(name, a.writers)
        ),
        "tools": tuple(_tools(definition, plan, name, rules)),
        "groups": tuple(g for g, members in definition.groups.items() if name in members),
        "rules": tuple(
            permission_text(rule)
            for rule in definition_permissions(definition)
            if rule.agents is None or name in rule.agents
        ),
        "restrictions": (*_limits_of(agent), *_view_limits(definition, agent)),
        "flags": rules.flags,
        "outputs": rules.outputs,
        "limits": {
            "max_calls": rules.max_calls,
            "timeout": rules.timeout,
            "attempts": rules.retry.attempts,
            "on_error": policy or rules.on_error,
            "enabled": rules.enabled,
        },
    }


def _call_text(call: DoneCall) -> str:
    """`run_pytest {"paths": ["tests"]}`."""
    args = json.dumps(call.args, ensure_ascii=False) if call.args else ""
    return f"{call.tool} {args}".rstrip()


def _structured_output(reply: Reply) -> Iterator[str]:
    form = reply.decision or "JSON of its schema"
    yield f"its turn ends with {form}: it sets {listed(reply_fields(reply))}"
    then = "the step fails"
    if reply.fallback is not None:
        then = f"this counts: {json.dumps(reply.fallback, ensure_ascii=False)}"
    tries = "once" if reply.tries == 1 else f"{reply.tries} times"
    yield f"it is asked {tries} for that; then {then}"


def _limits_of(agent: AgentDefinition) -> Iterator[str]:
    if agent.parent is not None:
        yield f"it works for {agent.parent}, and may no more than that one"
    if agent.reply is not None:
        yield from _structured_output(agent.reply)
    if agent.on_cap == "end":
        yield f"its turn ends with what is there after {agent.max_calls} model calls"
    if agent.ask_below is not None:
        yield f"people are asked where its confidence is below {agent.ask_below:g}"


def _view_limits(definition: CrewDefinition, agent: AgentDefinition) -> Iterator[str]:
    """What an agent reads of the run, and the audience of its outputs."""
    if (window := window_of(definition, agent)) is not None:
        most = [f"its last {window.last} messages"] if window.last is not None else []
        most += [f"{window.tokens:,} tokens"] if window.tokens is not None else []
        rest = {OFF: "", EXTRACT: ", and the beginnings of others"}
        summed = rest.get(window.summary, f", and a summary of others by {window.summary}")
        yield f"of the messages before its turn it is shown {' and '.join(most)} at most{summed}"
    if agent.inputs:
        yield f"it is shown {listed(each.as_ or each.from_ for each in agent.inputs)} by name"
    if agent.shares is not None:
        yield f"its outputs are for who reads {listed(agent.shares, 'or') or 'nothing'}"


def _tools(
    definition: CrewDefinition, plan: GraphPlan, name: AgentName, rules: PlanAgent
) -> Iterator[ToolAccessView]:
    found: list[ToolAccessView] = []
    for tool, made in definition.tools.items():
        decision = _decision(definition, plan, name, tool)
        found.append(
            ToolAccessView(
                tool=ToolName(tool),
                is_allowed=decision.allowed,
                reason=_access_reason(tool, name, definition, decision),
                needs_approval=decision.outcome == "ask",
                effects=made.effects,
                retry_mode=made.repeat,
                risk=made.risk,
            )
        )
    yield from sorted(found, key=lambda each: not each.is_allowed)
    yield from _memory_tool_access(definition, plan, name, rules)
    if rules.scratch:
        for tool in SCRATCH_TOOLS:
            if tool in rules.tools:
                why = "it makes notes" if tool == "note" else "it sees notes"
                yield ToolAccessView(
                    tool=ToolName(tool), is_allowed=True, reason=why, effects="state"
                )
    for built_in in BUILT_IN_TOOLS:
        if built_in in rules.tools:
            sets = rules.flags if built_in == "set_flag" else rules.outputs
            yield ToolAccessView(
                tool=built_in,
                is_allowed=True,
                reason=f"it declares {listed(sets)}",
                effects="state",
            )


def _is_named(agent: AgentName, named: tuple[AgentName, ...] | None) -> bool:
    return named is None or agent in named


def _decision(definition: CrewDefinition, plan: GraphPlan, agent: AgentName, tool: str) -> Decision:
    """Whether an agent may call a tool, without the permissions that have conditions."""

    def check(who: AgentName) -> Decision:
        return authorize_tool(
            who,
            tool,
            agent_tools=plan.agents[who].tools,
            crew_tools=plan.tools,
            permissions=definition.permissions,
            approvals=plan.approvals,
            rules=plan.checks,
        )

    decision = check(agent)
    for parent in plan.agents[agent].within:
        decision = limit_to_parent(decision, check(parent))
    return decision


def _memory_tool_access(
    definition: CrewDefinition, plan: GraphPlan, name: AgentName, rules: PlanAgent
) -> Iterator[ToolAccessView]:
    """The memory tools that an agent has a scope for."""
    for tool, way in zip(MEMORY_TOOLS, ACCESSES, strict=True):
        if definition.memory is None or tool not in rules.tools:
            continue
        decision = _decision(definition, plan, name, tool)
        allowed = decision.allowed
        why = f"it {way}s {listed(memory_scopes(definition, name, way))}"
        yield ToolAccessView(
            tool=ToolName(tool),
            is_allowed=allowed,
            reason=why if allowed else _access_reason(tool, name, definition, decision),
            needs_approval=decision.outcome == "ask",
            effects=way,
            retry_mode="safe",
        )


def _access_reason(
    tool: str, agent: AgentName, definition: CrewDefinition, decision: Decision
) -> str:
    named = definition.permissions.get(tool)
    if decision.allowed:
        if named is not None:
            return "permissions name it"
        inherits = definition.agents[agent].tools is None
        return "it has every tool" if inherits else "among its tools"
    if named is not None and agent not in named:
        return f"permissions let {f'only {listed(named)}' if named else 'nobody'} call it"
    return "not among its tools" if decision.rule == "tools" else decision.reason
