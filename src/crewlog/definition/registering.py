"""What builders and decisions have in common: named parts that packages bring by entry points.

Each keeps its own tables, and says what of a package is one of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, TypeVar

from crewlog.definition.findings import did_you_mean
from crewlog.errors import UsageError


class Part(Protocol):
    """A part that has a name, and says where it cannot be used."""

    @property
    def name(self) -> str:
        """What definitions call it."""
        ...

    @property
    def broken(self) -> str:
        """Why it cannot be used; empty where it can."""
        ...


P = TypeVar("P", bound=Part)
Key = tuple[str, str]
"""An entry point: its name, and what it names."""


def put(part: P, registered: dict[str, P], origin: Callable[[P], str], noun: str) -> None:
    """Adds a part, or replaces the one of its name that the same module made.

    Raises:
        UsageError: where another module has one of that name.
    """
    other = registered.get(part.name)
    if other is not None and origin(other) != origin(part):
        raise UsageError(
            f"two {noun}s are called {part.name!r}: of {origin(other)} and {origin(part)}",
            remedy="Give one of them another name.",
        )
    registered[part.name] = part


def all_of(registered: Mapping[str, P], broken: Mapping[Key, P]) -> dict[str, P]:
    """All parts by name, those included that cannot be loaded."""
    lost = {part.name: part for part in broken.values()}
    return dict(sorted({**lost, **registered}.items()))


def find(name: str, registered: Mapping[str, P], broken: Mapping[Key, P], install: str) -> P:
    """The part of that name.

    Raises:
        LookupError: where there is none; the text says which there are.
    """
    if (found := registered.get(name)) is not None:
        return found
    for lost in broken.values():
        if lost.name == name:
            return lost
    known = ", ".join(sorted(registered))
    near = did_you_mean(name, registered, f"There are: {known}.")
    said = [lost.broken for lost in broken.values()]  # one of them may have brought it
    raise LookupError(" ".join([near, install, *(f"Note that {each}." for each in said)]))


def load(
    group: str,
    loaded: set[Key],
    broken: dict[Key, P],
    fault_of: Callable[[Any], str],
    lost: Callable[[str, str], P],
    noun: str,
) -> None:
    """Loads the entry points of a group that are not loaded yet.

    Args:
        group: The group.
        loaded: Those that were.
        broken: Where a part is put for each that cannot be.
        fault_of: What is wrong with what an entry names; empty where nothing is.
        lost: The part that stands for one that is broken, of its name and the reason.
        noun: What a part is called.
    """
    for entry in entry_points(group=group):
        key = (entry.name, entry.value)
        if key in loaded:
            continue
        loaded.add(key)
        fault = _fault(entry, fault_of)
        if fault:
            package = entry.dist.name if entry.dist is not None else "?"
            names = f"names {entry.value!r} as the {noun} {entry.name!r}"
            broken[key] = lost(entry.name, f"the package {package!r} {names}, {fault}")


def _fault(entry: EntryPoint, fault_of: Callable[[Any], str]) -> str:
    try:
        found = entry.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a package of others: its fault must stay its own
        return f"and importing it fails: {type(error).__name__}: {error}"
    return fault_of(found)
