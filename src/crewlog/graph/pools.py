"""Which agent takes the step of an item, and after which others: read from the items themselves.

A list is made by a model, or by people, so everything can be wrong with it. All of it is looked at
before the first step starts: a plan of which half is done and the rest cannot be is worse than one
that people are asked about.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from crewlog.definition.findings import did_you_mean, listed
from crewlog.graph.plan import PlanNode
from crewlog.ids import AgentName
from crewlog.state.shapes import Shape

FAULTS_TOLD = 5
"""Faults of a list that are told, at most."""


class Order(NamedTuple):
    """Who works on a list's items, and in which order."""

    agents: tuple[AgentName, ...] = ()
    """The agents; empty: the node's."""
    whose: tuple[int, ...] = ()
    """By item: which of them, from 0."""
    after: tuple[tuple[int, ...], ...] = ()
    """By item: the items that it waits for; empty: none waits for another."""
    faults: tuple[str, ...] = ()
    """What is wrong, for people: then no step starts."""


NO_ORDER = Order()


def order_of(node: PlanNode, shapes: Sequence[Shape]) -> Order:
    """Who works on the items of a list, and in which order.

    Args:
        node: The node that has a step for each of them.
        shapes: What they say; empty: nothing.
    """
    waits = any(shape.after for shape in shapes)
    if not node.by and not waits:
        return NO_ORDER
    faults = list(_faults(node, shapes))
    numbers = {shape.id: number for number, shape in enumerate(shapes, 1) if shape.id}
    after = tuple(tuple(sorted(numbers[i] for i in s.after if i in numbers)) for s in shapes)
    if not faults and (circle := _circle(after)):
        faults.append(_circle_words(circle, shapes))
    if faults:
        more = len(faults) - FAULTS_TOLD
        told = faults[:FAULTS_TOLD] + ([f"and {more} more"] if more > 0 else [])
        return Order(faults=tuple(told))
    agents: tuple[AgentName, ...] = ()
    whose: tuple[int, ...] = ()
    if node.by:
        named = [_agent(node, shape) or AgentName("") for shape in shapes]
        agents = tuple(dict.fromkeys(named))
        whose = tuple(map({name: at for at, name in enumerate(agents)}.__getitem__, named))
    return Order(agents, whose, after if waits else ())


def _agent(node: PlanNode, shape: Shape) -> AgentName | None:
    """The agent that an item names, in any case of its letters; else the node's own."""
    name = shape.named.get(node.by, "") if node.by else ""
    if not name or name in node.agents:
        return AgentName(name) if name else node.agent
    alike = [agent for agent in node.agents if agent.casefold() == name.strip().casefold()]
    return alike[0] if len(alike) == 1 else AgentName(name)


def _faults(node: PlanNode, shapes: Sequence[Shape]) -> Iterator[str]:
    """What is wrong with single items."""
    first: dict[str, int] = {}
    ids = {shape.id for shape in shapes if shape.id}
    for number, shape in enumerate(shapes, 1):
        said = _called(number, shape)
        if shape.fault:
            yield f"{said}: {shape.fault}"
            continue
        if shape.id and first.setdefault(shape.id, number) != number:
            yield f"items {first[shape.id]} and {number} have the same id {shape.id!r}"
        if node.by:
            yield from _agent_fault(node, said, shape)
        for other in shape.after:
            if other not in ids:
                near = did_you_mean(other, ids)
                yield f"{said} waits for {other!r}, which no item has as its id. {near}".rstrip(
                    " ."
                )


def _agent_fault(node: PlanNode, said: str, shape: Shape) -> Iterator[str]:
    name = _agent(node, shape)
    known = listed(node.agents, "or")
    if name is None:
        yield f"{said} names no agent at {node.by!r}: it may be {known}"
    elif name not in node.agents:
        yield f"{said} names the agent {name!r}, which is none of its phase: it may be {known}"


def _called(number: int, shape: Shape) -> str:
    return f"item {number} ({shape.id!r})" if shape.id else f"item {number}"


def _circle(after: Sequence[Sequence[int]]) -> list[int]:
    """Items that wait for each other in a circle, in order; empty where there are none."""
    open_ = {number: set(waits) for number, waits in enumerate(after, 1)}
    behind: dict[int, list[int]] = {}
    for number, waits in open_.items():
        for each in waits:
            behind.setdefault(each, []).append(number)
    ready = [number for number, waits in open_.items() if not waits]
    while ready:
        done = ready.pop()
        del open_[done]
        for number in behind.get(done, ()):
            open_[number].discard(done)
            if not open_[number]:
                ready.append(number)
    if not open_:
        return []
    way = [min(open_)]  # each of those left waits for another one that is left
    while (following := min(open_[way[-1]])) not in way:
        way.append(following)
    return way[way.index(following) :]


def _circle_words(circle: Sequence[int], shapes: Sequence[Shape]) -> str:
    names = [repr(shapes[number - 1].id) for number in circle]
    if len(names) == 1:
        return f"item {circle[0]} ({names[0]}) waits for itself"
    shown = [*names[:6], "…"] if len(names) > 6 else names
    return f"items wait for each other in a circle: {' after '.join([*shown, names[0]])}"


def ready(
    left: Sequence[int], after: Sequence[Sequence[int]], at_work: Mapping[int, object]
) -> int | None:
    """The next item that may start: the first whose own are done; none where all must wait.

    Args:
        left: Those that are not started, in order.
        after: By item: those that it waits for.
        at_work: Those that are started and not done.
    """
    waiting = {*left}
    for number in left:
        if not any(each in waiting or each in at_work for each in after[number - 1]):
            return number
    return None
