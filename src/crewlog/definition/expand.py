"""Builders and patterns put in their places: a definition of phases, decisions and questions alone.

What a person writes may say `use: supervisor`, or give an agent a `pattern`. Here these become what
they stand for, once, for those who check, lower and run the crew. A part's first item takes the
name of what it replaces, so that what goes there finds it; and what waits for that name waits for
the part's last item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pydantic import ValidationError

from crewlog.definition.builders import Built, Place, find_builder
from crewlog.definition.findings import Finding, Path, listed
from crewlog.definition.model import (
    After,
    AgentDefinition,
    AgentPhase,
    AskPhase,
    BuilderPhase,
    CrewDefinition,
    DecisionPhase,
    FlowItem,
    JoinAny,
    JoinQuorum,
)
from crewlog.definition.phases import Phase, phases


@dataclass(frozen=True)
class Expanded:
    """A definition without builders and patterns."""

    definition: CrewDefinition
    """The same object where there was nothing to expand."""
    paths: Mapping[int, Path]
    """Where each item of the expanded flow is written; empty where nothing was expanded."""
    faults: tuple[Finding, ...] = ()
    """What kept a builder from being used."""

    def original(self, finding: Finding) -> Finding:
        """A finding of the expanded definition, at the place where its cause is written."""
        path = finding.path
        if path[:1] != ("flow",) or len(path) < 2 or not self.paths:
            return finding
        place = self.paths.get(int(path[1]), ())
        if place != path[: len(place)]:
            return replace(finding, path=(*place, *path[2:]))
        return finding


def expand(definition: CrewDefinition) -> Expanded:
    """The definition with every builder and pattern in its place."""
    builds = any(isinstance(item, BuilderPhase) for item in definition.flow)
    if not builds and all(agent.pattern is None for agent in definition.agents.values()):
        return Expanded(definition, {})
    return _Expansion(definition).run()


class _Expansion:
    def __init__(self, definition: CrewDefinition) -> None:
        self.definition = definition
        self.faults: list[Finding] = []
        self.items: list[FlowItem] = []
        self.paths: dict[int, Path] = {}
        self.last: dict[str, str] = {}
        self.outputs: dict[str, list[str]] = {}
        self.flags: dict[str, list[str]] = {}

    def run(self) -> Expanded:
        for phase in phases(self.definition):
            built = self.built(phase)
            inner = [] if built is None else phases(_with_flow(self.definition, built.items))
            if built is None or not inner:
                self.put(_named(phase), phase.path)
                continue
            first = inner[0].name
            renamed = {first: phase.name} if first != phase.name else {}
            for part in inner:
                part = _renamed(part, renamed)
                if part.entry:
                    part = replace(part, sources=phase.sources, need=phase.need, entry=phase.entry)
                self.put(_named(part), phase.path)
            self.last[phase.name] = _renamed(inner[-1], renamed).name
            for mine, more in ((self.outputs, built.outputs), (self.flags, built.flags)):
                for agent, names in more.items():
                    mine.setdefault(agent, []).extend(names)
        flow = tuple(self.waiting_for_last(item, i) for i, item in enumerate(self.items))
        agents = {name: self.agent(name, agent) for name, agent in self.definition.agents.items()}
        plain = self.definition.model_copy(update={"flow": flow, "agents": agents})
        return Expanded(plain, self.paths, tuple(self.faults))

    def put(self, item: FlowItem, path: Path) -> None:
        self.paths[len(self.items)] = path
        self.items.append(item)

    def built(self, phase: Phase) -> Built | None:
        """What a builder makes of a phase; none where no builder is used."""
        item = phase.item
        if isinstance(item, BuilderPhase):
            return self.build(
                item.use, item.with_, "flow", Place(phase.name, self.definition), phase.path
            )
        agent = self.definition.agents.get(item.agent) if isinstance(item, AgentPhase) else None
        if agent is None or agent.pattern is None or not isinstance(item, AgentPhase):
            return None
        use = agent.pattern
        path: Path = ("agents", item.agent, "pattern")
        place = Place(phase.name, self.definition, item.agent, item.task, use.off)
        return _kept(self.build(use.use, use.with_, "agent", place, path), item)

    def build(
        self, name: str, options: Mapping[str, object], kind: str, place: Place, path: Path
    ) -> Built | None:
        try:
            builder = find_builder(name)
        except LookupError as error:
            self.faults.append(
                Finding((*path, "use"), f"no builder is called {name!r}", str(error))
            )
            return None
        if builder.kind != kind:
            where = {"flow": "the flow, as {use: …}", "agent": "an agent, as its pattern"}
            say = f"the builder {name!r} is for {where[builder.kind]}"
            self.faults.append(Finding((*path, "use"), say, "Use it there."))
            return None
        for step in place.off:
            if step not in builder.steps:
                say = f"the pattern {name!r} has no step {step!r} that can be switched off"
                there = f"It has {listed(builder.steps)}." if builder.steps else ""
                self.faults.append(Finding((*path, "off"), say, there, word=step))
        try:
            made = builder.build(builder.options.model_validate(dict(options)), place)
        except ValidationError as error:
            for fault in error.errors(include_url=False):
                at = ".".join(str(part) for part in fault["loc"]) or "its options"
                say = f"the builder {name!r} cannot use {at}: {fault['msg']}"
                self.faults.append(Finding((*path, "with"), say, _options(builder.options)))
            return None
        except ValueError as error:
            self.faults.append(Finding((*path, "with"), f"the builder {name!r}: {error}"))
            return None
        return made

    def waiting_for_last(self, item: FlowItem, index: int) -> FlowItem:
        """An item whose sources are the last items of the parts that it waits for."""
        if not isinstance(item, AgentPhase | DecisionPhase | AskPhase):
            return item
        own = self.paths[index]
        after = item.after
        match after:
            case str() if after != "go":
                changed: After = self.source(after, own)
            case tuple():
                changed = tuple(self.source(name, own) for name in after)
            case JoinAny():
                changed = JoinAny(any=tuple(self.source(name, own) for name in after.any))
            case JoinQuorum():
                of = tuple(self.source(name, own) for name in after.of)
                changed = JoinQuorum(quorum=after.quorum, of=of)
            case _:
                return item
        return item.model_copy(update={"after": changed})

    def source(self, name: str, own: Path) -> str:
        last = self.last.get(name)
        inside = last is not None and self.paths[self.index(last)] == own
        return name if last is None or inside else last

    def index(self, name: str) -> int:
        return next(
            i
            for i, item in enumerate(self.items)
            if isinstance(item, AgentPhase | DecisionPhase | AskPhase) and item.phase == name
        )

    def agent(self, name: str, agent: AgentDefinition) -> AgentDefinition:
        outputs = tuple(dict.fromkeys((*agent.outputs, *self.outputs.get(name, ()))))
        flags = tuple(dict.fromkeys((*agent.writes_flags, *self.flags.get(name, ()))))
        update = {"pattern": None, "outputs": outputs, "writes_flags": flags}
        return agent.model_copy(update=update)


def _with_flow(definition: CrewDefinition, items: Iterable[FlowItem]) -> CrewDefinition:
    return definition.model_copy(update={"flow": tuple(items)})


def _kept(built: Built | None, item: AgentPhase) -> Built | None:
    """What holds for an agent's phase holds for the first step inside it, or for all of them."""
    if built is None or not built.items:
        return built
    kept = {"only_if": item.only_if, "needs": item.needs}
    first = {**kept, "when": item.when, "otherwise": item.otherwise}
    items: list[FlowItem] = []
    for i, part in enumerate(built.items):
        if isinstance(part, AgentPhase):
            update = {k: v for k, v in (first if i == 0 else kept).items() if v}
            items.append(part.model_copy(update=update))
        else:
            items.append(part)
    return replace(built, items=items)


def _named(phase: Phase) -> FlowItem:
    """A phase as an item of its own, with its name and its sources written out."""
    after: After
    if not phase.sources:
        after = () if phase.entry else "go"
    elif phase.need == len(phase.sources):
        after = phase.sources
    elif phase.need == 1:
        after = JoinAny(any=phase.sources)
    else:
        after = JoinQuorum(quorum=max(1, phase.need), of=phase.sources)
    return phase.item.model_copy(update={"phase": phase.name, "after": after})


def _renamed(phase: Phase, names: Mapping[str, str]) -> Phase:
    if not names:
        return phase
    sources = tuple(names.get(name, name) for name in phase.sources)
    item = phase.item
    if isinstance(item, DecisionPhase):
        item = item.model_copy(update={"go": names.get(item.go, item.go)})
    return replace(phase, name=names.get(phase.name, phase.name), sources=sources, item=item)


def _options(model: type) -> str:
    fields: Sequence[str] = tuple(getattr(model, "model_fields", ()))
    return f"Its options: {listed(fields)}." if fields else "It has no options."
