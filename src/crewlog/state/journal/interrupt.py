"""Interrupts and breakpoints."""

from __future__ import annotations

from typing import Literal

from crewlog.ids import CommandId, ContentHash, InterruptId, NodeName
from crewlog.model import Json
from crewlog.state.journal.entry import Entry
from crewlog.state.model import Interrupt

__all__ = [
    "BreakpointSet",
    "InterruptAnswered",
    "InterruptDeadlineSet",
    "InterruptEntry",
    "InterruptRaised",
]


class InterruptRaised(Entry):
    """The run asked people."""

    kind: Literal["InterruptRaised"] = "InterruptRaised"
    interrupt: Interrupt


class InterruptAnswered(Entry):
    """An interrupt was answered."""

    kind: Literal["InterruptAnswered"] = "InterruptAnswered"
    interrupt: InterruptId
    decision: str
    """The option, or text."""
    by: str = ""
    command: CommandId | None = None
    reason: str = ""
    """The reason that the principal gave; the model is told that of a rejected call."""
    arguments: ContentHash | None = None
    """Of an edited call: the hash of the new arguments."""
    inline: Json = None
    """These arguments."""
    deadline: int = 0
    """Of an approved call: until when the approval is valid, in milliseconds since the epoch; 0:
    without limit."""
    expired: bool = False
    """Whether the interrupt expired, and the crew's policy decided."""


class InterruptDeadlineSet(Entry):
    """An interrupt got another deadline, since the run had ended meanwhile."""

    kind: Literal["InterruptDeadlineSet"] = "InterruptDeadlineSet"
    interrupt: InterruptId
    deadline: int = 0
    """When it expires, in milliseconds since the epoch; 0: never."""


class BreakpointSet(Entry):
    """People set a breakpoint before a node, or before the next step."""

    kind: Literal["BreakpointSet"] = "BreakpointSet"
    node: NodeName
    """A node, or `*`."""
    by: str = ""
    reason: str = ""
    command: CommandId | None = None


InterruptEntry = InterruptRaised | InterruptAnswered | InterruptDeadlineSet | BreakpointSet
