"""What continue-as-new carries: the compact plan and the state, with a schema version.

A carry that has another schema version than `SCHEMA` is refused. A build that changes the carry
raises `SCHEMA`, and reads the version before as well, if runs have it: see docs/upgrading.md.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from typing_extensions import override

from crewlog.errors import UsageError
from crewlog.ids import CommandId
from crewlog.message_files import FileRef
from crewlog.model import Json, Model
from crewlog.state.journal import Batch
from crewlog.state.model import PromptReply

SCHEMA = 1
"""The schema version of the carries that this build writes and reads."""


class PromptCarry(Model):
    """What a run without a crew carries besides its state."""

    input: str = ""
    """The input of the crew."""
    files: tuple[FileRef, ...] = ()
    """The files of the input."""
    by: str = ""
    """The principal who started the run."""
    reader: Literal["auto", "forms", "model"] = "auto"
    model: str = ""
    command: CommandId | None = None
    """The command with the text of the input."""
    replies: tuple[PromptReply, ...] = ()
    """The replies of the model so far."""
    attempt: int = 1
    definition: dict[str, Json] | None = None
    """The definition that the prompt compiles to."""


class Carry(Model):
    """The start of every execution but the first."""

    schema_version: int = SCHEMA
    plan: dict[str, Json] = Field(default_factory=dict)
    """The `GraphPlan`; empty until a prompt is compiled."""
    state: dict[str, Json]
    """The `CrewState`."""
    batch: Batch = Batch.EMPTY
    """The last entries, if the last execution ended without storing them: the first activity of
    this one stores them."""
    command_queue: tuple[tuple[str, Json], ...] = Field(default=())
    """Signals that the last execution received and did not apply, as name and content."""
    unreadable_commands: tuple[tuple[str, str], ...] = Field(default=())
    """Those whose content is not JSON, as name and error."""
    task_queue: str = ""
    """The task queue of the run's activities; empty: that of the workflow."""
    search_attributes: bool = False
    """Whether the server has Crewlog's search attributes."""
    response: dict[str, Json] = Field(default_factory=dict)
    """The last response of a conversation, with its text."""
    prompt: PromptCarry | None = None
    """Set while the run has no crew, until people approve the compiled prompt."""

    @override
    def to_json(self) -> dict[str, Json]:
        """The carry as JSON. The schema version is always there, although it is a default."""
        return {"schema_version": self.schema_version, **super().to_json()}


def read_carry(data: dict[str, Json]) -> Carry:
    """Parses a carry.

    Raises:
        UsageError: its schema version is missing, or is not `SCHEMA`.
    """
    version = data.get("schema_version")
    if version != SCHEMA:
        raise UsageError(
            f"the run was continued with a carry of schema version {version!r}, and this build "
            f"reads version {SCHEMA}",
            remedy="Start workers of the build that wrote the carry: the run waits for them.",
        )
    return Carry.from_json(data)
