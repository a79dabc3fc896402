"""`dataset` and `eval`: what a crew's stages were given and made, and how well they do alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug
from crewlog.errors import UsageError

if TYPE_CHECKING:
    from crewlog.evaluation.cases import Case

EVALUATION = "Evaluation"


@app.command(rich_help_panel=EVALUATION)
def dataset(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN…", help="Runs, by their ids.", show_default=False)
    ],
    stage: Annotated[
        list[str] | None,
        typer.Option(
            "--stage",
            metavar="AGENT",
            help="Only this agent's steps; may be repeated. Default: all agents'.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Write them into this file instead of standard output.",
            show_default=False,
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Write over a file that is there.")
    ] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """What each stage of a crew was given and what it made, as JSON lines, a step each.

    It follows from the journals and the store: nothing was recorded for it while the runs went on.
    A line has only what the stage itself could see. `crewlog eval` tries stages on such lines.
    """
    if out is not None and out.exists() and not force:
        raise UsageError(
            f"there is a file {str(out)!r} already",
            remedy="Name another one, or write over it with --force.",
            place="crewlog dataset",
        )
    return go(_dataset(runs, stage or [], out, as_json=as_json), debug=debug)


async def _dataset(runs: list[str], stages: list[str], out: Path | None, *, as_json: bool) -> int:
    from crewlog.cli.screen import Screen, counted, plain  # noqa: PLC0415
    from crewlog.cli.services import connected  # noqa: PLC0415
    from crewlog.evaluation.dataset import dataset as cases_of  # noqa: PLC0415

    # Without a file, standard output is the lines' alone.
    screen = Screen(as_json=as_json or out is None)
    found: list[Case] = []
    async with connected(screen, both=True) as client:
        for run in dict.fromkeys(runs):
            found += await cases_of(client, run, stages)
    if out is None:
        for case in found:
            screen.record(case.to_json())
        return exits.OK
    _write(out, found)
    by_stage = Counter(case.stage for case in found)
    if as_json:
        screen.document({"file": str(out), "cases": len(found), "stages": by_stage})
    each = ", ".join(f"{plain(name)} {count}" for name, count in by_stage.items())
    screen.line(("✓ ", "green"), f"{plain(out)}: {counted(len(found), 'case')}  {each}")
    return exits.OK


def _write(file: Path, cases: list[Case]) -> None:
    """Writes a data set.

    Raises:
        UsageError: the file cannot be written.
    """
    from crewlog.evaluation.cases import lines  # noqa: PLC0415

    try:
        file.write_text("".join(f"{line}\n" for line in lines(cases)), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {str(file)!r}: {error}", place=str(file)) from error
