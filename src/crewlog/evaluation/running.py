"""Evaluations: each case of a data set is tried as a real, small run of its stage alone.

The runs' ids follow from the evaluation's, the case and the crew of the stage: an evaluation that
was interrupted goes on under its id, and what is done is not done again; what could not be tried is
tried anew. Runs stay, to be looked at by `crewlog trace`, until somebody deletes them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from crewlog.canonical_json import hash_json
from crewlog.client import Client, Run
from crewlog.definition.model import CrewDefinition
from crewlog.errors import (
    CrewlogError,
    DefinitionError,
    EncryptionKeyMissing,
    NotPermitted,
    StoreUnavailable,
    TemporalUnavailable,
)
from crewlog.evaluation.cases import Case, StageOutput
from crewlog.evaluation.comparing import Verdict
from crewlog.evaluation.dataset import dataset
from crewlog.evaluation.report import Report, Trial, report_of
from crewlog.evaluation.stage import alone, given
from crewlog.evaluation.waiting import GRACE, carried_out
from crewlog.state.excerpt import excerpt
from crewlog.usage import Usage

Compare = Callable[[Case, StageOutput, str], Awaitable[tuple[Verdict, Usage]]]
"""Compares an output with its case, made in the run of that id; what that used, too. It raises
where it cannot: the trial has that as its error, and the others go on."""
_OF_ALL = (
    DefinitionError,
    EncryptionKeyMissing,
    NotPermitted,
    StoreUnavailable,
    TemporalUnavailable,
)
"""What ends an evaluation: it would be so of each trial."""
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Plan:
    """What is to be tried."""

    id: str
    """The evaluation's: the beginning of its runs' ids."""
    crew: CrewDefinition
    """The crew, with builders and patterns in place."""
    cases: Mapping[int, Case]
    """By their numbers in the data set."""
    models: Sequence[str | None]
    """The models that the stages are given; none: those that the crew says."""
    compare: Compare
    at_once: int = 4
    """How many runs are under way at a time, at most."""
    timeout: float = 600.0
    """Seconds that a run may take."""

    def __len__(self) -> int:
        return len(self.cases) * len(self.models)


async def evaluate(client: Client, plan: Plan) -> Report:
    """Tries all cases with all models, and says how it went.

    Raises:
        UsageError: the crew has no such stage.
        NotPermitted: it is signed, and nobody may say what a case has been told.
        TemporalUnavailable: the server is away.
    """
    return report_of([trial async for trial in trials(client, plan)])


async def trials(client: Client, plan: Plan) -> AsyncIterator[Trial]:
    """The trials, as they come to their ends.

    Raises:
        UsageError, NotPermitted, TemporalUnavailable: as `evaluate`.
    """
    free = asyncio.Semaphore(plan.at_once)
    asked = [
        (number, case, choice, _alone(plan.crew, case, model))
        for number, case in plan.cases.items()
        for choice, model in enumerate(plan.models)
    ]

    async def one(number: int, case: Case, choice: int, crew: CrewDefinition) -> Trial:
        trial = _trial(plan, number, case, choice, crew)
        async with free:
            try:
                return await _tried(client, plan, case, crew, trial)
            except _OF_ALL:
                raise
            except Exception as error:  # noqa: BLE001 - one that raises does not end the others
                return trial.model_copy(update={"error": _told(error)})

    tasks = [asyncio.create_task(one(*each)) for each in asked]
    try:
        for task in asyncio.as_completed(tasks):
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _alone(crew: CrewDefinition, case: Case, model: str | None) -> CrewDefinition:
    return alone(crew, case.stage, case.phase, model=model, artifacts=case.input.artifacts)


def _trial(plan: Plan, number: int, case: Case, choice: int, crew: CrewDefinition) -> Trial:
    """A trial before it is made."""
    key = hash_json([crew.to_json(), case.key])[:8]
    agent = crew.agents[case.stage]
    return Trial(
        case=number,
        name=case.name,
        stage=case.stage,
        choice=choice,
        model=agent.model or crew.model or "",
        run=f"{plan.id}-{number}-{key}",
        outcome="error",
    )


async def _tried(
    client: Client, plan: Plan, case: Case, crew: CrewDefinition, trial: Trial
) -> Trial:
    async def begin(existing: Literal["reject", "attach", "replace"]) -> Run:
        if existing == "attach":
            return await client.attached(trial.run)
        return await client.start(
            crew,
            id=trial.run,
            existing=existing,
            initial_state=given(crew, case),
            execution_timeout=timedelta(seconds=plan.timeout + GRACE),
        )

    run, error = await carried_out(begin, plan.timeout)
    found = [each for each in await dataset(client, run.id) if each.stage == case.stage]
    if error or not found:
        used = Usage()
        with suppress(CrewlogError):  # nobody may be there to tell
            used = (await run.state()).total_usage
        error = error or "the stage did not come to its end"
        return trial.model_copy(update={"error": error, "usage": used})
    got = found[-1]
    trial = trial.model_copy(
        update={
            "same": got.input.same(case.input),
            "output": got.output,
            "usage": got.usage,
            "ms": got.ms,
        }
    )
    try:
        verdict, judged = await plan.compare(case, got.output, trial.run)
    except _OF_ALL:
        raise
    except Exception as failed:  # noqa: BLE001 - comparisons may be anybody's
        return trial.model_copy(update={"error": _told(failed)})
    return trial.model_copy(
        update={
            "outcome": "passed" if verdict.passed else "failed",
            "score": verdict.score,
            "differs": verdict.differs,
            "judged": judged,
        }
    )


def _told(error: Exception) -> str:
    """Why a trial came to nothing, as it is told."""
    if isinstance(error, CrewlogError):
        return error.message
    _LOG.debug("a trial raised", exc_info=error)
    return f"{type(error).__name__}: {excerpt(str(error), 200)}"
