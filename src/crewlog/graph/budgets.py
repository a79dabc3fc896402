"""Budgets: the tokens, cost and time that a run may use before it asks people.

When a budget is used up, the run asks once and starts nothing that would use more of it: no model
call for tokens and cost, nothing at all for time. Calls in flight complete. A run that has nothing
left to start ends without a question.

The cost budget counts models whose price is known. At the first call of another model the run asks
once whether it may continue without counting that model.

A split divides the rest of a budget, and a run merge adds the rests, so that two runs together may
use exactly as much as one:

    divided_budgets(plan, state, parts)     the rest for the run and for each split run
    merged_budget(plan, own, state, …)      the rest of a run and of one that was split from it
    stricter_budget(state, other)           the rest of two runs that were never one
    proportional_limit(plan, budget)        how much more one of several split runs asks for

Quotas across runs are in the store, which counts all runs of a crew together.
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
    """The question for people: the usage, and how much more the answer `go on` allows."""
    more: float
    """How much more the answer allows, in the budget's unit."""
    detail: str = ""
    """The remedy."""
    usage_text: str = ""
    """The usage: `used 1,000 tokens`."""


def _exhausted_budget(
    budget: Budget, usage_text: str, more: float, why: str = "its limit"
) -> ExhaustedBudget:
    amount = {"tokens": f"{more:,}", "cost": f"${more:g}"}.get(budget) or duration_words(more)
    question = f"The run has {usage_text}, {why}. Go on with {amount} more?"
    return ExhaustedBudget(budget, question, more, usage_text=usage_text)


class Budgets:
    """The budgets of a run.

    Args:
        run: The run.
        timers: Its timers; one is for the time budget.
    """

    def __init__(self, run: RunContext, timers: Timers) -> None:
        self._run = run
        self._timers = timers

    def exhausted(self) -> set[str]:
        """The budgets that are used up, or about which an interrupt is open."""
        return {*self._open_interrupts(), *(each.budget for each in self._exhausted())}

    def ask(self, calls: Iterable[Call]) -> bool:
        """Raises an interrupt if one of these calls needs a budget that is used up.

        At most one interrupt is open for each budget.

        Returns:
            Whether it raised one.
        """
        calls = list(calls)
        for each in self._exhausted():
            if each.budget in self._open_interrupts():
                continue
            if any(uses_budget(call, {each.budget}) for call in calls):
                proportional = self._with_proportional_limit(each)
                self._run.ask(
                    "budget",
                    proportional.question,
                    detail=proportional.detail,
                    options=OPTIONS,
                    words=True,
                    budget=proportional.budget,
                    more=proportional.more,
                )
                return True
        return False

    def _open_interrupts(self) -> set[str]:
        return {
            each.budget for each in self._run.state.interrupts.values() if each.kind == "budget"
        }

    def _with_proportional_limit(self, exhausted: ExhaustedBudget) -> ExhaustedBudget:
        """The budget of a split run: it asks for its part of the limit only."""
        if exhausted.budget not in DIVIDED:
            return exhausted
        share = proportional_limit(self._run.plan, exhausted.budget)
        if share == exhausted.more:
            return exhausted
        why = "and its share of the limit is used up"
        return _exhausted_budget(exhausted.budget, exhausted.usage_text, share, why)

    def _exhausted(self) -> list[ExhaustedBudget]:
        limits, added = self._run.plan.limits, self._run.state.added_budgets
        found: list[ExhaustedBudget] = []
        if limits.tokens is not None or limits.cost is not None:
            usage = self._run.state.total_usage
            tokens = usage.input_tokens + usage.output_tokens
            if limits.tokens is not None and tokens >= limits.tokens + added.get("tokens", 0):
                text = f"used {tokens:,} tokens"
                found.append(_exhausted_budget("tokens", text, limits.tokens))
            if limits.cost is not None and usage.cost >= limits.cost + added.get("cost", 0):
                text = f"cost ${usage.cost:g}"
                found.append(_exhausted_budget("cost", text, limits.cost))
            if limits.cost is not None and usage.unpriced and not added.get("price"):
                found.append(_unknown_price(usage.unpriced))
        if limits.wall is not None and self._timers.is_wall_time_over():
            text = f"taken {duration_words(limits.wall)}"
            found.append(_exhausted_budget("wall", text, limits.wall))
        return found


def _unknown_price(model: str) -> ExhaustedBudget:
    """The answer `go on` holds for every model without a price that the run calls later."""
    return ExhaustedBudget(
        "price",
        f"The price of {model!r} is not known, so limits.cost does not hold for it. Go on?",
        1,
        "Set limits.tokens, which holds for every model, or name one whose price is known.",
    )


def uses_budget(call: Call, budgets: Collection[str]) -> bool:
    """Whether a call uses any of these budgets: every call takes time, a model call uses all."""
    return bool(budgets) and ("wall" in budgets or call.tool is None)


DIVIDED = ("tokens", "cost")
"""The budgets that a split divides; time passes for all runs alike."""


def has_divisible_limits(plan: GraphPlan) -> bool:
    """Whether a plan has budgets or quotas that a split divides."""
    limits = plan.limits
    return limits.tokens is not None or limits.cost is not None or bool(_run_quotas(plan))


def divided_budgets(
    plan: GraphPlan,
    state: CrewState,
    split_agents: Sequence[Iterable[AgentName]],
    *,
    debts: bool = True,
) -> list[RemainingBudget]:
    """The remaining budgets after a split: of the original run first, then of each split run.

    Each run gets a share of the rest by the number of its agents that may use it. A remainder that
    cannot be divided goes to the largest runs first.

    Args:
        plan: The plan with the limits and with the agents of all the runs.
        state: The run, right before the split.
        split_agents: The agents of each split run.
        debts: Whether usage beyond a budget is divided, too: each run then asks people for its
            share of it. Else each run has all of it.
    """
    split_runs = [{*each} for each in split_agents]
    remote = {*plan.away, *(name for each in split_runs for name in each)}
    runs = [{name for name in plan.agents if name not in remote}, *split_runs]
    budgets = [RemainingBudget() for _ in runs]
    for key, (most, permissions) in _run_quotas(plan).items():
        weights = [sum(_is_counted(plan, name, permissions) for name in run) for run in runs]
        shares = divide(most - state.quotas.get(key, 0), weights)
        for remaining, calls in zip(budgets, shares, strict=True):
            remaining.quotas[key] = most - int(calls)
    for budget, rest in _rest(plan, state).items():
        weights, whole = [len(run) for run in runs], budget == "tokens"
        shares = divide(rest, weights, whole=whole)
        if rest < 0 and debts:
            shares = [-debt for debt in divide(-rest, weights, whole=whole)]
        for remaining, share in zip(budgets, shares, strict=True):
            remaining.added_budgets[budget] = state.added_budgets.get(budget, 0) - (rest - share)
    return budgets


def merged_budget(
    plan: GraphPlan,
    own: GraphPlan,
    state: CrewState,
    other: CrewState,
    both: CrewState,
    renames: Mapping[str, str],
) -> RemainingBudget:
    """The remaining budget after a run merge with a run that was split from it: the sum.

    Args:
        plan: The plan after the run merge.
        own: The plan of the surviving run; the merged run's has the same limits.
        state: The surviving run.
        other: The merged run.
        both: The merged state, budgets aside.
        renames: The new keys of quotas of the merged run, by their old ones.
    """
    other_quotas = {renames.get(key, key): used for key, used in other.quotas.items()}
    keys = _run_quotas(own).keys()
    sides = ((keys, state.quotas), ({renames.get(key, key) for key in keys}, other_quotas))
    remaining = RemainingBudget()
    for key, (most, _) in _run_quotas(plan).items():
        calls = sum(max(0, most - used.get(key, 0)) for has, used in sides if key in has)
        remaining.quotas[key] = max(0, most - calls)
    rests = [_rest(plan, each) for each in (state, other)]
    for budget in dict.fromkeys(name for each in rests for name in each):
        rest = sum(max(0, each.get(budget, 0)) for each in rests)
        remaining.added_budgets[budget] = rest + _usage(both, budget) - _limit(plan, budget)
    return remaining


def stricter_budget(state: CrewState, other: CrewState) -> RemainingBudget:
    """The remaining budget after a run merge of two runs that were never one: the lesser.

    The lesser rest of a quota is the greater count, which the merged state has already.

    Args:
        state: The surviving run.
        other: The merged run.
    """
    both = (state.added_budgets, other.added_budgets)
    return RemainingBudget(
        added_budgets={
            budget: min(each.get(budget, 0) for each in both)
            for budget in dict.fromkeys(name for each in both for name in each)
        }
    )


def proportional_limit(plan: GraphPlan, budget: str) -> float:
    """A run's share of a budget's limit: by how many of the crew's agents are in the run.

    A split run asks people for this much more. So all split runs together ask for the limit once.

    Args:
        plan: The run's plan.
        budget: `tokens` or `cost`.
    """
    limit = _limit(plan, budget)
    agents = sum(name not in plan.away for name in plan.agents)
    if agents == len(plan.agents):
        return limit
    share = limit * agents / len(plan.agents)
    return ceil(share) if budget == "tokens" else share


def divide(rest: float, weights: Sequence[int], *, whole: bool = True) -> list[float]:
    """Divides a rest by weight; the sum of the shares is the rest.

    Args:
        rest: The rest; if it is zero or negative, each share is all of it.
        weights: The weight of each share; if all are zero, the shares are equal.
        whole: Whether the shares are whole numbers.
    """
    if rest <= 0:
        return [rest] * len(weights)
    counts = weights if any(weights) else [1] * len(weights)
    total = sum(counts)
    if not whole:
        return [rest * count / total for count in counts]
    shares = [floor(rest * count / total) for count in counts]
    order = sorted(range(len(counts)), key=lambda n: (-counts[n], n))
    for n in range(int(rest) - sum(shares)):
        shares[order[n % len(order)]] += 1
    return list(shares)


class _Quota(NamedTuple):
    """A quota of calls per run."""

    most: int
    """The smallest limit of its permissions."""
    permissions: tuple[Permission, ...]


def _run_quotas(plan: GraphPlan) -> dict[str, _Quota]:
    """The quotas per run by key."""
    found: dict[str, _Quota] = {}
    for rule in plan.checks:
        if rule.limit is not None and rule.limit.per == "run":
            most, permissions = found.get(rule.key, (rule.limit.most, ()))
            found[rule.key] = _Quota(min(most, rule.limit.most), (*permissions, rule))
    return found


def _is_counted(plan: GraphPlan, name: AgentName, permissions: Iterable[Permission]) -> bool:
    """Whether the quota of these permissions counts calls of an agent."""
    return any(each.covers(name, tool) for each in permissions for tool in plan.agents[name].tools)


def _rest(plan: GraphPlan, state: CrewState) -> dict[str, float]:
    """The rest of each budget that has a limit; negative if more was used."""
    return {
        budget: _limit(plan, budget) + state.added_budgets.get(budget, 0) - _usage(state, budget)
        for budget in DIVIDED
        if (plan.limits.cost if budget == "cost" else plan.limits.tokens) is not None
    }


def _limit(plan: GraphPlan, budget: str) -> float:
    return (plan.limits.cost if budget == "cost" else plan.limits.tokens) or 0


def _usage(state: CrewState, budget: str) -> float:
    usage = state.total_usage
    return usage.cost if budget == "cost" else usage.input_tokens + usage.output_tokens
