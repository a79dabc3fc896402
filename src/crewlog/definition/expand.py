"""Builders and patterns put in their places: a definition of phases, decisions and questions alone.

What a person writes may say `use: supervisor`, or give an agent a `pattern`. Here these become what
they stand for, once, for those who check, lower and run the crew. Parts may hold parts: a worker of
a supervisor may have a pattern, and a builder may use another one.

Names. A part's first phase takes the name of what it replaces, so what goes there finds it; what
waits for that name waits for the part's last phase. The other phases keep the names that the
builder gave them, or, where the part has a name of its own (`phase: second`), have that before them
(`second.reviewer`): so an agent can be in two parts. Within a part its own names come first.

A part that begins with several phases and is gone to gets a head, and one that ends with several a
tail: decisions that never hold, so that there is one place to go to and one to wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from crewlog.definition.builders import Built, Place, Use, build
from crewlog.definition.conditions import AllOf, Condition, Fact
from crewlog.definition.findings import Finding, Path
from crewlog.definition.flow_checks import after_path
from crewlog.definition.model import (
    AgentDefinition,
    AgentPhase,
    AskPhase,
    BuilderPhase,
    CrewDefinition,
    DecisionPhase,
    FlowItem,
    RoutePhase,
    WaitPhase,
)
from crewlog.definition.phases import (
    END,
    SKIP,
    Phase,
    PhaseItem,
    after_of,
    phases,
    phases_and_ends,
)
from crewlog.definition.pool_checks import pattern_findings
from crewlog.definition.replies import Reply
from crewlog.model import Json

DEEPEST = 8
"""Parts inside each other."""


@dataclass(frozen=True)
class Origin:
    """Where a phase of the expanded flow comes from."""

    phase: Path
    """The item of the flow as written."""
    use: Path = ()
    """Where the builder is used; empty where none made it."""
    part: str = ""
    """What made it: `builder 'review'`, `pattern 'review_loop' of 'author'`."""
    options: Mapping[str, Json] = field(default_factory=dict[str, Json])
    """The builder's options."""
    after: Path = ()
    """Where the item says what it waits for."""
    written: frozenset[str] = frozenset()
    """Keys of the phase that are as in the item."""
    head: bool = True
    """Whether it has the name of the item."""


@dataclass(frozen=True)
class Expanded:
    """A definition without builders and patterns."""

    definition: CrewDefinition
    """The same object where there was nothing to expand."""
    origins: Sequence[Origin] = ()
    """Where each item of the expanded flow comes from; empty where nothing was expanded."""
    faults: tuple[Finding, ...] = ()
    """What kept a builder from being used: the definition still has these parts."""

    def origin(self, path: Path) -> Origin | None:
        """Where the item of a path of the expanded definition comes from."""
        if path[:1] != ("flow",) or len(path) < 2 or not self.origins:
            return None
        return self.origins[int(path[1])]

    def original(self, finding: Finding) -> Finding:
        """A finding of the expanded definition, at the place where its cause is written."""
        origin = self.origin(finding.path)
        if origin is None:
            return finding
        rest = finding.path[2:]
        if origin.use and not (rest and rest[0] in origin.written):
            named = self._named(finding)
            at = (*origin.use, "with", *named) if named else (*origin.use, "use")
            return replace(finding, path=at, at="value")
        if rest[:1] == ("after",):
            return replace(finding, path=(*origin.after, *rest[1:]))
        return replace(finding, path=(*origin.phase, *rest))

    def _named(self, finding: Finding) -> Path:
        """The option that says what a finding is about; empty where none does."""
        origin = self.origin(finding.path)
        item = self.definition.flow[int(finding.path[1])]
        words = [finding.word] if finding.word else []
        if finding.path[2:3] == ("agent",) and isinstance(item, AgentPhase):
            words.append(item.agent)
        for word in words if origin else ():
            for path, value in texts_in(dict(origin.options) if origin else None):
                if value == word:
                    return path
        return ()


def expand(definition: CrewDefinition) -> Expanded:
    """The definition with every builder and pattern in its place."""
    builds = any(isinstance(item, BuilderPhase) for item in definition.flow)
    if not builds and all(agent.pattern is None for agent in definition.agents.values()):
        return Expanded(definition)
    return _Expansion(definition).run()


class _Scope:
    """The names of one flow, each with the phase to wait for; names not known are the outer's."""

    def __init__(self, outer: _Scope | None) -> None:
        self.outer = outer
        self.last: dict[str, str] = {}

    def find(self, name: str) -> str | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.last:
                return scope.last[name]
            scope = scope.outer
        return None


class _Expansion:
    def __init__(self, definition: CrewDefinition) -> None:
        self.definition = definition
        self.faults: list[Finding] = []
        self.found: list[tuple[Phase, _Scope]] = []
        self.origins: list[Origin] = []
        self.anywhere: dict[str, str] = {}
        """The phase to wait for by name, for those outside of the part that has it."""
        self.targets: set[str] = set()
        """Names that something goes to."""
        self.outputs: dict[str, list[str]] = {}
        self.flags: dict[str, list[str]] = {}
        self.replies: dict[str, Reply] = {}
        self.fields: dict[str, Mapping[str, Any]] = {}

    def run(self) -> Expanded:
        top = phases(self.definition)
        scope = _Scope(None)
        self.targets.update(target for phase in top for target in _targets(phase.item))
        for phase in top:
            origin = Origin(phase.path, after=after_path(phase), written=_written(phase.item))
            scope.last[phase.name] = self.put(phase, scope, origin, ())
        flow = tuple(self.waiting_for_last(phase, scope) for phase, scope in self.found)
        agents = {name: self.agent(name, agent) for name, agent in self.definition.agents.items()}
        plain = self.definition.model_copy(update={"flow": flow, "agents": agents})
        return Expanded(plain, self.origins, tuple(self.faults))

    def put(self, phase: Phase, scope: _Scope, origin: Origin, within: tuple[str, ...]) -> str:
        """Adds a phase, or the part that it stands for; gives what to wait for."""
        use = self.use(phase, origin, within)
        built = None if use is None else self.build(use, within)
        if use is None or built is None:
            self.found.append((phase, scope))
            self.origins.append(origin)
            self.anywhere.setdefault(phase.name, phase.name)
            return phase.name
        for mine, more in ((self.outputs, built.outputs), (self.flags, built.flags)):
            for agent, names in more.items():
                mine.setdefault(agent, []).extend(names)
        self.replies.update(built.replies)
        for name, fields in built.fields.items():
            self.fields[name] = {**fields, **self.fields.get(name, {})}
        inner, last = self.part(phase, use, built)
        if last not in {part.name for part in inner}:
            say = f"{use.called} has no phase {last!r}, which it names as its last"
            self.faults.append(Finding((*use.path, "use"), say, "Mend the builder."))
            last = inner[-1].name
        own = _Scope(scope)
        self.targets.update(target for part in inner for target in _targets(part.item))
        for part in inner:
            came = self.origin(part, use, origin, head=part.name == phase.name)
            name = self.put(_entered(part, phase), own, came, (*within, use.key))
            own.last[part.name] = name
        self.anywhere[phase.name] = own.last[last]
        return own.last[last]

    def origin(self, part: Phase, use: Use, outer: Origin, *, head: bool) -> Origin:
        """Where a phase of a part comes from: the use that is written, and what it keeps of it."""
        kept = frozenset[str]() if use.flow else outer.written & _written(part.item)
        if part.entry:
            kept |= {"after"}
        if head:
            kept |= {"phase"} & outer.written
        if not (outer.use and use.flow):  # what a builder uses is not written anywhere
            outer = replace(outer, use=use.path, part=use.called, options=use.options)
        return replace(outer, written=kept, head=head)

    def use(self, phase: Phase, origin: Origin, within: tuple[str, ...]) -> Use | None:
        """The builder that a phase uses; none where it is what it is."""
        item = phase.item
        if isinstance(item, BuilderPhase):
            place = Place(phase.name, self.definition)
            return Use(item.use, item.with_, place, origin.use or origin.phase)
        if isinstance(item, AgentPhase) and item.by is not None:
            found = pattern_findings(item, self.definition, origin.phase)
            self.faults += [each for each in found if each not in self.faults]
            return None
        agent = self.definition.agents.get(item.agent) if isinstance(item, AgentPhase) else None
        if agent is None or agent.pattern is None or not isinstance(item, AgentPhase):
            return None
        if f"agent {item.agent}" in within:
            return None  # a step of its own pattern
        if item.timeout is not None:
            self.faults.append(_timeout_of_pattern(phase, item, origin))
        place = Place(
            phase.name, self.definition, item.agent, item.task, agent.pattern.off, item.for_each
        )
        return Use(agent.pattern.use, agent.pattern.with_, place, ("agents", item.agent, "pattern"))

    def build(self, use: Use, within: tuple[str, ...]) -> Built | None:
        if len(within) >= DEEPEST:
            say = f"{use.called} is inside {DEEPEST} other parts"
            self.faults.append(
                Finding((*use.path, "use"), say, "Does a builder use itself? Write the part out.")
            )
            return None
        built, faults = build(use)
        for fault in faults:
            if fault not in self.faults:  # an agent with a pattern may have many phases
                self.faults.append(fault)
        return None if faults else built

    def part(self, phase: Phase, use: Use, built: Built) -> tuple[list[Phase], str]:
        """The phases of a part under the names that they have outside, and the last of them."""
        flow = self.definition.model_copy(update={"flow": tuple(built.items)})
        inner, after = phases_and_ends(flow)
        if isinstance(phase.item, AgentPhase):
            inner = [_kept(part, phase.item, inner) for part in inner]
        entries = [part for part in inner if part.entry]
        gone_to = phase.name in self.targets or not (phase.entry or phase.sources)
        head = len(entries) > 1 and gone_to
        names = _names(phase, inner, head=head)
        inner = [_renamed(part, names) for part in inner]
        ends = [built.last] if built.last else after.of
        ends = [names.get(name, name) for name in ends]
        nothing = self.nothing(inner)
        if head:
            first = Phase(phase.name, nothing, (), (), 0, entry=True, explicit=True)
            inner = [first, *(_after(part, phase.name) if part.entry else part for part in inner)]
        item = phase.item
        skips = isinstance(item, AgentPhase) and item.otherwise == SKIP
        if len(ends) == 1 and not skips:
            return inner, ends[0]
        done = f"{phase.name}.done"
        need = min(after.need, len(ends))
        tail = Phase(done, nothing, (), tuple(ends), need, entry=False, explicit=True)
        return [*(_giving_way(part, done) if skips else part for part in inner), tail], done

    def nothing(self, inner: Iterable[Phase]) -> DecisionPhase:
        """A decision that goes on, always: a place to go to and to wait for."""
        agents = (p.item.agent for p in inner if isinstance(p.item, AgentPhase))
        known = (name for name in agents if name in self.definition.agents)
        agent = next(known, min(self.definition.agents))
        never = Fact(agent=agent, name="text", operator="in", value=[])
        return DecisionPhase.model_validate({"if": never, "go": END})

    def waiting_for_last(self, phase: Phase, scope: _Scope) -> FlowItem:
        """A phase as an item of its own, with its name, and with the phases that it waits for."""

        def source(name: str) -> str:
            return scope.find(name) or self.anywhere.get(name, name)

        sources = tuple(source(name) for name in phase.sources)
        after = after_of(sources, phase.need, entry=phase.entry)
        return phase.item.model_copy(update={"phase": phase.name, "after": after})

    def agent(self, name: str, agent: AgentDefinition) -> AgentDefinition:
        if agent.pattern is None and not any(
            name in more for more in (self.outputs, self.flags, self.replies, self.fields)
        ):
            return agent
        outputs = tuple(dict.fromkeys((*agent.outputs, *self.outputs.get(name, ()))))
        flags = tuple(dict.fromkeys((*agent.writes_flags, *self.flags.get(name, ()))))
        update: dict[str, Any] = {"pattern": None, "outputs": outputs, "writes_flags": flags}
        update["reply"] = _reply(agent.reply, self.replies.get(name))
        brought = _brought(agent, self.fields.get(name, {}))
        return agent.model_copy(update={**update, **brought})


def _timeout_of_pattern(phase: Phase, item: AgentPhase, origin: Origin) -> Finding:
    say = (
        f"'timeout' of {phase.name!r} bounds one step, and {item.agent!r} works by a pattern, "
        "which makes several steps"
    )
    remedy = "Remove 'timeout', or remove the agent's 'pattern'."
    return Finding((*origin.phase, "timeout"), say, remedy, at="key")


def _brought(agent: AgentDefinition, fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a builder brings of an agent's fields, where the agent says nothing of them itself."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        if not agent.says(key):
            found[key] = value
        elif key == "inputs" and agent.inputs:  # these, too; an empty list says that it is none
            there = {each.from_ for each in agent.inputs}
            found[key] = (*(each for each in value if each.from_ not in there), *agent.inputs)
    return found


def _reply(own: Reply | None, brought: Reply | None) -> Reply | None:
    """An agent's form; of the decision that a builder needs it has the names and the fallback."""
    if own is None or brought is None or own.decision != brought.decision:
        return own or brought
    more: dict[str, Any] = {"among": own.among or brought.among}
    if own.fallback is None:
        more["fallback"] = brought.fallback
    return own.model_copy(update=more)


def _names(phase: Phase, inner: Sequence[Phase], *, head: bool) -> dict[str, str]:
    """The names that a part's phases have outside of it, where these are others."""
    item = phase.item
    named = not isinstance(item, BuilderPhase) or phase.name != item.use
    names: dict[str, str] = {}
    for i, part in enumerate(inner):
        if i == 0 and not head:
            names[part.name] = phase.name
        elif part.name == phase.name:
            names[part.name] = f"{phase.name}.{getattr(part.item, 'agent', 'first')}"
        elif part.name.startswith(f"{phase.name}."):
            continue
        elif named or (part.item.phase is None and not isinstance(part.item, AgentPhase)):
            names[part.name] = f"{phase.name}.{part.name}"
    return {name: new for name, new in names.items() if name != new}


def _renamed(phase: Phase, names: Mapping[str, str]) -> Phase:
    if not names:
        return phase
    item: PhaseItem = phase.item
    update: dict[str, object] = {}
    if isinstance(item, DecisionPhase) and item.go in names:
        update["go"] = names[item.go]
    if isinstance(item, RoutePhase):
        update["to"] = tuple(names.get(to, to) for to in item.to)
    if isinstance(item, AskPhase):
        update["options"] = tuple(names.get(option, option) for option in item.options)
    elif (
        isinstance(item, AgentPhase | DecisionPhase | RoutePhase)
        and (item.otherwise or "") in names
    ):
        update["otherwise"] = names[item.otherwise or ""]
    if isinstance(item, AgentPhase) and (item.stand_in or "") in names:
        update["on_error"] = names[item.stand_in or ""]
    return replace(
        phase,
        name=names.get(phase.name, phase.name),
        sources=tuple(names.get(name, name) for name in phase.sources),
        item=item.model_copy(update=update) if update else item,
    )


def _entered(part: Phase, phase: Phase) -> Phase:
    """Those that begin a part wait for what the whole of it waits for."""
    if not part.entry:
        return part
    return replace(part, sources=phase.sources, need=phase.need, entry=phase.entry)


def _after(part: Phase, head: str) -> Phase:
    return replace(part, sources=(head,), need=1, entry=False)


def _giving_way(part: Phase, done: str) -> Phase:
    if isinstance(part.item, AgentPhase) and part.item.otherwise == SKIP:
        return replace(part, item=part.item.model_copy(update={"otherwise": done}))
    return part


def _kept(part: Phase, outer: AgentPhase, inner: Sequence[Phase]) -> Phase:
    """What an agent's phase says holds for the steps inside it.

    `when` is waited for at the beginning. `only_if` holds for every step, and a way back is taken
    only where it holds. `needs` and `for_each` are for the agent's own steps, unless its pattern
    says which of them are for each item. `on_error` holds for every turn.
    """
    item = part.item
    update: dict[str, object] = {}
    if isinstance(item, AgentPhase):
        own = item.agent == outer.agent
        spread = any(isinstance(p.item, AgentPhase) and p.item.for_each for p in inner)
        update["only_if"] = _both(outer.only_if, item.only_if)
        if own:
            update["needs"] = tuple(dict.fromkeys((*outer.needs, *item.needs)))
        if outer.on_error is not None:
            update["on_error"] = outer.on_error
        if own and not spread:
            update["for_each"] = outer.for_each
            update["at_once"] = outer.at_once
        if part.entry and outer.when is not None:
            update["when"] = _both(outer.when, item.when)
            update["within"] = outer.within
            update["otherwise"] = outer.otherwise
    elif isinstance(item, DecisionPhase) and outer.only_if is not None:
        update["if_"] = _both(outer.only_if, item.if_)
    elif isinstance(item, AskPhase | WaitPhase | RoutePhase) and outer.only_if is not None:
        update["only_if"] = _both(outer.only_if, item.only_if)
    return replace(part, item=item.model_copy(update=update)) if update else part


def _both(one: Condition | None, other: Condition | None) -> Condition | None:
    if one is None or other is None:
        return one if other is None else other
    return AllOf(of=(one, other))


def _targets(item: PhaseItem) -> Iterator[str]:
    match item:
        case DecisionPhase():
            yield item.go
            yield item.otherwise or ""
        case AskPhase():
            yield from item.options
        case RoutePhase():
            yield from item.to
            yield item.otherwise or ""
        case AgentPhase():
            yield item.otherwise or ""
            yield item.stand_in or ""
        case WaitPhase() | BuilderPhase():
            return


def _written(item: PhaseItem) -> frozenset[str]:
    """The keys that an item says something at."""
    fields = type(item).model_fields.items()
    return frozenset(
        info.alias or name for name, info in fields if getattr(item, name) not in (None, ())
    )


def texts_in(value: Json, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The texts in some data, each with its path."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        fields: dict[str, Json] = value  # pyright: ignore[reportUnknownVariableType]
        for key, inner in fields.items():
            yield from texts_in(inner, (*path, key))
    elif isinstance(value, list):
        items: list[Json] = value  # pyright: ignore[reportUnknownVariableType]
        for i, inner in enumerate(items):
            yield from texts_in(inner, (*path, i))
