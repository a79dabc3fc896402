"""Questions that belong to a phase: gates after it, and those just before it.

They are said of the agent and not in the order of the work, so they are taken out of the phases
before these are said; what waits for a gate then waits for its phase.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from crewlog.definition import conditions as c
from crewlog.definition.model import AgentPhase, AskPhase
from crewlog.definition.phases import STOP, Phase

GO_ON = "go on"
BEFORE, GATE = "before_", "gate_"


def without_gates(found: Sequence[Phase]) -> tuple[list[Phase], dict[str, float | None]]:
    """The phases without gates, and the agents that have one after each of their phases.

    Returns:
        The phases, and by agent the confidence below which people are asked; none where the agent
        says that it is unsure.
    """
    gates = {phase.sources[0]: phase for phase in found if _is_gate(phase, found)}
    own: dict[str, list[Phase]] = {}
    for phase in found:
        if isinstance(phase.item, AgentPhase):
            own.setdefault(phase.item.agent, []).append(phase)
    gated: dict[str, float | None] = {}
    for agent, mine in own.items():
        kinds = {_below(gates.get(phase.name)) for phase in mine}
        if len(kinds) == 1 and (kind := next(iter(kinds))) and not _waited(mine, gates, found):
            gated[agent] = kind[0]
        else:
            for phase in mine:
                gates.pop(phase.name, None)
    names = {gate.name: name for name, gate in gates.items()}
    kept = [
        replace(phase, sources=tuple(names.get(source, source) for source in phase.sources))
        for phase in found
        if phase.name not in names
    ]
    return kept, gated


def _below(gate: Phase | None) -> tuple[float | None] | None:
    """The confidence below which a gate asks; none where it is no gate."""
    if gate is None or not isinstance(gate.item, AskPhase):
        return None
    match gate.item.only_if:
        case c.Fact(name="unsure", operator=None):
            return (None,)
        case c.Not(of=c.Fact(name="confidence", operator=">=", value=int() | float() as least)):
            return (float(least),) if 0 <= least <= 1 else None
        case _:
            return None


def _waited(mine: Sequence[Phase], gates: dict[str, Phase], found: Sequence[Phase]) -> bool:
    """Whether something waits for a phase and not for its gate."""
    return any(
        phase.name in other.sources
        for phase in mine
        for other in found
        if other is not gates.get(phase.name)
    )


def _is_gate(phase: Phase, found: Sequence[Phase]) -> bool:
    item = phase.item
    if not isinstance(item, AskPhase) or len(phase.sources) != 1 or item.sets or item.words:
        return False
    name = phase.sources[0]
    of = next((p.item for p in found if p.name == name), None)
    return (
        isinstance(of, AgentPhase)
        and phase.name == f"{GATE}{name}"
        and item.options == (GO_ON, name, STOP)
        and _below(phase) is not None
        and item.only_if is not None
        and {fact.agent for fact in c.facts_in(item.only_if)} == {of.agent}
    )


def without_before(found: Sequence[Phase]) -> tuple[list[Phase], dict[str, Phase]]:
    """The phases without the questions that are asked just before one, and these by that phase."""
    by_name = {phase.name: phase for phase in found}
    waiting: dict[str, list[str]] = {}
    for phase in found:
        for source in phase.sources:
            waiting.setdefault(source, []).append(phase.name)
    questions: dict[str, Phase] = {}
    for phase in found:
        item = phase.item
        target = by_name.get(phase.name.removeprefix(BEFORE))
        if (
            isinstance(item, AskPhase)
            and target is not None
            and isinstance(target.item, AgentPhase)
            and target.sources == (phase.name,)
            and waiting[phase.name] == [target.name]
            and item.only_if == target.item.only_if
        ):
            questions[target.name] = phase
    asked = {phase.name for phase in questions.values()}
    kept: list[Phase] = []
    for phase in found:
        if phase.name in questions:
            ask = questions[phase.name]
            kept.append(replace(phase, sources=ask.sources, need=ask.need, entry=ask.entry))
        elif phase.name not in asked:
            kept.append(phase)
    return kept, questions
