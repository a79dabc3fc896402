"""The conversation of a run: its present exchange, the message queue and the last response.

An exchange is one message and the steps that follow from it, up to the response. Messages and
responses are held by hash, so the size is limited.
"""

from __future__ import annotations

from pydantic import Field

from crewlog.ids import AgentName, CommandId, ContentHash, LogName
from crewlog.model import Model
from crewlog.run_status import EndReason


class QueuedMessage(Model):
    """A message that waits for its exchange."""

    body: ContentHash
    """The hash of the message."""
    logs: tuple[LogName, ...]
    """The logs that it will be added to."""
    by: str = ""
    """Its sender."""
    command: CommandId
    """The command with the message; clients find the response by it."""


class Response(Model):
    """How an exchange ended."""

    exchange: int
    """Its number, from 1."""
    message: str = ""
    """The command with the message that it answers."""
    response: ContentHash | None = None
    """The hash of the response."""
    agent: AgentName | None = None
    """The agent that gave it; none if the run did, because no agent had a final message."""
    error: str = ""
    """The last error of the exchange."""
    warning: str = ""
    """The last limit that the exchange reached."""
    end_reason: EndReason = "completed"
    """Why it ended."""
    position: int = 0
    """The journal position that ended it."""


class Conversation(Model):
    """The present exchange of a conversation, or the last one while it is idle."""

    exchange: int = 0
    """Its number, from 1; 0 before the first message."""
    message: str = ""
    """The command with the message that it answers."""
    by: str = ""
    """The sender of that message."""
    body: ContentHash | None = None
    """The hash of the message, by which it is queued again after a rollback."""
    start_position: int = 0
    """The journal position at which it started: older values are not of this exchange."""
    at: int = 0
    """When it started, in milliseconds since the epoch."""
    steps: int = 0
    """The steps that the run had started before."""
    is_idle: bool = False
    """Whether the exchange has ended, and the run waits for the next message."""
    deadline: int = 0
    """Until when it waits, in milliseconds since the epoch; 0: without limit."""
    warning: str = ""
    """Why the last branch of the exchange did not go where the output said."""
    last: Response | None = Field(default=None)
    """The last exchange that ended."""
