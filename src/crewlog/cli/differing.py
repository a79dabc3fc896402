"""`diff`: what differs between two checkpoints of a run, or of two runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug
from crewlog.state.excerpt import shortened

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from crewlog.cli.screen import Part
    from crewlog.cli.texts import Bodies, Told
    from crewlog.client import Client
    from crewlog.definition.diff import Change as DefinitionChange
    from crewlog.reporting.diff.plan import PlanDiff
    from crewlog.reporting.diff.state import StateChange, StateDiff
    from crewlog.reporting.diff.view import Checkpoint

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
        bool,
        typer.Option("--full", help="Whole texts, line by line, and counts of visits and usage."),
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show what differs between two checkpoints: state and graph."""
    return go(_diff(first, second, full=full, as_json=as_json), debug=debug)


async def _diff(first: str, second: str | None, *, full: bool, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.cli.texts import Told, bodies_in_brief, bodies_of, tell  # noqa: PLC0415
    from crewlog.reporting.diff.state import StateDiff  # noqa: PLC0415
    from crewlog.reporting.diff.view import checkpoint_diff  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        old = await _checkpoint(client, first)
        new = await _checkpoint(client, second if second is not None else old.run)
        view = checkpoint_diff(old, new)
        found = StateDiff(changes=view.changes)
        looked_up = bodies_of if full else bodies_in_brief
        bodies = await looked_up(client, [] if as_json else [found])
    if as_json:
        screen.document(view.model_dump(mode="json"))
        return exits.OK
    steps = new.state.steps - old.state.steps
    later = f"  {abs(steps)} step{'s' * (abs(steps) != 1)} {'later' if steps > 0 else 'earlier'}"
    between = " → ".join(f"{each.run}@{each.state.position}" for each in (old, new))
    screen.line("  ", (plain(between), "bold"), (later if steps else "", "dim"))
    screen.line("")
    told = [
        *map(Told, graph_rows(view.graph, rules=view.definition is None)),
        *definition_told(view.definition or (), full=full),
        *state_told(found, full=full, bodies=bodies),
    ]
    tell(screen, told)
    if not told:
        screen.line("  nothing differs", ("" if full else " (with --full: counts, too)", "dim"))
    return exits.OK


async def _checkpoint(client: Client, target: str) -> Checkpoint:
    from crewlog.cli.sight import crew_of, see_at  # noqa: PLC0415
    from crewlog.ids import RunId  # noqa: PLC0415
    from crewlog.reporting.diff.view import Checkpoint  # noqa: PLC0415

    sight = await see_at(client, target)
    definition = await crew_of(client, sight.state)
    return Checkpoint(RunId(sight.run), sight.state, sight.plan, definition)


def definition_told(changes: Iterable[DefinitionChange], *, full: bool = False) -> list[Told]:
    """What of a crew's prompts and settings differs; its graph is told apart."""
    from crewlog.cli.texts import Told, is_long, lines_between  # noqa: PLC0415

    told: list[Told] = []
    for change in changes:
        if change.path[0] == "flow" and (len(change.path) < 3 or change.path[-1] == "after"):
            continue  # nodes and edges say it
        sign, style = _SIGNS[change.kind]
        title = "" if told else "definition"
        what, how = _parted(change)
        if full and change.kind == "changed" and is_long(change.old, change.new):
            row: list[Part] = [(title, "dim"), (f"{sign} {_plain(what)}", style), change.path[-1]]
            told.append(Told(row, lines_between(change.old, change.new)))
        else:
            told.append(Told([(title, "dim"), (f"{sign} {_plain(what)}", style), _plain(how)]))
    return told


def _parted(change: DefinitionChange) -> tuple[str, str]:
    """What a difference is about, and how it differs."""
    section, *names = change.path
    if section == "limits" or not names:
        what = " ".join(["limit" if names else section, ".".join(names)]).strip()
        return what, change.words.removeprefix(what).strip()
    what, _, how = change.words.partition(": ")
    return what, how


def state_rows(found: StateDiff, *, full: bool = False, whole: bool = False) -> list[list[Part]]:
    """A difference of states as rows: part, sign and name, values; `whole`: however long."""
    return [each.row for each in state_told(found, full=full, whole=whole, bodies=None)]


def state_told(
    found: StateDiff,
    *,
    full: bool = False,
    whole: bool = False,
    bodies: Bodies | None = None,
) -> list[Told]:
    """The same, with long values line by line.

    Args:
        found: The difference.
        full: Whether whole values are told, and counts.
        whole: Whether whole values are told.
        bodies: What is too large to be in a state; none: it is told by its hash, and rows alone
            are made.
    """
    from crewlog.cli.texts import Told, is_long, lines_between, with_texts  # noqa: PLC0415

    told: list[Told] = []
    said = ""
    for each in found.changes:
        change = each
        if change.section in _QUIET and not full:
            continue
        sign, style = _SIGNS[change.kind]
        title = "" if change.section == said else change.section
        said = change.section
        head: list[Part] = [(title, "dim"), (f"{sign} {_plain(change.name)}", style)]
        if bodies is not None:
            old, new = (with_texts(value, bodies) for value in (change.old, change.new))
            change = change.model_copy(update={"old": old, "new": new})
        if full and bodies is not None and is_long(change.old, change.new):
            told.append(Told([*head, ""], lines_between(change.old, change.new)))
        else:
            told.append(Told([*head, _values(change, full or whole)]))
    return told


def _values(change: StateChange, full: bool) -> Part:
    if change.kind == "added":
        return shown(change.new, full)
    if change.kind == "removed":
        return (shown(change.old, full), "dim")
    old, new = shown(change.old, full), shown(change.new, full)
    if old == new:
        return f"{old} → … (they begin alike: --full has them whole)"
    return f"{old} → {new}"


def shown(value: Any, full: bool = False) -> str:
    """A value in a line; a body by its hash."""
    from crewlog.cli.texts import is_body  # noqa: PLC0415

    if is_body(value):
        return f"body {value['body'][:8]}…"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    line = _plain(text)
    return line if full else shortened(line, _LONGEST)


def _plain(text: object) -> str:
    from crewlog.cli.screen import plain  # noqa: PLC0415

    return plain(text)


def graph_rows(found: PlanDiff | None, *, rules: bool = True) -> list[list[Part]]:
    """A difference of graphs as rows: kind, sign and name, what of it.

    Args:
        found: The difference.
        rules: Whether what is no node and no edge is told, too: who has the definitions has more.
    """
    if found is None or not found:
        return []
    rows = [*_section("nodes", _nodes(found)), *_section("edges", _edges(found))]
    return [*rows, *_rules(found)] if rules else rows


Line = tuple[str, str, str]


def _section(title: str, lines: Iterable[Line]) -> Iterator[list[Part]]:
    for number, (kind, name, what) in enumerate(lines):
        sign, style = _SIGNS[kind]
        yield [("" if number else title, "dim"), (f"{sign} {_plain(name)}", style), _plain(what)]


def _nodes(found: PlanDiff) -> Iterator[Line]:
    yield from (("added", name, "") for name in found.added)
    yield from (("removed", name, "") for name in found.removed)
    yield from (("changed", name, ", ".join(fields)) for name, fields in found.changed.items())


def _edges(found: PlanDiff) -> Iterator[Line]:
    for kind, edges in (("added", found.edges_added), ("removed", found.edges_removed)):
        for source, target, how in edges:
            yield kind, f"{source} → {target}", "" if how == "join" else how


def _rules(found: PlanDiff) -> Iterator[list[Part]]:
    lines = [
        (fields[0] if fields[0] in ("added", "removed") else "changed", name, ", ".join(fields))
        for name, fields in found.rules.items()
    ]
    return _section(
        "rules", [(kind, name, "" if what == kind else what) for kind, name, what in lines]
    )
