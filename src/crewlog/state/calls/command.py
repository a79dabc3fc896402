"""Local activities before a command is applied: its earlier outcome, its arrival and its use."""

from __future__ import annotations

from crewlog.ids import RunId
from crewlog.model import Model
from crewlog.state.model import CommandOutcome

FIND_COMMAND = "find_command"
READ_TIME = "read_time"
"""Returns the time, in milliseconds since the epoch, as the arrival of a signed signal."""
RECORD_USE = "record_use"
"""Takes a `RecordUse`; returns whether no other owner has used it."""


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
    """Records that a signed or encrypted command, or an encrypted start, is used.

    The record outlives the run, so a copy cannot be used in a later run with the same id.
    """

    used: str
    """The hash of the workflow id with the hash of the signature, or with the nonce of the
    encrypted payload."""
    owner: str
    """Temporal's run id of the run's first execution; for a start, that of the execution before any
    reset."""
