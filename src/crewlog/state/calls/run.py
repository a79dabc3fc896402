"""Start and end of a run."""

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
    """A start, which one execution may use where it is signed. No history has it."""

    start: str = ""
    """Its digest: of what was signed, and with which key; empty where it carries no proof."""
    execution: str
    """Temporal's run id of the execution; a reset leaves it as it was."""
    content: dict[str, Json] = Field(default_factory=dict[str, Json])
    """The start as it was sent; empty where it carries no proof."""
    at: int = 0
    """When it was started, in milliseconds since 1970."""


class PrepareRun(Model):
    """Resolve and validate what a run was started with."""

    run: RunId
    crew: str | dict[str, Json]
    """A registered crew's name, or an inline definition."""
    edited: bool = False
    """Whether it is a person's edit of what a prompt was made to: it may use what the registry
    offers, and no more."""
    registry: str = ""
    """Of an edit: the registry of the prompt; empty: one of nothing."""
    model: str = ""
    """The model of every agent, in the place of those that the crew names. Of an edit: the model
    that the prompt was compiled with, which it may use as well."""
    use: SignedStart | None = None
    """The start; none where the crew is not what a run begins with."""


class PrepareRunResult(Model):
    """A run's definition and plan."""

    definition: dict[str, Json]
    """The definition as canonical JSON: the history must have it, to rebuild the store from."""
    plan: dict[str, Json]
    """The `GraphPlan` as JSON."""
    search_attributes: bool = False
    """Whether the server knows Crewlog's search attributes; an unknown one stops a run for good."""


class EndRun(Model):
    """Store the rest of a run and fetch what its result shows."""

    run: RunId
    batch: Batch
    state: dict[str, Json]
    """The last state, to be kept as a snapshot."""
    outputs: tuple[ContentHash, ...] = ()
    """Bodies that hold outputs: messages, or large values."""
    notifications: tuple[MergeNotification, ...] = ()
    """Given once all of it is stored."""


class EndRunResult(Model):
    """The bodies asked for: a message's text, or the value."""

    outputs: dict[ContentHash, Json] = Field(default_factory=dict[ContentHash, Json])
    artifacts: dict[str, dict[str, Json]] = Field(default_factory=dict[str, dict[str, Json]])
    """The crew's artifacts, as `crewlog.wire.ArtifactResult` spells them."""


class DeleteReplacedRun(Model):
    """Remove the rows of an ended run whose id another one has, which has recorded nothing yet."""

    run: RunId
    executions: tuple[str, ...] = ()
    """The executions of the ended run that may still store something: it is refused."""
    start: dict[str, Json] = Field(default_factory=dict[str, Json])
    """What the other run is started with, as it was sent: the ended run's policy must let its
    sender do that."""
    at: int = 0
    """When it was started, in milliseconds since 1970."""
    use: SignedStart | None = None
    """The start: where it is signed, it replaces a signed run once."""
