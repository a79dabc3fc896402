"""What a model call used and cost. What a service says of it is not trusted."""

from __future__ import annotations

import asyncio
import importlib
import json
import threading
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.messages.ai import UsageMetadata

from crewlog.definition.prices import SCRIPTED, cost_of
from crewlog.usage import Usage

MOST_TOKENS = 10**9
"""No call uses more: what is added up must stay a number."""
PRICE_TABLES = "genai_prices"
"""The package with the prices of models, loaded at the first call of a model that has a price."""
_LOADED = threading.Event()
"""Set once the tables are loaded."""
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
    if not _LOADED.is_set():  # in a thread: it takes 100 ms
        await asyncio.to_thread(importlib.import_module, PRICE_TABLES)
        _LOADED.set()
    asked = cost_of(model, read, written, cached)
    named = cost_of(answered, read, written, cached) if answered != model else asked
    # The service is the one that is paid: the name in its answer may make a call dearer, as where
    # an alias leads to a larger model, but neither cheaper than what was configured nor priced.
    cost = max(asked or 0.0, named or 0.0)
    return used.model_copy(update={"cost": cost, "unpriced": model if asked is None else ""})


def _count(said: Any) -> int:
    """A number of tokens as a service says it: none below zero, none that is no number."""
    return min(max(said, 0), MOST_TOKENS) if isinstance(said, int) else 0


def _estimate(messages: Sequence[BaseMessage]) -> int:
    """Estimates the tokens of messages by their characters: at least one for each message.

    It runs over the whole transcript at each call, so the usual case, a plain text, makes no call
    of its own.
    """
    tokens = len(messages)
    for message in messages:
        content: Any = message.content  # pyright: ignore[reportUnknownMemberType]
        calls: Any = message.__dict__.get("tool_calls")  # a missing attribute is slow to look up
        if isinstance(content, str) and not calls:
            tokens += len(content) // CHARACTERS
        else:
            text = content if isinstance(content, str) else json.dumps(content, default=str)
            asked = json.dumps(calls, default=str) if calls else ""
            tokens += (len(text) + len(asked)) // CHARACTERS
    return tokens
