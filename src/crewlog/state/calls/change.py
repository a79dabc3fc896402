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
    """Makes the definition and the plan of a change, without changing the run."""

    run: RunId
    base: ContentHash
    """The definition of the run."""
    command: str = ""
    """The id of the change command. If the change splits the run, the ids of the split runs are
    made of it; empty: the change must not split the run."""
    recipe: bool = False
    """Whether the run is to return to its recipe: `base`, the definition that it was started with,
    or `definition`, a later version of it."""
    definition: str | dict[str, Json] | None = None
    """The name of a crew in the catalog, or a definition."""
    operations: tuple[dict[str, Json], ...] = ()
    """`crewlog.definition.operations`, as JSON."""
    prompt: str = ""
    registry: str = ""
    reader: Literal["auto", "forms", "model"] = "auto"
    model: str = ""
    replies: tuple[PromptReply, ...] = ()
    """The earlier replies of the model that reads the prompt."""
    permissions: dict[str, tuple[AgentName, ...]] = Field(
        default_factory=dict[str, tuple[AgentName, ...]]
    )
    """Of a prompt: the agents that may call a tool, for the tools whose permissions people set on
    the live run."""
    basis: ContentHash = ContentHash("")
    """Of a prompt: the basis of the definition. The changes since are applied to what the prompt
    compiles to. Empty if there are none."""
    pending: ContentHash = ContentHash("")
    """Of operations: the definition of the pending change, to which they are applied as well; empty
    if no change is pending."""
    against: ContentHash = ContentHash("")
    """The definition in force, against which widening is judged; by default `base`."""
    after: int | None = None
    """Of an ended run that is reopened with its recipe: the last position of its journal. If it is
    set, the activity claims the agents that return to the run."""


class PreparedSplitRun(Model):
    """A run that a split makes."""

    run: RunId
    definition: dict[str, Json]
    """Its definition, as canonical JSON."""
    component: Component
    """Its component."""
    contents: SplitContents
    """The agents and channels that it gets, with their budget."""


class PreparedPending(Model):
    """The pending change of a run, with the operations of another change applied to it."""

    base: ContentHash
    """The definition of the pending change before."""
    definition: dict[str, Json]
    """Its definition after them, as canonical JSON."""
    plan: dict[str, Json]
    """The `GraphPlan` as JSON."""


class PrepareChangeResult(Model):
    """The definition and the plan after a change."""

    definition: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The definition as canonical JSON. A rebuild of the store needs it in the history."""
    plan: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The `GraphPlan` as JSON."""
    base: ContentHash = ContentHash("")
    """The definition that was changed; empty for one that stands alone."""
    basis: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Of a prompt: what it compiles to, without the changes of the live run; empty if there are
    none."""
    what: str = ""
    """What changes, in a line, for people."""
    diagnostics: tuple[PromptDiagnostic, ...] = ()
    """Of a prompt: errors and warnings."""
    reply: PromptReply | None = None
    """The reply of the model that read the prompt."""
    again: bool = False
    """Whether the model must be called once more; then there is no definition yet."""
    refused: str = ""
    """Of a prompt that a model read: all errors, if the change makes no crew. It is a result and
    not a failure, since a failure has no usage."""
    usage: Usage = Usage()
    widens: tuple[str, ...] | None = None
    """Each widening against the definition in force; none if it was not judged."""
    compared: ContentHash = ContentHash("")
    """The definition against which widening was judged."""
    split_runs: tuple[PreparedSplitRun, ...] = ()
    """Of a split: the new runs. `definition` is what the original run keeps."""
    warnings: tuple[str, ...] = ()
    """Likely mistakes in the change; see `SwapReport`."""
    pending: PreparedPending | None = None
    """The pending change after this one; none if none was pending."""
    claimed: dict[AgentName, ClaimedAgent] = Field(default_factory=dict[AgentName, ClaimedAgent])
    """The agents that return to the run, which has claimed them; see `RunReopened`."""
