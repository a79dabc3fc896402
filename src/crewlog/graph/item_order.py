"""Which agent takes the step of an item, and after which others: read from the items themselves.

A list is made by a model, or by people, so everything can be wrong with it. All of it is looked at
before the first step starts: a plan of which half is done and the rest cannot be is worse than one
that people are asked about.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from crewlog.definition.findings import listed
from crewlog.graph.plan import PlanNode
from crewlog.ids import AgentName
from crewlog.state.item_specs import FAULTS_TOLD, ListSpec, has_any_of


class ItemOrder(NamedTuple):
    """Who works on a list's items, and in which order."""

    agents: tuple[AgentName, ...] = ()
    """The agents; empty: the node's."""
    whose: tuple[int, ...] = ()
    """By item: which of them, from 0."""
    after: tuple[tuple[int, ...], ...] = ()
    """By item: the items that it waits for, see `crewlog.state.item_specs.packed`; empty: none
    waits for another."""
    faults: tuple[str, ...] = ()
    """What is wrong, for people: then no step starts."""


NO_ORDER = ItemOrder()


def item_order(node: PlanNode, shape: ListSpec | None, count: int) -> ItemOrder:
    """Who works on the items of a list, and in which order.

    Args:
        node: The node that has a step for each of them.
        shape: What they say; none: nothing.
        count: How many there are.
    """
    if shape is None and node.by:
        shape = ListSpec()
    if shape is None or not (node.by or shape.after or shape.errors):
        return NO_ORDER
    faults = list(shape.errors)
    named: list[AgentName] = []
    if node.by:
        who = [_agent(node, shape, number) for number in range(1, count + 1)]
        faults += _agent_errors(node, shape, who) if node.by in shape.owners or not faults else ()
        named = [each or AgentName("") for each in who]
    if faults:
        more = len(faults) - FAULTS_TOLD + shape.more
        told = faults[:FAULTS_TOLD] + ([f"and {more:,} more"] if more > 0 else [])
        return ItemOrder(faults=tuple(told))
    agents = tuple(dict.fromkeys(named))
    whose = tuple(map({name: at for at, name in enumerate(agents)}.__getitem__, named))
    return ItemOrder(agents, whose, shape.after)


def _agent(node: PlanNode, shape: ListSpec, number: int) -> AgentName | None:
    """The agent that an item names, in any case of its letters; else the node's own."""
    name = shape.named(number, node.by)
    if not name or name in node.agents:
        return AgentName(name) if name else node.agent
    alike = [agent for agent in node.agents if agent.casefold() == name.strip().casefold()]
    return alike[0] if len(alike) == 1 else AgentName(name)


def _agent_errors(
    node: PlanNode, shape: ListSpec, who: Sequence[AgentName | None]
) -> Iterator[str]:
    """What is wrong with the agents that items name."""
    known = listed(node.agents, "or")
    for number, name in enumerate(who, 1):
        if shape.named(number, node.by) is None:  # what it says is a fault already
            continue
        if name is None:
            yield f"{shape.called(number)} names no agent at {node.by!r}: it may be {known}"
        elif name not in node.agents:
            yield (
                f"{shape.called(number)} names the agent {name!r}, which is none of its phase: "
                f"it may be {known}"
            )


def next_ready_item(
    left: Sequence[int], after: Sequence[Sequence[int]], at_work: Iterable[int]
) -> int | None:
    """The next item that may start: the first whose own are done; none where all must wait.

    Args:
        left: Those that are not started, in order.
        after: By item: those that it waits for, see `crewlog.state.item_specs.packed`.
        at_work: Those that are started and not done.
    """
    undone = sorted({*left, *at_work})
    return next((number for number in left if not has_any_of(after[number - 1], undone)), None)
