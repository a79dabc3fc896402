"""Checkpoints, and states that are restored from them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from crewlog.ids import AgentName, CommandId, RunId
from crewlog.model import Json
from crewlog.state.claim import ClaimedAgent
from crewlog.state.journal.entry import Entry

__all__ = [
    "CheckpointEntry",
    "CheckpointTagged",
    "RunForked",
    "RunReopened",
    "RunRolledBack",
]


class CheckpointTagged(Entry):
    """People tagged a checkpoint."""

    kind: Literal["CheckpointTagged"] = "CheckpointTagged"
    checkpoint: int
    """Its position."""
    tag: str
    by: str = ""
    command: CommandId | None = None


class RunRolledBack(Entry):
    """The run returned to a checkpoint. The journal keeps what happened since."""

    kind: Literal["RunRolledBack"] = "RunRolledBack"
    to: int
    """The position of the checkpoint."""
    state: dict[str, Json]
    """The fields of the state that the rollback sets; see `FieldPolicy.rollback`. The others, such
    as usage and outcomes of commands, keep their values."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


class RunForked(Entry):
    """The run began as a fork of another run, or by a split."""

    kind: Literal["RunForked"] = "RunForked"
    run: RunId
    """This run."""
    source: RunId
    """The source run."""
    to: int
    """The position up to which they are the same; this journal continues after it."""
    state: dict[str, Json]
    """The fields of the first state that come from the source run; see `FieldPolicy.fork`."""
    checkpoint: int = 0
    """The position of the checkpoint; 0 for a split run."""
    split: str = ""
    """The command that split the source run; empty for a fork."""
    by: str = ""


class RunReopened(Entry):
    """An ended run continues."""

    kind: Literal["RunReopened"] = "RunReopened"
    to: int
    """The position whose state it continues from."""
    state: dict[str, Json]
    """The fields of the state that the reopen sets; see `FieldPolicy.rollback`."""
    by: str = ""
    reason: str = ""
    claimed: dict[AgentName, ClaimedAgent] = Field(default_factory=dict[AgentName, ClaimedAgent])
    """With its recipe: the agents that return from ended runs, which then do not continue them."""


CheckpointEntry = CheckpointTagged | RunRolledBack | RunForked | RunReopened
