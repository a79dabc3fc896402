"""Budgets: tokens, cost and time that a run may use before people let it go on.

Where one is used up, the run asks once, and nothing starts that would use more of it: no model call
for tokens and cost, nothing at all for time. What is under way ends and is applied. A run that has
nothing left to start ends without asking.

A budget of cost holds for models whose price is known. At the first call of another one people are
asked, once, whether the run may go on without counting it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from crewlog.definition.times import duration_words
from crewlog.graph.bounding import DIVIDED, proportional_limit
from crewlog.graph.facts import RunFacts
from crewlog.graph.waits import Waits
from crewlog.state.model import Call

OPTIONS = ("go on", "stop")


Budget = Literal["tokens", "cost", "wall", "price"]


class ExhaustedBudget(NamedTuple):
    """A budget that is used up."""

    budget: Budget
    question: str
    """What was used, for people, and what a yes allows."""
    more: float
    """How much more is allowed where people let the run go on."""
    detail: str = ""
    """What else there is to know, as the remedy."""
    told: str = ""
    """What was used, in a few words."""


def _spent(budget: Budget, told: str, more: float, why: str = "its limit") -> ExhaustedBudget:
    said = {"tokens": f"{more:,}", "cost": f"${more:g}"}.get(budget) or duration_words(more)
    return ExhaustedBudget(
        budget, f"The run has {told}, {why}. Go on with {said} more?", more, told=told
    )


class Budgets:
    """The budgets of a run.

    Args:
        run: The run.
        waits: Its timers, one of which is for the time that it may take.
    """

    def __init__(self, run: RunFacts, waits: Waits) -> None:
        self._run = run
        self._waits = waits

    def held(self) -> set[str]:
        """The budgets of which nothing may be used before people let the run go on."""
        asked = {q.budget for q in self._run.state.interrupts.values() if q.kind == "budget"}
        return {*asked, *(spent.budget for spent in self._spent())}

    def ask(self, calls: Iterable[Call]) -> bool:
        """Asks people where a budget is used up that one of these calls needs; true where it did.

        At most one question is open for each budget.
        """
        wanted = list(calls)
        for spent in self._spent():
            known = self._run.state.interrupts.values()
            if any(q.kind == "budget" and q.budget == spent.budget for q in known):
                continue
            if any(uses(call, {spent.budget}) for call in wanted):
                spent = self._shared(spent)
                self._run.ask(
                    "budget",
                    spent.question,
                    detail=spent.detail,
                    options=OPTIONS,
                    words=True,
                    budget=spent.budget,
                    more=spent.more,
                )
                return True
        return False

    def _shared(self, spent: ExhaustedBudget) -> ExhaustedBudget:
        """The same of a part of a graph: it asks for its share, as the others do for theirs."""
        if spent.budget not in DIVIDED:
            return spent
        share = proportional_limit(self._run.plan, spent.budget)
        if share == spent.more:
            return spent
        return _spent(spent.budget, spent.told, share, "and its share of the limit is used up")

    def _spent(self) -> list[ExhaustedBudget]:
        limits, allowed = self._run.plan.limits, self._run.state.allowed
        found: list[ExhaustedBudget] = []
        if limits.tokens is not None or limits.cost is not None:
            usage = self._run.state.total_usage
            tokens = usage.input_tokens + usage.output_tokens
            if limits.tokens is not None and tokens >= limits.tokens + allowed.get("tokens", 0):
                told = f"used {tokens:,} tokens"
                found.append(_spent("tokens", told, limits.tokens))
            if limits.cost is not None and usage.cost >= limits.cost + allowed.get("cost", 0):
                told = f"cost ${usage.cost:g}"
                found.append(_spent("cost", told, limits.cost))
            if limits.cost is not None and usage.unpriced and not allowed.get("price"):
                found.append(_unknown_price(usage.unpriced))
        if limits.wall is not None and self._waits.is_wall_time_over():
            told = f"taken {duration_words(limits.wall)}"
            found.append(_spent("wall", told, limits.wall))
        return found


def _unknown_price(model: str) -> ExhaustedBudget:
    """Models whose price is not known: a yes is for all that the run calls from then on."""
    return ExhaustedBudget(
        "price",
        f"The price of {model!r} is not known, so limits.cost does not hold for it. Go on?",
        1,
        "Set limits.tokens, which holds for every model, or name one whose price is known.",
    )


def uses(call: Call, budgets: Collection[str]) -> bool:
    """Whether a call uses any of some budgets: time is used by all, the others by models."""
    return bool(budgets) and ("wall" in budgets or call.tool is None)
