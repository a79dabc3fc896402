"""The run as a whole: its logs, commands, status and source."""

from __future__ import annotations

from crewlog.ids import ContentHash, RunId
from crewlog.model import Model
from crewlog.run_status import EndReason


class LogHead(Model):
    """The head of a log: it names the whole transcript."""

    head: ContentHash
    """The last hash of the chain."""
    length: int = 0
    """The number of messages."""


class Idle(Model):
    """Set while the run waits for a message because nothing can start."""

    deadline: int = 0
    """Until when it waits, in milliseconds since the epoch; 0: without limit."""
    position: int = 0
    """The journal position since which it waits."""


class StatusReason(Model):
    """Why a run is paused or stopping."""

    reason: str = ""
    """The reason that the principal gave."""
    by: str = ""
    """The principal."""
    position: int = 0
    """The journal position since which it has the status."""
    end_reason: EndReason = "stopped"
    """Of a stopping run: why it ends."""


class SourceRun(Model):
    """The run that a run was forked from or split from."""

    run: RunId
    position: int
    """The journal position up to which they are the same."""
    checkpoint: int = 0
    """The checkpoint that was forked; 0 if none was named."""
    split: str = ""
    """The command that split the source run; empty for a fork."""


class CommandOutcome(Model):
    """The one recorded outcome of a command."""

    ok: bool = True
    """Whether it was applied."""
    position: int = 0
    """The journal position of its entry."""
    detail: str = ""
    """The start of the reason of a rejection; the journal has all of it, at `position`."""
    error_type: str = ""
    """The type of the error, for rejections that have one: `ChangeConflict`."""
    graph_version: int = 0
    """Of a change that leads to a swap: the version of the new graph; else 0."""
    hash: str = ""
    """The hash of the command's content, which tells a repetition from another command with the
    same id. If it is empty, every command with the id is a repetition."""

    def is_duplicate(self, command_hash: str) -> bool:
        """Whether a command with the same id and this hash is a repetition of this one."""
        return not self.hash or not command_hash or self.hash == command_hash
