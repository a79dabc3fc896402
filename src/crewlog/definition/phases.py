"""The flow, written out: every phase by name, with what it waits for.

One reading of the flow for those who check it and those who lower it. An item waits for all of the
item before it, unless it says `after`; what follows a parallel block waits for it as its `join`
says. A decision is a phase of its own, and what follows it waits for the decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from crewlog.definition.findings import Path
from crewlog.definition.model import (
    SENT_ONLY,
    After,
    AgentPhase,
    AskPhase,
    BuilderPhase,
    CrewDefinition,
    DecisionPhase,
    JoinAll,
    JoinAny,
    JoinQuorum,
    ParallelPhase,
    RoutePhase,
    WaitPhase,
)

END, FAIL, NEXT, ASK_HUMAN, SKIP, STOP = "end", "fail", "next", "ask_human", "skip", "stop"
_LONGEST_NAME = 64


PhaseItem = AgentPhase | DecisionPhase | AskPhase | WaitPhase | RoutePhase | BuilderPhase
"""What a phase is; builders' parts only before `crewlog.definition.expand`."""


@dataclass(frozen=True)
class Phase:
    """A phase of the flow."""

    name: str
    item: PhaseItem
    path: Path
    """Where in the definition it is written."""
    sources: tuple[str, ...]
    """What it waits for; unchecked."""
    need: int
    """How many of the sources."""
    entry: bool
    """Whether the run starts with it."""
    explicit: bool
    """Whether `after` names the sources; else they are the item before."""


@dataclass(frozen=True)
class _Sources:
    of: tuple[str, ...] = ()
    need: int = 0
    entry: bool = True
    explicit: bool = False


@dataclass(frozen=True)
class Ends:
    """What would follow a flow waits for this."""

    of: tuple[str, ...]
    need: int
    """How many of them."""


def phases(definition: CrewDefinition) -> list[Phase]:
    """All phases of a definition, in the order of the flow."""
    return _Expansion(definition).phases


def phases_and_ends(definition: CrewDefinition) -> tuple[list[Phase], Ends]:
    """The same, and what an item after the last one would wait for."""
    found = _Expansion(definition)
    return found.phases, Ends(found.previous.of, found.previous.need)


def at_work(found: Iterable[Phase]) -> tuple[str, ...]:
    """The agents that take steps of some phases, each once, in the order of the flow."""
    items = (phase.item for phase in found if isinstance(phase.item, AgentPhase))
    return tuple(dict.fromkeys(agent for item in items for agent in item.agents))


class _Expansion:
    def __init__(self, definition: CrewDefinition) -> None:
        self.phases: list[Phase] = []
        self.questions = 0
        self.waits = 0
        self.routes = 0
        self.taken = {name for item in definition.flow for name in _written_names(item)}
        previous = _Sources()
        for i, item in enumerate(definition.flow):
            path: Path = ("flow", i)
            match item:
                case str():
                    names = [self.add(AgentPhase(agent=item), path, previous)]
                case tuple():
                    names = [self.part(part, (*path, j), previous) for j, part in enumerate(item)]
                case ParallelPhase():
                    sources = _after(item.after, previous)
                    names = [
                        self.part(part, (*path, "parallel", j), sources)
                        for j, part in enumerate(item.parallel)
                    ]
                case _:
                    names = [self.add(item, path, previous)]
            need = len(names)
            if isinstance(item, ParallelPhase) and item.join != "all":
                need = 1 if item.join == "any" else item.join
            previous = _Sources(tuple(names), need, entry=False)
        self.previous = previous

    def part(
        self, part: str | AgentPhase | AskPhase | WaitPhase, path: Path, sources: _Sources
    ) -> str:
        return self.add(AgentPhase(agent=part) if isinstance(part, str) else part, path, sources)

    def add(self, item: PhaseItem, path: Path, previous: _Sources) -> str:
        sources = _after(item.after, previous)
        name = self.name(item, sources)
        self.phases.append(
            Phase(name, item, path, sources.of, sources.need, sources.entry, sources.explicit)
        )
        return name

    def name(self, item: PhaseItem, sources: _Sources) -> str:
        if item.phase is not None:
            return item.phase
        if isinstance(item, AgentPhase) and item.agent:
            return item.agent
        if isinstance(item, AskPhase):
            self.questions += 1
            base = f"ask_{self.questions}"
        elif isinstance(item, WaitPhase):
            self.waits += 1
            base = f"wait_{self.waits}"
        elif isinstance(item, RoutePhase):
            self.routes += 1
            base = f"route_{self.routes}"
        elif isinstance(item, BuilderPhase):
            base = item.use
        elif isinstance(item, AgentPhase):
            base = "each"
        else:
            base = "after_" + ("_".join(sources.of) or "start")
        name, count = base[:_LONGEST_NAME], 1
        while name in self.taken:
            count += 1
            name = f"{base[: _LONGEST_NAME - 4]}_{count}"
        self.taken.add(name)
        return name


def _written_names(item: object) -> Iterator[str]:
    match item:
        case str():
            yield item
        case tuple():
            for part in item:  # pyright: ignore[reportUnknownVariableType]
                yield from _written_names(part)  # pyright: ignore[reportUnknownArgumentType]
        case ParallelPhase():
            yield from _written_names(item.parallel)
        case AgentPhase():
            if item.phase or item.agent:
                yield item.phase or item.agent
        case DecisionPhase() | AskPhase() | WaitPhase() | RoutePhase() | BuilderPhase():
            if item.phase:
                yield item.phase
        case _:
            pass


def _after(after: After | None, previous: _Sources) -> _Sources:
    match after:
        case None:
            return previous
        case "go":
            return _Sources(entry=False, explicit=True)
        case str():
            return _Sources((after,), 1, entry=False, explicit=True)
        case tuple():
            return _Sources(after, len(after), entry=not after, explicit=True)
        case JoinAll():
            return _Sources(after.all, len(after.all), entry=False, explicit=True)
        case JoinAny():
            return _Sources(after.any, 1, entry=False, explicit=True)
        case JoinQuorum():
            return _Sources(after.of, after.quorum, entry=False, explicit=True)


def after_of(of: tuple[str, ...], need: int, *, entry: bool) -> After:
    """`after` that says what a phase waits for."""
    if not of:
        return () if entry else SENT_ONLY
    if need == len(of):
        return of
    return JoinAny(any=of) if need == 1 else JoinQuorum(quorum=max(1, need), of=of)


assert SENT_ONLY == "go"  # noqa: S101  (a literal above: `match` takes no names)


@dataclass(frozen=True)
class Edge:
    """A way from one phase to another."""

    source: str
    target: str
    key: str
    """What makes it: `after`, `go`, `else`, `on_error`, `to` or `options`."""
    guarded: bool = False
    """Whether it can be taken only so often: by `at_most`, or because people answer."""


def edges(all_phases: Iterable[Phase]) -> list[Edge]:
    """Every way between phases, in the order of the flow; unknown names left out."""
    listed = list(all_phases)
    known = {phase.name for phase in listed}
    found: list[Edge] = []
    for phase in listed:
        found += [Edge(source, phase.name, "after") for source in phase.sources]
        match phase.item:
            case DecisionPhase() as item:
                found.append(Edge(phase.name, item.go, "go", guarded=item.at_most is not None))
                found.append(Edge(phase.name, item.otherwise or NEXT, "else"))
            case AskPhase() as item:
                found += [Edge(phase.name, to, "options", guarded=True) for to in item.options]
            case RoutePhase() as item:
                found += [Edge(phase.name, to, "to", guarded=True) for to in item.to]
                found.append(Edge(phase.name, item.otherwise or END, "else", guarded=True))
            case AgentPhase() as item:
                found.append(Edge(phase.name, item.otherwise or ASK_HUMAN, "else"))
                if item.stand_in is not None:
                    found.append(Edge(phase.name, item.stand_in, "on_error"))
            case WaitPhase():
                pass  # it only goes on
            case BuilderPhase():
                pass  # a part that could not be made
    return [edge for edge in found if edge.source in known and edge.target in known]


def successors(ways: Iterable[Edge]) -> dict[str, list[str]]:
    """The targets of every source, in order, once each."""
    out: dict[str, list[str]] = {}
    for way in ways:
        targets = out.setdefault(way.source, [])
        if way.target not in targets:
            targets.append(way.target)
    return out


def reachable(start: str, next_of: Mapping[str, Iterable[str]]) -> set[str]:
    """`start` and everything that can be reached from it."""
    seen, stack = {start}, [start]
    while stack:
        for target in next_of.get(stack.pop(), ()):
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return seen


def cycles(next_of: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Cycles, one for each way back of a walk through a graph: without those ways it has none.

    Of each its names; the way back leads from the last to the first.
    """
    finished: set[str] = set()
    for start in next_of:
        if start in finished:
            continue
        trail = [start]
        on_trail = {start: iter(next_of.get(start, ()))}
        while trail:
            target = next(on_trail[trail[-1]], None)
            if target is None:
                gone = trail.pop()
                del on_trail[gone]
                finished.add(gone)
            elif target in on_trail:
                yield trail[trail.index(target) :]
            elif target not in finished:
                trail.append(target)
                on_trail[target] = iter(next_of.get(target, ()))
