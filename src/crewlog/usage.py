"""Usage: the model calls, tool calls, tokens and cost of an agent or of a run."""

from __future__ import annotations

from crewlog.model import Model


class Usage(Model):
    """The usage of an agent or of a run."""

    calls: int = 0
    """Model calls."""
    tool_calls: int = 0
    """Tool calls with a result; denied calls count."""
    input_tokens: int = 0
    """Tokens that models read."""
    output_tokens: int = 0
    """Tokens that models wrote."""
    cost: float = 0.0
    """US dollars, as far as the prices of the models are known."""
    unpriced: str = ""
    """The first model that was called without a known price."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            calls=self.calls + other.calls,
            tool_calls=self.tool_calls + other.tool_calls,
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost=round(self.cost + other.cost, 9),
            unpriced=self.unpriced or other.unpriced,
        )
