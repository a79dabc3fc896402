"""What a model call used and cost. What a service says of it is not trusted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata

from crewlog.definition.prices import SCRIPTED, cost_of
from crewlog.state.model import Usage

MOST_TOKENS = 10**9
"""No call uses more: what is added up must stay a number."""
CHARACTERS = 4
"""Characters of a token, where the service does not tell how many it counted."""


def counted(reply: AIMessage, said: Sequence[BaseMessage]) -> AIMessage:
    """A reply with the tokens of its call: as the service says, or as its texts are long.

    The reply itself is mended, so that the journal, which reads its body, says the same.

    Args:
        reply: The model's reply.
        said: What the model was asked.
    """
    told: Any = reply.usage_metadata or {}
    read, written = _count(told.get("input_tokens")), _count(told.get("output_tokens"))
    if not read and not written:  # no call uses nothing
        read, written = _estimate(said), _estimate([reply])
    if (told.get("input_tokens"), told.get("output_tokens")) == (read, written):
        return reply
    usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    return reply.model_copy(update={"usage_metadata": usage})


async def usage_of(reply: AIMessage, model: str) -> Usage:
    """The usage of one call.

    Args:
        reply: The model's reply, as `counted` makes it.
        model: The model as the definition names it; without a known price it is told as `unpriced`.
    """
    told: Any = reply.usage_metadata or {}
    read, written = _count(told.get("input_tokens")), _count(told.get("output_tokens"))
    used = Usage(calls=1, input_tokens=read, output_tokens=written)
    if model.startswith(SCRIPTED):
        return used
    cached = _count((told.get("input_token_details") or {}).get("cache_read"))
    prefix, _, _ = model.partition(":")
    answered = f"{prefix}:{reply.response_metadata.get('model_name') or ''}"
    # In a thread: the first loads the prices.
    asked, named = await asyncio.to_thread(
        lambda: [cost_of(each, read, written, cached) for each in (model, answered)]
    )
    # The service is the one that is paid: the name in its answer may make a call dearer, as where
    # an alias leads to a larger model, but neither cheaper than what was configured nor priced.
    cost = max(asked or 0.0, named or 0.0)
    return used.model_copy(update={"cost": cost, "unpriced": model if asked is None else ""})


def _count(said: Any) -> int:
    """A number of tokens as a service says it: none below zero, none that is no number."""
    return min(max(said, 0), MOST_TOKENS) if isinstance(said, int) else 0


def _estimate(messages: Sequence[BaseMessage]) -> int:
    """The tokens of messages, by their characters: one at least for each message."""
    return sum(1 + _characters(message) // CHARACTERS for message in messages)


def _characters(message: BaseMessage) -> int:
    content: Any = message.content  # pyright: ignore[reportUnknownMemberType]
    said = content if isinstance(content, str) else json.dumps(content, default=str)
    calls = getattr(message, "tool_calls", [])
    return len(said) + (len(json.dumps(calls, default=str)) if calls else 0)
