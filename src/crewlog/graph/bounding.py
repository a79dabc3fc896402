"""What a graph may use still, divided where it falls apart, and put together where it is one again.

    divided(plan, state, shares)     by part, what counts there from here on; and here
    together(plan, state, part, …)   the same for the run that takes back who had left it
    stricter(state, part)            and for one that takes in a stranger
    share_of_limit(plan, budget)     what one of several asks for, where it has used its share

So nobody may do more in two runs than they could in one, and nothing is lost by going apart for a
while. Quotas over runs are counted in the store, for all runs of a crew together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil, floor
from typing import NamedTuple

from crewlog.authority.rules import Permission
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName
from crewlog.state.bounds import RemainingBudget
from crewlog.state.model import CrewState

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
        shares = shared(most - state.quotas.get(key, 0), weights)
        for bounds, calls in zip(found, shares, strict=True):
            bounds.quotas[key] = most - int(calls)
    for budget, left in _left(plan, state).items():
        weights, whole = [len(home) for home in homes], budget == "tokens"
        shares = shared(left, weights, whole=whole)
        if left < 0 and debts:
            shares = [-debt for debt in shared(-left, weights, whole=whole)]
        for bounds, share in zip(found, shares, strict=True):
            bounds.allowed[budget] = state.allowed.get(budget, 0) - (left - share)
    return found


def together(
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
        found.allowed[budget] = left + _used(both, budget) - _limit(plan, budget)
    return found


def stricter(state: CrewState, part: CrewState) -> RemainingBudget:
    """What counts in a run that takes in a stranger: of each budget, what allows less.

    Of quotas that is what more is used of, which a union does by itself.

    Args:
        state: The run that stays.
        part: The other one.
    """
    both = (state.allowed, part.allowed)
    return RemainingBudget(
        allowed={
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


def shared(left: float, weights: Sequence[int], *, whole: bool = True) -> list[float]:
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
        budget: _limit(plan, budget) + state.allowed.get(budget, 0) - _used(state, budget)
        for budget in DIVIDED
        if (plan.limits.cost if budget == "cost" else plan.limits.tokens) is not None
    }


def _limit(plan: GraphPlan, budget: str) -> float:
    return (plan.limits.cost if budget == "cost" else plan.limits.tokens) or 0


def _used(state: CrewState, budget: str) -> float:
    usage = state.total_usage
    return usage.cost if budget == "cost" else usage.input_tokens + usage.output_tokens
