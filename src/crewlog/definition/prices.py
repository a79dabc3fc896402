"""Which models have a known price, from tables that ship with genai-prices; nothing is fetched."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from crewlog.definition.context_checks import summary_models
from crewlog.definition.findings import Finding, Path
from crewlog.definition.model import CrewDefinition

SCRIPTED = "scripted:"
"""Models that cost nothing: a script says what they say."""
_IN_TABLES = {
    "anthropic_bedrock": "aws",
    "azure_openai": "azure",
    "bedrock": "aws",
    "bedrock_converse": "aws",
    "google_genai": "google",
    "google_vertexai": "google",
    "mistralai": "mistral",
    "xai": "x-ai",
}
"""What the tables call providers that have another name there."""


def cost_of(model: str, input_tokens: int, output_tokens: int, cached: int = 0) -> float | None:
    """What a call costs in US dollars; none where the price of the model is not known.

    Args:
        model: `prefix:NAME`.
        input_tokens: The tokens that it read.
        output_tokens: The tokens that it wrote.
        cached: Those it read that the service had kept: they are cheaper.
    """
    if model.startswith(SCRIPTED):
        return 0.0
    if not _has_price(model):
        return None
    return _price(model, input_tokens, output_tokens, min(cached, input_tokens))


@lru_cache(maxsize=256)
def _has_price(model: str) -> bool:
    """Whether the tables know a model; to find out takes as long as to calculate a price."""
    return _price(model, 1, 1, 0) is not None


def _price(model: str, input_tokens: int, output_tokens: int, cached: int) -> float | None:
    # Here, because the tables take time to load, and few crews ask for them.
    from genai_prices import Usage, calc_price  # noqa: PLC0415

    prefix, _, name = model.partition(":")
    provider = _IN_TABLES.get(prefix, prefix)
    used = Usage(
        input_tokens=input_tokens, output_tokens=output_tokens, cache_read_tokens=cached or None
    )
    try:
        return round(float(calc_price(used, name, provider_id=provider).total_price), 9)
    except (LookupError, ValueError):
        return None


def price_findings(definition: CrewDefinition) -> Iterator[Finding]:
    """Models whose calls do not count towards `limits.cost`, since nobody knows what they cost."""
    if definition.limits.cost is None:
        return
    named: list[tuple[str | None, Path]] = [(definition.model, ("model",))]
    named += [(a.model, ("agents", name, "model")) for name, a in definition.agents.items()]
    named += summary_models(definition)
    for model, path in named:
        if model is not None and cost_of(model, 1, 1) is None:
            say = f"the price of {model!r} is not known: its calls do not count for limits.cost"
            remedy = "Set limits.tokens as well; people are asked at its first call."
            yield Finding(path, say, remedy, severity="warning")
