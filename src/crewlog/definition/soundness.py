"""Soundness: a crew that is well formed, and that could not work as its author means it.

A prompt that compiles to such a crew is refused. A file, Python or a change of a run gets a
warning.

| what | example |
| --- | --- |
| no earlier step sets what a condition needs | `only_if: checker.approved` before the checker |
| a step bypasses a loop | a step after the writer, while the checker sends the writer back |
| `any` of steps that may all be skipped | each of them has a condition |
| a rule whose condition is set too late | `if: checker.approved` for an agent before the checker |

An approval for a tool that no agent has is found in `crewlog.definition.unused`. A cycle without a
bound is an error everywhere (`crewlog.definition.flow_checks`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.conditions import Fact, facts_in, is_never
from crewlog.definition.findings import Finding, Path, listed
from crewlog.definition.flow_checks import after_path
from crewlog.definition.model import AgentPhase, AskPhase, CrewDefinition, DecisionPhase
from crewlog.definition.phases import Edge, Phase, edges, reachable, successors
from crewlog.definition.rule_checks import members
from crewlog.definition.unused import conditions_of


def soundness_findings(definition: CrewDefinition, found: Sequence[Phase]) -> Iterator[Finding]:
    """Everything that keeps a well formed crew from working as it is meant.

    Args:
        definition: The crew, with the parts of builders in their places.
        found: Its phases; their names must be unique, and they must not wait for each other.
    """
    if len({phase.name for phase in found}) < len(found):
        return
    ways = edges(found)
    yield from _undecided(definition, found, ways)
    yield from _settled_too_late(definition, found, ways)
    yield from _bypassed(found, ways)
    yield from _all_skipped(found)


def _unsound(path: Path, message: str, remedy: str, word: str = "") -> Finding:
    return Finding(path, message, remedy, word=word, severity="warning", unsound=True)


def _undecided(
    definition: CrewDefinition, found: Sequence[Phase], ways: Iterable[Edge]
) -> Iterator[Finding]:
    """Conditions whose facts are set only by agents that cannot have worked before."""
    ahead = successors(ways)
    before = _reversed(ahead)
    deciders = _deciders(definition, found)
    settled = {*definition.flags}
    for phase in found:
        upstream: set[str] | None = None
        for key, condition in conditions_of(phase).items():
            waits = key == "when"  # it waits: the agent that sets the output may work beside it
            for fact in () if is_never(condition) else facts_in(condition):
                who = deciders.get((fact.agent or "", fact.name), [])
                if not who or (fact.agent is None and fact.name in settled):
                    continue  # unknown names are faults of their own; people set flags
                if upstream is None:
                    upstream = reachable(phase.name, before)
                if upstream & {*who} - ({phase.name} if not waits else set()):
                    continue
                if waits and not reachable(phase.name, ahead).issuperset(who):
                    continue
                if _repeats(phase, who, upstream):
                    continue
                yield _unset(phase, key, fact, who)


def _settled_too_late(
    definition: CrewDefinition, found: Sequence[Phase], ways: Iterable[Edge]
) -> Iterator[Finding]:
    """Conditions of rules whose facts are set only after the last work of the rules' agents."""
    ahead = successors(ways)
    deciders = _deciders(definition, found)
    for number, rule in enumerate(definition.rules):
        if rule.if_ is None:
            continue
        named = members(definition, rule.agents)
        agents = {*(definition.agents if named is None else named)}
        users = [
            phase.name
            for phase in found
            if isinstance(phase.item, AgentPhase) and agents.intersection(phase.item.agents)
        ]
        for fact in facts_in(rule.if_):
            who = deciders.get((fact.agent or "", fact.name), [])
            if not who or not users or (fact.agent is None and fact.name in definition.flags):
                continue
            if any(_may_be_set(user, who, ahead) for user in users):
                continue
            name = f"{fact.agent}.{fact.name}" if fact.agent else fact.name
            say = (
                f"the rule for {listed(rule.tools)} needs {name!r}, which {listed(who)} sets only "
                f"after the last work of {listed(sorted(users))}"
            )
            remedy = f"Let {users[0]} wait for {who[0]}, or use an output of an earlier step."
            yield _unsound(("rules", number, "if"), say, remedy, word=name)


def _may_be_set(user: str, who: Sequence[str], ahead: Mapping[str, Iterable[str]]) -> bool:
    """Whether one of the deciders may have worked when a phase works: before it, or beside it."""
    later = reachable(user, ahead)
    return any(name not in later or user in reachable(name, ahead) for name in who)


def _repeats(phase: Phase, who: Sequence[str], upstream: set[str]) -> bool:
    """Whether a phase decides its own condition in the round before."""
    return phase.name in who and phase.name in upstream and isinstance(phase.item, DecisionPhase)


def _reversed(next_of: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """The sources of every target."""
    found: dict[str, list[str]] = {}
    for source, targets in next_of.items():
        for target in targets:
            found.setdefault(target, []).append(source)
    return found


def _unset(phase: Phase, key: str, fact: Fact, who: Sequence[str]) -> Finding:
    name = f"{fact.agent}.{fact.name}" if fact.agent else fact.name
    say = (
        f"{phase.name!r} needs {name!r}, and no earlier step sets it: {listed(who)} "
        f"{'works' if len(who) == 1 else 'work'} beside or after it"
    )
    remedy = f"Let {phase.name} wait for {who[0]}, or use an output of an earlier step."
    return _unsound((*phase.path, key), say, remedy, word=name)


def _deciders(
    definition: CrewDefinition, found: Sequence[Phase]
) -> dict[tuple[str, str], list[str]]:
    """The phases in which a fact is set, by its agent and its name."""
    deciders: dict[tuple[str, str], list[str]] = {}
    for phase in () if definition.lives else found:  # agents with channels work at any time
        item = phase.item
        if isinstance(item, AskPhase) and item.sets:
            deciders.setdefault(("", item.sets), []).append(phase.name)
        for name in item.agents if isinstance(item, AgentPhase) else ():
            agent = definition.agents.get(name)
            if agent is None:
                continue
            for flag in agent.writes_flags:
                deciders.setdefault(("", flag), []).append(phase.name)
            for output in (*agent.writes_flags, *outputs_of(agent), "text", "error"):
                deciders.setdefault((name, output), []).append(phase.name)
    return deciders


def _bypassed(found: Sequence[Phase], ways: Sequence[Edge]) -> Iterator[Finding]:
    """Phases outside a loop that follow a phase inside it and not what the loop ends with."""
    # A stand-in starts in the place of a step, and not after it.
    ahead = successors(way for way in ways if not way.guarded and way.key != "on_error")
    back = _reversed(ahead)
    by_name = {phase.name: phase for phase in found}
    waits_for = {phase.name: phase.sources for phase in found}
    for phase in found:
        item = phase.item
        if not isinstance(item, DecisionPhase) or item.go not in by_name:
            continue
        inside = reachable(item.go, ahead) & reachable(phase.name, back)
        if phase.name not in inside:
            continue  # it goes forward
        for name in sorted(inside - {phase.name}):
            for target in ahead.get(name, ()):
                other = by_name[target]
                if target in inside or not inside.issuperset(other.sources):
                    continue  # what waits for others, too, is looked at in `course_checks`
                waits = other.need == len(other.sources)
                if waits and phase.name in reachable(target, waits_for):
                    continue  # through others
                say = (
                    f"{target!r} follows {name!r}, which the loop of {phase.name!r} repeats: it "
                    "bypasses the loop, and starts before the loop ends"
                )
                remedy = f"Let it wait for {phase.name}, which ends the loop."
                yield _unsound(after_path(other), say, remedy, word=name)


def _all_skipped(found: Sequence[Phase]) -> Iterator[Finding]:
    """Joins of some phases of which each may be skipped: they may start with nothing done."""
    by_name = {phase.name: phase for phase in found}
    for phase in found:
        arms = [by_name[name] for name in phase.sources if name in by_name]
        if len(arms) < 2 or phase.need >= len(arms):
            continue
        if all(isinstance(arm.item, AgentPhase) and _may_skip(arm.item) for arm in arms):
            names = listed([arm.name for arm in arms])
            say = (
                f"{phase.name!r} waits for {phase.need} of {names}, and each of them may be "
                "skipped: it may start with nothing done"
            )
            remedy = "Let one of them work in any case, or wait for all of them."
            yield _unsound(after_path(phase), say, remedy)


def _may_skip(item: AgentPhase) -> bool:
    return item.only_if is not None or bool(item.needs)
