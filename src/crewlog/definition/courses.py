"""The courses that a run can take through a flow: which phases run together, and which never do.

A course takes one way at every phase that has several: a decision goes on or where it says, people
give one of their answers. Ways back are left out, for what counts is how a loop ends: the rest has
no cycle, and each phase runs once or not at all. So a course is data: a way for each choice, and
what follows from it by counting arrivals.

There are as many courses as the product of the choices. Up to `MOST` all are looked at; of more
only those in which at most two choices take another way than their first, and what is said of
every course must then be shown otherwise: by `possible`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice, product
from math import prod

from crewlog.definition.conditions import is_never
from crewlog.definition.model import (
    AgentPhase,
    AskPhase,
    BuilderPhase,
    DecisionPhase,
    RoutePhase,
    WaitPhase,
)
from crewlog.definition.phases import (
    ASK_HUMAN,
    END,
    FAIL,
    NEXT,
    SKIP,
    STOP,
    Phase,
    edges,
    reachable,
    successors,
)

MOST = 256
"""Courses that are looked at."""

Choice = Mapping[str, str]
"""The way that is taken, by phase."""


@dataclass(frozen=True)
class Course:
    """One course."""

    ways: Choice
    """The way of every phase that runs."""
    whole: bool
    """Whether nobody stops the run and it does not fail."""
    runs: Mapping[str, int]
    """How often each runs: what is both waited for and sent to may run twice."""
    sent: Mapping[str, int]
    """How often each is sent to."""

    def ran(self, name: str) -> bool:
        """Whether a phase runs in it."""
        return name in self.ways

    def arrives(self, name: str) -> bool:
        """Whether what waits for a phase gets it."""
        return self.ways.get(name) == NEXT

    def missing(self, phase: Phase) -> list[str]:
        """What a join lacks that something has arrived at; as `crewlog.graph.joins` counts."""
        counts = {s: self.runs[s] if self.arrives(s) else 0 for s in phase.sources}
        most = sorted(counts.values(), reverse=True)
        ran = most[phase.need - 1] + self.sent.get(phase.name, 0)
        return [s for s, count in counts.items() if count <= ran] if most[0] > ran else []


class Courses:
    """The courses of a flow; its phases must be known, and must not wait for each other."""

    def __init__(self, found: Sequence[Phase]) -> None:
        self.phases = {phase.name: phase for phase in found}
        self.ways = edges(found)
        self._ahead = self._forward()
        self.outcomes = {name: self._outcomes(phase) for name, phase in self.phases.items()}
        self.choices = [name for name, outcomes in self.outcomes.items() if len(outcomes) > 1]
        self._order = self._sorted()

    def _forward(self) -> dict[str, dict[str, None]]:
        """The ways that do not go back; as `crewlog.graph.loops` tells them."""
        ahead: dict[str, dict[str, None]] = {}
        for way in sorted(self.ways, key=lambda way: way.guarded):
            if not way.guarded or way.source not in reachable(way.target, ahead):
                ahead.setdefault(way.source, {})[way.target] = None
        return ahead

    def _outcomes(self, phase: Phase) -> tuple[str, ...]:
        found = all_outcomes(phase, self.phases)
        ahead = self._ahead.get(phase.name, {})
        return tuple(way for way in found if way not in self.phases or way in ahead)

    def _sorted(self) -> list[str]:
        """The phases in an order in which each comes after those that lead to it."""
        waits = dict.fromkeys(self.phases, 0)
        for targets in self._ahead.values():
            for target in targets:
                waits[target] += 1
        ready = [name for name, count in waits.items() if not count]
        for name in ready:
            for target in self._ahead.get(name, {}):
                waits[target] -= 1
                if not waits[target]:
                    ready.append(target)
        return ready

    # -- one course after the other -----------------------------------------------------------

    @cached_property
    def exact(self) -> bool:
        """Whether `courses` are all that there are."""
        return prod(len(self.outcomes[name]) for name in self.choices) <= MOST

    @cached_property
    def courses(self) -> Sequence[Course]:
        """The courses, the one in which everything goes on first."""
        return tuple(self._course(chosen) for chosen in islice(self._chosen(), MOST))

    def _chosen(self) -> Iterator[Choice]:
        if self.exact:
            for ways in product(*(self.outcomes[name] for name in self.choices)):
                yield dict(zip(self.choices, ways, strict=True))
            return
        yield {}
        others = [(name, way) for name in self.choices for way in self.outcomes[name][1:]]
        for count in (1, 2):
            for some in combinations(others, count):
                yield dict(some)

    def _course(self, chosen: Choice) -> Course:
        ran: dict[str, str] = {}
        runs: dict[str, int] = {}
        sent: dict[str, int] = {}
        whole = True
        for name in self._order:
            phase = self.phases[name]
            counts = sorted((runs[s] if ran.get(s) == NEXT else 0 for s in phase.sources), key=int)
            level = counts[-phase.need] if 0 < phase.need <= len(counts) else 0
            runs[name] = level + sent.get(name, 0) + phase.entry
            if not runs[name]:
                continue
            outcomes = self.outcomes[name]
            way = chosen.get(name, outcomes[0] if outcomes else STOP)
            ran[name] = way
            whole = whole and way not in (STOP, FAIL)
            if way in self.phases:
                sent[way] = sent.get(way, 0) + runs[name]
        return Course(ran, whole, runs, sent)

    # -- all courses at once ------------------------------------------------------------------

    def possible(self, name: str, way: str) -> set[str]:
        """Every phase that may run where the phase `name` takes that way and no other."""
        ran: set[str] = set()
        sent: set[str] = set()
        arrives: set[str] = set()
        for each in self._order:
            phase = self.phases[each]
            arrived = sum(source in arrives for source in phase.sources)
            if not (phase.entry or each in sent or (phase.sources and arrived >= phase.need)):
                continue
            ran.add(each)
            for outcome in (way,) if each == name else self.outcomes[each]:
                if outcome == NEXT:
                    arrives.add(each)
                elif outcome in self.phases:
                    sent.add(outcome)
        return ran

    def before(self, one: str, other: str) -> bool:
        """Whether a way leads from one phase to the other, not back."""
        return other in self._reached(one)

    def _reached(self, name: str) -> set[str]:
        if name not in self._reach:
            self._reach[name] = reachable(name, self._ahead)
        return self._reach[name]

    @cached_property
    def _reach(self) -> dict[str, set[str]]:
        return {}

    @cached_property
    def loops(self) -> dict[str, set[str]]:
        """What runs anew by the phase that goes back: all on a forward way from where it goes."""
        behind: dict[str, list[str]] = {}
        for source, targets in self._ahead.items():
            for target in targets:
                behind.setdefault(target, []).append(source)
        found: dict[str, set[str]] = {}
        for way in self.ways:
            if way.target not in self._ahead.get(way.source, {}):
                body = self._reached(way.target) & reachable(way.source, behind)
                found[way.source] = found.get(way.source, set()) | body | {way.source}
        return found

    @cached_property
    def repeated(self) -> set[str]:
        """The phases that may run more than once, because something goes back before them."""
        ahead = self._ahead
        every = successors(self.ways)
        found: set[str] = set()
        for way in self.ways:
            if way.target not in ahead.get(way.source, {}) and way.target not in found:
                found |= reachable(way.target, every)
        return found


def all_outcomes(phase: Phase, names: Mapping[str, object]) -> tuple[str, ...]:
    """The ways that a phase may take, the one that goes on first, ways back included."""
    ways: list[str] = []
    match phase.item:
        case DecisionPhase() as item if is_never(item.if_):
            ways = [NEXT]
        case DecisionPhase() as item:
            ways = [NEXT, item.go]
            if item.otherwise not in (None, ASK_HUMAN):
                ways.append(item.otherwise or NEXT)
        case AskPhase() as item:
            ways = [NEXT] if (item.words and item.sets) or item.only_if is not None else []
            ways += [answer_goes(item, option, names) for option in item.options]
        case RoutePhase() as item:
            ways = [*item.to, item.otherwise or END, item.else_used_up]
            ways += [NEXT] if item.only_if is not None else []
        case AgentPhase() as item:
            ways = [NEXT]
            if item.gives_way and item.otherwise not in (None, ASK_HUMAN, SKIP):
                ways.append(item.otherwise or NEXT)
            if item.stand_in is not None:
                ways.append(item.stand_in)
        case WaitPhase() | BuilderPhase():
            ways = [NEXT]
    known = [way for way in ways if way in names or way in (NEXT, END, FAIL, STOP)]
    return tuple(sorted(dict.fromkeys(known), key=lambda way: way != NEXT))


def answer_goes(item: AskPhase, option: str, names: Mapping[str, object]) -> str:
    """Where an answer of people goes: as `crewlog.graph.answers` does it."""
    if option == STOP:
        return STOP
    if option in names:
        return option
    refuses = item.sets is None and option == item.options[-1] and len(item.options) > 1
    return STOP if refuses else NEXT
