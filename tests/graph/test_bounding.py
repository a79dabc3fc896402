"""What a graph may use is the same in one run and in several: it is divided, and put together."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from crewlog.definition.load import load_data
from crewlog.definition.renaming import NewNames
from crewlog.graph.budgets import divide, divided_budgets, merged_budget
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, RunId
from crewlog.state.model import CrewState
from crewlog.state.run_merge.surviving_state import MergeNames, merged_state_changes
from crewlog.state.split import SplitContents, split_run_state
from crewlog.usage import Usage

NAMES = [AgentName(name) for name in ("ann", "bob", "cid", "dan", "eve")]
TOOLS = ("dig", "draw", "idle")
AS_THEY_ARE = MergeNames(NewNames({}, {}, {}), {}, frozenset(), {}, {})
QUOTAS = {"dig": 17, "draw": 6}
TOKENS, COST = 10_000, 8.0
PLAN = lower(
    load_data(
        {
            "crew": "t",
            "model": "openai:x",
            "agents": {
                name: {
                    "prompt": "p",
                    "listen": ["x"],
                    "tools": ["dig", *(["draw"] if name in ("ann", "bob") else [])],
                }
                for name in NAMES
            },
            "tools": {name: {"run": f"m:{name}"} for name in TOOLS},
            "rules": [
                {"tool": "dig", "quota": "17 per run"},
                {"tool": "draw", "quota": "6 per run"},
                {"tool": "draw", "quota": "9 per run", "reason": "the lesser holds"},
                {"tool": "dig", "quota": "100 per day"},
            ],
            "limits": {"tokens": TOKENS, "cost": COST},
        }
    )
)
KEYS = {rule.tools[0]: rule.key for rule in PLAN.checks if rule.quota.endswith(" run")}


def calls_left(state: CrewState, tool: str) -> int:
    return QUOTAS[tool] - state.quotas.get(KEYS[tool], 0)


def tokens_left(state: CrewState) -> float:
    used = state.total_usage
    return TOKENS + state.added_budgets.get("tokens", 0) - used.input_tokens - used.output_tokens


def cost_left(state: CrewState) -> float:
    return COST + state.added_budgets.get("cost", 0) - state.total_usage.cost


@dataclass
class Pond:
    """Creatures, in runs that part and come together."""

    dice: random.Random
    runs: dict[RunId, tuple[CrewState, frozenset[AgentName]]] = field(
        default_factory=dict[RunId, tuple[CrewState, frozenset[AgentName]]]
    )
    calls: dict[str, int] = field(default_factory=lambda: dict.fromkeys(QUOTAS, 0))
    tokens: int = 0
    cost: float = 0.0

    def use(self, run: RunId) -> None:
        """Somebody of a run does what it still may."""
        state, home = self.runs[run]
        update: dict[str, Any] = {}
        tool = self.dice.choice([*QUOTAS])
        if home & {*NAMES[: 2 if tool == "draw" else None]} and calls_left(state, tool) > 0:
            key = KEYS[tool]
            update["quotas"] = {**state.quotas, key: state.quotas.get(key, 0) + 1}
            self.calls[tool] += 1
        if tokens_left(state) > 0 and cost_left(state) > 0:
            who = self.dice.choice(sorted(home))
            more = Usage(
                calls=1, input_tokens=self.dice.randint(1, 40), cost=self.dice.random() / 9
            )
            known = state.usage.get(who, Usage())
            update["usage"] = {**state.usage, who: known + more}
            self.tokens += more.input_tokens
            self.cost += more.cost
        self.runs[run] = (state.model_copy(update=update), home)

    def part(self, run: RunId, plan: GraphPlan) -> None:
        """A graph falls apart into two or three."""
        state, home = self.runs[run]
        names = self.dice.sample(sorted(home), len(home))
        cut = sorted(self.dice.sample(range(1, len(names)), min(len(names) - 1, 2)))
        groups = [names[a:b] for a, b in zip([0, *cut], [*cut, len(names)], strict=True)]
        away = {name: "elsewhere" for name in NAMES if name not in home}
        assert plan.graph is not None
        here = plan.model_copy(update={"graph": plan.graph.model_copy(update={"away": away})})
        mine, *theirs = divided_budgets(here, state, groups[1:])
        self.runs[run] = (state.model_copy(update=mine.state_changes(state)), frozenset(groups[0]))
        for group, bounds in zip(groups[1:], theirs, strict=True):
            id_ = RunId(f"r{self.dice.random()}")
            share = SplitContents(agents=tuple(group), nodes=(), remaining_budget=bounds)
            self.runs[id_] = (
                split_run_state(state, id_, share, state.definition, ()),
                frozenset(group),
            )

    def join(self, one: RunId, two: RunId) -> None:
        """Two of them are one again."""
        state, home = self.runs[one]
        part, away = self.runs.pop(two)
        both = state.model_copy(update=merged_state_changes(state, part, AS_THEY_ARE))
        bounds = merged_budget(PLAN, PLAN, state, part, both, {})
        self.runs[one] = (both.model_copy(update=bounds.state_changes(both)), home | away)


@pytest.mark.parametrize("seed", range(200))
def test_nobody_may_do_more_in_several_runs_and_nothing_is_lost(seed: int) -> None:
    dice = random.Random(seed)  # noqa: S311 - a seeded dice, no secret
    pond = Pond(dice, {RunId("r"): (CrewState(run=RunId("r")), frozenset(NAMES))})
    for _ in range(60):
        run = dice.choice(sorted(pond.runs))
        kind = dice.random()
        if kind < 0.15 and len(pond.runs[run][1]) > 1:
            pond.part(run, PLAN)
        elif kind < 0.3 and len(pond.runs) > 1:
            pond.join(*dice.sample(sorted(pond.runs), 2))
        else:
            pond.use(run)
        states = [state for state, _ in pond.runs.values()]
        for tool, most in QUOTAS.items():
            left = [calls_left(state, tool) for state in states]
            assert min(left) >= 0
            assert sum(left) == most - pond.calls[tool]
        # What was said at last may be more than was left: that is spent, and no share is less.
        assert sum(max(0, tokens_left(state)) for state in states) >= TOKENS - pond.tokens
        assert sum(map(tokens_left, states)) <= TOKENS - pond.tokens + 40 * len(states) ** 2
        assert sum(map(cost_left, states)) <= COST - pond.cost + len(states) ** 2 / 9


def test_who_alone_may_call_a_tool_has_all_that_is_left() -> None:
    state = CrewState(run=RunId("r"), quotas={KEYS["dig"]: 2, KEYS["draw"]: 1})
    stays, goes = divided_budgets(PLAN, state, [[AgentName("ann"), AgentName("bob")]])
    assert stays.quotas == {KEYS["dig"]: 17 - 9, KEYS["draw"]: 6}
    assert goes.quotas == {KEYS["dig"]: 17 - 6, KEYS["draw"]: 1}
    assert stays.added_budgets == {"tokens": -TOKENS * 2 / 5, "cost": pytest.approx(-COST * 2 / 5)}
    assert goes.added_budgets == {"tokens": -TOKENS * 3 / 5, "cost": pytest.approx(-COST * 3 / 5)}


def test_what_is_used_up_is_used_up_everywhere() -> None:
    usage = {AgentName("ann"): Usage(input_tokens=TOKENS + 3)}
    state = CrewState(
        run=RunId("r"), quotas={KEYS["draw"]: 6}, usage=usage, added_budgets={"tokens": 1}
    )
    found = divided_budgets(PLAN, state, [["bob"], ["cid"]], debts=False)  # type: ignore[list-item]
    for bounds in found:
        assert bounds.quotas[KEYS["draw"]] == 6
        assert bounds.added_budgets["tokens"] == 1


def test_what_was_used_beyond_a_budget_is_divided() -> None:
    """Who is allowed a share more has as much of that then as the run would have of the whole."""
    usage = {AgentName("ann"): Usage(input_tokens=TOKENS + 12, cost=COST + 1)}
    state = CrewState(run=RunId("r"), usage=usage)
    found = divided_budgets(PLAN, state, [["bob"], ["cid"]])  # type: ignore[list-item]
    lefts = [state.model_copy(update=bounds.state_changes(state)) for bounds in found]
    assert [tokens_left(each) for each in lefts] == [-8, -2, -2]
    assert [cost_left(each) for each in lefts] == pytest.approx([-0.6, -0.2, -0.2])


@pytest.mark.parametrize(
    ("left", "weights", "shares"),
    [
        (3, [1, 1], [2, 1]),
        (3, [1, 2], [1, 2]),
        (1, [1, 2, 2], [0, 1, 0]),
        (5, [0, 0], [3, 2]),
        (4, [3, 0], [4, 0]),
        (0, [1, 1], [0, 0]),
        (-2, [1, 1], [-2, -2]),
    ],
)
def test_a_rest_is_shared_by_weight(left: int, weights: list[int], shares: list[int]) -> None:
    assert divide(left, weights) == shares


def test_who_is_away_has_no_share_of_a_second_split() -> None:
    """The share of those who left went with them."""
    assert PLAN.graph is not None
    away = dict.fromkeys(NAMES[2:], "elsewhere")
    plan = PLAN.model_copy(update={"graph": PLAN.graph.model_copy(update={"away": away})})
    state = CrewState(run=RunId("r"), quotas={KEYS["dig"]: 7}, added_budgets={"tokens": -4000.0})
    found = divided_budgets(plan, state, [[NAMES[1]]])  # ann stays, and bob leaves
    assert [QUOTAS["dig"] - each.quotas[KEYS["dig"]] for each in found] == [5, 5]
    assert [TOKENS + each.added_budgets["tokens"] for each in found] == [3000, 3000]


@pytest.mark.parametrize("over", ["one", "both"])
def test_what_is_used_up_takes_nothing_from_what_the_other_has_left(over: str) -> None:
    """A limit may have been lowered meanwhile: then more was used than it allows."""
    one = CrewState(run=RunId("r"), quotas={KEYS["dig"]: 30}, added_budgets={"tokens": -12_000.0})
    two = one if over == "both" else CrewState(run=RunId("s"), quotas={KEYS["dig"]: 10})
    two = two.model_copy(update={"run": RunId("s")})
    both = one.model_copy(update=merged_state_changes(one, two, AS_THEY_ARE))
    found = both.model_copy(
        update=merged_budget(PLAN, PLAN, one, two, both, {}).state_changes(both)
    )
    left = (0, 0) if over == "both" else (7, TOKENS)
    assert (calls_left(found, "dig"), tokens_left(found)) == left
