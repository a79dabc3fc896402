"""Who may call a tool, as people say it while a run lives."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.definition.findings import did_you_mean, listed
from crewlog.errors import CommandRejected
from crewlog.graph.facts import RunFacts
from crewlog.ids import AgentName
from crewlog.state import journal as j


def set_permission(
    run: RunFacts,
    tool: str,
    agents: Sequence[AgentName] | None,
    *,
    by: str = "",
    reason: str = "",
    command: str | None = None,
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
    tools: list[str] = sorted(
        {*run.plan.tools, *(t for rules in run.plan.agents.values() for t in rules.tools)}
    )
    if tool not in tools:
        known = f"Tools: {', '.join(tools) or 'none'}."
        raise CommandRejected(f"there is no tool {tool!r}", remedy=did_you_mean(tool, tools, known))
    named = None if agents is None else tuple(dict.fromkeys(agents))
    for agent in named or ():
        if agent not in run.plan.agents:
            known = f"Agents: {', '.join(run.plan.agents)}."
            raise CommandRejected(
                f"there is no agent {agent!r}",
                remedy=did_you_mean(agent, run.plan.agents, known),
            )
    run.record(j.PermissionSet, tool=tool, agents=named, by=by, reason=reason, command=command)
    if named is None:
        return f"every agent that has {tool} may call it"
    return f"{listed(named) if named else 'nobody'} may call {tool}"
