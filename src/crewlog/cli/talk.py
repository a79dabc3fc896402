"""`answer`, `pause`, `resume`, `stop`, `interrupt`, `inject`, `message`: talking to a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, By, CommandIdOption, Debug, Files, Reason, RunArgument
from crewlog.errors import UsageError

if TYPE_CHECKING:
    from crewlog.client import Client, Run
    from crewlog.state.model import CommandOutcome, CrewState

TALK = "Talk"
OUTCOME_LIMIT = 2.0
"""Seconds for which a signal's outcome is waited for; it is not lost if it takes longer."""

WORKER_LIMIT = 40.0
"""Seconds for a worker of our own to come up and answer."""
STOP_LIMIT = 60.0
"""Seconds for a worker of our own to end a run that is stopped."""


@app.command(rich_help_panel=TALK)
def answer(
    run: RunArgument,
    interrupt: Annotated[
        str | None,
        typer.Argument(
            metavar="[INTERRUPT]",
            help="The question's id; may be left out if one is open.",
            show_default=False,
        ),
    ] = None,
    decision: Annotated[
        str | None,
        typer.Argument(
            metavar="[DECISION]",
            help="An option, approve (the first), reject (the last; of a call, no), respond with "
            "WORDS, or edit, which approves a call with other arguments.",
            show_default=False,
        ),
    ] = None,
    words: Annotated[
        str | None,
        typer.Argument(
            metavar="[WORDS]",
            help="After respond: the words; after reject: why.",
            show_default=False,
        ),
    ] = None,
    args: Annotated[
        str | None,
        typer.Option(
            "--args",
            metavar="JSON|@FILE",
            help="With edit: all arguments that the call runs with. Default: an editor.",
            show_default=False,
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Only answer; do not follow the run.")
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait", help="Wait for further answers, instead of leaving with exit code 3."
        ),
    ] = False,
    reason: Reason = "",
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Answer a question that a run waits on, and follow it on.

    Without a decision it asks here.
    """
    return go(
        _answer(
            run,
            interrupt,
            decision,
            words=words,
            args=args,
            detach=detach,
            wait=wait,
            reason=reason,
            by=by,
            command_id=command_id,
            as_json=as_json,
        ),
        debug=debug,
    )


async def _answer(
    run_id: str,
    first: str | None,
    second: str | None,
    *,
    words: str | None,
    args: str | None,
    detach: bool,
    wait: bool,
    reason: str,
    by: str | None,
    command_id: str | None,
    as_json: bool,
) -> int:
    from crewlog.cli.answering import answer_run  # noqa: PLC0415

    return await answer_run(
        run_id,
        first,
        second,
        words=words,
        args=args,
        detach=detach,
        wait=wait,
        reason=reason,
        by=by,
        command_id=command_id,
        as_json=as_json,
    )


@app.command(rich_help_panel=TALK)
def pause(
    run: RunArgument,
    reason: Reason = "",
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Pause a run: what runs finishes, nothing new starts."""
    return signalled(run, "pause", lambda r: r.pause(reason, by=by, id=command_id), as_json, debug)


@app.command(rich_help_panel=TALK)
def resume(
    run: RunArgument,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="recipe|live|FILE",
            help="Go on with the crew as it is written: what the run was started with, the newest "
            "version of that if it is registered, or what FILE says now. Or with the crew that "
            "the run has now. Default: live.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show who would leave, and who come back.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")] = False,
    reason: Reason = "",
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Let a paused run go on, or one that was stopped, has failed, or was ended from outside.

    With --from recipe it is told who leaves and who comes back; at a terminal it asks first, where
    somebody leaves.
    """
    from crewlog.cli.rewinding import resumed  # noqa: PLC0415

    def send(found: Run) -> Awaitable[Any]:
        origin, recipe = resumed_from(from_)
        return found.resume(reason, from_=origin, recipe=recipe, by=by, id=command_id)

    return go(
        resumed(
            run,
            lambda more: _sent(run, "resume", send, as_json=as_json, more=more),
            as_json=as_json,
            start=resumed_from(from_),
            by=by,
            reason=reason,
            command_id=command_id,
            dry_run=dry_run,
            yes=yes,
        ),
        debug=debug,
    )


def resumed_from(text: str | None) -> tuple[Literal["recipe", "live"] | None, str | None]:
    """What `--from` says, and the file that it names.

    Raises:
        UsageError: it says something else.
    """
    from crewlog.client.catalog import is_file  # noqa: PLC0415

    match text:
        case None | "recipe" | "live":
            return text, None
        case _ if is_file(text):
            return "recipe", text
        case _:
            raise UsageError(
                f"a run cannot be resumed from {text!r}",
                remedy="Say recipe or live, or name the crew's file: crew.yaml.",
                place="crewlog resume",
            )


@app.command(rich_help_panel=TALK)
def stop(
    run: RunArgument,
    reason: Reason = "",
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """End a run gracefully, with what is there."""
    return signalled(run, "stop", lambda r: r.stop(reason, by=by, id=command_id), as_json, debug)


@app.command(rich_help_panel=TALK)
def interrupt(
    run: RunArgument,
    node: Annotated[
        str,
        typer.Option(
            "--node", metavar="NODE", help="Before which node; * is the next step, whichever it is."
        ),
    ] = "*",
    reason: Reason = "",
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Make a run ask people before a node, or before its next step."""
    return go(
        _sent(
            run,
            "interrupt",
            lambda r: r.interrupt(node, reason, by=by, id=command_id),
            as_json=as_json,
            node=node,
        ),
        debug=debug,
    )


Said = Annotated[str, typer.Argument(metavar="TEXT", help="What is said.", show_default=False)]
To = Annotated[
    str, typer.Option("--to", metavar="LOG", help="public, group:G, channel:C, or private:AGENT.")
]


@app.command(rich_help_panel=TALK)
def inject(
    run: RunArgument,
    text: Said,
    to: To = "public",
    file: Files = None,
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Say something to the crew; agents read it at their next step."""
    return go(
        _sent(
            run,
            "message",
            lambda r: r.message(text, to, by=by, id=command_id, files=file or ()),
            as_json=as_json,
            log=to,
        ),
        debug=debug,
    )


@app.command(rich_help_panel=TALK)
def message(
    run: RunArgument,
    text: Said,
    to: To = "public",
    file: Files = None,
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Say something to the crew: the same as `inject`."""
    return inject(run, text, to, file, by, command_id, as_json, debug)


def signalled(
    run_id: str,
    name: str,
    send: Callable[[Run], Awaitable[Any]],
    as_json: bool,
    debug: bool,
    *,
    told: Callable[[], str] | None = None,
) -> int:
    """Sends a signal, and tells its outcome where a worker tells it in time.

    Args:
        run_id: The run.
        name: The signal.
        send: Sends it.
        as_json: Whether the outcome is told to a program.
        debug: Whether tracebacks are shown.
        told: What is said once it is applied, where that is more than its name tells: a worker is
            brought for it, where we may bring one.
    """
    return go(_sent(run_id, name, send, as_json=as_json, told=told), debug=debug)


async def _sent(
    run_id: str,
    name: str,
    send: Callable[[Run], Awaitable[Any]],
    *,
    as_json: bool,
    told: Callable[[], str] | None = None,
    node: str = "",
    log: str = "",
    more: Mapping[str, Any] | None = None,
) -> int:
    from crewlog.cli.leading import led_to  # noqa: PLC0415
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.cli.told_breaks import asked_already, steps_before  # noqa: PLC0415
    from crewlog.cli.told_hearers import hearing, tell_hearing, tell_paused  # noqa: PLC0415
    from crewlog.errors import CommandRejected  # noqa: PLC0415
    from crewlog.state.run_merge.renames import renamed_log  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen) as client, AsyncExitStack() as helping:
        named = client.run(run_id)
        if name == "message":  # whoever stops a run does not mean the one that has it
            led = await led_to(screen, client, run_id)
            run_id, log = led.run.id, renamed_log(log, led.renamed)
        run = client.run(run_id)
        already = await asked_already(run, node) if node else False
        command = await send(
            named
        )  # by the names that it has there: what it leads to may have others
        outcome, state = await _outcome(
            client, run, named, command, helping if told is not None else None
        )
        ended = None
        if name == "stop" and outcome is None:
            ended, outcome = await _stopped(client, run, command, helping)
        if ended is not None:
            if as_json:
                found = {"run": run_id, "command": name, "id": command, "applied": True}
                screen.document({**found, "position": None, "status": ended})
            else:
                screen.line("  ", (plain(run_id), "bold"), f" has ended: {ended}")
            return exits.OK
        if outcome is not None and not outcome.ok:
            detail, _, remedy = outcome.detail.partition("\n")
            raise CommandRejected(
                detail or f"the run refused {name!r}",
                remedy=remedy.strip() or f"`crewlog show {run_id}` shows where it is.",
                place=f"run {run_id!r}",
            )
        before = steps_before(node, state, outcome, already=already) if node else None
        heard = await hearing(run, log) if log and outcome is not None else None
        paused = bool(log) and state is not None and state.status == "paused"
        if as_json:
            screen.document(
                {
                    "run": run_id,
                    "command": name,
                    "id": command,
                    "applied": outcome is not None,
                    "position": outcome.position if outcome else None,
                    **(before.to_json() if before else {}),
                    **(heard.to_json() if heard else {}),
                    **({"paused": paused} if log else {}),
                    **(more or {}),
                }
            )
            return exits.OK
        if before is not None:
            done = before.words
        else:
            done = plain(told()) if told else _DONE.get(name, "").format(run=plain(run_id))
            done += heard.words if heard else ""
        if outcome is not None:
            screen.line(
                "  ",
                (plain(run_id), "bold"),
                f" {done}",
                (f" (position {outcome.position})", "dim"),
            )
            if heard:
                tell_hearing(screen, run_id, heard)
            if paused:
                tell_paused(screen, run_id)
        else:
            screen.line(
                "  ",
                (plain(run_id), "bold"),
                f" {_LATER[name]} as soon as a worker runs:",
            )
            screen.line(("  Return   ", "dim"), f"crewlog watch {run_id}")
    return exits.OK


_LATER = {
    "pause": "pauses",
    "resume": "goes on",
    "stop": "stops",
    "interrupt": "asks",
    "message": "reads the message",
    "tag": "names the checkpoint",
}
_DONE = {
    "pause": "is paused: what runs finishes. Go on: crewlog resume {run}",
    "resume": "goes on",
    "stop": "is stopping",
    "message": "has the message",
}


async def _stopped(
    client: Client, run: Run, command: str, helping: AsyncExitStack
) -> tuple[str | None, CommandOutcome | None]:
    """Bring a worker, where we may, until the run has ended, or refuses that.

    Returns:
        The status of a run that has ended; and the outcome of a command that it refused.
    """
    from crewlog.cli.background import polled  # noqa: PLC0415
    from crewlog.cli.hands import assigned, hand  # noqa: PLC0415
    from crewlog.errors import CrewlogError, RunFailed, ServiceError  # noqa: PLC0415
    from crewlog.ids import CommandId  # noqa: PLC0415

    queue = (await client.gateway.describe(run.id)).task_queue
    assignment = assigned(queue)
    if not assignment.own or await polled(client, queue):
        return None, None
    lent = await helping.enter_async_context(hand(assignment))
    ending = asyncio.ensure_future(run.result(STOP_LIMIT))
    try:
        while not (await asyncio.wait({ending}, timeout=0.2))[0]:
            if lent is not None:
                lent.check(run.id)
            with suppress(CrewlogError):  # the worker may not answer yet
                outcome = await run.outcome(CommandId(command))
                if outcome is not None and not outcome.ok:
                    return None, outcome
        return ending.result().status, None
    except RunFailed:
        return "failed", None
    except (TimeoutError, ServiceError):
        return None, None
    finally:
        ending.cancel()


async def _outcome(
    client: Client, run: Run, sent: Run, command: str, helping: AsyncExitStack | None
) -> tuple[CommandOutcome | None, CrewState | None]:
    """How a signal ended, where a worker tells in time, and the state that it led to.

    The worker is one of our own, where we may bring it. Asked is what sent the command: it knows
    what that said, and whether it was led on.

    Raises:
        CommandConflict: its id was used for another command.
    """
    from crewlog.cli.background import polled  # noqa: PLC0415
    from crewlog.cli.hands import assigned, hand  # noqa: PLC0415
    from crewlog.errors import CommandConflict, CrewlogError, WorkerMissing  # noqa: PLC0415
    from crewlog.ids import CommandId  # noqa: PLC0415

    limit = OUTCOME_LIMIT
    try:
        queue = (await client.gateway.describe(run.id)).task_queue
        if not await polled(client, queue):
            assignment = assigned(queue)
            if helping is None or not assignment.own:
                return None, None
            await helping.enter_async_context(hand(assignment))
            limit = WORKER_LIMIT
        async with asyncio.timeout(limit):
            while True:
                try:
                    found = await sent.outcome(CommandId(command))
                    if found is not None:
                        return found, await run.state()
                except WorkerMissing:
                    if limit != WORKER_LIMIT:
                        return None, None
                await asyncio.sleep(0.05)
    except CommandConflict:
        raise
    except (TimeoutError, CrewlogError):
        return None, None
