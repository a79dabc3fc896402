"""What a state knows of its conversation: the turn under way, what waits for the next, the answer.

A turn is one message and the work that follows from it, up to the answer. All of it is bounded:
messages and answers are bodies, held by their hashes.
"""

from __future__ import annotations

from pydantic import Field

from crewlog.ids import AgentName, CommandId, ContentHash, LogName
from crewlog.model import Model
from crewlog.run_status import EndReason


class QueuedMessage(Model):
    """A message that waits for its turn."""

    body: ContentHash
    """The message's hash."""
    logs: tuple[LogName, ...]
    """The logs it is to be added to."""
    by: str = ""
    """Who said it."""
    command: CommandId
    """The command that said it: whoever waits for the answer knows that."""


class Response(Model):
    """How a turn ended."""

    exchange: int
    """Which one, from 1."""
    message: str = ""
    """The command whose message it answers."""
    response: ContentHash | None = None
    """The message that is the answer."""
    agent: AgentName | None = None
    """Who gave it; none where the run did, since nobody else had anything to say."""
    error: str = ""
    """The last error of the turn."""
    warning: str = ""
    """The last bound that the turn came to."""
    end_reason: EndReason = "completed"
    """Why it ended."""
    position: int = 0
    """The journal position that ended it."""


class Conversation(Model):
    """The conversation of a run: its present turn, or the last one where it waits."""

    exchange: int = 0
    """Which one, from 1; 0 where nothing was said yet."""
    message: str = ""
    """The command whose message it answers."""
    by: str = ""
    """Who said that."""
    body: ContentHash | None = None
    """The message's hash, by which it is said again where a rollback undoes the turn."""
    start_position: int = 0
    """The journal position where it began: what was set before says nothing of it."""
    at: int = 0
    """When it began, in milliseconds since the epoch."""
    steps: int = 0
    """Steps that the run had taken by then."""
    is_idle: bool = False
    """Whether the turn is over, and the run waits for the next message."""
    deadline: int = 0
    """When it has waited long enough, in milliseconds since the epoch; 0: never, or not set."""
    warning: str = ""
    """Why the last route of the turn did not go where the output said."""
    last: Response | None = Field(default=None)
    """How the last turn ended that has."""
