"""Who may call a tool, as people say it while a run lives."""

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
    """Says who may call a tool from the next call on; what was said, for people.

    A call that is under way goes on; one that waits to be made is looked at again before it is.

    Args:
        run: The run.
        tool: The tool.
        agents: Who may call it; none: every agent that has it; empty: nobody.
        by: Who says it.
        reason: Why, for the journal.
        command: The command's id.

    Raises:
        CommandRejected: the crew has no such tool or agent.
    """
    _check_tool(run, tool)
    named = None if agents is None else tuple(dict.fromkeys(agents))
    for agent in named or ():
        _check_agent(run, agent)
    run.record(j.ToolPermissionSet(tool=tool, agents=named, by=by, reason=reason, command=command))
    if named is None:
        return f"every agent that has {tool} may call it"
    return f"{listed(named) if named else 'nobody'} may call {tool}"


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
    """Rules of an agent's calls of a tool from the next call on; what was ruled, for people.

    Args:
        run: The run.
        tool: The tool.
        agent: The agent; `*`: every one.
        do: What is ruled; none: what the definition says holds again.
        by: Who rules.
        reason: Why, for the journal.
        command: The command's id.

    Raises:
        CommandRejected: the crew has no such tool or agent, or nobody can be given the tool.
    """
    _check_tool(run, tool)
    if agent != EVERYONE:
        _check_agent(run, agent)
        has = tool in run.plan.agents[AgentName(agent)].tools
        if tool in EVERY_CREW_HAS and not has and do in ("allow", "ask"):
            what = "writes_flags" if tool == "set_flag" else "outputs"
            raise CommandRejected(
                f"{agent!r} has nothing to set with {tool!r}",
                remedy=f"Change the crew: give the agent {what}.",
            )
        if tool in GROUP_TOOLS and run.plan.graph is not None and not has and do != "deny" and do:
            raise CommandRejected(
                f"{agent!r} is not privileged: {tool!r} is of no use to it",
                remedy="Change the crew: give the agent `privileged: true`.",
            )
    run.record(
        j.AgentPermissionSet(tool=tool, agent=agent, do=do, by=by, reason=reason, command=command)
    )
    every = run.state.live_permissions.get(tool, {}).get(EVERYONE)
    if do is None and agent != EVERYONE and every is not None:
        still = permission_description(tool, EVERYONE, every)
        return f"what was said of {agent} and {tool} is taken back, but {still}"
    if do is not None and agent != EVERYONE:
        now = run.check(AgentName(agent), tool)
        if now.outcome != do and now.outcome != "allow":  # the agent above it, or a quota
            holds = permission_description(tool, agent, now.outcome).replace(
                "may not", "still may not"
            )
            return f"it is set, but {holds}"
    return permission_description(tool, agent, do)


def _check_tool(run: RunContext, tool: str) -> None:
    tools: list[str] = sorted(
        {*run.plan.tools, *(t for rules in run.plan.agents.values() for t in rules.tools)}
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
