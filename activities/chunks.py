"""The streaming of a model's message: clients can read its chunks while the model writes.

The chunks are sent only as details of the activity's heartbeats: the server keeps the last ones
while the call is in flight. The activity returns the same message as without streaming. The sum of
the chunks may differ from it:

- LangChain repairs the JSON of a truncated tool call. Here, as without streaming, such a call is
  invalid and the model may repair it; it is never made with half of its arguments.
- Providers with OpenAI's protocol send their name, the finish reason and the usage once, or with
  every chunk: the last value counts, not the sum.
- A connection that ends early is a failure, not a short message.
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

from crewlog.activities.ai_messages import join_chunks, parse_tool_calls, to_message
from crewlog.activities.chat_models import packages_of
from crewlog.activities.heartbeats import Heartbeat
from crewlog.activities.model_errors import is_request_rejected
from crewlog.canonical_json import utf8_text
from crewlog.definition.providers import PROVIDERS
from crewlog.errors import ModelUnavailable
from crewlog.redaction import RedactedStream
from crewlog.state.calls import CallModel, Chunk
from crewlog.state.finish_reason import finish_reason, provider_finish_reason

MAX_TAIL = 2_000
"""The most characters in a heartbeat, from the end of the text."""
SEND_INTERVAL = 0.1
"""Seconds between two heartbeats with text. A message that takes less time sends none."""
_CLIENTS = frozenset(provider.module.partition(".")[0] for provider in PROVIDERS.values())
"""The packages of LangChain's clients of providers."""
_NOTHING = "No generation chunks were returned"
"""LangChain's error for a stream without a chunk."""


class StreamingUnsupported(Exception):
    """The model must be called without streaming.

    Args:
        ever: Whether that holds for all calls of the model.
    """

    def __init__(self, *, ever: bool) -> None:
        super().__init__("the model does not support streaming")
        self.ever = ever


class ChunkSender:
    """Sends the text that a model has written so far in heartbeats."""

    def __init__(self, heartbeat: Heartbeat, task: CallModel) -> None:
        self._heartbeat = heartbeat
        self._task = task
        self._attempt = activity.info().attempt
        self._growing = RedactedStream()
        self._length = 0
        self._tail = ""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, chunk: str) -> None:
        """Adds a chunk, which is sent a moment later, together with the next ones."""
        # A secret may be split between chunks: hold back text that may be the start of one.
        text = self._growing.add(chunk)
        self._length += len(text)
        self._tail = (self._tail + text)[-MAX_TAIL:]
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SEND_INTERVAL, self._send)

    def _send(self) -> None:
        self._timer = None
        tail = Chunk(
            step=self._task.step,
            call=self._task.call,
            agent=self._task.agent,
            attempt=self._attempt,
            offset=self._length - len(self._tail),
            text=utf8_text(self._tail),
        )
        self._heartbeat.beat(tail.to_json())

    def close(self) -> None:
        """Stops sending."""
        if self._timer is not None:
            self._timer.cancel()


async def stream_message(
    model: Any, prompt: list[BaseMessage], config: RunnableConfig, on_text: Callable[[str], None]
) -> BaseMessage:
    """Returns the message of a model, and passes on each chunk of its text.

    Args:
        model: The chat model. One that cannot stream returns its message at once.
        prompt: The prompt.
        config: As for `ainvoke`.
        on_text: Is called with the text of each chunk.

    Raises:
        StreamingUnsupported: it must be called without streaming.
        ModelUnavailable: the stream ended early.
    """
    parts: list[BaseMessage] = []
    try:
        async for output in model.astream(prompt_value(model, prompt), config):
            chunk = to_message(output)
            parts.append(chunk)
            if text := chunk.text:
                on_text(text)
    except Exception as exc:
        if not parts and (is_request_rejected(exc) or _NOTHING in str(exc)):
            raise StreamingUnsupported(ever=_NOTHING not in str(exc)) from exc
        raise
    return join_message_chunks(parts, packages_of(_unbound(model)))


def prompt_value(model: Any, messages: Sequence[BaseMessage]) -> PromptValue | list[BaseMessage]:
    """Returns messages in the form that a model takes.

    LangChain converts a list message by message, and the whole transcript at each call. A chat
    model takes a prompt value as it is; anything else that is registered as a model gets the list.
    """
    if isinstance(_unbound(model), BaseChatModel):
        return ChatPromptValue.model_construct(messages=messages)
    return list(messages)


def _unbound(model: Any) -> Any:
    return model.bound if isinstance(model, RunnableBinding) else model  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def join_message_chunks(
    parts: Sequence[BaseMessage], packages: frozenset[str] = frozenset()
) -> BaseMessage:
    """Joins the chunks of a message to the message without streaming; see the module's docstring.

    Args:
        parts: The chunks.
        packages: The packages that define the model's class and its bases.

    Raises:
        StreamingUnsupported: tool calls were lost.
        ModelUnavailable: the stream ended early.
    """
    message = _join(parts, packages)
    # The client of a provider reports a finish reason. Any other model runs in this process, where
    # a stream cannot end early without an error.
    has_provider = "model_provider" in message.response_metadata
    if (has_provider or packages & _CLIENTS) and not provider_finish_reason(message):
        raise ModelUnavailable(
            "the model's message is incomplete: the connection ended early",
            remedy="A retry may help. If the provider never sends a finish reason, set "
            "`model_settings: {streaming: false}` of the agent.",
        )
    if isinstance(message, AIMessage):
        _recheck_calls(message)
    return message


def _join(parts: Sequence[BaseMessage], packages: frozenset[str]) -> BaseMessage:
    chunks = [chunk for chunk in parts if isinstance(chunk, AIMessageChunk)]
    if not chunks or len(chunks) < len(parts):
        return _join_other_messages(parts)
    total = chunks[0] + chunks[1:] if len(chunks) > 1 else chunks[0]
    metadata: dict[str, Any] = {}
    for chunk in chunks:
        metadata |= {k: v for k, v in chunk.response_metadata.items() if v is not None}
    message = cast("AIMessage", message_chunk_to_message(total))
    message.response_metadata = metadata
    call_chunks = chain.from_iterable(chunk.tool_call_chunks for chunk in chunks)
    message.tool_calls, message.invalid_tool_calls = parse_tool_calls(join_chunks(call_chunks))
    if metadata.get("model_provider") == "openai" or "langchain_openai" in packages:
        usages = [chunk.usage_metadata for chunk in chunks if chunk.usage_metadata]
        message.usage_metadata = usages[-1] if usages else None
    return message


def _join_other_messages(parts: Sequence[BaseMessage]) -> BaseMessage:
    """Joins the output of a model that does not stream `AIMessageChunk`s."""
    total: Any = parts[0]
    for chunk in parts[1:]:
        total = total + chunk
    return message_chunk_to_message(total) if isinstance(total, BaseMessageChunk) else total


def _recheck_calls(message: AIMessage) -> None:
    """Checks that no tool call was lost between the chunks.

    Raises:
        StreamingUnsupported: one was lost.
    """
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    # Some clients drop chunks of tool calls that their providers do not number.
    dropped = message.response_metadata.get("finish_reason") == "tool_calls" and not calls
    nameless = finish_reason(message) == "complete" and not all(call["name"] for call in calls)
    if dropped or nameless:
        raise StreamingUnsupported(ever=True)
