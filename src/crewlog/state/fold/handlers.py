"""The table of handlers, and what several of them use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from crewlog.ids import NodeName, StepId, node_of
from crewlog.run_status import EndReason
from crewlog.state.model import CrewState, FrontierStep, Turn

REASON_LENGTH = 500
"""Characters of a reason that the state keeps; the journal has all of it."""

K = TypeVar("K")
V = TypeVar("V")

Changes = dict[str, Any]

Frontier = dict[StepId, FrontierStep]

HANDLERS: dict[type, Callable[[CrewState, Any, int], Changes]] = {}

E = TypeVar("E")


def handles(entry_type: type[E]) -> Callable[[Callable[[CrewState, E, int], Changes]], Any]:
    """Registers the handler of a kind of entry.

    A handler gets the state before the entry, the entry and its position. It returns the fields of
    the state that change.
    """

    def register(handler: Callable[[CrewState, E, int], Changes]) -> Any:
        HANDLERS[entry_type] = cast("Any", handler)
        return handler

    return register


def with_item(mapping: dict[K, V], key: K, value: V) -> dict[K, V]:
    """A copy of a mapping with one item set."""
    return {**mapping, key: value}


def without_item(mapping: dict[K, V], key: K) -> dict[K, V]:
    """A copy of a mapping without a key."""
    return {k: v for k, v in mapping.items() if k != key}


def with_step(state: CrewState, step: StepId, **changes: Any) -> Changes:
    """The frontier with a changed step; nothing if the step is not in it."""
    found = state.frontier.get(step)
    if found is None:
        return {}
    return {"frontier": with_item(state.frontier, step, found.model_copy(update=changes))}


def node_of_step(state: CrewState, step: StepId) -> NodeName:
    """The node of a step, also if the step is not in the frontier any more."""
    current = state.frontier.get(step)
    return node_of(step) if current is None else current.node


def turn_of(state: CrewState, step: StepId) -> Turn:
    """The turn of a step; an empty one if the step has none."""
    current = state.frontier.get(step)
    return (current.turn if current else None) or Turn()


def turn_with_call(state: CrewState, step: StepId, call: int | None, **changes: Any) -> Turn | None:
    """The turn of a step with one changed call."""
    current = state.frontier.get(step)
    if current is None or current.turn is None:
        return None
    calls = tuple(c.model_copy(update=changes) if c.call == call else c for c in current.turn.calls)
    return current.turn.model_copy(update={"calls": calls})


def limit_changes(why: str, reason: EndReason, node: NodeName) -> Changes:
    """What changes when a limit is reached: the run warns of it.

    Args:
        why: Which limit, and by what.
        reason: The end reason; empty if people are asked whether to continue.
        node: The node that reached it.
    """
    changes = {"warning": f"A limit was reached: {why}."}
    return {**changes, "limit_reached": reason, "limit_node": node} if reason else changes
