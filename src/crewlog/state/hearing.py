"""What a state knows of what its creatures hear: which message a visit is for, and the rest."""

from __future__ import annotations

from crewlog.ids import ContentHash, LogName
from crewlog.model import Model


class Heard(Model):
    """The message that a visit is for."""

    log: LogName
    """The log that it was said in."""
    body: ContentHash
    """The message's hash."""
    by: str = ""
    """Who said it."""
    more: int = 0
    """Messages that came when as many visits waited as may: this one is for them, too."""


class Rest(Model):
    """Nothing is to do: the run waits for the next message."""

    due: int = 0
    """Until when, in milliseconds since the epoch; 0: for ever."""
    position: int = 0
    """The journal position since which it rests."""
