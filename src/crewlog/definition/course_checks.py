"""Checks of the courses of a run: joins that can be met, ends to reach, keys with one writer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

from crewlog.definition.agent_outputs import outputs_of
from crewlog.definition.courses import Courses, all_outcomes
from crewlog.definition.expand import Expanded
from crewlog.definition.findings import Finding, did_you_mean, listed
from crewlog.definition.flow_checks import after_path
from crewlog.definition.model import AgentDefinition, AgentPhase, AskPhase, CrewDefinition
from crewlog.definition.order import Order
from crewlog.definition.phases import END, NEXT, Phase, reachable
from crewlog.definition.replies import CAPPED, RESPONSE


def course_findings(
    written: CrewDefinition, expanded: Expanded, found: list[Phase], order: Order
) -> Iterator[Finding]:
    """Everything that the courses of a flow show; of one with cycles, without these."""
    yield from _merge(expanded.definition)
    if len({phase.name for phase in found}) < len(found) or not order.whole:
        return
    courses = Courses(order.cut)
    yield from _no_end(courses)
    yield from _joins(courses, order.stuck)
    yield from _writers(written, expanded.definition, courses, order.stuck)


def _no_end(courses: Courses) -> Iterator[Finding]:
    """Questions of which every answer goes back: only stopping the run would end it."""
    ends = _ending(courses)
    for name, phase in courses.phases.items():
        if name not in ends and isinstance(phase.item, AskPhase) and phase.item.options:
            say = f"no answer to {name!r} leads to the end of the run"
            remedy = "Add an answer that goes on, e.g. options: [approve, …], or 'stop'."
            yield Finding((*phase.path, "options"), say, remedy, severity="warning")
            return  # what leads there has no end either, for this reason


def _ending(courses: Courses) -> set[str]:
    """The phases from which a way leads to the end of the run; found from the ends backwards."""
    ahead: dict[str, list[str]] = {}
    for phase in courses.phases.values():
        for source in phase.sources:
            ahead.setdefault(source, []).append(phase.name)
    before: dict[str, list[str]] = {}
    for name, phase in courses.phases.items():
        for way in all_outcomes(phase, courses.phases):
            if way in courses.phases:
                before.setdefault(way, []).append(name)
            elif way == NEXT and ahead.get(name):
                for target in ahead[name]:
                    before.setdefault(target, []).append(name)
            else:
                before.setdefault(END, []).append(name)
    return reachable(END, before)


def _joins(courses: Courses, stuck: set[str]) -> Iterator[Finding]:
    for phase in courses.phases.values():
        if phase.name in stuck:
            continue
        if len(phase.sources) < 2 or phase.need < 2 or phase.need > len(phase.sources):
            continue
        known = {source for source in phase.sources if source in courses.phases}
        if len(known) < len(phase.sources):
            continue  # told as a fault of its own
        yield from _join(phase, courses)


def _join(phase: Phase, courses: Courses) -> Iterator[Finding]:
    lacking: Finding | None = None
    met = tried = False
    for course in courses.courses:
        there = [source for source in phase.sources if course.arrives(source)]
        met = met or len(there) >= phase.need
        tried = tried or bool(there)
        missing = course.missing(phase) if lacking is None and course.whole else []
        if missing:
            lacking = _lacking(phase, missing, course.ways, courses)
    why = _exclusive(phase, courses)
    if why or (not met and tried and courses.exact and not _turns(courses)):
        yield _never(phase, why)
    elif lacking is not None:
        yield lacking
    else:
        yield from _half_repeated(phase, courses)


def _half_repeated(phase: Phase, courses: Courses) -> Iterator[Finding]:
    """A join in or behind a loop of which some sources come more often than others."""
    for source in phase.sources:
        if source in courses.repeated and any(c.runs.get(source, 0) > 1 for c in courses.courses):
            say = (
                f"{phase.name!r} waits for {source!r}, which may run twice in a round of its loop: "
                "people may be asked about the rest"
            )
            remedy = f"Let {source} be waited for or be sent to, and not both at once."
            yield Finding(after_path(phase), say, remedy, severity="warning")
            return
    for name, body in courses.loops.items():
        rounds = [source for source in phase.sources if source in body and source != name]
        once = [source for source in phase.sources if source not in rounds]
        if phase.name in body or not rounds or not once:
            continue
        say = (
            f"{phase.name!r} waits for {listed(rounds)}, which the loop of {name!r} repeats, and "
            f"for {listed(once)}, which may come less often: people are asked about the rest"
        )
        remedy = f"Let it wait for what the loop ends with, {name}, or go back from behind it."
        yield Finding(after_path(phase), say, remedy, severity="warning")
        return


def _turns(courses: Courses) -> bool:
    """Whether a choice may be made anew, so that its ways may be taken one after the other."""
    return any(name in courses.repeated for name in courses.choices)


def _exclusive(phase: Phase, courses: Courses) -> str:
    """A phase whose ways keep the sources of a join apart; empty where none does."""
    for name in courses.choices:
        if name in courses.repeated:
            continue
        counts = [
            len(courses.possible(name, way).intersection(phase.sources))
            for way in courses.outcomes[name]
        ]
        # Its own arrival counts only where it goes on; `possible` has it in any case.
        if name not in phase.sources and 0 < max(counts) < phase.need:
            return name
    return ""


def _never(phase: Phase, why: str) -> Finding:
    some = f"{phase.need} of " if phase.need < len(phase.sources) else ""
    say = f"{phase.name!r} waits for {some}{listed(phase.sources)}, which never come together"
    if why:
        say += f": {why!r} goes only one way"
    names = ", ".join(phase.sources)
    return Finding(
        after_path(phase), say, f"Wait for the first of them: after: {{any: [{names}]}}."
    )


def _lacking(
    phase: Phase, missing: list[str], ways: Mapping[str, str], courses: Courses
) -> Finding:
    say = f"{phase.name!r} waits for {listed(missing)}, which may not come: "
    for name in courses.choices:
        way = ways.get(name, NEXT)
        if way != courses.outcomes[name][0] and any(
            courses.before(name, source) for source in missing
        ):
            where = "ends this branch" if way == END else f"goes to {way!r}"
            say += f"{name!r} perhaps {where}. Then people are asked"
            break
    else:
        say += "then people are asked"
    remedy = "Let it wait for what comes on every way, e.g. after: {any: […]}."
    return Finding(after_path(phase), say, remedy, severity="warning")


def _writers(
    written: CrewDefinition, definition: CrewDefinition, courses: Courses, stuck: set[str]
) -> Iterator[Finding]:
    """Keys that two phases may set at once, with nothing that says how their values combine."""
    by_key: dict[str, list[Phase]] = {}
    for phase in courses.phases.values():
        item = phase.item
        if not isinstance(item, AgentPhase) or phase.name in stuck:
            continue  # when those run that wait for each other, nobody knows yet
        for name in item.agents:
            agent = definition.agents.get(name)
            if agent is None:
                continue
            if item.for_each is not None:
                # What a pattern has its steps set is its own affair.
                yield from _each(phase, name, written.agents[name], definition)
            for key in _keys(name, agent):
                by_key.setdefault(key, []).append(phase)
    for key, phases in by_key.items():
        if key in definition.merge or len(phases) < 2:
            continue
        for one, other in combinations(phases, 2):
            if _side_by_side(one, other, courses):
                what = "output" if "." in key else "flag"
                say = (
                    f"{one.name!r} and {other.name!r} may run side by side, and both may set the "
                    f"{what} {key!r}"
                )
                yield Finding(other.path, say, _how(key), word=_agent(other), key=key)
                break


def _agent(phase: Phase) -> str:
    return phase.item.agent if isinstance(phase.item, AgentPhase) else ""


def _each(
    phase: Phase, name: str, agent: AgentDefinition, definition: CrewDefinition
) -> Iterator[Finding]:
    for key in _keys(name, agent):
        if key not in definition.merge:
            what = "output" if "." in key else "flag"
            say = f"{phase.name!r} has a step for each item, and each may set the {what} {key!r}"
            yield Finding((*phase.path, "for_each"), say, _how(key), key=key)


_OF_TURNS = (RESPONSE, CAPPED)
"""Outputs that tell of a turn: of several the last one's is as good as any."""


def _keys(name: str, agent: AgentDefinition) -> tuple[str, ...]:
    return (
        *agent.writes_flags,
        *(f"{name}.{output}" for output in outputs_of(agent) if output not in _OF_TURNS),
    )


def _how(key: str) -> str:
    return f"Say how the values combine: merge: {{{key}: append}} makes a list, 'last' keeps one."


def _side_by_side(one: Phase, other: Phase, courses: Courses) -> bool:
    if courses.before(one.name, other.name) or courses.before(other.name, one.name):
        return False
    return any(course.ran(one.name) and course.ran(other.name) for course in courses.courses)


def _merge(definition: CrewDefinition) -> Iterator[Finding]:
    flags = {flag for agent in definition.agents.values() for flag in agent.writes_flags}
    flags.update(definition.flags)
    flags.update(p.sets for p in definition.flow if isinstance(p, AskPhase) and p.sets)
    keys = [key for name, agent in definition.agents.items() for key in _keys(name, agent)]
    keys += [f"{name}.text" for name in definition.agents]
    for key in definition.merge:
        if key not in flags and key not in keys:
            say = f"'merge' names {key!r}, which is neither a flag nor an output that an agent sets"
            remedy = did_you_mean(
                key, [*keys, *flags], "Name a flag, or an output as agent.output."
            )
            yield Finding(("merge", key), say, remedy, at="key")
