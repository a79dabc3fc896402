"""Where a run is part of another one by now: what is said to it is said there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from crewlog.cli.screen import Screen, plain
from crewlog.client import Client
from crewlog.client.run import Whereabouts
from crewlog.definition.operations import Operation
from crewlog.errors import CommandRejected, RunNotFound
from crewlog.model import Json
from crewlog.state.run_merge.renames import renames_description


async def led_to(screen: Screen, client: Client, run_id: str) -> Whereabouts:
    """The run that one is part of, told in a line; or itself, where it is one of its own.

    Args:
        screen: Where it is told.
        client: A client of the server that has the run.
        run_id: The run that was named.
    """
    try:
        found = await client.run(run_id).whereabouts()
    except RunNotFound:
        return Whereabouts(client.run(run_id))  # who asks next says so
    if found.run.id != run_id:
        called = f"; {renames_description(found.renamed)}" if found.renamed else ""
        screen.note(
            ("▸ ", "yellow"),
            f"{plain(run_id)} is part of {plain(found.run.id)} by now: going on there"
            + plain(called),
        )
    return found


def check_meant(named: str, found: Whereabouts, operations: Iterable[Operation]) -> None:
    """Checks that nothing is changed which is called as something of a run was that is merged.

    Args:
        named: The run that was named.
        found: Where it goes on.
        operations: What is to be changed.

    Raises:
        CommandRejected: one of them names what has another name there.
    """
    said = {name for each in operations for name in _names(each.to_json())}
    for each in found.renamed:
        if each.was in said:
            raise CommandRejected(
                f"the {each.kind} {each.was!r} of {named!r} is called {each.now!r} in "
                f"{found.run.id!r}, of which that run is a part by now",
                remedy=f"Name the run {found.run.id}, and what is meant by its name there.",
                place=f"run {named!r}",
            )


def _names(said: Json) -> Iterator[str]:
    """All texts in an operation that may be names."""
    if isinstance(said, dict):
        pairs: dict[str, Json] = said  # pyright: ignore[reportUnknownVariableType]
        for key, value in pairs.items():
            yield key
            yield from _names(value)
    elif isinstance(said, list):
        parts: list[Json] = said  # pyright: ignore[reportUnknownVariableType]
        for value in parts:
            yield from _names(value)
    elif isinstance(said, str):
        yield said.rpartition(":")[2]
