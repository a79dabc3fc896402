"""`delete`: a run, or all that ended long ago."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug

if TYPE_CHECKING:
    from crewlog.cli.screen import Part, Screen
    from crewlog.client.deletion import Deletion


@app.command(rich_help_panel="Surroundings")
def delete(
    run: Annotated[
        str | None, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="End the run at once where it is under way.")
    ] = False,
    memories: Annotated[
        bool,
        typer.Option("--memories", help="Also what it wrote into its crew's memory."),
    ] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="DURATION",
            help="Instead of one run, all that ended so long ago: 12h, 30d.",
            show_default=False,
        ),
    ] = None,
    status: Annotated[
        list[str] | None,
        typer.Option(
            "--status",
            metavar="STATUS",
            help="With --older-than, only those that ended so: canceled, completed, failed, "
            "stopped, terminated or timed_out; may be repeated.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --older-than: list them, delete nothing.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Delete a run: its history from Temporal, its rows from the store. It cannot be undone.

    What other runs, forks, registered crews and registries use stays. A run that is under way is
    refused without --force. Files that its tools wrote stay, and what it wrote into its crew's
    memory, but for --memories.
    """
    from crewlog.errors import UsageError  # noqa: PLC0415

    if (run is None) == (older_than is None):
        raise UsageError("name a run, or say --older-than", remedy="crewlog delete RUN")
    if older_than is None:
        if status or dry_run:
            raise UsageError("--status and --dry-run go with --older-than")
        return go(_one(run or "", force=force, memories=memories, as_json=as_json), debug=debug)
    if memories:
        raise UsageError("--memories goes with a run")
    if force:
        raise UsageError("--force goes with a run: --older-than takes none that is under way")
    return go(_older(older_than, status or [], dry_run=dry_run, as_json=as_json), debug=debug)


async def _one(run: str, *, force: bool, memories: bool, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        with _progress(screen) as tell:
            done = await client.delete(run, force=force, memories=memories, tell=tell)
    if as_json:
        screen.document(done.model_dump(mode="json"))
    else:
        _tell(screen, f"deleted {plain(run)}", done)
    return exits.OK


@contextmanager
def _progress(screen: Screen) -> Generator[Callable[[str], None]]:
    """What a deletion waits for, as a moving line at a terminal."""
    from crewlog.cli.screen import plain  # noqa: PLC0415

    if not screen.tty:
        yield lambda _: None
        return
    with screen.out.status("deletes", spinner="dots", spinner_style="cyan") as status:
        yield lambda text: status.update(plain(text))


async def _older(older_than: str, statuses: list[str], *, dry_run: bool, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, ago, counted, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.client.deletion import check_ended  # noqa: PLC0415
    from crewlog.definition.model import parse_duration  # noqa: PLC0415
    from crewlog.errors import UsageError  # noqa: PLC0415

    try:
        seconds = parse_duration(older_than)
    except ValueError as error:
        raise UsageError(f"--older-than {older_than!r}: {error}", remedy="e.g. 30d") from None
    check_ended(statuses)
    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        with _progress(screen) as tell:
            done = await client.delete_ended(seconds, statuses=statuses, dry_run=dry_run, tell=tell)
    if as_json:
        screen.document({**done.model_dump(mode="json"), "dry_run": dry_run})
    elif dry_run:
        rows: list[list[Part]] = [
            [plain(each.run), plain(each.status), plain(each.crew) or "?", ago(each.ended or 0)]
            for each in done.runs
        ]
        screen.rows(("run", "status", "crew", "ended"), rows)
        screen.line(f"{counted(len(rows), 'run')} would be deleted.")
    else:
        _tell(screen, f"deleted {counted(len(done.runs), 'run')}", done)
    return exits.OK


def _tell(screen: Screen, what: str, done: Deletion) -> None:
    from crewlog.cli.screen import counted  # noqa: PLC0415

    rows = done.rows
    screen.line(
        ("✓", "green"),
        f" {what}: {counted(rows.entries, 'journal position')}, "
        f"{counted(rows.bodies, 'message')} and {counted(rows.definitions, 'definition')}",
    )
    if done.memories:
        what = "memory" if done.memories == 1 else "memories"
        screen.line(f"  and {done.memories:,} {what} of its crew")
    if rows.records:
        what = "record" if rows.records == 1 else "records"
        screen.line(f"  and {rows.records:,} {what} older than their retention")
    if rows.unreferenced:
        screen.wrapped(
            ["  "],
            f"{rows.unreferenced:,} unused messages and definitions stay for now, since a run may "
            "be about to use them: a deletion in an hour or later removes them",
            indent=2,
        )
