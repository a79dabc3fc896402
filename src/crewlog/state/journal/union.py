"""The union of all entries, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, TypeAdapter

from crewlog.model import Json
from crewlog.state.journal.call import CallEntry
from crewlog.state.journal.change import ChangeEntry
from crewlog.state.journal.checkpoint import CheckpointEntry
from crewlog.state.journal.component import ComponentEntry
from crewlog.state.journal.conversation import ConversationEntry
from crewlog.state.journal.interrupt import InterruptEntry
from crewlog.state.journal.output import OutputEntry
from crewlog.state.journal.prompt import PromptEntry
from crewlog.state.journal.run import RunEntry
from crewlog.state.journal.step import StepEntry

__all__ = [
    "JournalEntry",
    "entry_from_json",
    "entry_position",
    "entry_to_json",
    "is_contiguous",
    "preceding_position",
]

JournalEntry = Annotated[
    RunEntry
    | PromptEntry
    | ConversationEntry
    | StepEntry
    | CallEntry
    | OutputEntry
    | InterruptEntry
    | ChangeEntry
    | ComponentEntry
    | CheckpointEntry,
    Field(discriminator="kind"),
]
"""One fact of a run."""
_ADAPTER: TypeAdapter[JournalEntry] = TypeAdapter(JournalEntry)
_validate = _ADAPTER.validator.validate_python


def entry_to_json(entry: JournalEntry) -> dict[str, Json]:
    """An entry as plain JSON: its kind, and what differs from the defaults."""
    return {"kind": entry.kind, **entry.to_json()}


def entry_from_json(data: Json) -> JournalEntry:
    """Parses an entry. Inverse of `entry_to_json`.

    Raises:
        pydantic.ValidationError: `data` is no entry.
    """
    entry: JournalEntry = _validate(data)
    return entry


def entry_position(entry: Mapping[str, Json], before: int) -> int:
    """The position of an entry in JSON, if the one before it is at `before`."""
    position: int = entry["position"] if entry.get("kind") == "RunMerged" else before + 1
    return position


def preceding_position(entry: Mapping[str, Json], position: int) -> int:
    """The position of the entry before one in JSON."""
    before: int = entry["previous_position"] if entry.get("kind") == "RunMerged" else position - 1
    return before


def is_contiguous(entry: Mapping[str, Json], position: int, after: int) -> bool:
    """Whether an entry in JSON at `position` comes right after those up to `after`."""
    return preceding_position(entry, position) <= after < position
