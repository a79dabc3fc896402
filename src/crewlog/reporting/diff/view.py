"""Diffs as typed views: of two checkpoints, two definitions, or two contents of an artifact."""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field

from crewlog.definition.diff import Change as DefinitionChange
from crewlog.definition.diff import diff as definition_diff
from crewlog.definition.model import CrewDefinition
from crewlog.graph.plan import GraphPlan
from crewlog.ids import RunId, StepId
from crewlog.model import Model
from crewlog.reporting.diff.content import ContentChange
from crewlog.reporting.diff.plan import PlanDiff, plan_diff
from crewlog.reporting.diff.state import StateChange, state_diff
from crewlog.state.model import CrewState
from crewlog.wire import CheckpointView


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


class CheckpointChangesView(CheckpointView):
    """A checkpoint, and what differs from the checkpoint before it."""

    changes: tuple[StateChange, ...] | None = None
    """The differences of the states, by section; none if they are not requested."""


class CheckpointListView(Model):
    """The checkpoints of a run."""

    run: RunId
    checkpoints: tuple[CheckpointChangesView, ...]
    """In the order of their positions."""


class DefinitionReference(Model):
    """The name of a crew, a registry, or a part of one: in a file or in the catalog."""

    kind: Literal["crew", "registry", "agent", "tool", "builder", "model"]
    name: str
    version: int | None = None
    """The version in the catalog; none for a file."""
    at: int | None = None
    """When it was registered, in milliseconds since the epoch; none for a file."""
    file: str | None = None
    """The path of the file; none for the catalog."""
    hash: str
    """The hash of the content."""


class DefinitionDiffView(Model):
    """What differs between two crews, registries or parts of registries."""

    same: bool
    """Whether nothing differs."""
    old: DefinitionReference
    new: DefinitionReference
    changes: tuple[DefinitionChange, ...]
    """In the order of a definition's keys."""


class ArtifactStepView(Model):
    """A step that changed an artifact, or tried to."""

    step: StepId
    first: int
    """The journal position of its first operations."""
    last: int
    """The journal position of its last operations."""
    operations: int
    """The number of operations, also of those that were left out."""


class ArtifactDiffView(Model):
    """What differs between an artifact at two positions of a run."""

    artifact: str
    old: int = Field(alias="from")
    """The one journal position."""
    new: int = Field(alias="to")
    """The other journal position."""
    changes: tuple[ContentChange, ...]
    """The differences, in an order in which they can be applied."""
    steps: tuple[ArtifactStepView, ...] = ()
    """If nothing differs: all steps that changed the artifact, or tried to."""


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
            "changes": state_diff(old.state, new.state).changes,
            "graph": graph,
            "definition": definition,
        }
    )
