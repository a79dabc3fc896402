"""Messages, wakes and exchanges."""

from __future__ import annotations

from typing import Literal

from pydantic import Field
from typing_extensions import override

from crewlog.ids import AgentName, CommandId, ContentHash, FlagName, LogName, NodeName, StepId
from crewlog.model import Json
from crewlog.run_status import EndReason
from crewlog.state.journal.entry import Entry, MessageRef

__all__ = [
    "AgentsWoken",
    "ConversationEntry",
    "ExchangeEnded",
    "ExchangeStarted",
    "IdleDeadlineSet",
    "IdleStarted",
    "MessageAdded",
    "MessageQueued",
]


class MessageAdded(Entry):
    """A message of people, of the run input or of an agent was added."""

    kind: Literal["MessageAdded"] = "MessageAdded"
    ref: MessageRef
    """The message, and the logs that it is added to."""
    by: str = ""
    """Its sender: a principal or an agent."""
    command: CommandId | None = None
    """The command with the message; none if no command sent it, or if it was queued."""
    asks: bool = False
    """Whether it is a request: from now on, agents with the input `input` read this message."""
    step: StepId | None = None
    """The step whose agent sent it; none for people and the run input."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class AgentsWoken(Entry):
    """A message woke agents: it starts a step of each, unless enough steps of the agent wait."""

    kind: Literal["AgentsWoken"] = "AgentsWoken"
    log: LogName
    """The log that has the message."""
    body: ContentHash
    """The hash of the message."""
    by: str = ""
    """Its sender."""
    to: tuple[NodeName, ...] = ()
    """The nodes that get a step."""
    also: tuple[NodeName, ...] = ()
    """The nodes that get no step, since as many steps wait as `graph.queue` allows: the last one of
    these is for this message, too."""


class IdleStarted(Entry):
    """A run of agents with channels has nothing to start, and waits for a message.

    A conversation has `ExchangeEnded` instead.
    """

    kind: Literal["IdleStarted"] = "IdleStarted"
    deadline: int = 0
    """Until when, in milliseconds since the epoch; 0: without limit."""


class MessageQueued(Entry):
    """A message to a conversation waits for an exchange of its own."""

    kind: Literal["MessageQueued"] = "MessageQueued"
    ref: MessageRef
    """The message, and the logs that it is added to once its exchange starts."""
    command: CommandId | None = None
    """The command with the message; none if it is queued again."""
    by: str = ""
    """Its sender."""
    requeued: str = ""
    """The command with the message, if a rollback undid its exchange. The message becomes the first
    one of the queue."""


class ExchangeStarted(Entry):
    """An exchange of a conversation started. Its message was added right before."""

    kind: Literal["ExchangeStarted"] = "ExchangeStarted"
    exchange: int
    """Its number, from 1."""
    message_command: str = ""
    """The id of the command with the message; `input`: it is the run input."""
    by: str = ""
    """The sender of the message."""
    body: ContentHash | None = None
    """The hash of the message."""
    outputs: tuple[str, ...] = ()
    """The outputs that several steps add to, as `agent.output`: they are reset."""
    flags: dict[FlagName, Json] = Field(default_factory=dict[FlagName, Json])
    """The run outputs that are reset, with their first values."""


class ExchangeEnded(Entry):
    """An exchange ended: the run waits for the next message."""

    kind: Literal["ExchangeEnded"] = "ExchangeEnded"
    exchange: int
    """Its number; 0: none, since the run was started without a message and waits for the first."""
    agent: AgentName | None = None
    """The agent of the response; none if the run made it."""
    response: ContentHash | None = None
    """The hash of the agent's message that is the response."""
    ref: MessageRef | None = None
    """The response of the run, if no agent gave one."""
    error: str = ""
    """The last error of the exchange."""
    warning: str = ""
    """What people should know of the exchange; see `CrewState.warning`."""
    end_reason: EndReason = "completed"
    """Why the exchange ended, for programs; a limit is that of `CrewState.limit_reached`."""
    deadline: int = 0
    """Until when the run waits for the next message, in milliseconds since the epoch; 0: without
    limit."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class IdleDeadlineSet(Entry):
    """A conversation that waited without a deadline got one: a change of the crew set `idle`.

    It does not belong to `IdleStarted`, which is for runs of agents with channels.
    """

    kind: Literal["IdleDeadlineSet"] = "IdleDeadlineSet"
    deadline: int
    """In milliseconds since the epoch."""


ConversationEntry = (
    MessageAdded
    | AgentsWoken
    | IdleStarted
    | MessageQueued
    | ExchangeStarted
    | ExchangeEnded
    | IdleDeadlineSet
)
