"""The agent of each item of a list and the items that it waits for, as the items themselves state.

A model or people wrote the list, so it may have any error. The whole list is checked before the
first child step starts: it is better to ask people about it than to stop half way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from crewlog.definition.findings import listed
from crewlog.graph.plan import PlanNode
from crewlog.ids import AgentName
from crewlog.state.item_specs import ERRORS_KEPT, ListSpec, has_any_of


class ItemOrder(NamedTuple):
    """The agents of a list's items, and their order."""

    agents: tuple[AgentName, ...] = ()
    """The agents; empty: the node's."""
    owners: tuple[int, ...] = ()
    """By item: the index of its agent in `agents`."""
    after: tuple[tuple[int, ...], ...] = ()
    """By item: the items that it waits for, see `crewlog.state.item_specs.pack_numbers`; empty:
    none waits for another."""
    errors: tuple[str, ...] = ()
    """The errors of the list, for people; with one, no step starts."""


NO_ORDER = ItemOrder()


def item_order(node: PlanNode, spec: ListSpec | None, count: int) -> ItemOrder:
    """The agents of a list's items, and their order.

    Args:
        node: The node with a child step for each item.
        spec: What the items state; none: nothing.
        count: The number of items.
    """
    if spec is None and node.by:
        spec = ListSpec()
    if spec is None or not (node.by or spec.after or spec.errors):
        return NO_ORDER
    errors = list(spec.errors)
    names: list[AgentName] = []
    if node.by:
        agents = [_agent(node, spec, number) for number in range(1, count + 1)]
        errors += _agent_errors(node, spec, agents) if node.by in spec.owners or not errors else ()
        names = [each or AgentName("") for each in agents]
    if errors:
        more = len(errors) - ERRORS_KEPT + spec.more
        reported = errors[:ERRORS_KEPT] + ([f"and {more:,} more"] if more > 0 else [])
        return ItemOrder(errors=tuple(reported))
    distinct = tuple(dict.fromkeys(names))
    owners = tuple(map({name: at for at, name in enumerate(distinct)}.__getitem__, names))
    return ItemOrder(distinct, owners, spec.after)


def _agent(node: PlanNode, spec: ListSpec, number: int) -> AgentName | None:
    """The agent that an item names, also in another case of letters; else the node's."""
    name = spec.named(number, node.by)
    if not name or name in node.agents:
        return AgentName(name) if name else node.agent
    matches = [agent for agent in node.agents if agent.casefold() == name.strip().casefold()]
    return matches[0] if len(matches) == 1 else AgentName(name)


def _agent_errors(
    node: PlanNode, spec: ListSpec, agents: Sequence[AgentName | None]
) -> Iterator[str]:
    """The errors in the agents that items name."""
    known = listed(node.agents, "or")
    for number, name in enumerate(agents, 1):
        if spec.named(number, node.by) is None:  # `spec.errors` has it
            continue
        if name is None:
            yield f"{spec.called(number)} names no agent at {node.by!r}: it may be {known}"
        elif name not in node.agents:
            yield (
                f"{spec.called(number)} names the agent {name!r}, which is none of its phase: "
                f"it may be {known}"
            )


def next_ready_item(
    unstarted: Sequence[int], after: Sequence[Sequence[int]], running: Iterable[int]
) -> int | None:
    """The first item whose dependencies are done; none if all items wait.

    Args:
        unstarted: The items that have not started, in order.
        after: By item: the items that it waits for, see `crewlog.state.item_specs.pack_numbers`.
        running: The items that have started and are not done.
    """
    pending = sorted({*unstarted, *running})
    return next(
        (number for number in unstarted if not has_any_of(after[number - 1], pending)), None
    )
