"""A flow that is being changed: its phases by name, each with what it waits for.

    flow = Flow(definition)
    flow.part("audio").wait = Wait.all("backend")
    flow.definition()

A flow as written says much by place: an item waits for the one before it, and a question is called
by its number. So taking one out would say something else of others. Here every phase keeps its name
and what it waits for until somebody changes that; when the flow is written, names and `after` are
put down only where they do not follow from the place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from crewlog.definition.model import (
    SENT_ONLY,
    After,
    AgentPhase,
    AskPhase,
    CrewDefinition,
    DecisionPhase,
    FlowItem,
    JoinAll,
    JoinAny,
    JoinQuorum,
    ParallelPhase,
    RoutePhase,
)
from crewlog.definition.phases import Phase, PhaseItem, after_of, phases


@dataclass(frozen=True)
class Wait:
    """What a phase waits for."""

    of: tuple[str, ...] = ()
    need: int = 0
    """How many of them."""
    entry: bool = False
    """With nothing to wait for: whether the run starts with it; else something sends the run
    there."""

    @classmethod
    def all(cls, *names: str) -> Wait:
        """For all of these; for nothing where there is none."""
        return cls(names, len(names), entry=not names)

    @classmethod
    def of_phase(cls, phase: Phase) -> Wait:
        """As a flow says it."""
        return cls(phase.sources, phase.need, phase.entry)

    @property
    def sent_only(self) -> bool:
        """Whether it starts only where something sends the run there."""
        return not self.of and not self.entry

    @property
    def whole(self) -> bool:
        """Whether it waits for all of them."""
        return self.need == len(self.of)

    def same(self, other: Wait) -> bool:
        """Whether both say the same; the order of names says nothing."""
        return (frozenset(self.of), self.need, self.entry) == (
            frozenset(other.of),
            other.need,
            other.entry,
        )

    def after(self) -> After:
        """As `after` says it."""
        alone = self.whole and len(self.of) == 1
        return self.of[0] if alone else after_of(self.of, self.need, entry=self.entry)

    def renamed(self, names: Mapping[str, str]) -> Wait:
        """With other names."""
        return Wait(tuple(names.get(name, name) for name in self.of), self.need, self.entry)


@dataclass
class Part:
    """A phase of a flow that is being changed."""

    name: str
    item: PhaseItem
    wait: Wait
    bare: bool
    """Whether it is written as an agent's name alone, if nothing else is said of it."""

    def written(self) -> str | PhaseItem:
        """As it stands in the flow."""
        item = self.item
        if self.bare and isinstance(item, AgentPhase) and item == AgentPhase(agent=item.agent):
            return item.agent
        return item

    def set(self, **update: Any) -> None:
        """Changes fields of what it is."""
        self.item = self.item.model_copy(update=update)

    def rename(self, names: Mapping[str, str]) -> None:
        """Gives it, and all that it names, other names."""
        item = self.item
        update: dict[str, Any] = {"after": after_renamed(item.after, names)}
        if isinstance(item, DecisionPhase):
            update["go"] = names.get(item.go, item.go)
        if isinstance(item, RoutePhase):
            update["to"] = tuple(names.get(to, to) for to in item.to)
        if isinstance(item, AgentPhase | DecisionPhase | RoutePhase) and item.otherwise is not None:
            update["otherwise"] = names.get(item.otherwise, item.otherwise)
        if isinstance(item, AgentPhase) and item.stand_in is not None:
            update["on_error"] = names.get(item.stand_in, item.stand_in)
        if isinstance(item, AskPhase):
            update["options"] = tuple(names.get(option, option) for option in item.options)
        name = names.get(self.name, self.name)
        if isinstance(item, AgentPhase):
            update["phase"] = None if name == item.agent else name
        elif item.phase is not None:
            update["phase"] = name
        self.name, self.wait = name, self.wait.renamed(names)
        self.set(**update)

    def mend(self, found: Phase) -> bool:
        """Writes down what does not follow from its place; whether there was any."""
        update: dict[str, Any] = {}
        if found.name != self.name:
            update["phase"] = self.name
        if not self.wait.same(Wait.of_phase(found)):
            update["after"] = self.wait.after()
        self.set(**update)
        return bool(update)


@dataclass
class Row:
    """An item of the flow: a phase, or several side by side."""

    parts: list[Part]
    block: ParallelPhase | None = None

    def written(self) -> FlowItem:
        """As it stands in the flow."""
        parts: tuple[Any, ...] = tuple(part.written() for part in self.parts)
        if self.block is not None:
            return self.block.model_copy(update={"parallel": parts})
        return parts[0] if len(parts) == 1 else parts

    def mend(self, found: list[Phase]) -> bool:
        """Writes down what does not follow from the place; whether there was any."""
        changed = False
        if self.block is not None:
            changed = self._mend_block(self.block, found)
            if changed:
                return True
        for part, phase in zip(self.parts, found, strict=True):
            changed = part.mend(phase) or changed
        return changed

    def _mend_block(self, block: ParallelPhase, found: list[Phase]) -> bool:
        """What all parts of a block wait for is said once, of the block."""
        pairs = zip(self.parts, found, strict=True)
        shared = [(part, phase) for part, phase in pairs if part.item.after is None]
        first = shared[0][0].wait if shared else None
        update: dict[str, Any] = {}
        if isinstance(block.join, int) and block.join > len(self.parts):
            update["join"] = "all"
        if first is None:
            update |= {"after": None} if block.after is not None else {}
        elif all(part.wait.same(first) for part, _ in shared) and not first.same(
            Wait.of_phase(shared[0][1])
        ):
            update["after"] = first.after()
        self.block = block.model_copy(update=update)
        return bool(update)


class Flow:
    """The flow of a definition, to be changed.

    Args:
        definition: The crew; it is not changed itself.
    """

    def __init__(self, definition: CrewDefinition) -> None:
        self._crew = definition
        found = iter(phases(definition))
        self.rows = [_row(item, found) for item in definition.flow]

    def parts(self) -> Iterator[Part]:
        """The phases, in the order of the flow."""
        for row in self.rows:
            yield from row.parts

    def names(self) -> list[str]:
        """What they are called."""
        return [part.name for part in self.parts()]

    def part(self, name: str) -> Part | None:
        """The phase of that name."""
        return next((part for part in self.parts() if part.name == name), None)

    def remove(self, part: Part) -> None:
        """Takes a phase out; what others say of it is not looked at."""
        for row in self.rows:
            row.parts = [each for each in row.parts if each is not part]
        self.rows = [row for row in self.rows if row.parts]

    def rename(self, names: Mapping[str, str]) -> None:
        """Gives phases other names, everywhere."""
        for row in self.rows:
            if row.block is not None:
                after = after_renamed(row.block.after, names)
                row.block = row.block.model_copy(update={"after": after})
            for part in row.parts:
                part.rename(names)

    def definition(self) -> CrewDefinition:
        """The crew with this flow, which must have a phase."""
        while True:
            flow = tuple(row.written() for row in self.rows)
            made = self._crew.model_copy(update={"flow": flow})
            found = iter(phases(made))
            # All are looked at: what one of them has to say may be what another's place lacked.
            changed = [row.mend([next(found) for _ in row.parts]) for row in self.rows]
            if not any(changed):
                return made


def _row(item: FlowItem, found: Iterator[Phase]) -> Row:
    if isinstance(item, ParallelPhase):
        return Row([_part(part, next(found)) for part in item.parallel], item)
    parts = item if isinstance(item, tuple) else (item,)
    return Row([_part(part, next(found)) for part in parts])


def _part(written: object, phase: Phase) -> Part:
    return Part(phase.name, phase.item, Wait.of_phase(phase), isinstance(written, str))


def renamed(crew: CrewDefinition, names: Mapping[str, str]) -> CrewDefinition:
    """The crew with its phases renamed; a name is written only where it does not follow."""
    if all(old == new for old, new in names.items()):
        return crew
    flow = Flow(crew)
    flow.rename(names)
    return flow.definition()


def after_renamed(after: After | None, names: Mapping[str, str]) -> After | None:
    """What a phase waits for, as written, with other names."""

    def new(of: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(names.get(name, name) for name in of)

    match after:
        case str():
            return after if after == SENT_ONLY else names.get(after, after)
        case tuple():
            return new(after)
        case JoinAll():
            return JoinAll(all=new(after.all))
        case JoinAny():
            return JoinAny(any=new(after.any))
        case JoinQuorum():
            return JoinQuorum(quorum=after.quorum, of=new(after.of))
        case None:
            return None
