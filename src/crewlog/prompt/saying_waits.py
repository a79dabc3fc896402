"""Phases that start only where another gives way to them.

They are said with the step that they take over from, and not in the order of the work, so they are
taken out of the phases before these are said.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from crewlog.definition.model import AgentPhase
from crewlog.definition.phases import Phase


def without_taken_over(
    found: Sequence[Phase], asked: Collection[str]
) -> tuple[list[Phase], dict[str, Phase]]:
    """The phases without those that only take over, and these by the phase that gives way.

    Args:
        found: The phases in order.
        asked: Phases before which people are asked: these are said by themselves.
    """
    later = {phase.name: (at, phase) for at, phase in enumerate(found)}
    taken: dict[str, Phase] = {}
    for at, phase in enumerate(found):
        place, to = later.get(str(getattr(phase.item, "otherwise", None)), (-1, phase))
        if place > at and to.name not in asked and _gives_way(phase, to, found):
            taken[phase.name] = to
    gone = {phase.name for phase in taken.values()}
    return [phase for phase in found if phase.name not in gone], taken


def _gives_way(phase: Phase, to: Phase, found: Sequence[Phase]) -> bool:
    item, other = phase.item, to.item
    if not isinstance(item, AgentPhase) or not isinstance(other, AgentPhase):
        return False
    plain = AgentPhase(agent=other.agent, phase=other.phase, task=other.task, after=other.after)
    own = [p for p in found if isinstance(p.item, AgentPhase) and p.item.agent == other.agent]
    return (
        item.within is not None
        and item.otherwise == to.name
        and not to.sources
        and not to.entry
        and other == plain
        and own[0] is to
        and sum(getattr(p.item, "otherwise", None) == to.name for p in found) == 1
    )
