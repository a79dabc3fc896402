"""What a model call cost, from prices that ship with genai-prices; nothing is fetched."""

from __future__ import annotations

import asyncio

from genai_prices import Usage as Priced
from genai_prices import calc_price
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import UsageMetadata

from crewlog.state.model import Usage


async def usage_of(reply: AIMessage, model: str) -> Usage:
    """The usage of one call.

    Args:
        reply: The model's reply, with its `usage_metadata`.
        model: The model as the definition names it; a price that is not known counts as nothing.
    """
    said = reply.usage_metadata
    if said is None:
        return Usage(calls=1)
    cost = 0.0
    if not model.startswith("scripted:"):
        cost = await asyncio.to_thread(_cost, reply, said, model)  # the first loads the prices
    return Usage(
        calls=1, input_tokens=said["input_tokens"], output_tokens=said["output_tokens"], cost=cost
    )


def _cost(reply: AIMessage, said: UsageMetadata, model: str) -> float:
    details = said.get("input_token_details") or {}
    priced = Priced(
        input_tokens=said["input_tokens"],
        output_tokens=said["output_tokens"],
        cache_read_tokens=details.get("cache_read") or None,
    )
    prefix, _, name = model.partition(":")
    answered: str = reply.response_metadata.get("model_name") or name
    try:
        price = calc_price(priced, answered, provider_id=prefix)
    except (LookupError, ValueError):
        return 0.0
    return round(float(price.total_price), 9)
