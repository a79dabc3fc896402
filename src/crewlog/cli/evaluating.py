"""`dataset` and `eval`: what a crew's stages were given and made, and how well they do alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from crewlog.cli import exits
from crewlog.cli.app import app, go
from crewlog.cli.options import AsJson, Debug, Queue
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


def _share(text: str) -> float:
    """A share as it is typed: `0.9` or `90%`.

    Raises:
        UsageError: it is none.
    """
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise UsageError(
            f"--at-least {text!r} is no share",
            remedy="Say how much of the cases must hold, as 0.9 or 90%.",
            place="crewlog eval",
        )
    return share


@app.command("eval", rich_help_panel=EVALUATION)
def evaluate(
    crew: Annotated[
        str,
        typer.Argument(
            metavar="FILE|CREW", help="A crew's file, or a registered crew.", show_default=False
        ),
    ],
    stages: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STAGE]…", help="Only these agents. Default: all of the data set's."
        ),
    ] = None,
    data: Annotated[
        Path,
        typer.Option("--dataset", "-d", metavar="FILE", help="The cases, as JSON lines."),
    ] = Path("dataset.jsonl"),
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            metavar="NAME",
            help="Give the stages this model; may be repeated: side by side. Default: the crew's.",
            show_default=False,
        ),
    ] = None,
    compare: Annotated[
        Literal["exact", "schema", "judge"],
        typer.Option(
            "--compare",
            help="exact: the outputs are those of the case; schema: they fit a JSON Schema; judge: "
            "an agent says that they are as good.",
        ),
    ] = "exact",
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="The JSON Schema of cases that have none.",
            show_default=False,
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            "--judge",
            metavar="MODEL|FILE",
            help="The judge's model, or a crew's file: one of its agents answers with passed, "
            "score and reason. Default: the crew's model.",
            show_default=False,
        ),
    ] = None,
    rubric: Annotated[
        str,
        typer.Option(
            "--rubric",
            metavar="TEXT",
            help="What the judge is to look at above all.",
            show_default=False,
        ),
    ] = "",
    at_least: Annotated[
        str | None,
        typer.Option(
            "--at-least",
            metavar="SHARE",
            help="The quality that each stage must have with each model, as 0.9 or 90%. Default: "
            "every case passes.",
            show_default=False,
        ),
    ] = None,
    at_once: Annotated[
        int, typer.Option("--at-once", metavar="COUNT", help="Runs at a time.", min=1, max=100)
    ] = 4,
    timeout: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="How long a case may take.", min=1),
    ] = 600,
    external: Annotated[
        bool,
        typer.Option(
            "--external",
            help="Let stages call tools that act on the world: they do, for every case.",
        ),
    ] = False,
    id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="NAME",
            help="The evaluation's name; with that of an earlier one, it goes on: what is done "
            "stays. Default: eval and four characters.",
            show_default=False,
        ),
    ] = None,
    task_queue: Queue = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Try stages of a crew alone on recorded cases, and say how well they do.

    Each case is a real, small run, in which the stage is told what it was told in the crew. The
    report has a line for each stage and model, and names the stage that fails and its cases.
    Exits with 7 where a case does not pass, and with 1 where one could not be tried.
    """
    from crewlog.cli.evaluated import Wanted, evaluated  # noqa: PLC0415

    wanted = Wanted(
        crew=crew,
        stages=tuple(stages or ()),
        data=data,
        models=tuple(model or (None,)),
        compare=compare,
        schema=schema,
        judge=judge,
        rubric=rubric,
        at_least=None if at_least is None else _share(at_least),
        at_once=at_once,
        timeout=timeout,
        external=external,
        id=id,
        queue=task_queue,
    )
    return go(evaluated(wanted, as_json=as_json), debug=debug)
