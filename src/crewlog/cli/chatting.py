"""`chat`: a conversation at the terminal, or line by line from a pipe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, By, Debug, Id, Model, Queue
from crewlog.errors import RunNotFound, UsageError, check_ineffective_options

if TYPE_CHECKING:
    from crewlog.cli.hands import Assignment, Hand
    from crewlog.cli.screen import Screen
    from crewlog.cli.talker import Talker
    from crewlog.client import Client, Run


PLACE = "crewlog chat"


@app.command(rich_help_panel="Crews")
def chat(
    target: Annotated[
        str,
        typer.Argument(
            metavar="FILE|CREW|RUN",
            help="A crew's file, or a registered crew: a new session. A run: that session.",
            show_default=False,
        ),
    ],
    text: Annotated[
        str | None,
        typer.Argument(
            metavar="[TEXT]",
            help="Say this, print the answer, and leave.",
            show_default=False,
        ),
    ] = None,
    id: Id = None,
    model: Model = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="Show what the crew does meanwhile, as watch does.")
    ] = False,
    task_queue: Queue = None,
    by: By = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Talk to a crew with `conversation:`: each line is a message, and each gets an answer.

    The session is a run. Ctrl-D and Ctrl-C leave it: it waits, and `crewlog chat RUN` goes on with
    it, from any machine. One that had ended is taken up again. A text of several lines that is
    pasted is one message, and a line that ends with a backslash goes on with the next one. From a
    pipe each line is a message, and the answers alone are printed.
    """
    from crewlog.cli.screen import Screen  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    said = _chat(screen, target, text, id, by, task_queue, model=model, steps=steps)
    return go(said, debug=debug)


async def _chat(
    screen: Screen,
    target: str,
    text: str | None,
    id: str | None,
    by: str | None,
    queue: str | None,
    *,
    model: str | None,
    steps: bool,
) -> int:
    from crewlog.cli.files import is_file  # noqa: PLC0415
    from crewlog.cli.following import (  # noqa: PLC0415
        Start,
        assign_for,
        definition_of_start,
        is_there,
        ready,
    )
    from crewlog.cli.hands import hand  # noqa: PLC0415
    from crewlog.cli.run import GIVE_THE_FILE, REGISTERED, loaded  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    crew, file = (loaded(target, model), Path(target)) if is_file(target) else (target, None)
    if file is None:
        why = f"{REGISTERED}, and so has a session"
        check_ineffective_options(PLACE, {"--model": model}, why, GIVE_THE_FILE)
    if isinstance(crew, str):
        async with connected(screen, both=True) as client:
            if id is None and await definition_of_start(client, crew) is None:
                return await _with_run(screen, client, target, text, by, steps=steps)
    checked = None if model else file  # the faults of another model stand nowhere in it
    start = Start(crew, _directory(file), id=id, by=by, queue=queue, file=checked)
    assignment = assign_for(start)
    async with ready(screen, assignment) as client, hand(assignment) as lent:
        definition = await definition_of_start(client, crew)
        if definition is not None and definition.conversation is None:
            raise UsageError(
                f"the crew {definition.crew!r} is no conversation",
                remedy="Add 'conversation: {}' to it. `crewlog ask` asks it once.",
                place="crewlog chat",
            )
        if id is not None and await is_there(client, id):
            why = f"the session {id!r} has its models"
            check_ineffective_options(
                PLACE, {"--model": model}, why, "Choose another --id for a new session."
            )
            run = client.run(id)
            await _taken_up(client, run, by)
        else:
            run = await client.start(crew, "", id=id, by=by)
        async with _talker(screen, client, run, assignment, lent, by, steps=steps) as talker:
            return await _talk(screen, talker, run, text, by)


def _directory(file: Path | None) -> Path:
    """Where a crew's code is."""
    return Path.cwd() if file is None else file.resolve().parent


async def _with_run(
    screen: Screen, client: Client, target: str, text: str | None, by: str | None, *, steps: bool
) -> int:
    """Talks to a run that is there, with a worker of our own where nobody else has its code."""
    from crewlog.cli.hands import assigned, hand  # noqa: PLC0415

    try:
        description = await client.gateway.describe(client.run(target).id)
    except RunNotFound as error:
        raise UsageError(
            f"{target!r} is no file, no registered crew and no run",
            remedy="`crewlog crews list` lists the crews, `crewlog ps` the runs.",
            place="crewlog chat",
        ) from error
    run, assignment = client.run(target), assigned(description.task_queue)
    async with hand(assignment) as lent:
        await _taken_up(client, run, by)
        async with _talker(screen, client, run, assignment, lent, by, steps=steps) as talker:
            return await _talk(screen, talker, run, text, by)


async def _taken_up(client: Client, run: Run, by: str | None) -> None:
    """Takes a session up again that had ended."""
    from crewlog.client.gateway import STATUS_NAMES  # noqa: PLC0415

    description = await client.gateway.describe(run.id)
    status = STATUS_NAMES.get(description.status) if description.status else "running"
    if status != "running":
        await run.reopen(by=by)


@asynccontextmanager
async def _talker(
    screen: Screen,
    client: Client,
    run: Run,
    assignment: Assignment,
    lent: Hand | None,
    by: str | None,
    *,
    steps: bool,
) -> AsyncGenerator[Talker]:
    """Follows the turns; says how to come back to the session however it is left."""
    from crewlog.cli.background import polled  # noqa: PLC0415
    from crewlog.cli.following import left  # noqa: PLC0415
    from crewlog.cli.talker import Talker  # noqa: PLC0415

    async def look() -> bool:
        return await polled(client, assignment.queue)

    talker = Talker(
        screen,
        run,
        hand=lent,
        directory=assignment.directory,
        polled=None if lent is not None else look,
        there=client.gateway.there,
        queue=assignment.queue,
        steps=steps,
        by=client.user if by is None else by,
    )
    client.report = talker.report
    try:
        yield talker
    except asyncio.CancelledError:
        left(screen, run, assignment, lent, talker, again="chat")
        raise


async def _talk(screen: Screen, talker: Talker, run: Run, text: str | None, by: str | None) -> int:
    from crewlog.cli.saying import Sayings  # noqa: PLC0415

    await talker.opened()
    if text is not None:
        await talker.say(text, by)
        return await talker.answered() or exits.OK
    talker.greet()
    sayings = Sayings(screen)
    code = await talker.answered() if talker.under_way else None
    while code is None:
        said = await sayings.next()
        if said is None:
            talker.leave()
            return exits.OK
        await talker.say(said, by)
        code = await talker.answered()
    return code
