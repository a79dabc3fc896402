"""Conditional edges as data: LangGraph runs them, and a builder's graph is read from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from langgraph.graph import END

from crewlog.definition.conditions import Condition, ConditionSyntaxError, holds, parse_condition
from crewlog.definition.phases import END as RUN_END
from crewlog.errors import DefinitionError

UsedUp = Literal["next", "ask_human", "end", "fail"]
"""What happens at the limit of a back edge."""


@dataclass(frozen=True)
class Choice:
    """A path function that is data: it chooses the first target whose condition holds.

    In LangGraph's state flags are keys, and `agent.output` is in the mapping under the agent's
    name. LangGraph does not count; in a crew, `at_most` limits each back edge.
    """

    branches: tuple[tuple[Condition, str], ...]
    otherwise: str
    at_most: int | None = None
    used_up: UsedUp = "ask_human"
    __name__: str = field(default="choice", init=False)

    def __call__(self, state: Any) -> str:
        """The target, by LangGraph's name."""
        values = _state_values(state)
        agents: dict[str, Any] = {k: v for k, v in values.items() if isinstance(v, Mapping)}
        for condition, target in self.branches:
            if holds(condition, values, agents):
                return langgraph_target(target)
        return langgraph_target(self.otherwise)

    @property
    def targets(self) -> tuple[str, ...]:
        """All targets."""
        return tuple(dict.fromkeys([*(target for _, target in self.branches), self.otherwise]))


def route(
    *,
    when: str,
    then: str,
    otherwise: str = END,
    at_most: int | None = None,
    used_up: UsedUp = "ask_human",
) -> Choice:
    """A path for `add_conditional_edges`: one of two targets, by a condition.

    Args:
        when: The condition, e.g. `approved` or `not critic.content and score < 0.8`.
        then: The target if it holds; `END` to end.
        otherwise: The target if it does not hold.
        at_most: How often it may go back; needed if one of the targets is an earlier node.
        used_up: What happens at that limit: `ask_human`, `end`, `fail`, or `next`: it goes on.
    """
    return Choice(((_parse(when), then),), otherwise, at_most, used_up)


def choose(
    conditions: Mapping[str, str],
    *,
    otherwise: str = END,
    at_most: int | None = None,
    used_up: UsedUp = "ask_human",
) -> Choice:
    """A path for `add_conditional_edges`: the first node whose condition holds.

    Args:
        conditions: By target: `{"publisher": "approved", "lawyer": "risk > 0.5"}`.
        otherwise: The target if none holds; `END` to end.
        at_most: How often each back edge may be followed; needed if there is one.
        used_up: What happens at that limit; as for `route`.
    """
    if not conditions:
        raise DefinitionError(
            "a choice needs at least one condition", remedy='E.g. {"publisher": "approved"}.'
        )
    branches = tuple((_parse(when), target) for target, when in conditions.items())
    return Choice(branches, otherwise, at_most, used_up)


def _parse(when: str) -> Condition:
    try:
        return parse_condition(when)
    except ConditionSyntaxError as error:
        raise DefinitionError(
            f"the condition {when!r} cannot be read: {error}",
            remedy="A condition is like: not approved and backend.score >= 0.8",
        ) from None


def _state_values(state: Any) -> Mapping[str, Any]:
    values: Any = state if isinstance(state, Mapping) else vars(state)  # pyright: ignore[reportUnknownVariableType]
    return cast("Mapping[str, Any]", values)


def langgraph_target(target: str) -> str:
    """LangGraph's name of a target."""
    return END if target == RUN_END else target
