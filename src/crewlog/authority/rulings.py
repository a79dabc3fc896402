"""What people rule of tool calls while a run lives, one ruling after the other.

Of two rulings the later one counts. A ruling for everyone also takes away what is milder among the
rulings for single agents: who switches a tool off means it. What is stricter stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crewlog.authority.permissions import EVERYONE, Ruling

Rulings = dict[str, dict[str, Ruling]]
STRICTNESS: Mapping[Ruling, int] = {"allow": 0, "ask": 1, "deny": 2}
"""Of two rulings the larger one lets less happen."""


def with_live_permission(
    rulings: Mapping[str, Mapping[str, Ruling]], tool: str, agent: str, do: Ruling | None
) -> Rulings:
    """The rulings once one more is made; without `do` it is taken back.

    Args:
        rulings: Those in force, by tool and agent.
        tool: The tool.
        agent: The agent; `*`: every one.
        do: What is ruled.
    """
    row: dict[str, Ruling] = dict(rulings.get(tool, {}))
    if agent == EVERYONE and do is not None:
        row = {who: was for who, was in row.items() if STRICTNESS[was] >= STRICTNESS[do]}
    if do is None:
        row.pop(agent, None)
    else:
        row[agent] = do
    return _with(rulings, tool, row)


def without_milder_permissions(
    rulings: Mapping[str, Mapping[str, Ruling]], tool: str, agents: Sequence[str] | None
) -> Rulings:
    """The rulings once people have said who may call a tool: nobody else keeps a milder one."""
    row: dict[str, Ruling] = {
        who: was
        for who, was in rulings.get(tool, {}).items()
        if was == "deny" or agents is None or who in agents
    }
    return _with(rulings, tool, row)


def _with(
    rulings: Mapping[str, Mapping[str, Ruling]], tool: str, row: dict[str, Ruling]
) -> Rulings:
    """All rulings with those of one tool; a tool without any is left out."""
    found: Rulings = {name: dict(each) for name, each in rulings.items() if name != tool}
    if row:
        found[tool] = row
    return found
