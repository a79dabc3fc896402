"""`graphs` and `lineage`: which graphs of creatures there are, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug, RunArgument

if TYPE_CHECKING:
    from crewlog.cli.screen import Part, Screen
    from crewlog.client.graphs import Graph
    from crewlog.ids import RunId


@app.command(rich_help_panel="Look")
def graphs(
    all_: Annotated[bool, typer.Option("--all", "-a", help="Ended ones, too.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, max=1000, help="At most so many runs.")
    ] = 200,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List the graphs of agents that listen to each other, with members and lineage, as a tree."""
    return go(_graphs(all_=all_, limit=limit, as_json=as_json), debug=debug)


@app.command(rich_help_panel="Look")
def lineage(run: RunArgument, as_json: AsJson = False, debug: Debug = False) -> int:
    """Show what a run comes from, and what came of it: parts, copies, and whom it took in."""
    return go(_lineage(run, as_json=as_json), debug=debug)


async def _graphs(*, all_: bool, limit: int, as_json: bool) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        found = await client.graphs(ended=all_, limit=limit)
    if as_json:
        screen.document({"graphs": [asdict(each) for each in found]})
    elif not found:
        screen.line(
            "No graphs live. ",
            ("All that ended: crewlog graphs --all; what runs: crewlog ps", "dim"),
        )
    else:
        show_tree(screen, found)
    return exits.OK


async def _lineage(run: str, *, as_json: bool) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        found = await client.lineage(run)
    if as_json:
        screen.document({"run": run, "graphs": [asdict(each) for each in found]})
    else:
        show_tree(screen, found, run)
    return exits.OK


def show_tree(screen: Screen, found: Sequence[Graph], marked: str = "") -> None:
    """Graphs, each under the one that it began from.

    Args:
        screen: Where to.
        found: The graphs.
        marked: The run that was asked for.
    """
    from crewlog.cli.screen import plain  # noqa: PLC0415

    rows = list(_rows(found))
    width = max(len(branch) + len(plain(each.run)) for branch, each in rows)
    narrow = screen.width < 70
    for branch, each in rows:
        style = "bold" if each.run == marked else ""
        gap = "  " if narrow else " " * (width - len(branch) - len(plain(each.run)) + 2)
        status = (f"{plain(each.status):<9}", "" if each.open else "dim")
        said = " · ".join(map(plain, _said(each)))
        head: list[Part] = [(f"  {branch}", "dim"), (plain(each.run), style), gap, status, "  "]
        if narrow:
            screen.line(*head)
            screen.wrapped([" " * (len(branch) + 4)], said, indent=len(branch) + 4, style="dim")
        else:
            screen.wrapped(head, said, indent=width + 15)


def _said(each: Graph) -> Iterator[str]:
    if each.members:
        yield ", ".join(each.members)
    if each.source is not None:
        how = "parted" if each.began == "split" else "forked"
        yield f"{how} from {each.source}" + (f"@{each.at}" if each.at else "")
    for taken in each.took_in:
        yield f"took in {taken.run}" + (f" at {taken.position}" if taken.position else "")
    if each.into is not None:
        yield f"part of {each.into}"


def _rows(found: Sequence[Graph]) -> Iterator[tuple[str, Graph]]:
    """Each graph once, with the branches before it, a source before what began from it.

    Of deleted runs it may not be known whether one began from another, or took it in: of those that
    seem to have begun from each other, the first counts as the source of the others.
    """
    there = {each.run for each in found}
    below: dict[RunId, list[Graph]] = {}
    for each in found:
        if each.source is not None and each.source in there:
            below.setdefault(each.source, []).append(each)
    told: set[RunId] = set()
    roots = [each for each in found if each.source is None or each.source not in there]
    for each in (*roots, *found):
        if each.run not in told:
            told.add(each.run)
            yield "", each
            yield from _below(each, below, "", told)


def _below(
    graph: Graph, below: Mapping[RunId, list[Graph]], before: str, told: set[RunId]
) -> Iterator[tuple[str, Graph]]:
    parts = [each for each in below.get(graph.run, []) if each.run not in told]
    told.update(each.run for each in parts)
    for number, each in enumerate(parts, 1):
        last = number == len(parts)
        yield f"{before}{'└─ ' if last else '├─ '}", each
        yield from _below(each, below, before + ("   " if last else "│  "), told)
