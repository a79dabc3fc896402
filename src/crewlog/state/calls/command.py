"""What a run looks up before it applies a command."""

from __future__ import annotations

from crewlog.ids import RunId
from crewlog.model import Model
from crewlog.state.model import CommandOutcome

FIND_COMMAND = "find_command"
READ_TIME = "read_time"
RECORD_USE = "record_use"


class FindCommand(Model):
    """Searches the journal for the outcome of a command that the state no longer contains."""

    run: RunId
    command: str
    """The command's id."""


class FindCommandResult(Model):
    """The outcome of the command in the stored journal."""

    outcome: CommandOutcome | None = None
    """None if the journal has no outcome."""


class RecordUse(Model):
    """Records that a signed start or command is used, and keeps that after its run is deleted."""

    used: str
    """A hash of what was signed, or of its encrypted form."""
    owner: str
    """The execution that uses it: Temporal's run id."""
