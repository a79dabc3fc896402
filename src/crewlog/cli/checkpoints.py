"""`checkpoints`: the places that a run can go back to, and their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, By, Debug, RunArgument

if TYPE_CHECKING:
    from crewlog.cli.screen import Part
    from crewlog.client import Run
    from crewlog.ids import CommandId
    from crewlog.wire import CheckpointView

_PAGE = 1000
_PATIENCE = 30.0
"""Seconds for the run to take a name."""
_WORDS = {
    "start": "the run began",
    "fork": "forked",
    "rollback": "rolled back",
    "reopen": "taken up again",
    "tag": "",
}


@app.command(rich_help_panel="Look")
def checkpoints(
    run: RunArgument,
    tag: Annotated[
        list[str] | None,
        typer.Option(
            "--tag",
            metavar="NAME=POSITION",
            help="Give a checkpoint a name; may be repeated.",
            show_default=False,
        ),
    ] = None,
    by: By = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """List the places that a run can go back to: its start, and the end of each step.

    Any other position of its journal can be gone back to as well.
    """
    return go(_checkpoints(run, tag or [], by, as_json=as_json), debug=debug)


async def _checkpoints(run_id: str, tags: list[str], by: str | None, *, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, clock, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415

    named = [_named(text) for text in tags]
    screen = Screen(as_json=as_json)
    async with connected(screen, both=True) as client:
        run = client.run(run_id)
        for name, position in named:
            await _applied(run, await run.tag(position, name, by=by))
        found = await _all(run)
    if as_json:
        screen.document({"run": run_id, "checkpoints": [c.model_dump(mode="json") for c in found]})
        return exits.OK
    if not found:
        screen.line("No step has ended yet.")
        return exits.OK
    start = found[0].at
    rows: list[list[Part]] = [
        [
            f"@{each.position}",
            plain(each.step) or (_WORDS.get(each.kind, each.kind), "dim"),
            plain(each.node),
            plain(each.agent or ""),
            (clock(each.at - start), "dim"),
            (", ".join(plain(tag) for tag in each.tags), "bold"),
        ]
        for each in found
    ]
    screen.rows(("position", "step", "phase", "agent", "time", "tag"), rows)
    return exits.OK


def _named(text: str) -> tuple[str, int]:
    from crewlog.errors import UsageError  # noqa: PLC0415

    name, _, position = text.rpartition("=")
    number = position.removeprefix("@")
    if not name.strip() or not number.isdecimal() or not int(number):
        raise UsageError(
            f"--tag {text!r} does not name a checkpoint", remedy="e.g. --tag before_review=42"
        )
    return name.strip(), int(number)


async def _applied(run: Run, command: CommandId) -> None:
    """Waits for the outcome of a command: a signal tells nothing.

    Raises:
        CommandRejected: the run refused it.
        WorkerMissing: nobody is there to take it; it is not lost.
    """
    import asyncio  # noqa: PLC0415

    from crewlog.client.gateway import pauses  # noqa: PLC0415
    from crewlog.errors import CommandRejected, WorkerMissing  # noqa: PLC0415

    deadline = asyncio.get_running_loop().time() + _PATIENCE
    for pause in pauses(0.02, 0.5):
        outcome = (await run.state()).commands.get(command)
        if outcome is not None and outcome.ok:
            return
        if outcome is not None:
            raise CommandRejected(outcome.detail)
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(pause)
    raise WorkerMissing(
        f"the run {run.id!r} has not taken the name yet; it does when it goes on",
        remedy="Look again: `crewlog checkpoints`.",
    )


async def _all(run: Run) -> list[CheckpointView]:
    found: list[CheckpointView] = []
    while True:
        page = await run.checkpoints(found[-1].position if found else 0, _PAGE)
        found += page.checkpoints
        if len(page.checkpoints) < _PAGE:
            return found
