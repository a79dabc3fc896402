"""Builders: named functions that make a part of a flow, or the steps inside an agent's turn.

A builder returns flow items, which are data; `crewlog.definition.expand` puts them in the place
where the builder was used. So what runs is always phases, decisions and questions, whoever wrote
them. Packages bring their own by the entry point group `crewlog.builders`; a worker must have those
that its crews use. `crewlog.builder` makes one of a function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from types import ModuleType
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from crewlog.definition import registering
from crewlog.definition.findings import Finding, Path, did_you_mean, listed
from crewlog.definition.model import CrewDefinition, FlowItem
from crewlog.definition.replies import Reply
from crewlog.errors import CrewlogError
from crewlog.model import Json, Model
from crewlog.validation_errors import field_error_text, rule_of_field_error

GROUP = "crewlog.builders"
"""The entry point group: each entry names a builder, or a module that has some."""
_INSTALL = (
    "A builder of a package must be installed wherever it is checked and run, on every worker too."
)


@dataclass(frozen=True)
class Place:
    """Where a builder is used."""

    phase: str
    """The name of the part."""
    crew: CrewDefinition
    """The crew as written."""
    agent: str | None = None
    """The agent, for an agent's pattern."""
    task: str | None = None
    """What the agent is to do, for an agent's pattern."""
    off: tuple[str, ...] = ()
    """The steps that are switched off, for an agent's pattern."""
    for_each: str | None = None
    """`agent.output`, for an agent's pattern in a phase for each item of a list. A pattern that
    puts it at none of its steps gets it at all of the agent's."""


@dataclass(frozen=True)
class Built:
    """What a builder makes.

    The items are read like a flow: each waits for the one before it unless it says `after`; those
    that begin (the first, and those with `after: []`) wait for what the whole part waits for, and
    what follows the part waits for its last item.
    """

    items: Sequence[FlowItem]
    outputs: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Outputs that agents must have for it, by agent, besides those that they declare."""
    flags: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Flags that agents must be able to set, by agent, besides those that they declare."""
    last: str | None = None
    """The phase that what follows waits for, where it is not the last item."""
    replies: Mapping[str, Reply] = field(default_factory=dict[str, Reply])
    """The forms of agents' replies that it needs, by agent; one that an agent has is kept."""
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict[str, Mapping[str, Any]])
    """Other fields of agents that it needs, by agent. What an agent says itself is kept: of those
    in `crewlog.definition.model.FILLED` also where it says the default, of others what differs from
    it. `inputs` are added to its own; an agent that says `[]` is shown none."""


Expand = Callable[[Any, Place], "Built | Sequence[FlowItem]"]


@dataclass(frozen=True)
class Builder:
    """A registered builder."""

    name: str
    about: str
    """What it makes, in a line."""
    kind: Literal["flow", "agent"]
    """Whether it makes a part of a flow, or the steps inside an agent."""
    options: type[Model]
    """The model of its options."""
    expand: Expand
    """Makes the items; raises `ValueError` where the options make no sense."""
    steps: tuple[str, ...] = ()
    """The steps inside an agent that can be switched off."""
    broken: str = ""
    """Why it cannot be used: its package could not be loaded."""

    def build(self, options: Model, place: Place) -> Built:
        """The items for one use."""
        made = self.expand(options, place)
        return made if isinstance(made, Built) else Built(made)


class NoOptions(Model):
    """A builder without options."""


_registered: dict[str, Builder] = {}
_broken: dict[tuple[str, str], Builder] = {}
_loaded: set[tuple[str, str]] = set()


def register(builder: Builder) -> Builder:
    """Adds a builder, or replaces the one of its name that the same module made.

    Raises:
        UsageError: where another module has one of that name.
    """
    registering.put(builder, _registered, _origin, "builder")
    return builder


def builders() -> dict[str, Builder]:
    """All builders by name, those of installed packages included.

    An entry point that cannot be loaded is here under its own name, with `broken` set.
    """
    _load()
    return registering.all_of(_registered, _broken)


def find_builder(name: str) -> Builder:
    """The builder of that name.

    Raises:
        LookupError: where there is none; the text says which there are.
    """
    if name not in _registered:
        _load()
    return registering.find(name, _registered, _broken, _INSTALL)


def _load() -> None:
    for built_in in ("hubs", "patterns", "stages", "team"):
        import_module(f"crewlog.definition.{built_in}")  # registers its builders
    registering.load(GROUP, _loaded, _broken, _fault_of, _lost, "builder")


def _lost(name: str, say: str) -> Builder:
    return Builder(name, say, "flow", NoOptions, lambda _options, _place: [], broken=say)


def _fault_of(found: Any) -> str:
    """What is wrong with what an entry point names; empty where nothing is."""
    if isinstance(found, Builder):
        _registered.setdefault(found.name, found)
        return ""
    if isinstance(found, ModuleType):
        inside = (found.__name__, f"{found.__name__}.")
        if any(_origin(b) == inside[0] or _origin(b).startswith(inside[1]) for b in _all()):
            return ""
        return "a module that makes no builder: it must have a function under @crewlog.builder"
    return f"which is no builder but {type(found).__name__!r}: put @crewlog.builder over it"


def _all() -> Sequence[Builder]:
    return tuple(_registered.values())


def _origin(builder: Builder) -> str:
    return str(getattr(builder.expand, "__module__", "?"))


@dataclass(frozen=True)
class Use:
    """One use of a builder in a definition."""

    name: str
    options: Mapping[str, Json]
    place: Place
    path: Path
    """Where it is written."""

    @property
    def flow(self) -> bool:
        """Whether it is used in the flow; else it is an agent's pattern."""
        return self.place.agent is None

    @property
    def called(self) -> str:
        """What messages call it."""
        if self.flow:
            return f"the builder {self.name!r}"
        return f"the pattern {self.name!r} of {self.place.agent!r}"

    @property
    def key(self) -> str:
        """What tells it from those that it is inside of."""
        return f"builder {self.name}" if self.flow else f"agent {self.place.agent}"


def build(use: Use) -> tuple[Built, list[Finding]]:
    """What a builder makes for a use, and everything that is wrong with the use."""
    nothing = Built(())
    try:
        builder = find_builder(use.name)
    except LookupError as error:
        say = f"no builder is called {use.name!r}"
        return nothing, [Finding((*use.path, "use"), say, str(error))]
    if builder.broken:
        say = f"the builder {use.name!r} cannot be used: {builder.broken}"
        return nothing, [Finding((*use.path, "use"), say, "Mend that package, or install another.")]
    if use.flow is not (builder.kind == "flow"):
        where = {"flow": "the flow, as {use: …}", "agent": "an agent, as its pattern"}
        say = f"the builder {use.name!r} is for {where[builder.kind]}"
        return nothing, [Finding((*use.path, "use"), say, "Use it there.")]
    faults: list[Finding] = []
    for step in use.place.off:
        if step not in builder.steps:
            say = f"the pattern {use.name!r} has no step {step!r} that can be switched off"
            there = f"It has {listed(builder.steps)}." if builder.steps else ""
            faults.append(Finding((*use.path, "off"), say, there, word=step))
    try:
        options = builder.options.model_validate(dict(use.options))
    except ValidationError as error:
        return nothing, [*faults, *_bad_options(error, use, builder)]
    try:
        built = builder.build(options, use.place)
        items = _ITEMS.validate_python(tuple(built.items))
    except ValidationError as error:
        say = f"{use.called} returns what is no part of a flow: {_first(error)}"
        remedy = "A builder returns flow items, a Built of them, or a StateGraph."
        return nothing, [*faults, Finding((*use.path, "use"), say, remedy)]
    except CrewlogError as error:
        place = f" ({error.place})" if error.place else ""
        say = f"{use.called}: {error.message}{place}"
        return nothing, [*faults, Finding((*use.path, "use"), say, error.remedy)]
    except ValueError as error:
        return nothing, [*faults, Finding((*use.path, "with"), f"{use.called}: {error}")]
    except Exception as error:  # noqa: BLE001 - a function of others: its fault is a finding
        say = f"{use.called} failed: {type(error).__name__}: {error}"
        remedy = f"Mend {_origin(builder)}: a builder raises ValueError for options it cannot use."
        return nothing, [*faults, Finding((*use.path, "use"), say, remedy)]
    if not items:
        say = f"{use.called} makes no phase"
        faults.append(Finding((*use.path, "use"), say, f"Mend {_origin(builder)}."))
    return replace(built, items=items), faults


_ITEMS: TypeAdapter[tuple[FlowItem, ...]] = TypeAdapter(tuple[FlowItem, ...])


def _bad_options(error: ValidationError, use: Use, builder: Builder) -> list[Finding]:
    fields = tuple(field.alias or name for name, field in builder.options.model_fields.items())
    remedy = f"Its options: {listed(fields)}." if fields else "It has no options."
    found: list[Finding] = []
    for fault in error.errors(include_url=False):
        at: Path = fault["loc"]
        where = ".".join(str(part) for part in at) or "its options"
        path, say = (*use.path, "with", *at), f"the builder {use.name!r} cannot use {where!r}: "
        if fault["type"] == "extra_forbidden":
            say = f"the builder {use.name!r} has no option {where!r}"
            near = did_you_mean(where, fields, remedy)
            found.append(Finding(path, say, near, at="key"))
        elif fault["type"] == "missing":
            say = f"the builder {use.name!r} needs the option {where!r}"
            found.append(Finding(path, say, remedy))
        else:
            found.append(Finding(path, say + f"it {rule_of_field_error(fault)}", remedy))
    return found


def _first(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    return f"item {fault['loc'][0] if fault['loc'] else '?'}: {field_error_text(fault, below=1)}"
