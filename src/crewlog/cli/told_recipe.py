"""What going on from its recipe makes of a run: who leaves, who comes back, who stays elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from crewlog.cli.screen import Part, Screen, counted, plain
from crewlog.client.recipes import WayBack
from crewlog.definition.findings import listed


def show_way_back(screen: Screen, run: str, found: WayBack) -> None:
    """Tells what becomes of a run, in a line, and then one by one.

    Args:
        screen: Where to.
        run: The run.
        found: What going on from its recipe makes of it.
    """
    if not found.changes:
        screen.line(f"  {plain(run)} is as its recipe is: nobody leaves, and nobody comes back.")
        return
    screen.wrapped([("  its recipe", "bold"), "  "], plain(found.what), indent=4)
    for head, text in _lines(run, found):
        screen.wrapped(["  ", *head], text, indent=4)


def show_what_is_first(screen: Screen, run: str, found: WayBack) -> None:
    """Tells what is to be done with an open run before it may go back to its recipe.

    Args:
        screen: Where to.
        run: The run.
        found: See `show_way_back`.
    """
    if found.home:
        come = "comes" if len(found.home) == 1 else "come"
        screen.line(("  Stop it first   ", "dim"), f"crewlog stop {plain(run)}")
        told = f"{listed(map(plain, found.home))} {come} home only to a run that has ended"
        screen.wrapped([("  · ", "dim")], told, indent=4)
    elif found.status != "paused":
        screen.line(("  Pause it first   ", "dim"), f"crewlog pause {plain(run)}")


def _lines(run: str, found: WayBack) -> Iterator[tuple[list[Part], str]]:
    brought: dict[str, list[str]] = {}
    for each in found.leaves:
        brought.setdefault(each.came_with or "", []).append(plain(each.name))
    for other, names in brought.items():
        leave = f"{listed(names)} {'leaves' if len(names) == 1 else 'leave'}"
        if other:
            came = f"came with {plain(other)}, whose history stays: crewlog log {plain(other)}"
        else:
            came = "not in the recipe"
        yield [("– ", "red")], f"{leave}: {came}"  # noqa: RUF001
    if found.returns:
        names = [*map(plain, found.returns)]
        back = "comes" if len(names) == 1 else "come"
        yield [("+ ", "green")], f"{listed(names)} {back} back, or is new there"
    for name, home in found.stays.items():
        yield [("= ", "dim")], f"{plain(name)} stays in {plain(home)}, where it lives"
    for sign, channels in (
        (("– ", "red"), found.channels_gone),  # noqa: RUF001
        (("+ ", "green"), found.channels_new),
    ):
        if channels:
            noun = "channel" if len(channels) == 1 else "channels"
            yield [sign], f"the {noun} {listed(map(plain, channels))}"
    if found.pieces > 1:
        runs = counted(found.pieces, "run")
        yield [("⑂ ", "bold yellow")], f"its recipe is in several pieces: they part into {runs}"
    yield [("· ", "dim")], f"what was said stays; crewlog lineage {plain(run)} tells where"


def way_back_json(found: WayBack) -> dict[str, Any]:
    """The same for a program."""
    return {
        "status": found.status,
        "changes": found.changes,
        "what": found.what,
        "leaves": [{"name": each.name, "came_with": each.came_with} for each in found.leaves],
        "returns": list(found.returns),
        "home": list(found.home),
        "stays": dict(found.stays),
        "channels_gone": list(found.channels_gone),
        "channels_new": list(found.channels_new),
        "pieces": found.pieces,
    }
