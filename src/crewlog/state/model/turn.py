"""The position inside a turn: its calls and their state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from crewlog.ids import ContentHash, NodeName
from crewlog.model import Json, Model


class CallDelay(Model):
    """What a call took before the attempt that answered."""

    attempts: int = 1
    """The number of attempts, including the one that answered."""
    retries_ms: int = 0
    """The failed attempts with the waits between them, in milliseconds."""
    queue_ms: int = 0
    """How long the last attempt waited for a worker, in milliseconds."""


class Call(Model):
    """A call of a turn that is not applied yet."""

    call: int
    """Its number in the step, from 1."""
    tool: str | None = None
    """The tool; none for a model call."""
    id: str = ""
    """The model's id of the tool call."""
    message: ContentHash | None = None
    """The AI message that asked for it and contains the arguments."""
    excerpt: str = ""
    """The start of the arguments, for people."""
    status: Literal["ready", "interrupted", "buffered"] = "ready"
    """`ready`: it can start, or is in flight. `interrupted`: it waits for people. `buffered`: it is
    answered, and waits until earlier calls are applied."""
    completion: Json = None
    """Of a buffered call: the entries of its completion, as JSON."""
    attempt: int = 1
    """The number of the attempt, including those that people asked for."""
    approved: str = ""
    """The interrupt by which people approved it; empty if it needed no approval."""
    quotas: tuple[str, ...] = ()
    """The keys of the quotas per run that count it."""
    arguments: ContentHash | None = None
    """The hash of the arguments that people are asked about, or have approved."""
    edited: bool = False
    """Whether people edited the arguments: then the store has them, not the message."""
    approver: str = ""
    """The principal who approved it."""
    deadline: int = 0
    """Until when the approval is valid, in milliseconds since the epoch; 0: without limit."""
    binding: str = ""
    """What the approval is bound to, see `crewlog.authority.bindings`."""


class ListedCallResult(Model):
    """The result of a call of an agent without a model."""

    id: str
    """Its id in the agent's definition."""
    tool: str
    ok: bool = True
    """Whether it succeeded."""
    text: str = ""
    """The start of the result."""


class Draft(Model):
    """The message with which a turn ends that may make no more model calls."""

    body: ContentHash
    """The hash of the message: the text of an AI message without its tool calls."""
    inline: Json = None
    """The message, if the store was unavailable."""


class Turn(Model):
    """The position inside a turn."""

    calls: tuple[Call, ...] = ()
    """The calls that are not applied yet, in order."""
    next_call: int = 1
    """The number of the next call."""
    model_calls: int = 0
    """The number of model calls so far."""
    expected: int = 0
    """The number of tool calls that the last reply asked for."""
    returned: int = 0
    """The number of those that are applied."""
    start_position: int = 0
    """The journal position at which the turn started."""
    goto: tuple[NodeName, ...] = ()
    """The nodes that a tool handed off to: the turn ends after these calls, and the run goes
    there."""
    confidence: float | None = None
    """The confidence of the agent in this turn, if it is asked for."""
    refused: int = 0
    """The final messages in a row that were not usable."""
    cut: int = 0
    """The replies in a row that the output limit cut off."""
    refusal: str = ""
    """The start of a reply in which the model refused to answer, for people."""
    faults: tuple[str, ...] = ()
    """For each of the refused messages, a summary of its errors: people are told once there are no
    attempts left."""
    draft: Draft | None = None
    """The text of the last usable reply, with which the turn may end at its agent's `max_calls`."""
    results: tuple[ListedCallResult, ...] = ()
    """The results so far of an agent without a model."""
    unresolved: tuple[int, ...] = ()
    """Calls with artifact operations of which it is not known which apply: the next model call
    reports that."""

    def with_renamed_entries(self, rename: Callable[[Mapping[str, Json]], dict[str, Json]]) -> Turn:
        """The turn with other names in its buffered completions.

        Args:
            rename: Renames what an entry contains, as JSON.
        """
        calls = tuple(
            call
            if call.completion is None
            else call.model_copy(update={"completion": [rename(each) for each in call.completion]})
            for call in self.calls
        )
        return self.model_copy(update={"calls": calls})
