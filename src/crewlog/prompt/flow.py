"""The phases of a crew by name, with what each waits for, and how they are written as a flow.

`lower` makes the phases of a reading's steps, waits, questions, loops and uses. `flow_of` writes
them in the short form: an item names its sources only where these are not the item before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from crewlog.definition.conditions import Condition
from crewlog.definition.model import (
    SENT_ONLY,
    After,
    AgentPhase,
    AskPhase,
    BuilderPhase,
    DecisionPhase,
    FlowItem,
    JoinAny,
    JoinQuorum,
    ParallelPhase,
    WaitPhase,
)
from crewlog.model import Json


@dataclass
class Sources:
    """What a phase waits for: `need` of the phases `of`; none at all means the run's start."""

    of: list[str] = field(default_factory=list[str])
    need: int = 0

    @classmethod
    def all(cls, of: Sequence[str]) -> Sources:
        """All of some phases, once each."""
        names = list(dict.fromkeys(of))
        return cls(names, len(names))

    def same(self, other: Sources) -> bool:
        """Whether both wait for the same."""
        return set(self.of) == set(other.of) and self.need == other.need


@dataclass
class Node:
    """A phase."""

    name: str
    kind: Literal["agent", "decide", "ask", "use", "wait"]
    sources: Sources
    clauses: tuple[int, ...]
    agent: str = ""
    agents: tuple[str, ...] = ()
    """The agents of a builder's part, the one that ends it first."""
    task: str = ""
    only_if: Condition | None = None
    when: Condition | None = None
    needs: tuple[str, ...] = ()
    for_each: str | None = None
    within: float | None = None
    """Seconds that it waits for `when` at most."""
    otherwise: str | None = None
    """What holds then: a phase's name, `skip`, or `ask_human`."""
    timeout: float | None = None
    """Seconds that its step may take at most."""
    on_error: str | None = None
    """What happens where its step fails: a phase's name, `ask`, or `continue`."""
    sent: bool = False
    """Whether it starts only where another phase gives way to it."""
    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    """What else a decision, a question, a wait or a builder's part has."""
    named: bool = False
    """Whether the name must be written; else it follows from the place in the flow."""
    path: tuple[str | int, ...] = ()
    """Where it stands in the reading."""
    gate: bool = False
    """Whether it is a question about one phase: what follows the phase waits for the answer."""


def flow_of(
    nodes: Sequence[Node], tasks: bool
) -> tuple[list[FlowItem], dict[str, tuple[int, ...]]]:
    """The flow, and where in it each phase is written.

    Args:
        nodes: The phases in order.
        tasks: Whether phases have tasks of their own.
    """
    items: list[FlowItem] = []
    places: dict[str, tuple[int, ...]] = {}
    previous = Sources()
    groups = _groups(nodes)
    for i, group in enumerate(groups):
        names = [node.name for node in group]
        if len(group) == 1:
            node = group[0]
            places[node.name] = (len(items),)
            items.append(_item(node, previous, tasks))
            previous = Sources.all(names)
            continue
        for j, node in enumerate(group):
            places[node.name] = (len(items), j)
        following = groups[i + 1][0].sources if i + 1 < len(groups) else None
        parts = tuple(_part(_item(node, previous, tasks)) for node in group)
        if following is not None and set(following.of) == set(names) != set():
            need = following.need
        else:
            need = len(names)
        if need != len(names):
            for node in group:
                places[node.name] = (places[node.name][0], -1 - group.index(node))
            join: Any = "any" if need == 1 else need
            items.append(ParallelPhase(parallel=parts, join=join))
        else:
            items.append(parts)
        previous = Sources(names, need)
    return items, places


def _groups(nodes: Sequence[Node]) -> list[list[Node]]:
    """Phases that wait for the same together; decisions and builders' parts stand alone."""
    groups: list[list[Node]] = []
    for node in nodes:
        alone = node.kind in {"decide", "use"} or node.gate or node.sent
        last = groups[-1] if groups else None
        if last is not None and not alone and _is_beside(last[-1], node):
            last.append(node)
        else:
            groups.append([node])
    return groups


def _is_beside(one: Node, other: Node) -> bool:
    alike = one.kind == other.kind or {one.kind, other.kind} == _BESIDE
    free = one.kind not in {"decide", "use"} and not one.gate and not one.sent
    return alike and free and one.sources.same(other.sources)


_BESIDE = {"agent", "wait"}
"""Kinds of phases that are side by side with each other."""


def _part(item: FlowItem) -> str | AgentPhase | AskPhase | WaitPhase:
    if isinstance(item, str | AgentPhase | AskPhase | WaitPhase):
        return item
    raise TypeError(f"{item!r} cannot be side by side with others")


def _item(node: Node, previous: Sources, tasks: bool) -> FlowItem:
    after = None if node.sources.same(previous) else _after(node.sources)
    if node.sent:
        after = SENT_ONLY
    name = node.name if node.named else None
    match node.kind:
        case "agent":
            phase = AgentPhase.model_validate(
                _given(
                    agent=node.agent,
                    phase=name,
                    task=node.task if tasks and node.task else None,
                    after=after,
                    when=node.when,
                    only_if=node.only_if,
                    needs=node.needs,
                    for_each=node.for_each,
                    within=node.within,
                    otherwise=node.otherwise,
                    timeout=node.timeout,
                    on_error=node.on_error,
                )
            )
            plain = phase == AgentPhase(agent=node.agent)
            return node.agent if plain else phase
        case "ask":
            return AskPhase.model_validate(
                _given(phase=name, after=after, only_if=node.only_if, **node.fields)
            )
        case "wait":
            return WaitPhase.model_validate(
                _given(phase=name, after=after, only_if=node.only_if, **node.fields)
            )
        case "decide":
            return DecisionPhase.model_validate(_given(phase=name, after=after, **node.fields))
        case "use":
            return BuilderPhase.model_validate(_given(phase=name, after=after, **node.fields))


def _given(**fields: Json) -> dict[str, Json]:
    return {
        {"if_": "if", "with_": "with", "otherwise": "else"}.get(k, k): v
        for k, v in fields.items()
        if v is not None and (v != () or k == "after")
    }


def _after(sources: Sources) -> After:
    of = tuple(sources.of)
    if not of:
        return ()
    if sources.need == len(of):
        return of[0] if len(of) == 1 else of
    return JoinAny(any=of) if sources.need == 1 else JoinQuorum(quorum=sources.need, of=of)
