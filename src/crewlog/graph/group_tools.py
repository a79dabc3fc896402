"""Changes that agents make to their own component by group tools: permission and results.

Only privileged agents may. The run checks that by the plan in force, and then treats the request
like every other change.
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
"""The rule of these decisions in the journal."""
PENDING_ANSWER = "Asked for."
"""What a group tool returns, until the result of the change replaces it."""
_MAX_NOTES = 5
"""The most warnings and notes of a change in its result."""


def group_command_id(step: StepId, call: int) -> CommandId:
    """The command id of the change that a call makes; step and call are unique in a run."""
    return CommandId(f"{GROUP_COMMAND}{step}/{call}")


def authorize_group_change(
    run: RunContext, step: StepId, agent: AgentName, operations: Sequence[o.Operation]
) -> Decision:
    """Whether the agent of a step may change its component by these operations."""
    component = run.plan.component or Component()
    own = component.agents.get(agent)
    entry = run.state.frontier.get(step)
    if own is None or entry is None or entry.is_detached:
        return _denial(f"{agent!r} is not in the component any more")
    if not own.privileged:
        return _denial(f"{agent!r} is not privileged, and may not change the component")
    for operation in operations:
        if reason := _denial_reason(run, component, agent, operation):
            return _denial(reason)
    return Decision(allowed=True, reason=f"{agent!r} is privileged", rule=RULE)


def _denial(reason: str) -> Decision:
    return Decision(allowed=False, reason=reason, rule=RULE)


def _denial_reason(
    run: RunContext, component: Component, agent: AgentName, operation: o.Operation
) -> str:
    """Why an agent may not make an operation; empty if it may."""
    match operation:
        case o.AddAgent():
            return _new_agent_denial_reason(run, agent, operation)
        case o.RemoveAgent() | o.EnableAgent() | o.DisableAgent():
            names: tuple[str, ...] = (operation.name,)
            target = component.agents.get(AgentName(operation.name))
            if target is not None and target.privileged:
                return (
                    f"{agent!r} may not change {operation.name!r}, which is privileged: only "
                    "people may"
                )
        case o.Connect() | o.Disconnect():
            names = (operation.sender, operation.listener)
        case o.Wire() | o.Unwire():
            names = (operation.name, operation.to)
        case o.AddChannel() | o.RemoveChannel():
            names = ()
        case _:
            return f"agents may not use the operation {operation.op!r}"
    for each in names:
        if AgentName(each) in run.plan.agents and AgentName(each) not in component.agents:
            return f"{each!r} is in another component"
    return ""


def _new_agent_denial_reason(run: RunContext, agent: AgentName, operation: o.AddAgent) -> str:
    new = operation.agent
    if new.get("parent") != agent or not {*new} <= BROUGHT:
        return f"{agent!r} may only add agents that work for it and have its rights"
    if operation.phase or operation.before:
        return "agents may not change the flow"
    if _is_removed_agent(run, AgentName(operation.name)):
        return (
            f"the run has the log and turns of a removed agent {operation.name!r}: choose "
            "another name"
        )
    tools, own_tools = new.get("tools"), run.plan.agents[agent].tools
    more = [t for t in tools or () if t in run.plan.tools and t not in own_tools]
    if more:
        return f"{agent!r} cannot give {listed(more, 'or')}, which it does not have"
    return ""


def _is_removed_agent(run: RunContext, name: AgentName) -> bool:
    """Whether the run has the log, outputs or turns of a removed agent of that name.

    An agent added under that name gets them, so only people may add it.
    """
    state = run.state
    removed = name in removed_agents(state, run.plan.agents) or name in state.agent_outputs
    return name not in run.plan.agents and (removed or private_log(name) in state.messages)


def change_result_text(what: str, report: SwapReport) -> str:
    """The result of a change, for the agent that made it.

    Args:
        what: What changes.
        report: The effects of the change.
    """
    version, change = f"The graph is v{report.graph_version}", report.component_change
    is_split = change is not None and change.kind == "split"
    if report.swap:
        calls = "the calls of the agents that leave" if is_split else "the running calls"
        lines = [f"Accepted: {what}. It holds once {calls} have ended. {version} then."]
    else:
        lines = [f"Done: {what}. {version} now."]
    if change is not None and change.affected_creatures:
        lines.append(f"Affected: {', '.join(change.affected_creatures)}.")
    if change is not None and is_split:
        others = [each for each in change.new_graph_ids if each not in change.old_graph_ids]
        lines.append(f"The run splits: {listed(others)} continues separately.")
    warnings = [each.partition("\n")[0] for each in report.warnings]
    lines += [f"{note}." for note in (*warnings, *report.notes)[:_MAX_NOTES]]
    return " ".join(lines)


def change_rejection_text(error: CrewlogError) -> str:
    """Why a change was rejected, for the agent that made it."""
    return f"Refused: {error.message}. {error.remedy}".rstrip()
