"""Prepare a change of a live run."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.ids import AgentName, ContentHash, RunId
from crewlog.model import Json, Model
from crewlog.state.claim import ClaimedAgent
from crewlog.state.components import Component
from crewlog.state.model import PromptDiagnostic, PromptReply
from crewlog.state.split import SplitContents
from crewlog.usage import Usage

PREPARE_CHANGE = "prepare_change"


class PrepareChange(Model):
    """Make the definition and the plan that a change leads to; nothing is changed yet."""

    run: RunId
    base: ContentHash
    """The definition that the run has."""
    command: str = ""
    """The command that asks for it. Where the graph falls apart the ids of its parts are made of
    it; empty: it stays one run however many graphs there are."""
    recipe: bool = False
    """Whether it is the recipe that is wanted: `base`, the definition that the run was started
    with, or `definition`, where that says how the recipe is written by now."""
    definition: str | dict[str, Json] | None = None
    """A registered crew's name, or a definition."""
    operations: tuple[dict[str, Json], ...] = ()
    """`crewlog.definition.operations`, as JSON."""
    prompt: str = ""
    registry: str = ""
    reader: Literal["auto", "forms", "model"] = "auto"
    model: str = ""
    replies: tuple[PromptReply, ...] = ()
    """What a model that reads the prompt answered before."""
    permissions: dict[str, tuple[AgentName, ...]] = Field(
        default_factory=dict[str, tuple[AgentName, ...]]
    )
    """Of a prompt: who may call the tools of which people have said so while the run lived."""
    basis: ContentHash = ContentHash("")
    """Of a prompt: the definition that was changed while the run lived; what comes of the prompt
    gets the same changes. Empty where it was not changed."""
    against: ContentHash = ContentHash("")
    """The definition in force, whose authority is compared with; by default `base`."""
    after: int | None = None
    """Of a run that goes on with its recipe after it had ended: the last position of its journal.
    Set, it claims the creatures that come home."""


class PreparedSplitRun(Model):
    """A part of a graph that fell apart: another run has it."""

    run: RunId
    """The run."""
    definition: dict[str, Json]
    """The crew that lives there, as canonical JSON."""
    topology: Component
    """Its creatures and channels."""
    contents: SplitContents
    """What goes with it."""


class PrepareChangeResult(Model):
    """What a change leads to."""

    definition: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The definition as canonical JSON: the history must have it, to rebuild the store from."""
    plan: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The `GraphPlan` as JSON."""
    base: ContentHash = ContentHash("")
    """The definition that it is a change of; empty where it stands for itself."""
    basis: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Of a prompt: the crew that it says, without what was changed while the run lived, where that
    is another one."""
    what: str = ""
    """What changes, in a line, for people."""
    diagnostics: tuple[PromptDiagnostic, ...] = ()
    """Of a prompt: what there is to know about it."""
    reply: PromptReply | None = None
    """What a model answered that reads the prompt."""
    again: bool = False
    """Whether the model must be asked once more; then there is no definition yet."""
    refused: str = ""
    """Of a prompt that a model read: all faults, where the change makes no crew. The result, and no
    failure, has them, since a failure has no usage."""
    usage: Usage = Usage()
    widens: tuple[str, ...] | None = None
    """By what it gives somebody more than the definition in force; none where nobody has looked."""
    compared: ContentHash = ContentHash("")
    """The definition that was in force when somebody looked."""
    split_runs: tuple[PreparedSplitRun, ...] = ()
    """Where the graph falls apart: those that other runs have from then on. What the run itself
    keeps is `definition`."""
    warnings: tuple[str, ...] = ()
    """What whoever changes may not have meant, as `SwapReport` has it."""
    claimed: dict[AgentName, ClaimedAgent] = Field(default_factory=dict[AgentName, ClaimedAgent])
    """Creatures that come home, as `RunReopened` has them: they are claimed."""
