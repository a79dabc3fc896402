"""Paths that are data: for `add_conditional_edges`, and for a crew's flow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from langgraph.graph import END

from crewlog.definition.conditions import Condition, ConditionSyntaxError, holds, parse_condition
from crewlog.definition.phases import END as RUN_END
from crewlog.errors import DefinitionError

UsedUp = Literal["next", "ask_human", "end", "fail"]
"""What happens when a way back is used up."""


@dataclass(frozen=True)
class Choice:
    """A path that is data: the first target whose condition holds, else another.

    LangGraph can run it as a path function: flags are keys of the state, and `agent.output` is in
    the mapping that the state has under the agent's name. It does not count; in a crew, `at_most`
    bounds how often each way back is taken.
    """

    ways: tuple[tuple[Condition, str], ...]
    otherwise: str
    at_most: int | None = None
    used_up: UsedUp = "ask_human"
    __name__: str = field(default="choice", init=False)

    def __call__(self, state: Any) -> str:
        """The target, for LangGraph."""
        facts = _state_values(state)
        agents: dict[str, Any] = {k: v for k, v in facts.items() if isinstance(v, Mapping)}
        for condition, target in self.ways:
            if holds(condition, facts, agents):
                return langgraph_target(target)
        return langgraph_target(self.otherwise)

    @property
    def targets(self) -> tuple[str, ...]:
        """Where it may go."""
        return tuple(dict.fromkeys([*(target for _, target in self.ways), self.otherwise]))


def route(
    *,
    when: str,
    then: str,
    otherwise: str = END,
    at_most: int | None = None,
    used_up: UsedUp = "ask_human",
) -> Choice:
    """A path for `add_conditional_edges`: one of two ways, by a condition.

    Args:
        when: The condition, e.g. `approved` or `not critic.content and score < 0.8`.
        then: The node to go to when it holds; `END` to end.
        otherwise: The node to go to else.
        at_most: How often it may go back; needed where one of the two is before it in the graph.
        used_up: What happens then: `ask_human`, `end`, `fail`, or `next`: on by the other way.
    """
    return Choice(((_parsed(when), then),), otherwise, at_most, used_up)


def choose(
    ways: Mapping[str, str],
    *,
    otherwise: str = END,
    at_most: int | None = None,
    used_up: UsedUp = "ask_human",
) -> Choice:
    """A path for `add_conditional_edges`: the first node whose condition holds.

    Args:
        ways: Conditions by node: `{"publisher": "approved", "lawyer": "risk > 0.5"}`.
        otherwise: The node to go to where none holds; `END` to end.
        at_most: How often each way back may be taken; needed where there is one.
        used_up: What happens then; as for `route`.
    """
    if not ways:
        raise DefinitionError("a choice has no ways", remedy='E.g. {"publisher": "approved"}.')
    found = tuple((_parsed(when), target) for target, when in ways.items())
    return Choice(found, otherwise, at_most, used_up)


def _parsed(when: str) -> Condition:
    try:
        return parse_condition(when)
    except ConditionSyntaxError as error:
        raise DefinitionError(
            f"the condition {when!r} cannot be read: {error}",
            remedy="A condition is like: not approved and backend.score >= 0.8",
        ) from None


def _state_values(state: Any) -> Mapping[str, Any]:
    facts: Any = state if isinstance(state, Mapping) else vars(state)  # pyright: ignore[reportUnknownVariableType]
    return cast("Mapping[str, Any]", facts)


def langgraph_target(target: str) -> str:
    """A target under LangGraph's name of it."""
    return END if target == RUN_END else target
