"""Who may call which tool, and who may read and write what: decisions with their reasons."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from crewlog.model import Model


class Decision(Model):
    """The outcome of a check; its reason is written for people and goes into the journal."""

    allowed: bool
    reason: str


def check_tool(
    agent: str,
    tool: str,
    *,
    offered: Collection[str],
    known: Collection[str],
    permissions: Mapping[str, tuple[str, ...] | None],
) -> Decision:
    """Whether `agent` may call `tool` now.

    Args:
        agent: The caller.
        tool: The tool, as the model spelled it.
        offered: The tools that the agent's definition gives it.
        known: All tools of the crew.
        permissions: The matrix in force: null or absent inherits, an empty list means nobody.
    """
    if tool not in known:
        return Decision(allowed=False, reason=f"there is no tool {tool!r}")
    if tool not in offered:
        return Decision(allowed=False, reason=f"{tool!r} is not among the tools of {agent!r}")
    allowed = permissions.get(tool)
    if allowed is not None and agent not in allowed:
        return Decision(allowed=False, reason=f"permissions do not let {agent!r} call {tool!r}")
    return Decision(allowed=True, reason=f"{tool!r} is among the tools of {agent!r}")


def needs_approval(agent: str, tool: str, approvals: Mapping[Any, tuple[str, ...] | None]) -> bool:
    """Whether a person must say yes to each call that `agent` makes of `tool`.

    Args:
        agent: The caller.
        tool: The tool.
        approvals: The tools that need it, with the agents that it holds for; null: every agent.
    """
    if tool not in approvals:
        return False
    held = approvals[tool]
    return held is None or agent in held


def check_write(kind: str, agent: str, name: str, allowed: Collection[str]) -> Decision:
    """Whether `agent` may set the flag or output `name`; `kind` says which for the reason."""
    if name in allowed:
        return Decision(allowed=True, reason=f"{agent!r} declares the {kind} {name!r}")
    return Decision(
        allowed=False, reason=f"{agent!r} may not set the {kind} {name!r}: it does not declare it"
    )
