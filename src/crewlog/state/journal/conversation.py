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
    by: str = ""
    command: CommandId | None = None
    asks: bool = False
    """Whether agents with the input `input` receive it from now on."""
    step: StepId | None = None
    """The step whose agent sent it; none for people and the run input."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class AgentsWoken(Entry):
    """A message in a channel started a step of each agent that listens to it."""

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
    """The nodes whose last waiting step is for this message, too, since they may have no more."""


class IdleStarted(Entry):
    """The run has nothing to start, and waits for a message."""

    kind: Literal["IdleStarted"] = "IdleStarted"
    deadline: int = 0
    """Until when, in milliseconds since the epoch; 0: without limit."""


class MessageQueued(Entry):
    """A message arrived during an exchange: it waits for its own."""

    kind: Literal["MessageQueued"] = "MessageQueued"
    ref: MessageRef
    """The message, and the logs that it is added to once its exchange starts."""
    command: CommandId | None = None
    """The command with the message, if it arrived now."""
    by: str = ""
    requeued: str = ""
    """The command with the message, if a rollback undid its exchange: it comes first."""


class ExchangeStarted(Entry):
    """An exchange started, with the message before it or the first queued one."""

    kind: Literal["ExchangeStarted"] = "ExchangeStarted"
    exchange: int
    """Its number, from 1."""
    message_command: str = ""
    """The command with the message."""
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
    """Its number; 0 before the first message."""
    agent: AgentName | None = None
    """The agent of the response; none if the run gave it."""
    response: ContentHash | None = None
    """The hash of the agent's message that is the response."""
    ref: MessageRef | None = None
    """The response of the run, if no agent gave one."""
    error: str = ""
    """The last error of the exchange."""
    warning: str = ""
    """The last limit that the exchange reached, for people."""
    end_reason: EndReason = "completed"
    """Why the exchange ended, for programs: the last limit that ended something."""
    deadline: int = 0
    """Until when the run waits for the next message, in milliseconds since the epoch; 0: without
    limit."""

    @property
    @override
    def message(self) -> MessageRef | None:
        return self.ref


class IdleDeadlineSet(Entry):
    """The wait of a conversation for its next message got another deadline."""

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
