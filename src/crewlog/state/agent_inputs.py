"""The inputs of an agent, and what a window left out: parts of the inputs and results of calls.

Histories hold them, so they are durable: a field may be added with a default, never renamed.
"""

from __future__ import annotations

from crewlog.ids import ContentHash, LogName
from crewlog.model import Json, Model

MAX_ELEMENTS = 256
"""The most values that a call gets of a list that several steps add to: the newest."""


class InputValue(Model):
    """A value of a list that several steps add to."""

    value: Json = None
    """The value, if it is small."""
    body: ContentHash | None = None
    """The body of a larger value, or the message whose text is the value."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see it; empty: `public`."""


class AgentInput(Model):
    """An input of an agent when a call is scheduled."""

    source: str
    """`discovery.found`, `flag:approved`, `artifact:workflow`, `input`."""
    value: Json = None
    """The value, if it is small."""
    body: ContentHash | None = None
    """The body of a larger value, or the message whose text is the value."""
    elements: tuple[InputValue, ...] = ()
    """The values of a list that several steps add to, in order: those that the agent may see."""
    of: int = 0
    """The number of values that it may see, if `elements` does not have all of them."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see it; empty: `public`, or a run output."""


class WindowResult(Model):
    """What a window left out of a transcript."""

    left_out: int = 0
    """The number of messages that the model did not get; a reply with the results of its calls is
    one."""
    summarized: int = 0
    """The number of those that a summary stands for."""
    summaries: int = 0
    """The number of summaries made for the call; they count as its usage."""
    error: str = ""
    """Why a model did not write a summary: then the start of each message stands for it."""
