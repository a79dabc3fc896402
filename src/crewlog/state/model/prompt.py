"""The prompt of a run, and what it compiles to."""

from __future__ import annotations

from typing import Literal

from crewlog.ids import ContentHash
from crewlog.model import Model


class PromptDiagnostic(Model):
    """An error or a warning about a prompt."""

    code: str
    """See `crewlog.prompt.faults.Code`."""
    severity: Literal["error", "warning"] = "warning"
    """With an error there is no crew that may run."""
    message: str
    remedy: str = ""
    line: int = 0
    """From 1; 0 for a diagnostic without a place."""
    column: int = 0
    """From 1."""

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}  " if self.line else ""
        return f"{place}{self.message}" + (f"\n    {self.remedy}" if self.remedy else "")


class NoReading(Model):
    """A model's reply to a prompt that is not usable."""

    ending: Literal["cut", "refused", "withheld", "empty", "unknown"]
    """Why it is not usable."""


PromptReply = str | NoReading
"""A model's reply to a prompt: the text of a reading, valid or not."""


class PromptState(Model):
    """The prompt that a run was started with, and what it compiles to."""

    text: ContentHash
    """The body that holds the prompt."""
    registry: str = ""
    """The registry of what it may use; empty: nothing."""
    reader: Literal["forms", "model", ""] = ""
    """The prompt reader, once it is compiled."""
    rounds: int = 0
    """The number of model calls."""
    definition: ContentHash | None = None
    """The definition that people are asked to approve, or have approved."""
    diagnostics: tuple[PromptDiagnostic, ...] = ()
    requirements: tuple[str, ...] = ()
    """`audio depends on backend.models_ready`."""
    edited: bool = False
    """Whether people edited the definition."""
    approved: ContentHash | None = None
    """The definition that may run, once people have approved it."""
