"""Guards: the questions, branches and conditions on every path to an agent's turn.

    [author, {ask: Publish?, sets: ok}, {if: not ok, go: end}, publisher]
    guards of publisher's turn: the question 'Publish?', and the branch 'not ok' left by `on`

A flow may ask people, and let an agent act only if they agree. A change of the flow could move the
agent before the question. So a change that removes a guard from every path widens authority. A flow
without questions only says how the crew works: its guards may change.
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
"""The edge from a phase to the phases that wait for it."""
_UNGUARDING = {"phase", "after", "task", "agent", "for_each", "at_once", "by", "among", "on_error"}
"""Fields of phases that guard nothing: their place, their task, and what follows a failure."""

_LONGEST = 60
"""Characters of a question or a condition in a message."""


class Guard(NamedTuple):
    """A question, a branch or a condition on every path to a turn."""

    text: str
    """A description for people."""
    content: bytes
    """Its content as canonical JSON."""
    edge: str
    """The edge by which the path leaves it: `on`, `go` or `else` of a branch, an option. Empty for
    a condition of the turn itself."""


class ConditionNames(NamedTuple):
    """The flags and outputs that conditions read."""

    flags: frozenset[str]
    """Names of flags."""
    outputs: frozenset[tuple[str, str]]
    """Agents with the names of outputs."""


def condition_names(conditions: Iterable[Condition]) -> ConditionNames:
    """The flags and outputs that some conditions read."""
    facts = [fact for each in conditions for fact in facts_in(each)]
    # `writer.ready` is the output of writer; if that is not set, the flag of that name.
    return ConditionNames(
        frozenset(fact.name for fact in facts),
        frozenset((fact.agent, fact.name) for fact in facts if fact.agent is not None),
    )


def decisive_names(definition: CrewDefinition) -> ConditionNames:
    """The names that decide whether a permission applies, or whether and how people are asked."""
    conditions = [rule.if_ for rule in definition.rules if rule.if_ is not None]
    if has_questions(definition):
        for phase in phases(definition):
            conditions += conditions_of(phase).values()
    return condition_names(conditions)


def has_questions(definition: CrewDefinition) -> bool:
    """Whether the flow of an expanded definition asks people anything."""
    return any(_is_question(phase.item) for phase in phases(definition))


def _is_question(item: PhaseItem) -> bool:
    if isinstance(item, DecisionPhase):
        return item.otherwise == ASK_HUMAN
    if isinstance(item, RoutePhase):
        return ASK_HUMAN in (item.otherwise, item.else_used_up)
    return isinstance(item, AskPhase)


def find_removed_guards(old: CrewDefinition, new: CrewDefinition) -> Iterator[str]:
    """Describes the turns of agents in `new` without guards that they have in `old`.

    Args:
        old: The live definition, expanded.
        new: The changed definition, expanded.
    """
    if not has_questions(old):
        return
    for _, text in sorted(_count_questions(old) - _count_questions(new)):
        yield f"{text} is removed or changed"
    before, after = guards_by_phase(old), guards_by_phase(new)
    for phase in phases(new):
        item = phase.item
        for agent in item.agents if isinstance(item, AgentPhase) else ():
            if agent not in old.agents:
                continue  # a new agent widens by itself
            turns = [each.name for each in phases(old) if _is_turn(each, agent)]
            required = _intersection(before[name] for name in turns) if turns else _union(before)
            for guard in sorted(required - after[phase.name]):
                yield f"agent {agent} has its turn {phase.name} without {guard.text} before it"


def _count_questions(definition: CrewDefinition) -> Counter[tuple[bytes, str]]:
    """The questions of a flow, by content and description."""
    questions = [phase.item for phase in phases(definition) if _is_question(phase.item)]
    guards = [_edge_guard(item, _ON) for item in questions]
    return Counter((guard.content, guard.text) for guard in guards if guard is not None)


def _is_turn(phase: Phase, agent: str) -> bool:
    return isinstance(phase.item, AgentPhase) and agent in phase.item.agents


def guards_by_phase(definition: CrewDefinition) -> dict[str, frozenset[Guard]]:
    """The guards on every path to a phase, by the name of the phase.

    The greatest fixed point: each phase starts with all guards, and keeps those that are on each
    edge to it. A phase without edges to it keeps all.
    """
    by_name = {phase.name: phase for phase in phases(definition)}
    jumps = _jump_edges(by_name)
    every = frozenset(
        guard
        for phase in by_name.values()
        for guard in (
            *_own_guards(phase.item),
            *(_edge_guard(phase.item, edge) for edge in _edges_of(phase)),
        )
        if guard is not None
    )
    found = dict.fromkeys(by_name, every)
    while True:
        now = {
            name: _arriving_guards(phase, by_name, jumps, found) for name, phase in by_name.items()
        }
        if now == found:
            return found
        found = now


def _arriving_guards(
    phase: Phase,
    by_name: Mapping[str, Phase],
    jumps: Mapping[str, list[tuple[str, str]]],
    found: Mapping[str, frozenset[Guard]],
) -> frozenset[Guard]:
    """The guards on all edges to a phase, and those of the phase itself."""

    def guards_via(source: str, edge: str) -> frozenset[Guard]:
        guard = _edge_guard(by_name[source].item, edge)
        return found[source] if guard is None else found[source] | {guard}

    arrivals = [guards_via(source, edge) for source, edge in jumps.get(phase.name, ())]
    if phase.entry:
        arrivals.append(frozenset())
    sources = [guards_via(source, _ON) for source in phase.sources if source in by_name]
    if sources:
        arrivals.append(_join_guards(sources, phase.need))
    return (_intersection(arrivals) if arrivals else found[phase.name]) | _own_guards(phase.item)


def _join_guards(sources: list[frozenset[Guard]], need: int) -> frozenset[Guard]:
    """The guards that any `need` of the sources have together."""
    return frozenset(
        guard
        for guard in frozenset[Guard]().union(*sources)
        if sum(guard not in each for each in sources) < need
    )


def _jump_edges(by_name: Mapping[str, Phase]) -> dict[str, list[tuple[str, str]]]:
    """The edges to each phase besides `on`: source and edge."""
    found: dict[str, list[tuple[str, str]]] = {}
    for phase in by_name.values():
        for edge, target in _edges_of(phase).items():
            if target in by_name:
                found.setdefault(target, []).append((phase.name, edge))
    return found


def _edges_of(phase: Phase) -> dict[str, str]:
    """The edges of a phase with their targets; `on` leads to the phases that wait for it."""
    match phase.item:
        case DecisionPhase() as item:
            return {_ON: "", "go": item.go, "else": item.otherwise or ""}
        case RoutePhase() as item:
            targets = {f"to {to}": to for to in item.to}
            return {_ON: "", **targets, "else": item.otherwise or ""}
        case AskPhase() as item:
            return {_ON: "", **{f"option {option}": option for option in item.options}}
        case AgentPhase() as item:
            return {_ON: "", "else": item.otherwise or "", "on_error": item.stand_in or ""}
        case _:
            return {_ON: ""}


def _edge_guard(item: PhaseItem, edge: str) -> Guard | None:
    """The guard that a phase is for paths that leave it by an edge; None if it is none."""
    match item:
        case AskPhase():
            text = f"the question {_excerpt(item.ask)!r}"
        case DecisionPhase() if not is_never(item.if_):
            text = f"the branch {_excerpt(render_condition(item.if_))!r}"
        case RoutePhase():
            text = f"the route by {item.route}"
        case AgentPhase() if edge != _ON:
            text = f"the edge from {item.agent or item.phase}"
        case _:
            return None
    return Guard(text, _content(item), edge)


def _own_guards(item: PhaseItem) -> frozenset[Guard]:
    """The conditions of a turn itself."""
    if not isinstance(item, AgentPhase):
        return frozenset()
    fields = item.model_dump(mode="json", exclude_defaults=True, exclude=_UNGUARDING)
    return frozenset(
        Guard(f"its {key} {_excerpt(str(value))!r}", canonical(value), "")
        for key, value in fields.items()
    )


def _content(item: PhaseItem) -> bytes:
    return canonical(item.model_dump(mode="json", exclude=_UNGUARDING))


def _intersection(sets: Iterable[frozenset[Guard]]) -> frozenset[Guard]:
    return reduce(lambda one, other: one & other, sets)


def _union(found: Mapping[str, frozenset[Guard]]) -> frozenset[Guard]:
    return frozenset[Guard]().union(*found.values())


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
