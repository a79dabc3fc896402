"""What a graph may use still, divided where it falls apart, and put together where it is one again.

    divided(plan, state, shares)     by part, what counts there from here on; and here
    together(plan, state, part, …)   the same for the run that takes back who had left it
    stricter(state, part)            and for one that takes in a stranger
    share_of_limit(plan, budget)     what one of several asks for, where it has used its share

So nobody may do more in two runs than they could in one, and nothing is lost by going apart for a
while. Quotas over runs are counted in the store, for all runs of a crew together.

Budgets: tokens, cost and time that a run may use before people let it go on.

Where one is used up, the run asks once, and nothing starts that would use more of it: no model call
for tokens and cost, nothing at all for time. What is under way ends and is applied. A run that has
nothing left to start ends without asking.

A budget of cost holds for models whose price is known. At the first call of another one people are
asked, once, whether the run may go on without counting it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from math import ceil, floor
from typing import Literal, NamedTuple

from crewlog.authority.permissions import Permission
from crewlog.definition.times import duration_words
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import RunContext
from crewlog.graph.timers import Timers
from crewlog.ids import AgentName
from crewlog.state.model import Call, CrewState
from crewlog.state.split import RemainingBudget

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

    def __init__(self, run: RunContext, waits: Timers) -> None:
        self._run = run
        self._waits = waits

    def exhausted(self) -> set[str]:
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
        limits, allowed = self._run.plan.limits, self._run.state.added_budgets
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


DIVIDED = ("tokens", "cost")
"""The budgets that are divided; time goes by for all parts alike."""


def has_divisible_limits(plan: GraphPlan) -> bool:
    """Whether there is something to divide."""
    limits = plan.limits
    return limits.tokens is not None or limits.cost is not None or bool(_quotas(plan))


def divided_budgets(
    plan: GraphPlan,
    state: CrewState,
    leaving: Sequence[Iterable[AgentName]],
    *,
    debts: bool = True,
) -> list[RemainingBudget]:
    """What counts from here on: in the run first, then in each of its parts.

    Each has of the rest as much as it has of the agents that may use it; what cannot be divided
    goes to the first of the largest.

    Args:
        plan: The plan that says what may be used, and has the agents of all of them.
        state: The run, right before.
        leaving: Those who leave, by part.
        debts: Whether what was used beyond a budget is divided, too: each part asks people for its
            share then, and has that. Else each part has all of it.
    """
    parts = [{*each} for each in leaving]
    gone = {*plan.away, *(name for each in parts for name in each)}
    homes = [{name for name in plan.agents if name not in gone}, *parts]
    found = [RemainingBudget() for _ in homes]
    for key, (most, rules) in _quotas(plan).items():
        weights = [sum(_may(plan, name, rules) for name in home) for home in homes]
        shares = divide(most - state.quotas.get(key, 0), weights)
        for bounds, calls in zip(found, shares, strict=True):
            bounds.quotas[key] = most - int(calls)
    for budget, left in _left(plan, state).items():
        weights, whole = [len(home) for home in homes], budget == "tokens"
        shares = divide(left, weights, whole=whole)
        if left < 0 and debts:
            shares = [-debt for debt in divide(-left, weights, whole=whole)]
        for bounds, share in zip(found, shares, strict=True):
            bounds.added_budgets[budget] = state.added_budgets.get(budget, 0) - (left - share)
    return found


def merged_budget(
    plan: GraphPlan,
    own: GraphPlan,
    state: CrewState,
    part: CrewState,
    both: CrewState,
    renamed: Mapping[str, str],
) -> RemainingBudget:
    """What counts in a run that takes in one that it parted from: what both had left.

    Args:
        plan: The plan of both.
        own: The plan of the run that stays; that of the other one has the same rules.
        state: The run that stays.
        part: The other one.
        both: What the two are, as strangers.
        renamed: The keys of quotas that the other one calls otherwise.
    """
    theirs = {renamed.get(key, key): used for key, used in part.quotas.items()}
    keys = _quotas(own).keys()
    sides = ((keys, state.quotas), ({renamed.get(key, key) for key in keys}, theirs))
    found = RemainingBudget()
    for key, (most, _) in _quotas(plan).items():
        calls = sum(max(0, most - used.get(key, 0)) for has, used in sides if key in has)
        found.quotas[key] = max(0, most - calls)
    lefts = [_left(plan, each) for each in (state, part)]
    for budget in dict.fromkeys(name for each in lefts for name in each):
        left = sum(max(0, each.get(budget, 0)) for each in lefts)
        found.added_budgets[budget] = left + _used(both, budget) - _limit(plan, budget)
    return found


def stricter_budget(state: CrewState, part: CrewState) -> RemainingBudget:
    """What counts in a run that takes in a stranger: of each budget, what allows less.

    Of quotas that is what more is used of, which a union does by itself.

    Args:
        state: The run that stays.
        part: The other one.
    """
    both = (state.added_budgets, part.added_budgets)
    return RemainingBudget(
        added_budgets={
            budget: min(each.get(budget, 0) for each in both)
            for budget in dict.fromkeys(name for each in both for name in each)
        }
    )


def proportional_limit(plan: GraphPlan, budget: str) -> float:
    """As much of a budget's limit as the agents that live in a run are of all that its crew has.

    Who asks people for more asks for that: so all parts together ask for the limit once.

    Args:
        plan: The run's plan.
        budget: `tokens` or `cost`.
    """
    limit = _limit(plan, budget)
    living = sum(name not in plan.away for name in plan.agents)
    if living == len(plan.agents):
        return limit
    share = limit * living / len(plan.agents)
    return ceil(share) if budget == "tokens" else share


def divide(left: float, weights: Sequence[int], *, whole: bool = True) -> list[float]:
    """A rest in shares by weight, which are as much together.

    Args:
        left: The rest; where nothing is left, or less, everybody has that.
        weights: Of each share. Where none has any, all have the same.
        whole: Whether it cannot be divided below one.
    """
    if left <= 0:
        return [left] * len(weights)
    counts = weights if any(weights) else [1] * len(weights)
    total = sum(counts)
    if not whole:
        return [left * count / total for count in counts]
    found = [floor(left * count / total) for count in counts]
    order = sorted(range(len(counts)), key=lambda n: (-counts[n], n))
    for n in range(int(left) - sum(found)):
        found[order[n % len(order)]] += 1
    return list(found)


class _Quota(NamedTuple):
    """What counts calls in a run."""

    most: int
    """The least of what its rules allow."""
    rules: tuple[Permission, ...]


def _quotas(plan: GraphPlan) -> dict[str, _Quota]:
    """The quotas per run, by their key."""
    found: dict[str, _Quota] = {}
    for rule in plan.checks:
        if rule.limit is not None and rule.limit.per == "run":
            most, rules = found.get(rule.key, (rule.limit.most, ()))
            found[rule.key] = _Quota(min(most, rule.limit.most), (*rules, rule))
    return found


def _may(plan: GraphPlan, name: AgentName, rules: Iterable[Permission]) -> bool:
    """Whether calls of an agent are counted."""
    return any(rule.covers(name, tool) for rule in rules for tool in plan.agents[name].tools)


def _left(plan: GraphPlan, state: CrewState) -> dict[str, float]:
    """What is left of the budgets that there are."""
    return {
        budget: _limit(plan, budget) + state.added_budgets.get(budget, 0) - _used(state, budget)
        for budget in DIVIDED
        if (plan.limits.cost if budget == "cost" else plan.limits.tokens) is not None
    }


def _limit(plan: GraphPlan, budget: str) -> float:
    return (plan.limits.cost if budget == "cost" else plan.limits.tokens) or 0


def _used(state: CrewState, budget: str) -> float:
    usage = state.total_usage
    return usage.cost if budget == "cost" else usage.input_tokens + usage.output_tokens
