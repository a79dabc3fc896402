"""The usage and the cost of a model call. The figures of a provider are not trusted."""

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
"""The most tokens of a call, so that sums stay finite."""
PRICE_TABLES = "genai_prices"
"""The package with the prices of models, loaded at the first call of a priced model."""
_LOADED = threading.Event()
"""Set once the tables are loaded."""
CHARACTERS_PER_TOKEN = 4
"""Characters of a token, if the provider does not report its count."""


def with_usage(reply: AIMessage, messages: Sequence[BaseMessage]) -> AIMessage:
    """Returns a message with the tokens of its call: reported, or estimated by length.

    The result has the figures in its body, since the journal reads them there.

    Args:
        reply: The message of the model.
        messages: The messages that the model got.
    """
    reported: Any = reply.usage_metadata or {}
    read, written = _count(reported.get("input_tokens")), _count(reported.get("output_tokens"))
    if not read and not written:  # every call uses tokens
        read, written = estimate_tokens(messages), estimate_tokens([reply])
    if (reported.get("input_tokens"), reported.get("output_tokens")) == (read, written):
        return reply
    usage = UsageMetadata(input_tokens=read, output_tokens=written, total_tokens=read + written)
    return reply.model_copy(update={"usage_metadata": usage})


async def compute_usage(reply: AIMessage, model: str) -> Usage:
    """The usage of one call.

    Args:
        reply: The message, as `with_usage` returns it.
        model: The model as the definition names it; `unpriced` if its price is not known.
    """
    reported: Any = reply.usage_metadata or {}
    read, written = _count(reported.get("input_tokens")), _count(reported.get("output_tokens"))
    used = Usage(calls=1, input_tokens=read, output_tokens=written)
    if model.startswith(SCRIPTED):
        return used
    cached = _count((reported.get("input_token_details") or {}).get("cache_read"))
    prefix, _, _ = model.partition(":")
    answered = f"{prefix}:{reply.response_metadata.get('model_name') or ''}"
    if not _LOADED.is_set():  # in a thread: it takes 100 ms
        await asyncio.to_thread(importlib.import_module, PRICE_TABLES)
        _LOADED.set()
    asked = cost_of(model, read, written, cached)
    named = cost_of(answered, read, written, cached) if answered != model else asked
    # The provider is paid for the call. The name in its answer may make the call more expensive, if
    # an alias means a larger model, but neither cheaper than the configured model nor priced.
    cost = max(asked or 0.0, named or 0.0)
    return used.model_copy(update={"cost": cost, "unpriced": model if asked is None else ""})


def _count(value: Any) -> int:
    """Returns a number of tokens of a provider; 0 if it is negative or not a number."""
    return min(max(value, 0), MOST_TOKENS) if isinstance(value, int) else 0


def estimate_tokens(messages: Sequence[BaseMessage]) -> int:
    """Estimates the tokens of messages by their characters: at least one for each message.

    It runs over the whole transcript at each call, so a plain text needs no function call.
    """
    tokens = len(messages)
    for message in messages:
        content: Any = message.content  # pyright: ignore[reportUnknownMemberType]
        calls: Any = message.__dict__.get("tool_calls")  # a missing attribute is slow to look up
        if isinstance(content, str) and not calls:
            tokens += len(content) // CHARACTERS_PER_TOKEN
        else:
            text = content if isinstance(content, str) else json.dumps(content, default=str)
            asked = json.dumps(calls, default=str) if calls else ""
            tokens += (len(text) + len(asked)) // CHARACTERS_PER_TOKEN
    return tokens
