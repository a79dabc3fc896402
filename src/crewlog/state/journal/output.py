"""Outputs, artifacts and state edits."""

from __future__ import annotations

from typing import Literal

from typing_extensions import override

from crewlog.ids import AgentName, CommandId, ContentHash, FlagName, LogName, StepId
from crewlog.model import Json, Model
from crewlog.state.item_specs import ItemSpec, ListSpec
from crewlog.state.journal.entry import Entry, MessageRef

__all__ = [
    "AddressedItemUndelivered",
    "ArtifactOperationsApplied",
    "ArtifactOperationsRefused",
    "Edit",
    "OutputEntry",
    "OutputSet",
    "RunOutputSet",
    "StateEdited",
    "WriteRefused",
]


class RunOutputSet(Entry):
    """A run output was set."""

    kind: Literal["RunOutputSet"] = "RunOutputSet"
    flag: FlagName
    value: Json
    """Without a default: 1 equals true, so a default would be lost as JSON."""
    by: str = ""
    """The agent, or the principal."""
    reducer: str = ""
    """The reducer. For `union` and `update` the value is the write, for others the result."""
    append: bool = False
    """Whether it is added to a list, instead of replacing the value."""
    step: StepId | None = None
    """Of a value that is added: the child step, whose position in the list it gets."""


class OutputSet(Entry):
    """An output of an agent was set."""

    kind: Literal["OutputSet"] = "OutputSet"
    agent: AgentName
    key: str
    value: Json = None
    """The value, if it is small."""
    body: ContentHash | None = None
    """The body of a larger value."""
    inline: Json = None
    """The larger value itself, if the store was unavailable when it was made."""
    items: int | None = None
    """The number of items of a large list, if a node has a child step for each."""
    specs: tuple[ItemSpec, ...] = ()
    """Of a large value that is added to a list: the agents and dependencies that it names as an
    item."""
    spec: ListSpec | None = None
    """The agents and dependencies that the items of a large list name."""
    reducer: str = ""
    """The reducer. For `union` and `update` the value is the write, for others the result."""
    append: bool = False
    """Whether it is added to a list, instead of replacing the value."""
    step: StepId | None = None
    """Of a value that is added: the child step, whose position in the list it gets."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see it: those that its agent writes to; empty: `public`."""


class AddressedItemUndelivered(Entry):
    """An addressed item names no existing agent."""

    kind: Literal["AddressedItemUndelivered"] = "AddressedItemUndelivered"
    step: StepId
    agent: AgentName
    key: str
    """The output."""
    item: int
    """The number of the item, from 1."""
    recipients: str = ""
    """The names in it, for people."""


class WriteRefused(Entry):
    """A value does not fit the present one, which stays."""

    kind: Literal["WriteRefused"] = "WriteRefused"
    key: str
    """A run output, or an output as `agent.output`."""
    reducer: str
    """The reducer."""
    step: StepId | None = None
    """The step that would have set it."""
    by: str = ""
    """Its agent."""
    kept: str = ""
    """The start of the present value."""
    refused: str = ""
    """The start of the refused value."""
    because: str = ""
    """Why it does not fit, for people."""

    @property
    def description(self) -> str:
        """For people: `verdict stays ship, not wait: the two are not the same`."""
        return f"{self.key} stays {self.kept}, not {self.refused}: {self.because}"


class ArtifactOperationsApplied(Entry):
    """A tool's operations were added to the log of an artifact.

    Those that do not apply change nothing. The content is the fold of the log
    (`crewlog.state.artifacts`).
    """

    kind: Literal["ArtifactOperationsApplied"] = "ArtifactOperationsApplied"
    step: StepId
    call: int
    agent: AgentName
    artifact: str
    ref: MessageRef
    """The body with the operations, and the artifact's log."""
    count: int
    """The number of operations."""
    refused: int = 0
    """How many of them were skipped, since they do not apply."""
    reasons: tuple[str, ...] = ()
    """The first of those, each with its reason."""
    moved: bool = False
    """Whether the artifact had changed since the operations were checked against it. Then an
    activity counts those that apply, and `ArtifactOperationsRefused` follows if some do not."""
    base: ContentHash = ContentHash("")
    """Of a buffered entry: the log's head against which the operations were checked."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class ArtifactOperationsRefused(Entry):
    """Some operations did not apply, because others were added before them."""

    kind: Literal["ArtifactOperationsRefused"] = "ArtifactOperationsRefused"
    step: StepId
    call: int
    agent: AgentName
    artifact: str
    refused: int
    """How many were skipped."""
    reasons: tuple[str, ...] = ()
    """The first of those, each with its reason."""


class Edit(Model):
    """A value that people set in the state."""

    path: str
    """`flags.NAME`, `outputs.AGENT.KEY`, `shared.NAME`, or `private.AUDIENCE.NAME`."""
    value: Json = None
    """The value; of a large output the `inline` of `body`."""
    body: ContentHash | None = None
    """The body of a large output."""
    inline: Json = None
    """That body."""
    items: int | None = None
    """The number of items of a large list, if a node has a child step for each."""
    specs: tuple[ItemSpec, ...] = ()
    """Of a list that steps add to: the agents and dependencies that each value names as an item."""
    spec: ListSpec | None = None
    """The agents and dependencies that the items of a large list name."""
    append: bool = False
    """Whether it is a list that steps add to: then `value` has its values, whatever their size."""
    delete: bool = False
    """Whether the value is deleted."""
    logs: tuple[LogName, ...] = ()
    """Of an output: the logs whose readers may see it; empty: `public`."""


class StateEdited(Entry):
    """People edited the state."""

    kind: Literal["StateEdited"] = "StateEdited"
    edits: tuple[Edit, ...]
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


OutputEntry = (
    RunOutputSet
    | OutputSet
    | AddressedItemUndelivered
    | WriteRefused
    | ArtifactOperationsApplied
    | ArtifactOperationsRefused
    | StateEdited
)
