"""What all entries have."""

from __future__ import annotations

from crewlog.ids import ContentHash, LogName, RunId
from crewlog.model import Json, Model

__all__ = ["Entry", "LogMerge", "MessageRef"]


class MessageRef(Model):
    """A message that an entry adds to logs."""

    body: ContentHash
    """The hash of the body."""
    logs: tuple[LogName, ...]
    """The logs that it is appended to, in this order."""
    inline: Json = None
    """The body itself, if no activity has stored it: messages of people."""


class LogMerge(Model):
    """A log of another run that is merged into the run's own log.

    The new head is `merged_head(one, two, position)`. The log has the messages of both, by journal
    position and then by body; a message that both have from before a split occurs once.
    """

    log: LogName
    one: ContentHash = ContentHash("")
    """The head in this run; empty: this run has no message in the log."""
    two: ContentHash
    """The head in the other run."""
    more: int = 0
    """How many messages are added. If it is not known how many both have, all of the other run's:
    then the length of the log is too large."""


class Entry(Model):
    """What all entries have.

    An entry that merges logs has the fields `merged_logs` and `parents`, whatever its kind: readers
    of plain JSON depend on these names.
    """

    at: int = 0
    """When, in milliseconds since the epoch, by the workflow's clock."""
    command_hash: str = ""
    """Of the outcome of a command: the hash of its content, which tells a repetition from another
    command with the same id. Empty: no command, or an unreadable one."""
    transaction: int = 0
    """The position of the first entry of its transaction; 0: the entry is the first one.

    Entries of one command, of one call's completion, or of the end of one step are a transaction:
    they are recorded without a gap, and no state between two of them is one to continue from.
    """

    @property
    def message(self) -> MessageRef | None:
        """The message that the entry adds; none for other entries."""
        return None

    @property
    def log_merges(self) -> tuple[LogMerge, ...]:
        """The logs that the entry merges with those of other runs, in this order."""
        return ()

    @property
    def log_source_run_ids(self) -> tuple[RunId, ...]:
        """The runs that these logs come from."""
        return ()

    def position_after(self, before: int) -> int:
        """The position of the entry, if the one before it is at `before`."""
        return before + 1
