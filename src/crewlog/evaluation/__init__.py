"""Evaluation: what a crew's stages were given and made, and stages tried alone on that.

    cases = await dataset(client, "flow-7f3a", stages=["builder"])

A stage is an agent of a crew. What it was given and what it made follow from a run's journal and
the store when somebody asks: runs pay nothing for it.
"""

from crewlog.evaluation.cases import Case, StageInput, StageOutput
from crewlog.evaluation.comparing import Verdict, exact, of_schema
from crewlog.evaluation.dataset import dataset
from crewlog.evaluation.judging import Judge, judge_of
from crewlog.evaluation.report import Report, Row, Trial
from crewlog.evaluation.running import Plan, evaluate, trials
from crewlog.evaluation.stage import alone, given, written_out

__all__ = [
    "Case",
    "Judge",
    "Plan",
    "Report",
    "Row",
    "StageInput",
    "StageOutput",
    "Trial",
    "Verdict",
    "alone",
    "dataset",
    "evaluate",
    "exact",
    "given",
    "judge_of",
    "of_schema",
    "trials",
    "written_out",
]
