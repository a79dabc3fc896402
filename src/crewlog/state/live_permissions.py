"""What a run remembers of who said who may call what: lines of its mutations, spelled once.

A run's state has what is in force, and its mutations have who said it and when. A line is found
again by spelling it again.
"""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.authority.permissions import EVERYONE, LivePermission
from crewlog.state.model import ChangeRecord, CrewState


def agent_permission_change(tool: str, agent: str, do: LivePermission | None) -> str:
    """What was changed by a ruling, in a line."""
    who = "every agent" if agent == EVERYONE else agent
    return f"ruling for {tool} by {who}: {do or 'as the definition says'}"


def tool_permission_change(tool: str, agents: Sequence[str] | None) -> str:
    """What was changed by saying who may call a tool, in a line."""
    named = "all that have it" if agents is None else ", ".join(agents) or "nobody"
    return f"permission to call {tool}: {named}"


def last_change(state: CrewState, what: str) -> ChangeRecord | None:
    """The last time that a line was changed; none where that is longer ago than a run remembers."""
    return next((each for each in reversed(state.changes) if each.what == what), None)


def permission_description(tool: str, agent: str, do: LivePermission | None) -> str:
    """`writer may call publish`, `people are asked before writer calls publish`."""
    who = "every agent" if agent == EVERYONE else agent
    match do:
        case "allow" if agent == EVERYONE:
            return f"every agent that has {tool} may call it"
        case "allow":
            return f"{who} may call {tool}"
        case "ask":
            return f"people are asked before {who} calls {tool}"
        case "deny":
            return f"{'nobody' if agent == EVERYONE else who} may {_not(agent)}call {tool}"
        case None:
            return f"what the definition says of {who} and {tool} holds again"


def _not(agent: str) -> str:
    return "" if agent == EVERYONE else "not "
