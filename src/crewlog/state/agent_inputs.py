"""What calls are told of an agent's context: its inputs by reference, and what a window left out.

These are durable data: histories hold them. A field may be added with a default, never renamed.
"""

from __future__ import annotations

from crewlog.ids import ContentHash, LogName
from crewlog.model import Json, Model

MOST_ELEMENTS = 256
"""Values of a list that several steps made, of which a call is told: the newest."""


class InputValue(Model):
    """A value of a list that several steps made, or that has a reader of its own."""

    value: Json = None
    """The value, where it is small."""
    body: ContentHash | None = None
    """The body that holds it, where it is not; a message's text, where it is one."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see it; empty: `public`."""


class AgentInput(Model):
    """An input of an agent, as the run has it when a call is scheduled."""

    source: str
    """`discovery.found`, `flag:approved`, `artifact:workflow`, `input`."""
    value: Json = None
    """The value, where it is small."""
    body: ContentHash | None = None
    """The body that holds it, where it is not; a message's text, where it is one."""
    elements: tuple[InputValue, ...] = ()
    """The values in order, where it is a list that has parts: those that the agent may see."""
    of: int = 0
    """How many parts there are that it may see, where not all of them are told."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see it; empty: `public`, or nobody's, as a flag."""


class WindowResult(Model):
    """What became of the part of a transcript that a window left out."""

    left_out: int = 0
    """Messages that the model was not shown, a reply with its calls' results as one."""
    summarized: int = 0
    """Those of them that a summary stands for."""
    summaries: int = 0
    """Summaries that were made for the call, and count as its usage."""
    error: str = ""
    """Why a model did not sum up: the beginnings of the messages stand in its place."""
