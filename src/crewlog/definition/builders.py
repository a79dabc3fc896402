"""Builders: named functions that make a part of a flow, or the steps inside an agent's turn.

A builder returns flow items, which are data; `crewlog.definition.expand` puts them in the place
where the builder was used. So what runs is always phases, decisions and questions, whoever wrote
them. Packages bring their own by the entry point group `crewlog.builders`; a worker must have those
that its crews use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Literal

from crewlog.definition.findings import did_you_mean
from crewlog.definition.model import CrewDefinition, FlowItem
from crewlog.errors import UsageError
from crewlog.model import Model

GROUP = "crewlog.builders"
"""The entry point group: each entry names a module, or a function in one, to import."""


@dataclass(frozen=True)
class Place:
    """Where a builder is used."""

    phase: str
    """The name of the part; its phases' names begin with it, or are agents' names."""
    crew: CrewDefinition
    """The crew as written."""
    agent: str | None = None
    """The agent, for an agent's pattern."""
    task: str | None = None
    """What the agent is to do, for an agent's pattern."""
    off: tuple[str, ...] = ()
    """The steps that are switched off, for an agent's pattern."""


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

    def build(self, options: Model, place: Place) -> Built:
        """The items for one use."""
        made = self.expand(options, place)
        return made if isinstance(made, Built) else Built(made)


_registered: dict[str, Builder] = {}
_loaded: set[str] = set()


def register(builder: Builder) -> Builder:
    """Adds a builder, or replaces the one of its name that the same module made.

    Raises:
        UsageError: where another module has one of that name.
    """
    other = _registered.get(builder.name)
    if other is not None and _origin(other) != _origin(builder):
        raise UsageError(
            f"two builders are called {builder.name!r}: of {_origin(other)} and {_origin(builder)}",
            remedy="Give one of them another name.",
        )
    _registered[builder.name] = builder
    return builder


def builders() -> dict[str, Builder]:
    """All builders by name, those of installed packages included."""
    _load()
    return dict(sorted(_registered.items()))


def find_builder(name: str) -> Builder:
    """The builder of that name.

    Raises:
        LookupError: where there is none; the text says which there are.
    """
    if name not in _registered:
        _load()
    found = _registered.get(name)
    if found is None:
        known = ", ".join(sorted(_registered))
        raise LookupError(did_you_mean(name, _registered, f"There are: {known}."))
    return found


def _load() -> None:
    import crewlog.definition.patterns  # noqa: F401, PLC0415 - registers the built-in ones

    for entry in entry_points(group=GROUP):
        if entry.value not in _loaded:
            _loaded.add(entry.value)
            entry.load()


def _origin(builder: Builder) -> str:
    return str(getattr(builder.expand, "__module__", "?"))
