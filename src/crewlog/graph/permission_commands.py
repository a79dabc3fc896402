"""The commands by which people set permissions of a live run."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.authority.permissions import EVERY_CREW_HAS, EVERYONE, LivePermission
from crewlog.definition.findings import did_you_mean, listed
from crewlog.definition.model import GROUP_TOOLS
from crewlog.errors import CommandRejected
from crewlog.graph.run_context import RunContext
from crewlog.ids import AgentName, CommandId
from crewlog.state import journal as j
from crewlog.state.live_permissions import permission_description


def set_permission(
    run: RunContext,
    tool: str,
    agents: Sequence[AgentName] | None,
    *,
    by: str = "",
    reason: str = "",
    command: CommandId | None = None,
) -> str:
    """Sets which agents may call a tool, from the next call on; returns a summary for people.

    A call in flight continues; a call that has not started is authorized again.

    Args:
        run: The run.
        tool: The tool.
        agents: Who may call it; none: every agent that has it; empty: nobody.
        by: The principal.
        reason: Why, for the journal.
        command: The command's id.

    Raises:
        CommandRejected: the crew has no such tool or agent.
    """
    _check_tool(run, tool)
    names = None if agents is None else tuple(dict.fromkeys(agents))
    for agent in names or ():
        _check_agent(run, agent)
    run.record(j.ToolPermissionSet(tool=tool, agents=names, by=by, reason=reason, command=command))
    if names is None:
        return f"every agent that has {tool} may call it"
    return f"{listed(names) if names else 'nobody'} may call {tool}"


def set_agent_permission(
    run: RunContext,
    tool: str,
    agent: str,
    do: LivePermission | None,
    *,
    by: str = "",
    reason: str = "",
    command: CommandId | None = None,
) -> str:
    """Sets a permission of an agent for a tool, from the next call on; returns a summary.

    Args:
        run: The run.
        tool: The tool.
        agent: The agent; `*`: every one.
        do: The permission; none: removes it, and those of the definition apply again.
        by: The principal.
        reason: Why, for the journal.
        command: The command's id.

    Raises:
        CommandRejected: the crew has no such tool or agent, or the tool is of no use to the agent.
    """
    _check_tool(run, tool)
    if agent != EVERYONE:
        _check_agent(run, agent)
        has = tool in run.plan.agents[AgentName(agent)].tools
        if tool in EVERY_CREW_HAS and not has and do in ("allow", "ask"):
            what = "writes_flags" if tool == "set_flag" else "outputs"
            raise CommandRejected(
                f"cannot give {tool!r} to {agent!r}: the agent has nothing to set with it",
                remedy=f"Change the crew: give the agent {what}.",
            )
        if tool in GROUP_TOOLS and run.plan.graph is not None and not has and do != "deny" and do:
            raise CommandRejected(
                f"cannot give {tool!r} to {agent!r}: the agent is not privileged",
                remedy="Change the crew: give the agent `privileged: true`.",
            )
    run.record(
        j.AgentPermissionSet(tool=tool, agent=agent, do=do, by=by, reason=reason, command=command)
    )
    of_every_agent = run.state.live_permissions.get(tool, {}).get(EVERYONE)
    if do is None and agent != EVERYONE and of_every_agent is not None:
        remaining = permission_description(tool, EVERYONE, of_every_agent)
        return f"the permission of {agent} for {tool} is removed, but {remaining}"
    if do is not None and agent != EVERYONE:
        now = run.check(AgentName(agent), tool)
        if now.outcome != do and now.outcome != "allow":  # by its parent agent, or a quota
            effective = permission_description(tool, agent, now.outcome).replace(
                "may not", "still may not"
            )
            return f"it is set, but {effective}"
    return permission_description(tool, agent, do)


def _check_tool(run: RunContext, tool: str) -> None:
    tools: list[str] = sorted(
        {*run.plan.tools, *(t for agent in run.plan.agents.values() for t in agent.tools)}
    )
    if tool not in tools:
        known = f"Tools: {', '.join(tools) or 'none'}."
        raise CommandRejected(f"there is no tool {tool!r}", remedy=did_you_mean(tool, tools, known))


def _check_agent(run: RunContext, agent: str) -> None:
    if agent not in run.plan.agents:
        known = f"Agents: {', '.join(run.plan.agents)}."
        raise CommandRejected(
            f"there is no agent {agent!r}",
            remedy=did_you_mean(agent, run.plan.agents, known),
        )
