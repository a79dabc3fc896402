"""The diff of two checkpoints as a typed view: state, graph and definition."""

from __future__ import annotations

from typing import NamedTuple

from pydantic import Field

from crewlog.definition.diff import Change as DefinitionChange
from crewlog.definition.diff import diff as definition_diff
from crewlog.definition.model import CrewDefinition
from crewlog.graph.plan import GraphPlan
from crewlog.ids import RunId
from crewlog.model import Model
from crewlog.reporting.diff.plan import PlanDiff, plan_diff
from crewlog.reporting.diff.state import StateChange, difference
from crewlog.state.model import CrewState


class Checkpoint(NamedTuple):
    """A run at a position."""

    run: RunId
    state: CrewState
    plan: GraphPlan | None
    """None if the prompt of the run is not compiled yet."""
    definition: CrewDefinition | None
    """None likewise."""


class CheckpointReference(Model):
    """The name of a checkpoint."""

    run: RunId
    position: int


class DiffView(Model):
    """What differs between two checkpoints, of one run or of two runs."""

    old: CheckpointReference = Field(alias="from")
    new: CheckpointReference = Field(alias="to")
    changes: tuple[StateChange, ...]
    """The differences of the states, by section."""
    graph: PlanDiff | None
    """The differences of the graphs; none if one of the runs has no graph yet."""
    definition: tuple[DefinitionChange, ...] | None
    """The differences of the definitions; none likewise."""


def checkpoint_diff(old: Checkpoint, new: Checkpoint) -> DiffView:
    """What was added, removed and changed from `old` to `new`."""
    graph = plan_diff(old.plan, new.plan) if old.plan and new.plan else None
    definition = None
    if old.definition is not None and new.definition is not None:
        definition = definition_diff(old.definition, new.definition).changes
    return DiffView.model_validate(
        {
            "from": CheckpointReference(run=old.run, position=old.state.position),
            "to": CheckpointReference(run=new.run, position=new.state.position),
            "changes": difference(old.state, new.state).changes,
            "graph": graph,
            "definition": definition,
        }
    )
