"""What a model call cost, from prices that ship with genai-prices; nothing is fetched."""

from __future__ import annotations

from genai_prices import Usage as Priced
from genai_prices import calc_price
from langchain_core.messages import AIMessage

from crewlog.state.model import Usage


def usage_of(reply: AIMessage, model: str) -> Usage:
    """The usage of one call.

    Args:
        reply: The model's reply, with its `usage_metadata`.
        model: The model as the definition names it; a price that is not known counts as nothing.
    """
    said = reply.usage_metadata
    if said is None:
        return Usage(calls=1)
    details = said.get("input_token_details") or {}
    read = details.get("cache_read") or 0
    prefix, _, name = model.partition(":")
    answered: str = reply.response_metadata.get("model_name") or name
    priced = Priced(
        input_tokens=said["input_tokens"],
        output_tokens=said["output_tokens"],
        cache_read_tokens=read or None,
    )
    return Usage(
        calls=1,
        input_tokens=said["input_tokens"],
        output_tokens=said["output_tokens"],
        cost=0.0 if prefix == "scripted" else _cost(priced, answered, prefix),
    )


def _cost(usage: Priced, model: str, provider: str) -> float:
    try:
        price = calc_price(usage, model, provider_id=provider)
    except (LookupError, ValueError):
        return 0.0
    return round(float(price.total_price), 9)
