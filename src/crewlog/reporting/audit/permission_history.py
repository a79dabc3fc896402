"""The permissions in force at each position of a journal, with who set them."""

from __future__ import annotations

from crewlog.authority.permissions import (
    EVERYONE,
    LivePermissions,
    with_live_permission,
    without_milder_permissions,
)
from crewlog.state import journal as j


class PermissionHistory:
    """Who may call what, entry by entry, with who said so at run time."""

    def __init__(self) -> None:
        self._permissions: dict[str, tuple[str, ...] | None] = {}
        self._rulings: LivePermissions = {}
        self._said: dict[tuple[str, str], str] = {}
        """Who ruled, and where, by tool and agent; permissions have no agent."""

    def why(self, agent: str, tool: str) -> str:
        """Why an agent's call of a tool is allowed."""
        row = self._rulings.get(tool, {})
        for whom in (agent, EVERYONE):
            if row.get(whom) == "allow":
                return f"people allowed {agent!r} to call {tool!r}{self._where(tool, whom)}"
        if self._permissions.get(tool) is not None:
            return f"permissions let {agent!r} call {tool!r}{self._where(tool, '')}"
        return f"{tool!r} is among the tools of {agent!r}{self._where(tool, '')}"

    def ask_reason(self, agent: str, tool: str) -> str:
        """Which ruling has people asked about an agent's call; empty where the journal has none."""
        row = self._rulings.get(tool, {})
        whom = agent if agent in row else EVERYONE  # its own ruling counts, as in every check
        if row.get(whom) == "ask":
            where = self._where(tool, whom)
            return f"people want to be asked before {agent!r} calls {tool!r}{where}"
        return ""

    def _where(self, tool: str, agent: str) -> str:
        said = self._said.get((tool, agent))
        return f": {said}" if said else ""

    def learn(self, position: int, entry: j.JournalEntry) -> None:
        """Keeps what an entry says of that."""
        match entry:
            case j.RunStarted() | j.GraphReplacement() | j.DefinitionChanged():
                self._permissions = dict(entry.permissions)
            case j.ToolPermissionSet():
                self._permissions[entry.tool] = entry.agents
                self._rulings = without_milder_permissions(self._rulings, entry.tool, entry.agents)
                self._note(position, entry, "")
            case j.AgentPermissionSet():
                self._rulings = with_live_permission(
                    self._rulings, entry.tool, entry.agent, entry.do
                )
                self._note(position, entry, entry.agent)
            case j.RunRolledBack() | j.RunForked() | j.RunReopened():
                self._permissions = dict(entry.state.get("tool_permissions") or {})
                self._rulings = dict(entry.state.get("live_permissions") or {})
            case _:
                pass

    def _note(
        self, position: int, entry: j.ToolPermissionSet | j.AgentPermissionSet, agent: str
    ) -> None:
        by = f" by {entry.by}" if entry.by else ""
        why = f": {entry.reason}" if entry.reason else ""
        self._said[entry.tool, agent] = f"set at run time{by} (position {position}){why}"
