"""What there is already when a run begins, where it does not begin with nothing.

A stage that is tried alone is given the messages that it was shown in the crew, and the values that
its inputs are made of: the model then sees what it saw there.
"""

from __future__ import annotations

from pydantic import Field

from crewlog.ids import LogName
from crewlog.model import Json, Model


class GivenMessage(Model):
    """A message that a log has when the run begins."""

    body: dict[str, Json]
    """The message: `type` (`human`, `ai`, `tool`), `content`, and what else it has, as a run's
    journal has the messages of people."""
    log: LogName = LogName("public")
    """The log that it is in."""


class Given(Model):
    """What a run begins with besides its input."""

    messages: tuple[GivenMessage, ...] = ()
    """Messages, in order; they come after the input."""
    request: str = ""
    """What people asked for, for agents that have it as an input; by default the run's input. It is
    in no log that an agent reads."""
    values: dict[str, Json] = Field(default_factory=dict[str, Json])
    """Values by path, as of `edit_state`: `flags.NAME`, `outputs.AGENT.KEY`."""
    logs: tuple[LogName, ...] = ()
    """The logs whose readers may see the outputs among these; by default those of who makes them.
    """
