"""Nodes that wait in vain after a swap, and what the run then does.

Nothing may set an output that a condition reads, or the list of a node, and the sources of a join
may never run. Such a node asks people, or does what its `else` says; the report says so beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from crewlog.definition.conditions import Fact, facts_in, holds, render_condition
from crewlog.definition.findings import listed
from crewlog.definition.phases import reachable
from crewlog.graph.joins import complete_generations, counts_at
from crewlog.graph.loops import forward_edges
from crewlog.graph.plan import ASK_HUMAN, SKIP, GraphPlan, PlanAgent, PlanNode
from crewlog.ids import AgentName, FlagName, NodeName, StepId
from crewlog.model import Model
from crewlog.state.frontier import ERROR
from crewlog.state.model import CrewState, FrontierStep, Routing


class BlockedNode(Model):
    """A node that waits in vain."""

    node: NodeName
    requirement: str
    """What it waits for: a condition, a list, or sources of a join."""
    because: str
    """Why it waits in vain: `only backend sets models_ready`."""
    then: str
    """What the run will do: ask people, skip the step, or go to the stand-in."""


def blocked_nodes(
    old: GraphPlan,
    new: GraphPlan,
    state: CrewState,
    frontier: Mapping[StepId, FrontierStep],
    ahead: Mapping[str, Iterable[str]],
    routing: Routing,
) -> tuple[BlockedNode, ...]:
    """The nodes that may still run in the next graph, and would wait in vain.

    Args:
        old: The current plan.
        new: The next plan.
        state: The state of the run.
        frontier: The steps in the next graph, with the detached turns.
        ahead: The edges of the next graph, without those of loops.
        routing: The routing in the next graph.
    """
    return tuple(_BlockedNodeFinder(old, new, state, frontier, ahead, routing).find())


class _BlockedNodeFinder:
    def __init__(
        self,
        old: GraphPlan,
        new: GraphPlan,
        state: CrewState,
        frontier: Mapping[StepId, FrontierStep],
        ahead: Mapping[str, Iterable[str]],
        routing: Routing,
    ) -> None:
        self._old = old
        self._new = new
        self._state = state
        self._routing = routing
        self._current = {
            e.node for e in frontier.values() if e.node in new.nodes and not e.is_detached
        }
        self._may_run: set[str] = set()
        for name in self._current:
            if name not in self._may_run:
                self._may_run |= reachable(name, ahead)
        self._could_run: set[str] = set()
        before = forward_edges(old)
        for name in {e.node for e in state.frontier.values() if not e.is_detached}:
            self._could_run |= reachable(name, before)
        self._detached_turns = [
            (node, {agent: old.plan_agent_of(entry, agent) for agent in node.agents})
            for entry in frontier.values()
            if entry.is_detached or entry.node not in new.nodes
            for node in (old.node_of(entry),)
        ]

    def find(self) -> Iterator[BlockedNode]:
        for name, node in self._new.nodes.items():
            if name in self._may_run:
                yield from self._check_condition(name, node)
                yield from self._check_list(name, node)
                yield from self._check_join(name, node)

    def _check_condition(self, name: NodeName, node: PlanNode) -> Iterator[BlockedNode]:
        if node.when is None or self._has_started(name) or self._holds(node):
            return
        facts = list(facts_in(node.when))
        if any(self._is_set_by(fact, name) for fact in facts):
            return
        then = "people are asked"
        if node.otherwise == SKIP:
            then = "it is skipped"
        elif node.otherwise != ASK_HUMAN:
            then = f"it gives way to {node.otherwise}"
        yield BlockedNode(
            node=name,
            requirement=render_condition(node.when),
            because=listed([self._missing_setter_reason(fact) for fact in facts]),
            then=then,
        )

    def _holds(self, node: PlanNode) -> bool:
        outputs = {
            agent: {key: output.value for key, output in found.items()}
            for agent, found in self._state.agent_outputs.items()
        }
        flags = {**self._new.flags, **self._state.flags}
        return node.when is not None and holds(node.when, flags, outputs)

    def _has_started(self, name: NodeName) -> bool:
        """Whether a step of a node has started, and so waits for nothing."""
        return any(
            entry.node == name and (entry.turn is not None or entry.child_steps is not None)
            for entry in self._state.frontier.values()
        )

    def _is_set_by(self, fact: Fact, waiting: NodeName) -> bool:
        """Whether a node that may still run sets what a condition reads."""
        for name, node in self._new.nodes.items():
            if name == waiting or name not in self._may_run:
                continue
            if _sets(node, self._new.agents, fact):
                return True
        # A detached turn keeps the settings of its agents.
        return any(_sets(node, agents, fact) for node, agents in self._detached_turns)

    def _missing_setter_reason(self, fact: Fact) -> str:
        what = f"{fact.agent}.{fact.name}" if fact.agent else fact.name
        setters = [
            name
            for plan in (self._old, self._new)
            for name, node in plan.nodes.items()
            if _sets(node, plan.agents, fact)
        ]
        if not setters:
            return f"nobody sets {what}"
        return f"only {listed(list(dict.fromkeys(setters)))} sets {what}, and will not run"

    def _check_list(self, name: NodeName, node: PlanNode) -> Iterator[BlockedNode]:
        if node.for_each is None or self._has_started(name):
            return
        agent, _, key = node.for_each.partition(".")
        fact = Fact(agent=agent, name=key)
        outputs = {str(a): found for a, found in self._state.agent_outputs.items()}
        if key in outputs.get(agent, {}) or self._is_set_by(fact, name):
            return
        because = self._missing_setter_reason(fact)
        yield BlockedNode(
            node=name, requirement=node.for_each, because=because, then="people are asked"
        )

    def _check_join(self, name: NodeName, node: PlanNode) -> Iterator[BlockedNode]:
        if node.join is None or name in self._current:
            return
        counts = counts_at(name, node.join.of, self._routing)
        fired = max(complete_generations(node.join, counts), self._routing.firings.get(name, 0))
        pending = {source: count for source, count in counts.items() if count is not None}
        arrived = [source for source, count in pending.items() if count > fired]
        missing = [s for s in pending if s not in arrived and s not in self._may_run]
        if len(pending) - len(missing) >= max(1, node.join.need - len(counts) + len(pending)):
            return
        if fired and not arrived:
            return  # it has run, and nothing has arrived since
        before = self._old.nodes.get(name)
        if before == node and not {*missing} & self._could_run:
            return  # the change is not the cause
        yield BlockedNode(
            node=name,
            requirement=listed(missing),
            because=f"{listed(missing)} will not run",
            then="people are asked",
        )


def _sets(node: PlanNode, agents: Mapping[AgentName, PlanAgent], fact: Fact) -> bool:
    """Whether a node may set what a condition reads: an output or a run output."""
    if node.ask is not None and node.ask.sets == fact.name:
        return True
    return any(
        _agent_sets(name, settings, node, fact)
        for name in node.agents
        if (settings := agents.get(name)) is not None and settings.enabled
    )


def _agent_sets(agent: AgentName, settings: PlanAgent, node: PlanNode, fact: Fact) -> bool:
    if FlagName(fact.name) in settings.flags:
        return True
    is_declared = fact.name in settings.outputs or fact.name == "text"
    policy = node.on_error or settings.on_error
    is_error = fact.name == ERROR and policy not in ("ask", "fail")
    return fact.agent == agent and (is_declared or is_error)
