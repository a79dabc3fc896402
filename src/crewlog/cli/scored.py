"""An evaluation's report, for a terminal: stages and models side by side, and what fell short."""

from __future__ import annotations

from collections.abc import Sequence

from crewlog.cli.screen import Part, Screen, counted, lasted, money, plain
from crewlog.evaluation.report import Report, Row, Trial
from crewlog.usage import Usage

TOLD = 10
"""Cases that do not pass which are told of a stage; the rest is counted."""


def show(screen: Screen, report: Report) -> None:
    """A line for each stage and model, and under them what did not pass, stage by stage."""
    several = len({row.stage for row in report.rows}) > 1
    shown = [*report.rows, *(report.totals if several else ())]
    names = [row.stage or "all" for row in shown]
    rows: list[list[Part]] = []
    for number, row in enumerate(shown):
        again = number > 0 and names[number - 1] == names[number]
        rows.append(_row(row, "" if again else names[number]))
    screen.rows(("stage", "model", "passed", "quality", "tokens", "cost", "time", ""), rows)
    for stage in dict.fromkeys(row.stage for row in report.rows):
        _failures(screen, [t for t in report.trials if t.stage == stage], stage)
    if other := sum(not trial.same for trial in report.trials if trial.outcome != "error"):
        screen.line("")
        screen.line(
            ("  ▸ ", "yellow"),
            f"{counted(other, 'stage')} saw something else than what was recorded: a window, an "
            "input or an artifact of the crew is another one by now",
        )
    if (judged := sum((row.judged for row in report.totals), Usage())).calls:
        tokens = counted(judged.input_tokens + judged.output_tokens, "token")
        cost = f" · {money(judged.cost)}" if judged.cost else ""
        screen.line("")
        screen.line((f"  the judge took {tokens}{cost} besides", "dim"))
    screen.line("")
    if report.outcome == "passed":
        unit = "trial" if len({trial.choice for trial in report.trials}) > 1 else "case"
        screen.line(("  ✓ ", "green"), f"all {counted(len(report.trials), unit)} passed")
    elif several:
        screen.line(("  ✗ ", "red"), "the stage that falls short most: ", (report.weakest, "bold"))


def _row(row: Row, name: str) -> list[Part]:
    style = "green" if row.passed == row.cases else "red"
    used = row.usage.input_tokens + row.usage.output_tokens
    cost = money(row.usage.cost) or "–"  # noqa: RUF001 - as our tables have it
    return [
        (plain(name), "bold"),
        plain(_name(row.model)),
        (f"{row.passed} of {row.cases}", style),
        f"{row.quality:.0%}",
        f"{used:,}",
        f"{cost}{' and more' if row.usage.unpriced and row.usage.cost else ''}",
        lasted(0, row.ms),
        (f"{counted(row.errors, 'case')} could not be tried" if row.errors else "", "yellow"),
    ]


def _name(model: str) -> str:
    """A model as it is told: without what most have before it."""
    return model.removeprefix("openai:").removeprefix("scripted:")


def _short_of(trials: Sequence[Trial], *, several: bool) -> str:
    """How many did not pass, and how many could not be tried; a case has a trial of each model."""
    of = counted(len(trials), "trial" if several else "case")
    failed = sum(trial.outcome == "failed" for trial in trials)
    errors = sum(trial.outcome == "error" for trial in trials)
    if not errors:
        return f"{failed} of {of} did not pass"
    untried = f"{errors} of {of} could not be tried"
    return f"{untried}, {failed} did not pass" if failed else untried


def _failures(screen: Screen, of_stage: Sequence[Trial], stage: str) -> None:
    """The cases of a stage that did not pass, each with what is not as it should be."""
    short = [trial for trial in of_stage if trial.outcome != "passed"]
    if not short:
        return
    models = len({trial.model for trial in of_stage}) > 1
    screen.line("")
    screen.line(("  ✗ ", "red"), (plain(stage), "bold"), f"  {_short_of(of_stage, several=models)}")
    for trial in short[:TOLD]:
        screen.line(
            f"    {plain(trial.name)}",
            (f"  {plain(_name(trial.model))}" if models else "", "dim"),
            (f"  crewlog trace {trial.run}", "dim"),
        )
        for said in trial.differs or (trial.error,):
            style = "yellow" if trial.outcome == "error" else ""
            screen.wrapped(["      "], plain(said), indent=6, style=style)
    if len(short) > TOLD:
        screen.line((f"    and {len(short) - TOLD} more: --json has them all", "dim"))
