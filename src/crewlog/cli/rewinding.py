"""`rollback`, `fork`, `replay`: go back to a checkpoint, or go on from one in another run."""

from __future__ import annotations

import asyncio
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, By, CommandIdOption, Debug, Reason
from crewlog.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from crewlog.cli.follow import Manner
    from crewlog.cli.screen import Screen
    from crewlog.client import Client, Run
    from crewlog.client.recipes import WayBack

REWIND = "Rewind"
T = TypeVar("T")

Checkpoint = Annotated[
    str,
    typer.Argument(
        metavar="RUN@POSITION",
        help="The run and the checkpoint, as `crewlog checkpoints RUN` lists it: a position, a "
        "tag, exchange:N or a step.",
        show_default=False,
    ),
]
Detach = Annotated[
    bool, typer.Option("--detach", "-d", help="Only do it; do not follow the run on.")
]
NewId = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="RUN",
        help="The new run's id. Default: the crew's name and four characters.",
        show_default=False,
    ),
]


@app.command(rich_help_panel=REWIND)
def rollback(
    checkpoint: Annotated[
        str,
        typer.Argument(
            metavar="RUN[@POSITION]",
            help="The run and the checkpoint, as `crewlog checkpoints RUN` lists it.",
            show_default=False,
        ),
    ],
    to: Annotated[
        str | None,
        typer.Option(
            "--to",
            metavar="POSITION",
            help="The checkpoint, where it does not stand behind the run: a position, a tag, "
            "exchange:N or a step.",
            show_default=False,
        ),
    ] = None,
    detach: Detach = False,
    reason: Reason = "",
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Take a run back to a checkpoint, from where it goes on.

    What was done since stays in its journal; what its tools did outside stays done.
    """
    made = _rollback(
        checkpoint if to is None else f"{checkpoint}@{to}",
        detach=detach,
        reason=reason,
        by=by,
        command_id=command_id,
        as_json=as_json,
    )
    return go(made, debug=debug)


@app.command(rich_help_panel=REWIND)
def fork(
    checkpoint: Checkpoint,
    id: NewId = None,
    change: Annotated[
        str | None,
        typer.Option(
            "--change",
            metavar="FILE",
            help="Go on with this crew from there on.",
            show_default=False,
        ),
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(
            "--edit",
            metavar="NAME=VALUE",
            help="Go on with this set: model=…, agent.NAME.FIELD=…, and what else `crewlog change "
            "--edit` takes; may be repeated.",
            show_default=False,
        ),
    ] = None,
    detach: Detach = False,
    by: By = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Start another run that goes on from a checkpoint of a run, open or ended.

    It shares what was said until then; its workspace begins empty.
    """
    if change is not None and edit:
        raise UsageError("--change and --edit do not go together", place="crewlog fork")
    made = _fork(
        checkpoint,
        id=id,
        change=change,
        edits=edit or [],
        detach=detach,
        by=by,
        as_json=as_json,
    )
    return go(made, debug=debug)


@app.command(rich_help_panel=REWIND)
def replay(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN[@POSITION]",
            help="The run, and the checkpoint to begin at, or its tag. Default: its beginning.",
            show_default=False,
        ),
    ],
    with_: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            metavar="NAME=VALUE",
            help="What is otherwise: model=…, agent.NAME.FIELD=…, and what else `crewlog change "
            "--edit` takes; may be repeated.",
            show_default=False,
        ),
    ] = None,
    id: NewId = None,
    detach: Detach = False,
    by: By = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Run a run once more with something altered, as another run."""
    made = _fork(
        run,
        id=id,
        change=None,
        edits=with_ or [],
        detach=detach,
        by=by,
        as_json=as_json,
        anew=True,
    )
    return go(made, debug=debug)


async def _rollback(
    checkpoint: str,
    *,
    detach: bool,
    reason: str,
    by: str | None,
    command_id: str | None,
    as_json: bool,
) -> int:
    from crewlog.cli.background import leave_to_workers  # noqa: PLC0415
    from crewlog.cli.following import Brought, follow_known  # noqa: PLC0415
    from crewlog.cli.hands import assigned, hand  # noqa: PLC0415
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.client.places import checkpoint_of, named  # noqa: PLC0415

    named(checkpoint)  # else no server is asked, or started
    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        run_id, position = await checkpoint_of(client, checkpoint)
        run = client.run(run_id)
        assignment = assigned((await client.gateway.describe(run.id)).task_queue)
        identity = command_id or f"b-{secrets.token_hex(8)}"
        async with hand(assignment) as lent:
            outcome = await _patiently(lambda: run.rollback(position, reason, by=by, id=identity))
            if as_json:
                told = {"event": "rolled_back", "run": run_id, "to": position, "id": outcome.id}
                screen.record({**told, "position": outcome.position})
            else:
                screen.line("  ", (plain(run_id), "bold"), f" is back at {position}")
            if not detach:
                return await follow_known(
                    screen,
                    client,
                    run_id,
                    after=outcome.position,
                    manner=_manner(screen),
                    brought=Brought(assignment, lent),
                )
        await leave_to_workers(screen, client, assignment.queue)
    return exits.OK


def _manner(screen: Screen) -> Manner:
    from crewlog.cli.follow import Manner  # noqa: PLC0415

    return Manner(ask=screen.asks, leave=True, rests=True)


async def _patiently(ask: Callable[[], Awaitable[T]]) -> T:
    """What a run answers; a worker that has just been started may take a moment."""
    from crewlog.errors import WorkerMissing  # noqa: PLC0415

    deadline = time.monotonic() + WORKER_LIMIT
    while True:
        try:
            return await ask()
        except WorkerMissing:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.2)


WORKER_LIMIT = 40.0
"""Seconds for a worker of our own to answer."""


async def _fork(
    target: str,
    *,
    id: str | None,
    change: str | None,
    edits: Sequence[str],
    detach: bool,
    by: str | None,
    as_json: bool,
    anew: bool = False,
) -> int:
    """Forks a run, and follows the fork; with `anew` from its beginning, if none is named."""
    from crewlog.cli.background import leave_to_workers  # noqa: PLC0415
    from crewlog.cli.change_terms import in_terms_of  # noqa: PLC0415
    from crewlog.cli.changes import edits as parsed  # noqa: PLC0415
    from crewlog.cli.following import Brought, follow_known  # noqa: PLC0415
    from crewlog.cli.hands import assigned, hand  # noqa: PLC0415
    from crewlog.cli.preflight import check_worker_can  # noqa: PLC0415
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.client.catalog import definition_of  # noqa: PLC0415
    from crewlog.client.places import checkpoint_of, place_of  # noqa: PLC0415

    command, option = ("crewlog replay", "--with") if anew else ("crewlog fork", "--edit")
    typed = [*parsed(edits, option, command)]
    operations, places = [each.operation for each in typed], [each.place for each in typed]
    definition = definition_of(change) if change is not None else None
    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        at: int | None
        if anew:
            run_id, at = await place_of(client, target)
        else:
            run_id, at = await checkpoint_of(client, target)
        source = client.run(run_id)
        await _take_its_queue(client, source)
        position = await _beginning(source) if at is None else at
        assignment = assigned(client.task_queue)
        with in_terms_of(places):
            otherwise = await source.forked_crew(
                position, operations=operations, definition=definition
            )
        if otherwise is not None and assignment.own:
            check_worker_can(otherwise, assignment.directory, file_of(change))
        made = await source.fork(
            position, id=id, operations=operations, definition=definition, by=by
        )
        if as_json:
            screen.record({"event": "forked", "run": made.id, "source": run_id, "to": position})
        else:
            screen.line("  ", (plain(made.id), "bold"), f" goes on from {plain(run_id)}@{position}")
        if detach:
            if await leave_to_workers(screen, client, assignment.queue):
                # What it began with is stored by then, and `watch` finds it.
                await _patiently(lambda: made.journal(0, 1))
            if not as_json:
                screen.line(("  Follow   ", "dim"), f"crewlog watch {made.id}")
            return exits.OK
        async with hand(assignment) as lent:
            began = await _patiently(lambda: made.journal(0, 1))
            return await follow_known(
                screen,
                client,
                made.id,
                after=began.first - 1,
                manner=_manner(screen),
                brought=Brought(assignment, lent),
            )


def file_of(change: str | None) -> Path | None:
    """The file of a definition, for the places of faults in it."""
    return Path(change) if change is not None else None


async def _take_its_queue(client: Client, run: Run) -> None:
    """A run that follows from another one has its workers."""
    from crewlog.errors import RunNotFound  # noqa: PLC0415

    try:
        client.task_queue = (await client.gateway.describe(run.id)).task_queue
    except RunNotFound:
        from crewlog.cli.hands import assign  # noqa: PLC0415

        client.task_queue = assign(Path.cwd()).queue  # the server has forgotten it


async def _beginning(run: Run) -> int:
    """The first checkpoint of a run."""
    from crewlog.state.journal import entry_from_json  # noqa: PLC0415
    from crewlog.state.restore import checkpoint_length  # noqa: PLC0415

    after = 0
    while entries := (await run.journal(after, 200)).entries:
        for item in entries:
            if checkpoint_length([entry_from_json(item.data)]) is not None:
                return item.position
        after = entries[-1].position
    raise UsageError(
        f"the run {run.id!r} has not begun yet", remedy=f"Start it anew: `crewlog show {run.id}`."
    )


async def resumed(
    run_id: str,
    signal: Callable[[dict[str, Any]], Awaitable[int]],
    *,
    start: tuple[Literal["recipe", "live"] | None, str | None],
    by: str | None,
    as_json: bool,
    reason: str = "",
    command_id: str | None = None,
    dry_run: bool = False,
    yes: bool = False,
) -> int:
    """Lets a run go on: one that has ended begins again, else `signal` is sent.

    Args:
        run_id: The run.
        signal: Resumes one that is open; gets what a program is told besides.
        start: What it goes on with, and the file of the recipe where that is named.
        by: Who commands.
        as_json: Whether a program reads it.
        reason: Why.
        command_id: The command's own id, which only an open run takes.
        dry_run: Whether it is only told what going on would make of it.
        yes: Whether nobody is asked.
    """
    from crewlog.cli.background import leave_to_workers, polled  # noqa: PLC0415
    from crewlog.cli.changing import agreed  # noqa: PLC0415
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.cli.told_recipe import (  # noqa: PLC0415
        show_way_back,
        show_what_is_first,
        way_back_json,
    )
    from crewlog.client.beginnings import check_no_command  # noqa: PLC0415
    from crewlog.client.gateway import STATUS_NAMES  # noqa: PLC0415
    from crewlog.client.recipes import check_nobody_comes_home, check_paused  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    from_, recipe = start
    way: WayBack | None = None
    more: dict[str, Any] = {}
    async with connected(screen, both=True) as client:
        run = client.run(run_id)
        found = await client.gateway.describe(run.id)
        ended = found.status is not None and STATUS_NAMES.get(found.status) != "running"
        if from_ == "recipe":
            way = await run.way_back(recipe)
            if not (ended or dry_run):
                check_paused(run.id, way.status)
                check_nobody_comes_home(run.id, way)
            more = way_back_json(way)
            show_way_back(screen, run_id, way)
            if way.leaves and screen.asks and not (yes or dry_run) and not agreed(screen, "Go on?"):
                screen.line("  Nothing was changed.")
                return exits.STOPPED
        if dry_run:
            if as_json:
                told = {"event": "dry_run", "run": run_id, "from": from_ or "live"}
                screen.document({**told, **more})
            elif from_ != "recipe":
                screen.line(f"  {plain(run_id)} would go on as it is: nobody leaves.")
            elif not ended and way is not None:
                show_what_is_first(screen, run_id, way)
            return exits.OK
        if ended:
            check_no_command(run.id, command_id)
            client.task_queue = found.task_queue
            await run.reopen(from_ or "live", recipe=recipe, by=by, reason=reason)
        # Whoever works on an open run goes on with it: it needs nobody else.
        if ended or not await polled(client, found.task_queue):
            await leave_to_workers(screen, client, found.task_queue)
    if not ended:
        return await signal(more)
    if as_json:
        screen.document({"run": run_id, "command": "reopen", "from": from_ or "live", **more})
    else:
        how = " from its recipe" if from_ == "recipe" else ""
        screen.line("  ", (plain(run_id), "bold"), f" had ended, and goes on{how}.")
        screen.line(("  Follow   ", "dim"), f"crewlog watch {run_id}")
    return exits.OK
