"""`checkpoints`: the places of a run to look at, to go back to, and to fork from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, By, CommandIdOption, Debug, RunArgument

if TYPE_CHECKING:
    from crewlog.cli.screen import Part, Screen
    from crewlog.client import Client, Run
    from crewlog.reporting.diff.state import StateDiff
    from crewlog.reporting.diff.view import CheckpointListView
    from crewlog.wire import CheckpointView

REWIND = "Rewind"


@app.command(rich_help_panel=REWIND)
def checkpoints(
    run: RunArgument,
    diff: Annotated[
        bool, typer.Option("--diff", help="What was changed in the state up to each of them.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="With --diff: whole values, and counts.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List a run's checkpoints: one after each step, and those that have a name."""
    return go(_checkpoints(run, diff=diff, full=full, as_json=as_json), debug=debug)


async def _checkpoints(run_id: str, *, diff: bool, full: bool, as_json: bool) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.client.places import checkpoints_of  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        run = client.run(run_id)
        found = await checkpoints_of(run)
        changed = await _changes(run, found) if diff else {}
        if as_json:
            screen.document(_view(run, found, changed).model_dump(mode="json"))
            return exits.OK
        await _show(screen, client, run, found, changed, full=full)
    return exits.OK


async def _changes(run: Run, found: list[CheckpointView]) -> dict[int, StateDiff]:
    from crewlog.cli.sight import whole_journal  # noqa: PLC0415
    from crewlog.reporting.trace.step_changes import changes_by_position  # noqa: PLC0415
    from crewlog.state.journal import entry_from_json  # noqa: PLC0415

    items = await whole_journal(run)
    entries = ((item.position, entry_from_json(item.data)) for item in items)
    return changes_by_position(run.id, entries, [each.position for each in found])


def _view(
    run: Run, found: list[CheckpointView], changed: dict[int, StateDiff]
) -> CheckpointListView:
    from crewlog.reporting.diff.view import (  # noqa: PLC0415
        CheckpointChangesView,
        CheckpointListView,
    )

    rows: list[CheckpointChangesView] = []
    for each in found:
        diff = changed.get(each.position)
        changes = diff.changes if diff is not None else None
        rows.append(CheckpointChangesView(**dict(each), changes=changes))
    return CheckpointListView(run=run.id, checkpoints=tuple(rows))


async def _show(
    screen: Screen,
    client: Client,
    run: Run,
    found: list[CheckpointView],
    changed: dict[int, StateDiff],
    *,
    full: bool,
) -> None:
    from crewlog.cli.differing import state_told  # noqa: PLC0415
    from crewlog.cli.screen import clock  # noqa: PLC0415
    from crewlog.cli.sight import see  # noqa: PLC0415
    from crewlog.cli.texts import bodies_in_brief, bodies_of, tell  # noqa: PLC0415

    bodies = await (bodies_of if full else bodies_in_brief)(client, changed.values())
    start = (await see(client, run.id)).state.started_at
    if not found:
        screen.line("  no checkpoints yet: ", ("one comes after each step", "dim"))
    rows: list[list[Part]] = []
    for each in found:
        row: list[Part] = [
            (str(each.position), "bold"),
            (clock(each.at - start), "dim"),
            *_what(each, later=each is not found[0]),
        ]
        if not changed:
            rows.append(row)
            continue
        screen.rows(("", "", "", ""), [row])
        tell(screen, state_told(changed[each.position], full=full, bodies=bodies), indent=6)
    if rows:
        screen.rows(("position", "after", "checkpoint", "name"), rows)


def _what(each: CheckpointView, *, later: bool) -> list[Part]:
    """What a checkpoint is, by a name that it is found by, and its tags.

    Args:
        each: The checkpoint.
        later: Whether the run began before it: then an exchange of a conversation begins.
    """
    from crewlog.cli.screen import plain  # noqa: PLC0415
    from crewlog.state.checkpoints import exchange_name  # noqa: PLC0415

    begins = "an exchange begins" if later else "the beginning"
    ended = exchange_name(each.exchange) if each.exchange else "waits for the first message"
    words = {"start": begins, "exchange": ended, "tag": "named"}
    what = plain(each.step) or words.get(each.kind, each.kind)
    by = f" {plain(each.agent)}" if each.agent and each.agent != str(each.node) else ""
    return [what + by, (", ".join(map(plain, each.tags)), "yellow")]


@app.command(rich_help_panel=REWIND)
def tag(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN@POSITION",
            help="The run and the checkpoint; RUN POSITION does as well.",
            show_default=False,
        ),
    ],
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME",
            help="Its name: letters, digits and . _ -, not digits alone.",
            show_default=False,
        ),
    ],
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Give a checkpoint a name, to be used instead of its position and never to be pruned.

    A name that another checkpoint of the run has moves to this one.
    """
    from crewlog.cli.talk import signalled  # noqa: PLC0415

    run_id, at, name = _named(run, words)
    found: list[int] = []

    async def send(live: Run) -> str:
        found.append(await live.position_of(at))
        return await live.tag(found[0], name, by=by, id=command_id)

    def told() -> str:
        return f"@{found[0]} is called {name!r} now: {run_id}@{name} means it"

    return signalled(run_id, "tag", send, as_json, debug, told=told)


def _named(target: str, words: list[str]) -> tuple[str, str, str]:
    """`RUN@12 draft` or `RUN 12 draft` as run, position and name.

    Raises:
        UsageError: something is missing, or too much.
    """
    from crewlog.client.places import split  # noqa: PLC0415
    from crewlog.errors import UsageError  # noqa: PLC0415

    run, at = split(target) if len(words) == 1 else (target, words[0])
    if not at or len(words) > 2:
        raise UsageError(
            "a checkpoint and one name are needed",
            remedy="For example: crewlog tag notes@12 draft. `crewlog checkpoints RUN` lists the "
            "positions.",
            place="crewlog tag",
        )
    return run, at, words[-1]
