"""Bounds: how far a run is within what its crew may use, where that is more than its own use.

A graph that falls apart divides what it had left: what one of the runs may use still, no other may.
"""

from __future__ import annotations

from typing import Any

from pydantic import Field

from crewlog.model import Model
from crewlog.state.model import CrewState


class RemainingBudget(Model):
    """What counts from here on in a run, of the bounds that are other than by its use alone."""

    quotas: dict[str, int] = Field(default_factory=dict[str, int])
    """Quotas per run: how many calls count as used, by the quota's key."""
    allowed: dict[str, float] = Field(default_factory=dict[str, float])
    """Budgets: what is allowed beyond the limit; below 0: that much less."""

    def put(self, state: CrewState) -> dict[str, Any]:
        """What they change in a state."""
        found: dict[str, Any] = {}
        if self.quotas:
            found["quotas"] = {**state.quotas, **self.quotas}
        if self.allowed:
            found["allowed"] = {**state.allowed, **self.allowed}
        return found
