"""Descriptions of permissions that people set on a live run.

The state has the permissions in force, and its changes have the principal and the time.
"""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.authority.permissions import EVERYONE, LivePermission
from crewlog.state.model import ChangedPermission, ChangeRecord, CrewState


def agent_permission_change(tool: str, agent: str, do: LivePermission | None) -> str:
    """The change of a permission of an agent, in a line."""
    subject = "every agent" if agent == EVERYONE else agent
    return f"live permission for {tool} by {subject}: {do or 'as the definition says'}"


def tool_permission_change(tool: str, agents: Sequence[str] | None) -> str:
    """The change of the agents that may call a tool, in a line."""
    who_may = "all that have it" if agents is None else ", ".join(agents) or "nobody"
    return f"permission to call {tool}: {who_may}"


def last_change(state: CrewState, permission: ChangedPermission) -> ChangeRecord | None:
    """The last change that set a permission; None if the state no longer has it."""
    found = (each for each in reversed(state.changes) if each.permission == permission)
    return next(found, None)


def permission_description(tool: str, agent: str, do: LivePermission | None) -> str:
    """A permission, for people: `writer may call publish`."""
    subject = "every agent" if agent == EVERYONE else agent
    match do:
        case "allow" if agent == EVERYONE:
            return f"every agent that has {tool} may call it"
        case "allow":
            return f"{subject} may call {tool}"
        case "ask":
            return f"people are asked before {subject} calls {tool}"
        case "deny":
            return f"{'nobody' if agent == EVERYONE else subject} may {_negation(agent)}call {tool}"
        case None:
            return f"the definition's permission of {tool} for {subject} applies again"


def _negation(agent: str) -> str:
    return "" if agent == EVERYONE else "not "
