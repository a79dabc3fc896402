"""How a change widens authority: the differences of two definitions that need the right `grant`.

    widening(old, new)  →  ("agent writer: tools + send_mail",)

The right to change a crew does not include the right to grant permissions. Each difference is
judged by its path, in `crewlog.authority.rights`, whatever command or operations made it. An agent
that has no more than a new one may have widens nothing, since it could be removed and added again.
"""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.authority.compared_crews import ComparedCrews
from crewlog.authority.rights import is_permitted
from crewlog.definition.diff import Change
from crewlog.definition.model import CrewDefinition

WIDENINGS_IN_ERROR = 10
"""The most widenings that an error lists."""


def widening(old: CrewDefinition, new: CrewDefinition) -> tuple[str, ...]:
    """Describes the differences that need the right `grant`; empty if there are none."""
    return tuple(dict.fromkeys(map(_text, wider_leaves(old, new))))


def wider_leaves(old: CrewDefinition, new: CrewDefinition) -> tuple[Change, ...]:
    """The differences of two definitions that need the right `grant`."""
    crews = ComparedCrews(old, new)
    leaves = [leaf for leaf in crews.leaves if not is_permitted(leaf, crews)]
    agents = {leaf.path[1] for leaf in leaves if leaf.path[0] == "agents"}
    as_new = {name for name in agents if crews.sets_the_same(name) and _is_as_new(crews, name)}
    # To remove an agent about whose confidence people are asked removes a question.
    return tuple(
        leaf
        for leaf in leaves
        if leaf.path[0] != "agents" or leaf.path[1] not in as_new or leaf.path[2] == "ask_below"
    )


def _is_as_new(crews: ComparedCrews, agent: str) -> bool:
    """Whether the right `change` permits to add an agent as it is in the new crew."""
    crews = crews.without_old(agent)
    own = (leaf for leaf in crews.leaves if leaf.path[:2] == ("agents", agent))
    return all(is_permitted(leaf, crews) for leaf in own)


def _text(leaf: Change) -> str:
    said = leaf.kind == "changed" or leaf.path[0] in ("rules", "permissions", "approvals")
    return leaf.words if said else f"{leaf.kind} {leaf.words}"


def widening_text(widenings: Sequence[str], what: str) -> str:
    """A change with its widenings, for an error.

    Args:
        widenings: What becomes wider, as `widening` describes it.
        what: What widens: `the change`.
    """
    omitted = len(widenings) - WIDENINGS_IN_ERROR
    more = f"; and {omitted} more" if omitted > 0 else ""
    text = "; ".join(each[:200] for each in widenings[:WIDENINGS_IN_ERROR])
    return f"{what} (it widens authority: {text}{more})"
