"""What a run looks up before it applies a command."""

from __future__ import annotations

from crewlog.ids import RunId
from crewlog.model import Model
from crewlog.state.model import CommandOutcome

FIND_COMMAND = "find_command"
READ_TIME = "read_time"
RECORD_USE = "record_use"


class FindCommand(Model):
    """Look in the journal for the outcome of a command that the state does not remember."""

    run: RunId
    command: str
    """The command's id."""


class FindCommandResult(Model):
    """What the stored journal says of a command."""

    outcome: CommandOutcome | None = None
    """Its outcome; none where it has none."""


class RecordUse(Model):
    """Note for good that a start or a command is used, also where its run is deleted."""

    used: str
    """What is used: a hash of what was signed, or encrypted."""
    owner: str
    """The execution that uses it: Temporal's run id."""
