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
    """What the crew will be asked to do."""
    files: tuple[FileRef, ...] = ()
    """The files that it is given with that."""
    by: str = ""
    """Who started the run."""
    reader: Literal["auto", "forms", "model"] = "auto"
    model: str = ""
    command: CommandId | None = None
    """The command whose text the input is."""
    replies: tuple[PromptReply, ...] = ()
    """What a model answered so far."""
    attempt: int = 1
    definition: dict[str, Json] | None = None
    """What the prompt makes."""


class Carry(Model):
    """The start of every execution but the first."""

    schema_version: int = SCHEMA
    plan: dict[str, Json] = Field(default_factory=dict)
    """The `GraphPlan`; empty where a prompt is not compiled yet."""
    state: dict[str, Json]
    """The `CrewState`."""
    batch: Batch = Batch.EMPTY
    """The last entries of the journal, where the last execution left without storing them: they
    are stored by whatever this one does first."""
    command_queue: tuple[tuple[str, Json], ...] = Field(default=())
    """Signals that arrived too late for the last execution, as name and content."""
    unreadable_commands: tuple[tuple[str, str], ...] = Field(default=())
    """Those of them whose content is no JSON, as name and what is wrong."""
    task_queue: str = ""
    """The task queue of the run's activities, where it is not the workflow's own."""
    search_attributes: bool = False
    """Whether the server knows Crewlog's search attributes."""
    response: dict[str, Json] = Field(default_factory=dict)
    """The last answer of a conversation, with its words."""
    prompt: PromptCarry | None = None
    """Set where the run has no crew yet: people have not approved what its prompt makes."""

    @override
    def to_json(self) -> dict[str, Json]:
        """The carry as JSON. The schema version is always there, although it is a default."""
        return {"schema_version": self.schema_version, **super().to_json()}


def read_carry(data: dict[str, Json]) -> Carry:
    """Reads a carry.

    Raises:
        UsageError: it has no schema version, or another one than `SCHEMA`.
    """
    version = data.get("schema_version")
    if version != SCHEMA:
        raise UsageError(
            f"the run was continued with a carry of schema version {version!r}, and this build "
            f"reads version {SCHEMA}",
            remedy="Start workers of the build that wrote the carry: the run waits for them.",
        )
    return Carry.from_json(data)
