"""The start and the end of a run."""

from __future__ import annotations

from pydantic import Field

from crewlog.ids import ContentHash, RunId
from crewlog.model import Json, Model
from crewlog.state.calls.store import MergeNotification
from crewlog.state.journal import Batch

PREPARE_RUN = "prepare_run"
END_RUN = "end_run"
DELETE_REPLACED_RUN = "delete_replaced_run"


class SignedStart(Model):
    """The start of a run. If it is signed, only one execution may use it."""

    start: str = ""
    """A hash of what was signed and of the key; empty for an unsigned start."""
    execution: str
    """Temporal's run id of the execution; a reset keeps it."""
    content: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The start as it was sent; empty for an unsigned start."""
    at: int = 0
    """When the run was started, in milliseconds since the epoch."""


class PrepareRun(Model):
    """Resolves and validates the crew that a run is started with."""

    run: RunId
    crew: str | dict[str, Json]
    """The name of a crew in the catalog, or a definition."""
    edited: bool = False
    """Whether the definition is a person's edit of what a prompt was compiled to: it may use only
    what the registry offers."""
    registry: str = ""
    """Of an edit: the registry of the prompt; empty: an empty registry."""
    model: str = ""
    """The model of every agent, instead of those in the definition. Of an edit: the model that the
    prompt was compiled with, which the edit may use, too."""
    use: SignedStart | None = None
    """The start; none if the run does not begin with this crew."""


class PrepareRunResult(Model):
    """The definition and the plan of a run."""

    definition: dict[str, Json]
    """The definition as canonical JSON. A rebuild of the store needs it in the history."""
    plan: dict[str, Json]
    """The `GraphPlan` as JSON."""
    search_attributes: bool = False
    """Whether the server has Crewlog's search attributes: one that it does not know fails the
    run."""


class EndRun(Model):
    """Stores the rest of a run and reads the values that its result contains."""

    run: RunId
    batch: Batch
    state: dict[str, Json]
    """The last state, to be stored as a snapshot."""
    outputs: tuple[ContentHash, ...] = ()
    """The bodies that hold outputs: messages, or large values."""
    notifications: tuple[MergeNotification, ...] = ()
    """Sent once the batch is stored."""


class EndRunResult(Model):
    """The outputs and artifacts of a run."""

    outputs: dict[ContentHash, Json] = Field(default_factory=dict[ContentHash, Json])
    """By body: the text of a message, or the value."""
    artifacts: dict[str, dict[str, Json]] = Field(default_factory=dict[str, dict[str, Json]])
    """The artifacts, as `crewlog.wire.ArtifactResult` in JSON."""


class DeleteReplacedRun(Model):
    """Deletes the rows of an ended run whose id another run has, which has stored nothing yet."""

    run: RunId
    executions: tuple[str, ...] = ()
    """The executions of the ended run whose activities may still store something: that is refused
    from here on."""
    start: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The start of the other run, as it was sent: the ended run's policy must allow it."""
    at: int = 0
    """When the other run was started, in milliseconds since the epoch."""
    use: SignedStart | None = None
    """The start: if it is signed, it can replace a signed run once."""
