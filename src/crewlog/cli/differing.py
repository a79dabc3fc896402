"""`diff`: what differs between two checkpoints of a run, or of two runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crewlog.cli.screen import Part
    from crewlog.graph.difference import GraphDifference
    from crewlog.state.difference import Change, StateDifference

LOOK = "Look"
_LONGEST = 60
"""Characters of a value that are shown of each side, without `--full`."""
_SIGNS = {"added": ("+", "green"), "removed": ("−", "red"), "changed": ("~", "yellow")}  # noqa: RUF001
_QUIET = ("visits", "usage", "done")
"""Sections that follow from the others, told only with `--full`."""


@app.command(rich_help_panel=LOOK)
def diff(
    first: Annotated[
        str,
        typer.Argument(
            metavar="RUN[@POSITION]",
            help="A run as it is, at a journal position, or at a tag: notes@12, notes@before.",
            show_default=False,
        ),
    ],
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN[@POSITION]]",
            help="The same run at another place, or another run. Default: the first run as it is.",
            show_default=False,
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Whole values, and counts of visits and usage.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show what differs between two checkpoints: state and graph."""
    return go(_diff(first, second, full=full, as_json=as_json), debug=debug)


async def _diff(first: str, second: str | None, *, full: bool, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.cli.sight import see_at  # noqa: PLC0415
    from crewlog.graph.difference import graph_difference  # noqa: PLC0415
    from crewlog.state.difference import difference  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        old = await see_at(client, first)
        new = await see_at(client, second if second is not None else old.run)
    found = difference(old.state, new.state)
    graph = graph_difference(old.plan, new.plan) if old.plan and new.plan else None
    if as_json:
        screen.document(
            {
                "from": {"run": old.run, "position": old.state.position},
                "to": {"run": new.run, "position": new.state.position},
                "changes": found.changes,
                "graph": graph.model_dump(mode="json") if graph is not None else None,
            }
        )
        return exits.OK
    steps = new.state.steps - old.state.steps
    later = f"  {abs(steps)} step{'s' * (abs(steps) != 1)} {'later' if steps > 0 else 'earlier'}"
    between = " → ".join(f"{each.run}@{each.state.position}" for each in (old, new))
    screen.line("  ", (plain(between), "bold"), (later if steps else "", "dim"))
    screen.line("")
    rows = [*graph_rows(graph), *state_rows(found, full=full)]
    if rows:
        screen.rows(("", "", ""), rows)
    else:
        screen.line("  nothing differs", ("" if full else " (with --full: counts, too)", "dim"))
    return exits.OK


def state_rows(found: StateDifference, *, full: bool = False) -> list[list[Part]]:
    """A difference of states as rows: part, sign and name, values."""
    rows: list[list[Part]] = []
    said = ""
    for change in found.changes:
        if change.section in _QUIET and not full:
            continue
        sign, style = _SIGNS[change.kind]
        title = "" if change.section == said else change.section
        said = change.section
        rows.append(
            [(title, "dim"), (f"{sign} {_plain(change.name)}", style), _values(change, full)]
        )
    return rows


def _values(change: Change, full: bool) -> Part:
    if change.kind == "added":
        return shown(change.new, full)
    if change.kind == "removed":
        return (shown(change.old, full), "dim")
    return f"{shown(change.old, full)} → {shown(change.new, full)}"


def shown(value: Any, full: bool = False) -> str:
    """A value in a line; a body by its hash."""
    if isinstance(value, dict) and [*value] == ["body"]:  # pyright: ignore[reportUnknownArgumentType]
        return f"body {value['body'][:8]}…"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = _plain(text)
    return line if full or len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _plain(text: object) -> str:
    from crewlog.cli.screen import plain  # noqa: PLC0415

    return plain(text)


def graph_rows(found: GraphDifference | None) -> list[list[Part]]:
    """A difference of graphs as rows: kind, sign and name, what of it."""
    if found is None or not found:
        return []
    return [*_section("nodes", _nodes(found)), *_section("edges", _edges(found)), *_rules(found)]


Line = tuple[str, str, str]


def _section(title: str, lines: Iterable[Line]) -> Iterator[list[Part]]:
    for number, (kind, name, what) in enumerate(lines):
        sign, style = _SIGNS[kind]
        yield [("" if number else title, "dim"), (f"{sign} {_plain(name)}", style), _plain(what)]


def _nodes(found: GraphDifference) -> Iterator[Line]:
    yield from (("added", name, "") for name in found.added)
    yield from (("removed", name, "") for name in found.removed)
    yield from (("changed", name, ", ".join(fields)) for name, fields in found.changed.items())


def _edges(found: GraphDifference) -> Iterator[Line]:
    for kind, edges in (("added", found.edges_added), ("removed", found.edges_removed)):
        for source, target, how in edges:
            yield kind, f"{source} → {target}", "" if how == "join" else how


def _rules(found: GraphDifference) -> Iterator[list[Part]]:
    lines = [
        (fields[0] if fields[0] in ("added", "removed") else "changed", name, ", ".join(fields))
        for name, fields in found.rules.items()
    ]
    return _section(
        "rules", [(kind, name, "" if what == kind else what) for kind, name, what in lines]
    )
