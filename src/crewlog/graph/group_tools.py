"""Agents that change their own graph: whether they may, and what they are answered.

An agent that is privileged asks by a group tool; the run checks here, by the plan that it has now,
and takes what is asked the way of every change.
"""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.authority.permissions import Decision
from crewlog.definition import operations as o
from crewlog.definition.findings import listed
from crewlog.definition.group_tools import BROUGHT
from crewlog.errors import CrewlogError
from crewlog.graph.run_context import RunContext
from crewlog.graph.swap.report import SwapReport
from crewlog.ids import GROUP_COMMAND, AgentName, CommandId, StepId, private_log
from crewlog.state.components import Component
from crewlog.state.run_merge.surviving_state import removed_agents

RULE = "privileged"
"""What decides who changes a graph, as the journal names it."""
PENDING_ANSWER = "Asked for."
"""What a group tool returns; the answer that says what came of it takes the place of this."""
_NOTES = 5
"""How many notes of a change an agent is told."""


def group_command_id(step: StepId, call: int) -> CommandId:
    """The id of the change that a call makes: a run has each step and call once."""
    return CommandId(f"{GROUP_COMMAND}{step}/{call}")


def authorize_group_change(
    run: RunContext, step: StepId, agent: AgentName, operations: Sequence[o.Operation]
) -> Decision:
    """Whether an agent may change its graph so, in a step.

    Args:
        run: The run.
        step: The step.
        agent: Its agent.
        operations: What it asks for.
    """
    graph = run.plan.topology or Component()
    own = graph.creatures.get(agent)
    entry = run.state.frontier.get(step)
    if own is None or entry is None or entry.is_detached:
        return _no(f"{agent!r} does not live in the graph any more")
    if not own.privileged:
        return _no(f"{agent!r} is not privileged, and may not change the graph")
    for operation in operations:
        if reason := _denial_reason(run, graph, agent, operation):
            return _no(reason)
    return Decision(allowed=True, reason=f"{agent!r} is privileged", rule=RULE)


def _no(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason, rule=RULE)


def _denial_reason(
    run: RunContext, graph: Component, agent: AgentName, operation: o.Operation
) -> str:
    """Why an agent may not ask for an operation; empty where it may."""
    match operation:
        case o.AddAgent():
            new = operation.agent
            if new.get("parent") != agent or not {*new} <= BROUGHT:
                return f"an agent that {agent!r} brings works for it, and may do no more"
            if operation.phase or operation.before:
                return "the flow is not changed by agents"
            if _has_left_traces(run, AgentName(operation.name)):
                return (
                    f"there was another {operation.name!r} here, whose log and turns are not for "
                    "who comes: choose another name"
                )
            tools, has = new.get("tools"), run.plan.agents[agent].tools
            more = [tool for tool in tools or () if tool in run.plan.tools and tool not in has]
            return f"{agent!r} has no {listed(more, 'or')} that it could give" if more else ""
        case o.RemoveAgent() | o.EnableAgent() | o.DisableAgent():
            named: tuple[str, ...] = (operation.name,)
            there = graph.creatures.get(AgentName(operation.name))
            if there is not None and there.privileged:
                whom = "itself" if operation.name == agent else f"{operation.name!r}"
                return f"{agent!r} may not do so with {whom}: people do, with who is privileged"
        case o.Connect() | o.Disconnect():
            named = (operation.sender, operation.listener)
        case o.Wire() | o.Unwire():
            named = (operation.name, operation.to)
        case o.AddChannel() | o.RemoveChannel():
            named = ()
        case _:
            return f"{operation.op!r} is nothing that agents do"
    for each in named:
        if AgentName(each) in run.plan.agents and AgentName(each) not in graph.creatures:
            return f"{each!r} lives in another graph"
    return ""


def _has_left_traces(run: RunContext, name: AgentName) -> bool:
    """Whether an agent of a name is gone whose log, outputs or turns the run has still.

    Whoever comes by that name has them: that is for people to give, who know who comes back.
    """
    state = run.state
    gone = name in removed_agents(state, run.plan.agents) or name in state.agent_outputs
    return name not in run.plan.agents and (gone or private_log(name) in state.messages)


def change_result_text(what: str, report: SwapReport) -> str:
    """What came of a change, for the agent that asked for it.

    Args:
        what: What changes.
        report: What it does to the run.
    """
    version, change = f"The graph is v{report.graph_version}", report.topology
    splits = change is not None and change.kind == "split"
    if report.swap:
        whose = "who leaves does" if splits else "runs now"
        said = [f"Accepted: {what}. It holds once what {whose} has ended. {version} then."]
    else:
        said = [f"Done: {what}. {version} now."]
    if change is not None and change.affected_creatures:
        said.append(f"Affected: {', '.join(change.affected_creatures)}.")
    if change is not None and splits:
        others = [each for each in change.new_graph_ids if each not in change.old_graph_ids]
        said.append(f"The graph falls apart by that: {listed(others)} goes on by itself.")
    told = [each.partition("\n")[0] for each in report.warnings]
    said += [f"{note}." for note in (*told, *report.notes)[:_NOTES]]
    return " ".join(said)


def change_rejection_text(error: CrewlogError) -> str:
    """Why a change did not come about, for the agent that asked for it."""
    return f"Refused: {error.message}. {error.remedy}".rstrip()
