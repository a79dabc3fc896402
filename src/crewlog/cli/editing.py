"""`edit`, `redirect`: putting values into a live run, and sending it elsewhere."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, By, CommandIdOption, Debug, Reason, RunArgument

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from crewlog.cli.screen import Screen
    from crewlog.client import Run
    from crewlog.wire import CommandResult

TALK = "Talk"
WORKER_LIMIT = 40.0
"""Seconds for a worker of our own to come up and answer."""
_KINDS = ("flags.", "outputs.", "shared.", "private.")


@app.command(rich_help_panel=TALK)
def edit(
    run: RunArgument,
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY=VALUE]...",
            help="A flag by its name, or a path: outputs.AGENT.KEY, shared.NAME, "
            "private.AUDIENCE.NAME. The value is JSON or YAML, or else a text.",
            show_default=False,
        ),
    ] = None,
    delete: Annotated[
        list[str] | None,
        typer.Option(
            "--delete", metavar="KEY", help="Take it away; may be repeated.", show_default=False
        ),
    ] = None,
    reason: Reason = "",
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Put values into the state of a live run, all of them or none.

    Steps that wait for a flag go on once it is set.
    """
    given, gone = parsed(values or [], delete or [])
    return go(
        sent(
            run,
            "edit_state",
            lambda r, id_: r.edit_state(given, gone, reason=reason, by=by, id=id_),
            command_id=command_id,
            as_json=as_json,
        ),
        debug=debug,
    )


@app.command(rich_help_panel=TALK)
def redirect(
    run: RunArgument,
    node: Annotated[
        str, typer.Argument(metavar="NODE", help="Where the run goes.", show_default=False)
    ],
    step: Annotated[
        str | None,
        typer.Option(
            "--step",
            metavar="STEP",
            help="The step whose place that takes (writer#1). Default: the only one.",
            show_default=False,
        ),
    ] = None,
    cut: Annotated[
        bool, typer.Option("--cut", help="End a step that is at work now, and cancel its calls.")
    ] = False,
    reason: Reason = "",
    by: By = None,
    command_id: CommandIdOption = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Send a run to another node than the next.

    A step that has not begun or that asks people ends now; one at work goes on to its end first.
    """
    return go(
        sent(
            run,
            "redirect",
            lambda r, id_: r.redirect(node, step, cut=cut, reason=reason, by=by, id=id_),
            command_id=command_id,
            as_json=as_json,
        ),
        debug=debug,
    )


def parsed(values: Sequence[str], delete: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The values by path, and the paths to take away; a name alone is a flag's.

    Raises:
        UsageError: nothing is named, or a value has no key.
    """
    from crewlog.errors import UsageError  # noqa: PLC0415

    found: dict[str, Any] = {}
    for each in values:
        key, equals, text = each.partition("=")
        if not key.strip() or not equals:
            raise UsageError(
                f"{each!r} is no KEY=VALUE", remedy="For example: crewlog edit RUN approved=true"
            )
        found[_path(key)] = value_of(text)
    if not found and not delete:
        raise UsageError(
            "nothing is to be edited",
            remedy="For example: crewlog edit RUN approved=true, or --delete approved.",
        )
    return found, [_path(key) for key in delete]


def _path(key: str) -> str:
    name = key.strip()
    return name if "." in name else f"{_KINDS[0]}{name}"


def value_of(text: str) -> Any:
    """A value as it is typed: JSON, a list or a mapping of YAML, or else the text itself."""
    from ruamel.yaml import YAML  # noqa: PLC0415 - slow to import
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    try:
        return json.loads(text)
    except ValueError:
        pass
    if not text.lstrip().startswith(("[", "{")):
        return text
    try:
        found: Any = YAML(typ="safe", pure=True).load(text)
        return json.loads(json.dumps(found, allow_nan=False))
    except (YAMLError, ValueError, TypeError):
        return text


async def sent(
    run_id: str,
    name: str,
    send: Callable[[Run, str], Awaitable[CommandResult]],
    *,
    command_id: str | None,
    as_json: bool,
    then: Callable[[Screen, Run], Awaitable[None]] | None = None,
) -> int:
    """Sends an update and tells its outcome; brings a worker where nobody works on the run.

    Args:
        run_id: The run.
        name: The update's name.
        send: Sends it, with the command's id.
        command_id: The command's id; by default one of its own.
        as_json: Whether a program reads.
        then: Tells people more, once it is applied.
    """
    from crewlog.cli.screen import Screen, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        run = client.run(run_id)
        accepted, brought = await _applied(client, run, send, command_id)
        if as_json:
            screen.document(
                {
                    "run": run_id,
                    "command": name,
                    "id": accepted.id,
                    "applied": True,
                    "position": accepted.position,
                    "detail": accepted.detail,
                }
            )
            return exits.OK
        screen.line(
            "  ",
            (plain(run_id), "bold"),
            ": ",
            plain(accepted.detail),
            (f" (position {accepted.position})", "dim"),
        )
        if then is not None:
            await then(screen, run)
        if brought:
            screen.line(("  Return   ", "dim"), f"crewlog watch {run_id}")
    return exits.OK


async def _applied(
    client: Any,
    run: Run,
    send: Callable[[Run, str], Awaitable[CommandResult]],
    command_id: str | None,
) -> tuple[CommandResult, bool]:
    """The outcome, and whether this command brought the worker. The id makes it one command."""
    import asyncio  # noqa: PLC0415
    import secrets  # noqa: PLC0415
    import time  # noqa: PLC0415
    from contextlib import AsyncExitStack  # noqa: PLC0415

    from crewlog.cli.background import polled  # noqa: PLC0415
    from crewlog.cli.hands import assigned, hand  # noqa: PLC0415
    from crewlog.errors import WorkerMissing  # noqa: PLC0415

    identity = command_id or f"c-{secrets.token_hex(8)}"
    description = await client.gateway.describe(run.id)
    assignment = assigned(description.task_queue)
    alone = description.close_time is None and assignment.own
    async with AsyncExitStack() as helping:
        lent = None
        if alone and not await polled(client, assignment.queue):
            lent = await helping.enter_async_context(hand(assignment))
        deadline = time.monotonic() + WORKER_LIMIT
        while True:
            try:
                return await send(run, identity), lent is not None
            except WorkerMissing:
                if lent is None or time.monotonic() > deadline:
                    raise
                lent.check(run.id)
                await asyncio.sleep(0.2)
