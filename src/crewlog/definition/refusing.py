"""How an operation says that it is not applied."""

from __future__ import annotations

from collections.abc import Iterable

from crewlog.definition.findings import Finding, Path, did_you_mean, listed


class Refused(Exception):
    """An operation is not applied: what is wrong with it, by paths within it."""

    def __init__(self, *found: Finding) -> None:
        super().__init__(found[0].message)
        self.found = found


def known(kind: str, name: str, there: Iterable[str], path: Path) -> None:
    """Checks that the crew has something of that name.

    Args:
        kind: What it is: `agent`, `tool`, `channel`.
        name: The name.
        there: Those that the crew has.
        path: Where the operation says the name.

    Raises:
        Refused: it has not.
    """
    names = [*there]
    if name not in names:
        remedy = did_you_mean(name, names, f"There are: {listed(names)}." if names else "")
        raise Refused(Finding(path, f"the crew has no {kind} {name!r}", remedy))
