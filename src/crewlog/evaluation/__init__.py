"""Evaluation: what a crew's stages were given and made, and stages tried alone on that.

    cases = await dataset(client, "flow-7f3a", stages=["builder"])

A stage is an agent of a crew. What it was given and what it made follow from a run's journal and
the store when somebody asks: runs pay nothing for it.
"""

from crewlog.evaluation.cases import Case, StageInput, StageOutput
from crewlog.evaluation.dataset import dataset

__all__ = ["Case", "StageInput", "StageOutput", "dataset"]
