"""The report of an evaluation: each stage with each model, what fails, and where.

report = report_of(trials)
report.rows    one for each stage and model: quality, tokens, cost, time
report.weakest the stage that fails most
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from crewlog.evaluation.cases import StageOutput
from crewlog.model import Model
from crewlog.usage import Usage

Outcome = Literal["passed", "failed", "error"]
"""`error`: there is no output to compare, since the run did not come to its end."""


class Trial(Model):
    """A case, tried once with a model."""

    case: int
    """Its number in the data set, from 1."""
    name: str
    """The case, for people: `builder#2 of flow-7f3a`."""
    stage: str
    choice: int = 0
    """Which of the models that were named it was given, from 0."""
    model: str
    """That model, or the stage's own."""
    run: str
    """The run in which the stage worked alone."""
    outcome: Outcome
    score: float = 0.0
    """From 0 to 1."""
    differs: tuple[str, ...] = ()
    """What is not as it should be, a sentence each; of a judge, its reason."""
    error: str = ""
    same: bool = True
    """Whether the stage was shown what it was shown when the case was recorded."""
    output: StageOutput | None = None
    usage: Usage = Usage()
    ms: int = 0
    judged: Usage = Usage()
    """What the judge used."""


class Row(Model):
    """A stage with a model, over all of its cases."""

    stage: str
    choice: int
    """Which of the models that were named."""
    model: str
    """That model; empty for all stages together, where each has its own."""
    cases: int
    passed: int
    failed: int
    errors: int
    quality: float
    """The mean of the scores; a case without an output has none of it."""
    usage: Usage
    judged: Usage
    """What the judge used."""
    ms: int
    """The mean time of a case, in milliseconds, of those that have an output."""


class Report(Model):
    """An evaluation's outcome."""

    rows: tuple[Row, ...]
    """By stage in the order of the data set, and by model in the order in which they were named."""
    totals: tuple[Row, ...]
    """The same over all stages, for each model; the stage is empty."""
    weakest: str = ""
    """The stage of the lowest quality, of those whose cases did not all pass."""
    trials: tuple[Trial, ...]
    """In the order of the data set, and by model."""

    @property
    def outcome(self) -> Outcome:
        """How it went: `error` where a case could not be tried, else whether all passed."""
        outcomes = {trial.outcome for trial in self.trials}
        if "error" in outcomes:
            return "error"
        return "failed" if "failed" in outcomes else "passed"


def report_of(trials: Sequence[Trial]) -> Report:
    """The report of trials, whichever order they came in."""
    ordered = sorted(trials, key=lambda trial: (trial.case, trial.choice))
    stages = list(dict.fromkeys(trial.stage for trial in ordered))
    choices = sorted({trial.choice for trial in ordered})
    rows = [
        _row(stage, [t for t in ordered if (t.stage, t.choice) == (stage, choice)])
        for stage in stages
        for choice in choices
    ]
    totals = [_row("", [t for t in ordered if t.choice == choice]) for choice in choices]
    quality = {s: min(row.quality for row in rows if row.stage == s) for s in stages}
    short = [stage for stage in stages if _falls_short(ordered, stage)]
    return Report(
        rows=tuple(rows),
        totals=tuple(totals),
        weakest=min(short, key=lambda stage: quality[stage], default=""),
        trials=tuple(ordered),
    )


def _falls_short(trials: Sequence[Trial], stage: str) -> bool:
    return any(trial.outcome != "passed" for trial in trials if trial.stage == stage)


def _row(stage: str, trials: Sequence[Trial]) -> Row:
    ended = [trial for trial in trials if trial.outcome != "error"]
    models = {trial.model for trial in trials}
    return Row(
        stage=stage,
        choice=trials[0].choice,
        model=models.pop() if len(models) == 1 else "",
        cases=len(trials),
        passed=_count(trials, "passed"),
        failed=_count(trials, "failed"),
        errors=_count(trials, "error"),
        quality=sum(trial.score for trial in trials) / len(trials),
        usage=sum((trial.usage for trial in trials), Usage()),
        judged=sum((trial.judged for trial in trials), Usage()),
        ms=sum(trial.ms for trial in ended) // max(len(ended), 1),
    )


def _count(trials: Iterable[Trial], outcome: Outcome) -> int:
    return sum(trial.outcome == outcome for trial in trials)
