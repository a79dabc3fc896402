"""The permissions in force at a position of the journal, with the principals that set them."""

from __future__ import annotations

from crewlog.authority.permissions import (
    EVERYONE,
    LivePermissions,
    with_live_permission,
    without_milder_permissions,
)
from crewlog.state import journal as j


class PermissionHistory:
    """The permissions after the entries that were added, with their changes on the live run."""

    def __init__(self) -> None:
        self._permissions: dict[str, tuple[str, ...] | None] = {}
        self._live_permissions: LivePermissions = {}
        self._changes: dict[tuple[str, str], str] = {}
        """The last change as text, by tool and agent; the agent is empty for a list of agents."""

    def allow_reason(self, agent: str, tool: str) -> str:
        """Why a call of an allowed tool is allowed, for people."""
        effects = self._live_permissions.get(tool, {})
        for name in (agent, EVERYONE):
            if effects.get(name) == "allow":
                return f"people allowed {agent!r} to call {tool!r}{self._change_text(tool, name)}"
        if self._permissions.get(tool) is not None:
            return f"permissions let {agent!r} call {tool!r}{self._change_text(tool, '')}"
        return f"{tool!r} is among the tools of {agent!r}{self._change_text(tool, '')}"

    def ask_reason(self, agent: str, tool: str) -> str:
        """Why a call needs an approval, by the live permission; empty if the journal has none."""
        effects = self._live_permissions.get(tool, {})
        name = agent if agent in effects else EVERYONE  # the agent's own permission comes first
        if effects.get(name) == "ask":
            where = self._change_text(tool, name)
            return f"people want to be asked before {agent!r} calls {tool!r}{where}"
        return ""

    def _change_text(self, tool: str, agent: str) -> str:
        text = self._changes.get((tool, agent))
        return f": {text}" if text else ""

    def add(self, position: int, entry: j.JournalEntry) -> None:
        """Applies an entry."""
        match entry:
            case j.RunStarted() | j.GraphReplacement() | j.DefinitionChanged():
                self._permissions = dict(entry.permissions)
            case j.ToolPermissionSet():
                self._permissions[entry.tool] = entry.agents
                self._live_permissions = without_milder_permissions(
                    self._live_permissions, entry.tool, entry.agents
                )
                self._add_change(position, entry, "")
            case j.AgentPermissionSet():
                self._live_permissions = with_live_permission(
                    self._live_permissions, entry.tool, entry.agent, entry.do
                )
                self._add_change(position, entry, entry.agent)
            case j.RunRolledBack() | j.RunForked() | j.RunReopened():
                self._permissions = dict(entry.state.get("tool_permissions") or {})
                if isinstance(entry, j.RunForked):  # the others keep the run's
                    self._live_permissions = dict(entry.state.get("live_permissions") or {})
            case _:
                pass

    def _add_change(
        self, position: int, entry: j.ToolPermissionSet | j.AgentPermissionSet, agent: str
    ) -> None:
        by = f" by {entry.by}" if entry.by else ""
        why = f": {entry.reason}" if entry.reason else ""
        self._changes[entry.tool, agent] = f"set at run time{by} (position {position}){why}"
