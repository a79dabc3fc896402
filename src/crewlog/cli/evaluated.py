"""An evaluation as the command line makes it: looked at before, followed, and told."""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from crewlog.cli import exits
from crewlog.cli.files import is_file, load_crew
from crewlog.cli.following import Start, assign_for, definition_of_start, ready
from crewlog.cli.hands import hand
from crewlog.cli.scored import show
from crewlog.cli.screen import Screen, counted, plain
from crewlog.client import Client
from crewlog.client.starting import checked
from crewlog.definition.findings import did_you_mean, listed
from crewlog.definition.model import CrewDefinition
from crewlog.definition.validate import model_findings
from crewlog.errors import UsageError
from crewlog.evaluation.cases import Case, StageOutput, read
from crewlog.evaluation.comparing import (
    Verdict,
    check_schema,
    check_wanted,
    exact,
    of_schema,
)
from crewlog.evaluation.judging import Judge, check_judge, judge_of
from crewlog.evaluation.report import Report, Trial, report_of
from crewlog.evaluation.running import Compare, Plan, trials
from crewlog.evaluation.stage import acts_on_the_world, alone, written_out
from crewlog.model import Json
from crewlog.testing.script_file import ANY_AGENT, read_script
from crewlog.usage import Usage

PLACE = "crewlog eval"
PATIENCE = 15.0
"""Seconds between two lines about a long evaluation where there is no terminal."""
_MODEL = re.compile(r"[a-z][a-z0-9_-]*:")
"""How the name of a model begins."""
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"


@dataclass(frozen=True)
class Wanted:
    """What `crewlog eval` is asked for; see its options."""

    crew: str
    stages: tuple[str, ...]
    data: Path
    models: tuple[str | None, ...]
    compare: Literal["exact", "schema", "judge"]
    schema: Path | None
    judge: str | None
    rubric: str
    at_least: float | None
    at_once: int
    timeout: float
    external: bool
    id: str | None
    queue: str | None


async def evaluated(wanted: Wanted, *, as_json: bool) -> int:
    """Tries the cases and tells the report; the exit code."""
    screen = Screen(as_json=as_json)
    cases = _cases(wanted)
    _check_models(wanted.models)
    given: CrewDefinition | str = wanted.crew
    directory = Path.cwd()
    file: Path | None = None
    if is_file(wanted.crew):
        file = Path(wanted.crew)
        given, directory = load_crew(wanted.crew), file.resolve().parent
    name = wanted.id or "eval-" + "".join(secrets.choice(_LETTERS) for _ in range(4))
    checked(name)
    start = Start(crew=given, directory=directory, queue=wanted.queue, file=file)
    assignment = assign_for(start)
    async with ready(screen, assignment) as client:
        client.mentions = not assignment.own
        found = await definition_of_start(client, given)
        if found is None:
            raise UsageError(
                f"there is no crew {wanted.crew!r}",
                remedy="Name a crew's file, or one of `crewlog crews list`.",
                place=PLACE,
            )
        crew = written_out(found)
        _check_stages(crew, [*cases.values()], wanted)
        if assignment.own or assignment.worker is not None:  # then it is a worker of this place
            _check_scripts(crew, [*cases.values()], wanted.models, assignment.directory)
        plan = Plan(
            id=name,
            crew=crew,
            cases=cases,
            models=wanted.models,
            compare=_comparison(client, crew, [*cases.values()], wanted),
            at_once=wanted.at_once,
            timeout=wanted.timeout,
        )
        _head(screen, plan, wanted)
        async with hand(assignment) as lent:
            done: list[Trial] = []
            progress = Progress(screen, len(plan))
            try:
                async for trial in trials(client, plan):
                    done.append(trial)
                    progress.now(done)
                    if lent is not None:
                        lent.check()
            except asyncio.CancelledError:
                progress.close()
                _left(screen, wanted, name, done, len(plan))
                raise
            finally:
                progress.close()
    report = report_of(done)
    if as_json:
        screen.document({"evaluation": name, "outcome": report.outcome, **report.model_dump()})
    else:
        show(screen, report)
    return _code(report, wanted.at_least)


def _code(report: Report, at_least: float | None) -> int:
    if report.outcome == "error":
        return exits.FAILED
    if at_least is None:
        return exits.OK if report.outcome == "passed" else exits.BELOW
    return exits.OK if all(row.quality >= at_least for row in report.rows) else exits.BELOW


# -- what is looked at before ---------------------------------------------------------------


def _cases(wanted: Wanted) -> dict[int, Case]:
    cases = dict(enumerate(read(wanted.data), 1))
    known = dict.fromkeys(case.stage for case in cases.values())
    for stage in wanted.stages:
        if stage not in known:
            raise UsageError(
                f"the data set {str(wanted.data)!r} has no case of the stage {stage!r}",
                remedy=did_you_mean(stage, known, f"It has cases of {listed(known) or 'none'}."),
                place=PLACE,
            )
    found = {n: c for n, c in cases.items() if not wanted.stages or c.stage in wanted.stages}
    if not found:
        raise UsageError(
            f"the data set {str(wanted.data)!r} has no case",
            remedy="`crewlog dataset RUN --out FILE` makes one of a run.",
            place=PLACE,
        )
    return found


def _check_stages(crew: CrewDefinition, cases: Sequence[Case], wanted: Wanted) -> None:
    """Looks at every stage before anything begins.

    Raises:
        UsageError: there is no such agent, or it may call tools that act on the world.
    """
    for stage in dict.fromkeys(case.stage for case in cases):
        alone(crew, stage)
        tools = acts_on_the_world(crew, stage)
        if tools and not wanted.external:
            raise UsageError(
                f"the stage {stage!r} may call {listed(tools)}, which the crew says to act on the "
                "world: an evaluation would do that for every case",
                remedy="Say `effects: read` or `effects: write` of tools that do not, or let them "
                "with --external.",
                place=PLACE,
            )


def _check_models(models: Sequence[str | None]) -> None:
    """Looks whether models are named as models are.

    Raises:
        UsageError: one is not.
    """
    for model in models:
        for finding in model_findings(model, ()) if model is not None else ():
            raise UsageError(
                finding.message,
                remedy=finding.remedy.replace("model: ", "--model "),
                place="--model",
            )


def _check_scripts(
    crew: CrewDefinition, cases: Sequence[Case], models: Sequence[str | None], directory: Path
) -> None:
    """Looks whether the scripts that stand in for models have something for each stage.

    Raises:
        UsageError: one lacks a stage.
        InvalidDefinition: one is not there, or is no script.
    """
    for stage in dict.fromkeys(case.stage for case in cases):
        agent = crew.agents[stage]
        for model in () if agent.does else models:
            kind, _, name = (model or agent.model or crew.model or "").partition(":")
            if kind != "scripted":
                continue
            known = read_script(directory / name).agents
            if stage not in known and ANY_AGENT not in known:
                raise UsageError(
                    f"the script {name!r} has nothing for the stage {stage!r}",
                    remedy=did_you_mean(stage, known, f"It has {listed(known) or 'no agent'}."),
                    place=PLACE,
                )


def _comparison(
    client: Client, crew: CrewDefinition, cases: Sequence[Case], wanted: Wanted
) -> Compare:
    """How outputs are compared.

    Raises:
        UsageError: a schema is missing, or is none; or nobody is there to judge.
    """
    if wanted.compare == "judge":
        return _judge(client, crew, wanted)
    if wanted.compare == "schema":
        return _fitting(crew, cases, wanted)

    for case in cases:
        check_wanted(case, str(wanted.data))

    async def by_value(case: Case, got: StageOutput, _run: str) -> tuple[Verdict, Usage]:
        return exact(case, got), Usage()

    return by_value


def _fitting(crew: CrewDefinition, cases: Sequence[Case], wanted: Wanted) -> Compare:
    """Whether outputs fit a schema: the case's, else the given one, else that of the reply."""
    common = _schema(wanted.schema) if wanted.schema else None

    def schema_of(case: Case) -> Json:
        reply = crew.agents[case.stage].reply
        found = case.schema_ if case.schema_ is not None else common
        return found if found is not None or reply is None else reply.schema_

    for case in cases:
        if (schema := schema_of(case)) is None:
            raise UsageError(
                f"the case {case.name} has no schema to fit",
                remedy="Give all of them one with --schema FILE, the case its own, as `schema`, or "
                "the agent a reply with one.",
                place=str(wanted.data),
            )
        check_schema(schema, case.name)

    async def by_schema(case: Case, got: StageOutput, _run: str) -> tuple[Verdict, Usage]:
        return of_schema(schema_of(case), got), Usage()

    return by_schema


def _judge(client: Client, crew: CrewDefinition, wanted: Wanted) -> Judge:
    """The judge that is asked.

    Raises:
        UsageError: there is none, or a crew that cannot be one.
    """
    if wanted.judge is not None and not _MODEL.match(wanted.judge):
        judge = load_crew(wanted.judge)
        check_judge(judge)
    elif (model := wanted.judge or crew.model) is not None:
        judge = judge_of(model)
    else:
        raise UsageError(
            "nobody is there to judge: the crew names no model",
            remedy="Name one: --judge openai:gpt-5-mini.",
            place=PLACE,
        )
    return Judge(client, judge, crew, rubric=wanted.rubric, timeout=wanted.timeout)


def _schema(file: Path) -> Json:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the schema {str(file)!r}: {error}", place=PLACE) from error


# -- what is told meanwhile -----------------------------------------------------------------


def _head(screen: Screen, plan: Plan, wanted: Wanted) -> None:
    stages = dict.fromkeys(case.stage for case in plan.cases.values())
    told = [counted(len(plan.cases), "case"), counted(len(stages), "stage")]
    if len(plan.models) > 1:
        told.append(counted(len(plan.models), "model"))
    screen.line("")
    screen.line(
        ("  crew ", "dim"),
        plain(plan.crew.crew),
        (" · evaluation ", "dim"),
        (plan.id, "bold"),
        (f" · {' · '.join([*told, wanted.compare])}", "dim"),
    )
    screen.line("")


class Progress:
    """How far an evaluation is: a moving line at a terminal, else a line now and then."""

    def __init__(self, screen: Screen, of: int) -> None:
        self._screen = screen
        self._of = of
        self._told = time.monotonic()
        self._status = screen.out.status("", spinner_style="cyan") if screen.tty else None
        if self._status is not None:
            self._status.update(f"0 of {of} tried")
            self._status.start()

    def now(self, done: Sequence[Trial]) -> None:
        """Tells how many are done."""
        short = sum(trial.outcome != "passed" for trial in done)
        last = done[-1]
        said = f"{len(done)} of {self._of} tried"
        said += f" · {short} did not pass" if short else ""
        if self._status is not None:
            self._status.update(f"{said} · {plain(last.name)}")
        elif time.monotonic() - self._told > PATIENCE:
            self._told = time.monotonic()
            self._screen.note(f"▸ {said}")

    def close(self) -> None:
        """Takes the moving line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None


def _left(screen: Screen, wanted: Wanted, name: str, done: Sequence[Trial], of: int) -> None:
    """How to go on, after Ctrl-C or SIGTERM."""
    words = ["crewlog", "eval", wanted.crew, *wanted.stages, "--dataset", str(wanted.data)]
    words += [word for model in wanted.models if model for word in ("--model", model)]
    screen.note(f"  {len(done)} of {of} tried; nothing of that is lost.")
    screen.note(("  Go on   ", "dim"), " ".join([*words, "--id", name]))
