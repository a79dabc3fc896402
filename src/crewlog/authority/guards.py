"""What stands before an agent's turns: questions to people, decisions, and conditions.

    [author, {ask: Publish?, sets: ok}, {if: not ok, go: end}, publisher]
    publisher's turn: after the question 'Publish?', and where the decision 'not ok' went on

A crew may ask people in its flow, and let an agent act only where they said yes. Whoever may change
the flow could put the agent before the question. So a change is compared by what every way to an
agent's turn leads through: none of it may be missing afterwards. Where a flow asks nobody,
it says how the crew works, and not who may do what.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import NamedTuple

from crewlog.canonical_json import canonical
from crewlog.definition.conditions import Condition, facts_in, is_never, render_condition
from crewlog.definition.model import AgentPhase, AskPhase, CrewDefinition, DecisionPhase, RoutePhase
from crewlog.definition.phases import ASK_HUMAN, Phase, PhaseItem, phases
from crewlog.definition.unused import conditions_of

_ON = "on"
"""The way from a phase to what waits for it."""
_PLACE = {"phase", "after", "task", "agent", "for_each", "at_once", "by", "among", "on_error"}
"""Fields of phases that say where they stand, what they are about, and what follows a failure; all
else guards."""

_LONGEST = 60
"""Characters of a question or a condition that are told."""


class Guard(NamedTuple):
    """Something that every way to a turn leads through."""

    said: str
    """What it is, for people."""
    content: bytes
    """All that it says, as canonical JSON."""
    way: str
    """By which way it was left: `on`, a decision's `go` or `else`, an option; empty: it is a
    condition of the turn itself."""


class Names(NamedTuple):
    """Flags and outputs that conditions read."""

    flags: frozenset[str]
    """Names of flags."""
    outputs: frozenset[tuple[str, str]]
    """Agents and their outputs."""


def names_in(conditions: Iterable[Condition]) -> Names:
    """The flags and outputs that some conditions read."""
    facts = [fact for each in conditions for fact in facts_in(each)]
    # `writer.ready` is the writer's output, and where that is not set the flag of that name.
    return Names(
        frozenset(fact.name for fact in facts),
        frozenset((fact.agent, fact.name) for fact in facts if fact.agent is not None),
    )


def decisive_names(definition: CrewDefinition) -> Names:
    """What says whether a rule applies, or whether people are asked and what comes of it."""
    found = [rule.if_ for rule in definition.rules if rule.if_ is not None]
    if has_questions(definition):
        for phase in phases(definition):
            found += conditions_of(phase).values()
    return names_in(found)


def has_questions(definition: CrewDefinition) -> bool:
    """Whether the flow of an expanded definition asks people anything."""
    return any(_asks(phase.item) for phase in phases(definition))


def _asks(item: PhaseItem) -> bool:
    if isinstance(item, DecisionPhase):
        return item.otherwise == ASK_HUMAN
    if isinstance(item, RoutePhase):
        return ASK_HUMAN in (item.otherwise, item.else_used_up)
    return isinstance(item, AskPhase)


def unguarded(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    """Turns of agents that `new` lets come without what stands before them in `old`.

    Args:
        old: The definition that there is, expanded.
        new: What it is to be, expanded.
    """
    if not has_questions(old):
        return
    for _, said in sorted(_questions(old) - _questions(new)):
        yield f"{said} is gone, or is another one"
    before, after = guards_by_phase(old), guards_by_phase(new)
    for phase in phases(new):
        item = phase.item
        for agent in item.agents if isinstance(item, AgentPhase) else ():
            if agent not in old.agents:
                continue  # what a new agent may do is new altogether
            turns = [each.name for each in phases(old) if _is_turn(each, agent)]
            least = _all_of(before[name] for name in turns) if turns else _every(before)
            for guard in sorted(least - after[phase.name]):
                yield f"agent {agent} has its turn {phase.name} without {guard.said} before it"


def _questions(definition: CrewDefinition) -> Counter[tuple[bytes, str]]:
    """What of a flow asks people, by what it says."""
    asking = [phase.item for phase in phases(definition) if _asks(phase.item)]
    left = [_left(item, _ON) for item in asking]
    return Counter((guard.content, guard.said) for guard in left if guard is not None)


def _is_turn(phase: Phase, agent: str) -> bool:
    return isinstance(phase.item, AgentPhase) and agent in phase.item.agents


def guards_by_phase(definition: CrewDefinition) -> dict[str, frozenset[Guard]]:
    """What every way to a phase leads through, by the phase's name.

    The greatest solution: each phase begins with all that there is, and keeps what each way to it
    brings along. What nothing leads to keeps everything.
    """
    there = {phase.name: phase for phase in phases(definition)}
    jumps = _jumps(there)
    every = frozenset(
        guard
        for phase in there.values()
        for guard in (*_own(phase.item), *(_left(phase.item, way) for way in _edges_of(phase)))
        if guard is not None
    )
    found = dict.fromkeys(there, every)
    while True:
        now = {name: _arriving_guards(phase, there, jumps, found) for name, phase in there.items()}
        if now == found:
            return found
        found = now


def _arriving_guards(
    phase: Phase,
    there: Mapping[str, Phase],
    jumps: Mapping[str, list[tuple[str, str]]],
    found: Mapping[str, frozenset[Guard]],
) -> frozenset[Guard]:
    """What each way to a phase brings along, and what it says itself."""

    def brought(source: str, way: str) -> frozenset[Guard]:
        guard = _left(there[source].item, way)
        return found[source] if guard is None else found[source] | {guard}

    arrivals = [brought(source, way) for source, way in jumps.get(phase.name, ())]
    if phase.entry:
        arrivals.append(frozenset())
    sources = [brought(source, _ON) for source in phase.sources if source in there]
    if sources:
        arrivals.append(_joined(sources, phase.need))
    return (_all_of(arrivals) if arrivals else found[phase.name]) | _own(phase.item)


def _joined(sources: list[frozenset[Guard]], need: int) -> frozenset[Guard]:
    """What whichever `need` of some sources bring along together."""
    return frozenset(
        guard
        for guard in frozenset[Guard]().union(*sources)
        if sum(guard not in each for each in sources) < need
    )


def _jumps(there: Mapping[str, Phase]) -> dict[str, list[tuple[str, str]]]:
    """The ways to each phase besides what it waits for: from where, and which."""
    found: dict[str, list[tuple[str, str]]] = {}
    for phase in there.values():
        for way, target in _edges_of(phase).items():
            if target in there:
                found.setdefault(target, []).append((phase.name, way))
    return found


def _edges_of(phase: Phase) -> dict[str, str]:
    """The ways out of a phase, with where they lead; `on` leads to whatever waits for it."""
    match phase.item:
        case DecisionPhase() as item:
            return {_ON: "", "go": item.go, "else": item.otherwise or ""}
        case RoutePhase() as item:
            ways = {f"to {to}": to for to in item.to}
            return {_ON: "", **ways, "else": item.otherwise or ""}
        case AskPhase() as item:
            return {_ON: "", **{f"option {option}": option for option in item.options}}
        case AgentPhase() as item:
            return {_ON: "", "else": item.otherwise or "", "on_error": item.stand_in or ""}
        case _:
            return {_ON: ""}


def _left(item: PhaseItem, way: str) -> Guard | None:
    """The guard that a phase is for what comes after it by a way; none where it is none."""
    match item:
        case AskPhase():
            said = f"the question {_short(item.ask)!r}"
        case DecisionPhase() if not is_never(item.if_):
            said = f"the decision {_short(render_condition(item.if_))!r}"
        case RoutePhase():
            said = f"the route by {item.route}"
        case AgentPhase() if way != _ON:
            said = f"what {item.agent or item.phase} waits for"
        case _:
            return None
    return Guard(said, _content(item), way)


def _own(item: PhaseItem) -> frozenset[Guard]:
    """What a turn waits for itself."""
    if not isinstance(item, AgentPhase):
        return frozenset()
    said = item.model_dump(mode="json", exclude_defaults=True, exclude=_PLACE)
    return frozenset(
        Guard(f"its {key} {_short(str(value))!r}", canonical(value), "")
        for key, value in said.items()
    )


def _content(item: PhaseItem) -> bytes:
    return canonical(item.model_dump(mode="json", exclude=_PLACE))


def _all_of(sets: Iterable[frozenset[Guard]]) -> frozenset[Guard]:
    """What is in each of some sets, of which there is one at least."""
    return reduce(lambda one, other: one & other, sets)


def _every(found: Mapping[str, frozenset[Guard]]) -> frozenset[Guard]:
    return frozenset[Guard]().union(*found.values())


def _short(text: str) -> str:
    """A text in one line, cut where it is long."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
