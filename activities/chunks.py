"""A model's reply as it is written: who watches sees it grow, and in the end it is one message.

The pieces travel as details of the activity's heartbeats and nowhere else: the server keeps the
last ones while the call is under way, and forgets them with it. What counts is the message that the
activity returns, and it is the one that the model would have given in one piece. Adding pieces up
does not give that by itself:

- LangChain mends the JSON of a tool call that was cut off; here, as without streaming, such a call
  is an invalid one, which the model may repair, and is never made with half of its arguments.
- Services of OpenAI's kind tell their name, the end and the usage once, or again with every piece:
  the last word counts, not the sum.
- A connection that ends early is a failure, and not a short reply.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any, cast

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    BaseMessageChunk,
    message_chunk_to_message,
)
from langchain_core.prompt_values import ChatPromptValue, PromptValue
from langchain_core.runnables import RunnableBinding, RunnableConfig
from temporalio import activity

from crewlog.activities.ai_messages import joined, message_of, parse_tool_calls
from crewlog.activities.chat_models import packages_of
from crewlog.activities.heartbeats import Heartbeat
from crewlog.activities.model_errors import is_request_rejected
from crewlog.canonical_json import utf8_text
from crewlog.definition.providers import PROVIDERS
from crewlog.errors import ModelUnavailable
from crewlog.redaction import RedactedStream
from crewlog.state.calls import CallModel, Written
from crewlog.state.finish_reason import finish_reason, provider_finish_reason

TAIL = 2_000
"""Characters of the text that a heartbeat carries: its end."""
PACE = 0.1
"""Seconds between two heartbeats that tell of new text. A reply that takes less sends none."""
_CLIENTS = frozenset(provider.module.partition(".")[0] for provider in PROVIDERS.values())
"""The packages of LangChain's clients of services."""
_NOTHING = "No generation chunks were returned"
"""How LangChain says that there was not a single piece."""


class StreamingUnsupported(Exception):
    """The model must be asked for its reply in one piece.

    Args:
        ever: Whether that is so for all of its replies.
    """

    def __init__(self, *, ever: bool) -> None:
        super().__init__("the model gave no reply in pieces")
        self.ever = ever


class Writing:
    """Tells in heartbeats what a model has written so far."""

    def __init__(self, pulse: Heartbeat, task: CallModel) -> None:
        self._pulse = pulse
        self._task = task
        self._attempt = activity.info().attempt
        self._growing = RedactedStream()
        self._length = 0
        self._tail = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, piece: str) -> None:
        """Takes a piece of text; it is told a moment later, with those that came meanwhile."""
        # A secret comes in pieces: what may be one is told when it is known not to be.
        told = self._growing.add(piece)
        self._length += len(told)
        self._tail = (self._tail + told)[-TAIL:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PACE, self._tell)

    def _tell(self) -> None:
        self._timer = None
        written = Written(
            step=self._task.step,
            call=self._task.call,
            agent=self._task.agent,
            attempt=self._attempt,
            offset=self._length - len(self._tail),
            text=utf8_text(self._tail),
        )
        self._pulse.beat(written.to_json())

    def close(self) -> None:
        """Says nothing any more."""
        if self._timer is not None:
            self._timer.cancel()


async def stream_message(
    model: Any, said: list[BaseMessage], config: RunnableConfig, tell: Callable[[str], None]
) -> BaseMessage:
    """A model's reply, of which every piece of text is told as it comes.

    Args:
        model: The chat model. One that cannot stream gives its reply in one piece.
        said: The prompt.
        config: As for `ainvoke`.
        tell: Takes each piece of text.

    Raises:
        StreamingUnsupported: it must be asked without streaming.
        ModelUnavailable: the reply broke off.
    """
    pieces: list[BaseMessage] = []
    try:
        async for given in model.astream(prompt_value(model, said), config):
            piece = message_of(given)
            pieces.append(piece)
            if text := piece.text:
                tell(text)
    except Exception as exc:
        if not pieces and (is_request_rejected(exc) or _NOTHING in str(exc)):
            raise StreamingUnsupported(ever=_NOTHING not in str(exc)) from exc
        raise
    return whole(pieces, packages_of(_unbound(model)))


def prompt_value(model: Any, messages: Sequence[BaseMessage]) -> PromptValue | list[BaseMessage]:
    """Messages as a model is given them.

    LangChain converts a list message by message, at each call the whole transcript again. A chat
    model takes a prompt value as it is; anything else that is registered as a model gets the list.
    """
    if isinstance(_unbound(model), BaseChatModel):
        return ChatPromptValue.model_construct(messages=messages)
    return list(messages)


def _unbound(model: Any) -> Any:
    return model.bound if isinstance(model, RunnableBinding) else model  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _broken_off() -> ModelUnavailable:
    return ModelUnavailable(
        "the model's reply broke off: the connection ended before it did",
        remedy="It may pass. For a service that never says how a reply ends, give the agent "
        "`model_settings: {streaming: false}`.",
    )


def whole(pieces: Sequence[BaseMessage], packages: frozenset[str] = frozenset()) -> BaseMessage:
    """The message that pieces add up to: the same as in one piece; see the module's docstring.

    Args:
        pieces: What the model gave.
        packages: Those that its class is from.

    Raises:
        StreamingUnsupported: its tool calls were lost on the way.
        ModelUnavailable: it broke off.
    """
    message = _added(pieces, packages)
    # A client of a service tells its end. What does not, and names no provider, is no such client:
    # a model in this process, whose stream cannot end unseen.
    named = "model_provider" in message.response_metadata
    if (named or packages & _CLIENTS) and not provider_finish_reason(message):
        raise _broken_off()
    if isinstance(message, AIMessage):
        _recheck_calls(message)
    return message


def _added(pieces: Sequence[BaseMessage], packages: frozenset[str]) -> BaseMessage:
    chunks = [piece for piece in pieces if isinstance(piece, AIMessageChunk)]
    if not chunks or len(chunks) < len(pieces):
        return _other(pieces)
    added = chunks[0] + chunks[1:] if len(chunks) > 1 else chunks[0]
    metadata: dict[str, Any] = {}
    for chunk in chunks:
        metadata |= {k: v for k, v in chunk.response_metadata.items() if v is not None}
    message = cast("AIMessage", message_chunk_to_message(added))
    message.response_metadata = metadata
    pieces_of_calls = chain.from_iterable(chunk.tool_call_chunks for chunk in chunks)
    message.tool_calls, message.invalid_tool_calls = parse_tool_calls(joined(pieces_of_calls))
    if metadata.get("model_provider") == "openai" or "langchain_openai" in packages:
        told = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
        message.usage_metadata = told[-1] if told else None
    return message


def _other(pieces: Sequence[BaseMessage]) -> BaseMessage:
    """What a model gave that speaks in other messages, or in one."""
    total: Any = pieces[0]
    for piece in pieces[1:]:
        total = total + piece
    return message_chunk_to_message(total) if isinstance(total, BaseMessageChunk) else total


def _recheck_calls(message: AIMessage) -> None:
    """Checks that no tool call of a reply was lost between its pieces.

    Raises:
        StreamingUnsupported: one was.
    """
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    # Some clients drop the pieces of calls that their services do not number.
    dropped = message.response_metadata.get("finish_reason") == "tool_calls" and not calls
    nameless = finish_reason(message) == "complete" and not all(call["name"] for call in calls)
    if dropped or nameless:
        raise StreamingUnsupported(ever=True)
