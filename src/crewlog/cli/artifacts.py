"""`artifact`: what a crew has built, now or at any position, and what was changed between two."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug, RunArgument

if TYPE_CHECKING:
    from crewlog.cli.screen import Part, Screen
    from crewlog.cli.texts import Told
    from crewlog.client import ArtifactView
    from crewlog.model import Json
    from crewlog.reporting.diff.content import ContentChange
    from crewlog.reporting.diff.view import ArtifactStepView

LOOK = "Look"
_LONGEST = 88
"""Characters of a value that stand in the row of what was changed."""
_SIGNS = {"added": ("+", "green"), "removed": ("−", "red"), "changed": ("~", "yellow")}  # noqa: RUF001
_STEPS = 12
"""Steps that changed it, of which are told."""
_LEFT_OUT = 8
"""Operations that were left out, of which are told."""


@app.command(rich_help_panel=LOOK)
def artifact(
    run: RunArgument,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]", help="Which. Default: the only one, or a list.", show_default=False
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="POSITION",
            help="As it was at a position, a tag, or the end of a step or an exchange: 12, draft, "
            "builder#1, exchange:3.",
            show_default=False,
        ),
    ] = None,
    diff: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--diff",
            metavar="POSITION POSITION",
            help="What was changed between two of these: --diff discovery#1 builder#1.",
            show_default=False,
        ),
    ] = None,
    path: Annotated[
        str,
        typer.Option(
            "--path", metavar="POINTER", help="A part of it: /nodes/3.", show_default=False
        ),
    ] = "",
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Show what a crew has built: an artifact, or what was changed of it."""
    if diff is not None:
        return go(_diff(run, name, diff, path, as_json=as_json), debug=debug)
    return go(_artifact(run, name, at, path, as_json=as_json), debug=debug)


async def _artifact(
    run_id: str, name: str | None, at: str | None, path: str, *, as_json: bool
) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.client.artifacts import artifacts_of  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        found = await artifacts_of(client.run(run_id), None if name is None else [name], at)
    if name is None and len(found) != 1:
        _list(screen, run_id, found)
        return exits.OK
    (one,) = found
    value = _part(one, path)
    if as_json:
        screen.document(one.model_dump(mode="json") | {"content": value})
        return exits.OK
    _head(screen, run_id, one)
    screen.line("")
    screen.block(_coloured(value, colored=screen.colored))
    _troubles(screen, one)
    return exits.OK


async def _diff(
    run_id: str, name: str | None, between: tuple[str, str], path: str, *, as_json: bool
) -> int:
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.cli.texts import tell  # noqa: PLC0415
    from crewlog.client.artifacts import artifacts_of, find_artifact_steps  # noqa: PLC0415
    from crewlog.errors import UsageError  # noqa: PLC0415
    from crewlog.reporting.diff.content import content_diff  # noqa: PLC0415
    from crewlog.reporting.diff.view import ArtifactDiffView  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    names = None if name is None else [name]
    async with connected(screen, both=True) as client:
        handle = client.run(run_id)
        sides = [await artifacts_of(handle, names, at) for at in between]
        if name is None and any(len(side) != 1 for side in sides):
            known = dict.fromkeys(each.name for side in sides for each in side)
            raise UsageError(
                f"the run {run_id!r} has not just one artifact",
                remedy=f"Say which: {', '.join(known) or 'it has none'}.",
            )
        old, new = (side[0] for side in sides)
        changes = tuple(content_diff(_part(old, path), _part(new, path)))
        steps = [] if changes else await find_artifact_steps(handle, new.name)
    if as_json:
        view = ArtifactDiffView.model_validate(
            {
                "artifact": new.name,
                "from": old.position,
                "to": new.position,
                "changes": changes,
                "steps": tuple(steps),
            }
        )
        screen.document(view.model_dump(mode="json"))
        return exits.OK
    calls = new.calls - old.calls
    later = f"  {abs(calls)} call{'s' * (abs(calls) != 1)} {'later' if calls > 0 else 'earlier'}"
    screen.line(
        "  ",
        (plain(new.name), "bold"),
        f"  {plain(run_id)}@{old.position} → @{new.position}",
        (later if calls else "", "dim"),
    )
    screen.line("")
    tell(screen, map(_told, changes))
    if not changes:
        _when(screen, run_id, new.name, steps)
    return exits.OK


def _when(screen: Screen, run_id: str, name: str, steps: list[ArtifactStepView]) -> None:
    """Shows that nothing differs, and the positions at which steps changed the artifact."""
    from crewlog.cli.screen import counted, plain  # noqa: PLC0415

    if not steps:
        screen.line(f"  nothing differs: nobody has changed {plain(name)} yet")
        return
    screen.line("  nothing differs; it was changed by")
    rows: list[list[Part]] = [
        [
            (plain(each.step), "bold"),
            f"@{each.first}" + (f" to @{each.last}" if each.last > each.first else ""),
            (counted(each.operations, "operation"), "dim"),
        ]
        for each in steps[:_STEPS]
    ]
    screen.rows(("", "", ""), rows)
    if len(steps) > _STEPS:
        screen.line((f"  … and {counted(len(steps) - _STEPS, 'step')} more", "dim"))
    screen.line(("  Look     ", "dim"), f"crewlog checkpoints {run_id}")


def _part(view: ArtifactView, path: str) -> Json:
    """A part of an artifact.

    Raises:
        UsageError: there is none.
    """
    from crewlog.errors import UsageError  # noqa: PLC0415
    from crewlog.state.artifacts import OperationRefused, value_at  # noqa: PLC0415

    try:
        return value_at(view.content, path)
    except OperationRefused as why:
        raise UsageError(
            f"{view.name!r} has nothing at {path!r} at position {view.position}: {why}",
            remedy="A path is like /nodes/0/id.",
        ) from None


def _list(screen: Screen, run_id: str, found: list[ArtifactView]) -> None:
    from crewlog.cli.screen import plain  # noqa: PLC0415

    if screen.as_json:
        rows = [each.model_dump(mode="json", exclude={"content"}) for each in found]
        screen.document({"run": run_id, "artifacts": rows})
        return
    if not found:
        screen.line("  the crew has no artifacts")
        return
    screen.rows(
        ("artifact", "changed", "size", ""),
        [
            [(plain(each.name), "bold"), _did(each), _size(each.size), _state(each)]
            for each in found
        ],
    )
    screen.line("")
    screen.line(("  Look     ", "dim"), f"crewlog artifact {run_id} {found[0].name}")


def _head(screen: Screen, run_id: str, view: ArtifactView) -> None:
    from crewlog.cli.screen import plain  # noqa: PLC0415

    screen.line(
        "  ",
        (plain(view.name), "bold"),
        f"  {plain(run_id)}@{view.position}  ",
        (f"{_did(view)} · {_size(view.size)}", "dim"),
        "  ",
        _state(view),
    )


def _did(view: ArtifactView) -> str:
    from crewlog.cli.screen import counted  # noqa: PLC0415

    if not view.calls:
        return "not changed yet"
    left = f", {view.missed:,} left out" if view.missed else ""
    return f"{counted(view.applied, 'operation')} of {counted(view.calls, 'call')}{left}"


def _size(size: int) -> str:
    return f"{size:,} bytes" if size < 10_000 else f"{size / 1000:,.0f} KB"


def _state(view: ArtifactView) -> Part:
    if view.valid is None:
        return ""
    return ("✓ valid", "green") if view.valid else ("✗ not valid", "red")


def _troubles(screen: Screen, view: ArtifactView) -> None:
    """How it does not keep its schema, and which operations were left out last."""
    from crewlog.cli.screen import plain  # noqa: PLC0415

    if view.faults or view.left_out:
        screen.line("")
    for fault in view.faults:
        screen.wrapped(["  ", ("✗ ", "red")], plain(fault), indent=4)
    for left in view.left_out[-_LEFT_OUT:]:
        screen.wrapped(["  ", ("left out  ", "yellow")], plain(left), indent=12)
    if view.missed > _LEFT_OUT:
        screen.line((f"  … and {view.missed - _LEFT_OUT:,} before them", "dim"))


def _told(found: ContentChange) -> Told:
    """A row of what was changed, and the lines of what is too long for it."""
    from crewlog.cli.screen import plain  # noqa: PLC0415
    from crewlog.cli.texts import Told, lines_between  # noqa: PLC0415

    sign, style = _SIGNS[found.kind]
    label = f" {found.label}" if found.label else ""
    head: Part = (plain(f"{sign} {found.path or '(the whole)'}{label}"), style)
    shown = [
        _brief(value)
        for value, there in (
            (found.old, found.kind != "added"),
            (found.new, found.kind != "removed"),
        )
        if there
    ]
    if sum(map(len, shown)) <= _LONGEST:
        return Told([head, plain(" → ".join(shown))])
    if found.kind == "changed":
        return Told([head, ""], lines_between(found.old, found.new))
    return Told([head, plain(shown[0][:_LONGEST]) + "…"])


def _brief(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


_KEY, _VALUE, _DIM, _END = "\033[36m", "\033[32m", "\033[2m", "\033[0m"


def _coloured(value: Json, *, colored: bool) -> str:
    """JSON in lines, with its keys and texts in colours; safe to show."""
    lines = json.dumps(value, ensure_ascii=False, indent=2).splitlines()
    return "\n".join(map(_line if colored else _safe, lines))


def _safe(line: str) -> str:
    from crewlog.cli.screen import plain_lines  # noqa: PLC0415

    return plain_lines(line)


def _line(line: str) -> str:
    """A line of indented JSON: a key, a value, or both."""
    line = _safe(line)
    inner = line.lstrip(" ")
    indent = line[: len(line) - len(inner)]
    if not inner.startswith('"'):
        return line
    end = _text_end(inner)
    rest = inner[end:]
    if rest.startswith(":"):
        value = rest[2:]
        text = f"{_VALUE}{value}{_END}" if value.startswith('"') else value
        return f"{indent}{_KEY}{inner[:end]}{_END}{_DIM}:{_END} {text}"
    return f"{indent}{_VALUE}{inner}{_END}"


def _text_end(line: str) -> int:
    """Where the text ends that a line begins with."""
    at = 1
    while at < len(line) and line[at] != '"':
        at += 2 if line[at] == "\\" else 1
    return at + 1
