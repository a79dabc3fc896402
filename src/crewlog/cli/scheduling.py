"""`schedule create`, `list`, `show`, `pause`, `resume`, `trigger`, `delete`: runs by the clock."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from crewlog.cli import exits
from crewlog.cli.app import Grouped, app, go
from crewlog.cli.options import AsJson, By, Debug, Model, Queue
from crewlog.errors import UsageError, check_ineffective_options

if TYPE_CHECKING:
    from crewlog.client.schedules import Schedules, ScheduleView
    from crewlog.definition.model import CrewDefinition

schedule = typer.Typer(
    name="schedule",
    cls=Grouped,
    help="Runs by the clock: make, list, pause, trigger and delete schedules.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(schedule, rich_help_panel="Runs")

Name = Annotated[str, typer.Argument(metavar="NAME", help="The schedule.", show_default=False)]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why, for those who look.")]


@schedule.command()
def create(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="What it is called, and how the ids of its runs begin.",
            show_default=False,
        ),
    ],
    crew: Annotated[
        str,
        typer.Argument(
            metavar="FILE|CREW", help="A crew's file, or a registered crew.", show_default=False
        ),
    ],
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="DURATION", help="How often: 10m, 1h, 1d.", show_default=False
        ),
    ] = None,
    cron: Annotated[
        str,
        typer.Option("--cron", metavar="LINE", help="When, as a cron line: '0 9 * * MON-FRI'."),
    ] = "",
    timezone: Annotated[
        str,
        typer.Option("--timezone", metavar="ZONE", help="Of the cron line; by default UTC."),
    ] = "",
    input: Annotated[
        str,
        typer.Option("--input", "-i", metavar="TEXT", help="What each run is asked to do."),
    ] = "",
    overlap: Annotated[
        Literal["skip", "buffer", "allow"],
        typer.Option(
            "--overlap",
            help="Where one is due and the last goes on: skip it, start one behind it, or both.",
        ),
    ] = "skip",
    paused: Annotated[
        bool, typer.Option("--paused", help="Start nothing until it is resumed or triggered.")
    ] = False,
    model: Model = None,
    task_queue: Queue = None,
    by: By = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Make a schedule.

    The server starts its runs by itself; a worker for them must be there: `crewlog worker
    --detach` in the crew's directory.
    """
    from crewlog.cli.files import is_file, load_crew  # noqa: PLC0415
    from crewlog.cli.run import GIVE_THE_FILE, REGISTERED  # noqa: PLC0415
    from crewlog.definition.model import parse_duration  # noqa: PLC0415

    try:
        period = timedelta(seconds=parse_duration(every)) if every is not None else None
    except (ValueError, OverflowError) as error:
        raise UsageError(f"--every {every}: {error}", place="crewlog schedule create") from error
    if not is_file(crew):
        check_ineffective_options(
            "crewlog schedule create", {"--model": model}, REGISTERED, GIVE_THE_FILE
        )
    found: CrewDefinition | str = load_crew(crew, model or "") if is_file(crew) else crew
    directory = Path(crew).resolve().parent if is_file(crew) else Path.cwd()
    made = _create(
        name,
        found,
        directory,
        period,
        cron,
        timezone,
        input,
        overlap,
        paused=paused,
        queue=task_queue,
        by=by,
        as_json=as_json,
    )
    return go(made, debug=debug)


async def _create(
    name: str,
    crew: CrewDefinition | str,
    directory: Path,
    every: timedelta | None,
    cron: str,
    timezone: str,
    input: str,
    overlap: Literal["skip", "buffer", "allow"],
    *,
    paused: bool,
    queue: str | None,
    by: str | None,
    as_json: bool,
) -> int:
    from crewlog.cli.hands import assign, remember  # noqa: PLC0415
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    assignment = assign(directory, queue)
    remember(assignment)
    async with connected(screen, queue=assignment.queue, both=True) as client:
        await client.schedules.create(
            name,
            crew,
            every=every,
            cron=cron,
            timezone=timezone,
            input=input,
            overlap=overlap,
            by=by,
            paused=paused,
        )
        view = await client.schedules.show(name)
        if as_json:
            screen.document(asdict(view) | {"task_queue": assignment.queue})
            return exits.OK
        screen.line(("✓ ", "green"), f"schedule {name}: {view.when}, {_coming(view)}")
        for each in view.clock_changes:
            screen.line(("  ! ", "yellow"), (each.words, "yellow"))
        if not await client.gateway.polled(assignment.queue):
            worker = f"crewlog worker --detach --task-queue {assignment.queue}"
            screen.line(("  No worker is there for its runs yet: ", "dim"), worker)
    return exits.OK


@schedule.command("list")
def list_(as_json: AsJson = False, debug: Debug = False) -> int:
    """List the schedules."""
    return go(_list(as_json=as_json), debug=debug)


async def _list(*, as_json: bool) -> int:
    from crewlog.cli.screen import Part, Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen) as client:
        found = await client.schedules.list()
    if as_json:
        screen.document({"schedules": [asdict(each) for each in found]})
        return exits.OK
    if not found:
        screen.line("no schedules; make one: crewlog schedule create NAME CREW --every 1h")
        return exits.OK
    rows: list[list[Part]] = [
        [plain(each.name), plain(each.crew), plain(each.when), (_next(each), "dim")]
        for each in found
    ]
    screen.rows(("schedule", "crew", "when", "next"), rows)
    return exits.OK


@schedule.command()
def show(name: Name, as_json: AsJson = False, debug: Debug = False) -> int:
    """Show a schedule: when, what it has started, what comes next."""
    return go(_show(name, as_json=as_json), debug=debug)


async def _show(name: str, *, as_json: bool) -> int:
    from crewlog.cli.screen import Part, Screen, counted, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen) as client:
        view = await client.schedules.show(name)
    if as_json:
        screen.document(asdict(view))
        return exits.OK
    skipped = f", {view.skipped} skipped" if view.skipped else ""
    rows: list[list[Part]] = [
        [("crew", "dim"), plain(view.crew)],
        [("when", "dim"), plain(view.when)],
        [("next", "dim"), _next(view)],
        [("overlap", "dim"), view.overlap or "as another client says"],
        [("started", "dim"), f"{counted(view.started, 'run')}{skipped}"],
    ]
    clocks: list[list[Part]] = [
        [("clocks", "dim"), (each.words, "yellow")] for each in view.clock_changes
    ]
    rows += clocks
    if view.note:
        rows.append([("note", "dim"), plain(view.note)])
    if view.running:
        rows.append([("running", "dim"), ", ".join(map(plain, view.running))])
    rows += [[("recent", "dim") if i == 0 else "", run] for i, run in enumerate(view.recent[::-1])]
    screen.line(("  schedule ", "dim"), (plain(view.name), "bold"))
    screen.rows(("", ""), rows)
    return exits.OK


@schedule.command()
def pause(name: Name, note: Note = "", as_json: AsJson = False, debug: Debug = False) -> int:
    """Let it start nothing; runs that go on are not touched."""
    return go(_done(name, "paused", lambda s: s.pause(name, note), as_json=as_json), debug=debug)


@schedule.command()
def resume(name: Name, note: Note = "", as_json: AsJson = False, debug: Debug = False) -> int:
    """Let it start runs again."""
    return go(_done(name, "goes on", lambda s: s.resume(name, note), as_json=as_json), debug=debug)


@schedule.command()
def trigger(name: Name, as_json: AsJson = False, debug: Debug = False) -> int:
    """Start a run of it now, as its overlap allows."""
    return go(_done(name, "triggered", lambda s: s.trigger(name), as_json=as_json), debug=debug)


@schedule.command()
def delete(name: Name, as_json: AsJson = False, debug: Debug = False) -> int:
    """Remove it; its runs stay as they are."""
    return go(_done(name, "deleted", lambda s: s.delete(name), as_json=as_json), debug=debug)


async def _done(
    name: str, what: str, call: Callable[[Schedules], Awaitable[None]], *, as_json: bool
) -> int:
    from crewlog.cli.screen import Screen  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen) as client:
        await call(client.schedules)
        if as_json:
            now = {"name": name} if what == "deleted" else asdict(await client.schedules.show(name))
            screen.document(now | {"done": what})
            return exits.OK
    screen.line(("✓ ", "green"), f"schedule {name}: {what}")
    return exits.OK


def _next(view: ScheduleView) -> str:
    """When it starts the next run, by the clocks of its time zone."""
    if view.paused:
        return "paused"
    if not view.next:
        return "never again"
    try:
        zone: tzinfo = ZoneInfo(view.timezone)
    except (ZoneInfoNotFoundError, ValueError):  # this machine does not know it
        zone = UTC
    at = datetime.fromtimestamp(view.next[0] / 1000, zone)
    return f"{at:%Y-%m-%d %H:%M:%S} {view.timezone if zone is not UTC else 'UTC'}"


def _coming(view: ScheduleView) -> str:
    """The same, in a sentence."""
    return _next(view) if view.paused or not view.next else f"next at {_next(view)}"
