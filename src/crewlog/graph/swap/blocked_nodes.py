"""What cannot come any more in a run that goes on with another graph, and what the run then does.

Three things can be missing: what a condition looks at, the sources of a join, and the list of a
node that has a step for each item. A run that meets one of them asks people, or does what the
node's `else` says, and never ends without a word; here it is told beforehand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from crewlog.definition.conditions import Fact, facts_in, holds, render_condition
from crewlog.definition.findings import listed
from crewlog.definition.phases import reachable
from crewlog.graph.joins import times_met
from crewlog.graph.loops import forward_edges
from crewlog.graph.plan import ASK_HUMAN, SKIP, GraphPlan, PlanAgent, PlanNode
from crewlog.ids import AgentName, FlagName, NodeName, StepId
from crewlog.model import Model
from crewlog.state.frontier import ERROR
from crewlog.state.model import CrewState, FrontierStep, Routing


class BlockedNode(Model):
    """Something that cannot come any more."""

    node: NodeName
    """Who waits for it."""
    requirement: str
    """What: a condition, or sources of a join."""
    because: str
    """Why it cannot come: `only backend sets models_ready`."""
    then: str
    """What the run will do: ask people, skip, or take the declared alternative."""


def blocked_nodes(
    old: GraphPlan,
    new: GraphPlan,
    state: CrewState,
    frontier: Mapping[StepId, FrontierStep],
    ahead: Mapping[str, Iterable[str]],
    routing: Routing,
) -> tuple[BlockedNode, ...]:
    """What cannot come in the new graph, though nodes that may still run wait for it.

    Args:
        old: The plan that the run has: who could have brought it.
        new: The plan that it is to have.
        state: Where it is.
        frontier: The visits that it goes on with, those that end their turns among them.
        ahead: The ways forward in the new graph.
        routing: What has arrived where, in the new graph.
    """
    return tuple(_BlockedNodes(old, new, state, frontier, ahead, routing).found())


class _BlockedNodes:
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
        self._here = {
            e.node for e in frontier.values() if e.node in new.nodes and not e.is_detached
        }
        self._may_run: set[str] = set()
        for name in self._here:
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

    def found(self) -> Iterator[BlockedNode]:
        for name, node in self._new.nodes.items():
            if name in self._may_run:
                yield from self._condition(name, node)
                yield from self._list(name, node)
                yield from self._join(name, node)

    def _condition(self, name: NodeName, node: PlanNode) -> Iterator[BlockedNode]:
        if node.when is None or self._has_begun(name) or self._holds(node):
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
            because=listed([self._why(fact) for fact in facts]),
            then=then,
        )

    def _holds(self, node: PlanNode) -> bool:
        outputs = {
            agent: {key: output.value for key, output in found.items()}
            for agent, found in self._state.agent_outputs.items()
        }
        flags = {**self._new.flags, **self._state.flags}
        return node.when is not None and holds(node.when, flags, outputs)

    def _has_begun(self, name: NodeName) -> bool:
        """Whether a node is at work already: what it waits for has come."""
        return any(
            entry.node == name and (entry.turn is not None or entry.child_steps is not None)
            for entry in self._state.frontier.values()
        )

    def _is_set_by(self, fact: Fact, waiting: NodeName) -> bool:
        """Whether somebody may still set what a condition looks at."""
        for name, node in self._new.nodes.items():
            if name == waiting or name not in self._may_run:
                continue
            if _sets(node, self._new.agents, fact):
                return True
        # A visit that ends its turn has the rules that its agent had.
        return any(_sets(node, rules, fact) for node, rules in self._detached_turns)

    def _why(self, fact: Fact) -> str:
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

    def _list(self, name: NodeName, node: PlanNode) -> Iterator[BlockedNode]:
        if node.for_each is None or self._has_begun(name):
            return
        agent, _, key = node.for_each.partition(".")
        fact = Fact(agent=agent, name=key)
        outputs = {str(a): found for a, found in self._state.agent_outputs.items()}
        if key in outputs.get(agent, {}) or self._is_set_by(fact, name):
            return
        because = self._why(fact)
        yield BlockedNode(
            node=name, requirement=node.for_each, because=because, then="people are asked"
        )

    def _join(self, name: NodeName, node: PlanNode) -> Iterator[BlockedNode]:
        if node.join is None or name in self._here:
            return
        base = {*self._routing.completed_before.get(name, ())} & {*node.join.of}
        counts = self._routing.arrivals.get(name, {})
        ran = times_met(node.join, name, self._routing)
        waits = [s for s in node.join.of if s not in base]
        come = [s for s in waits if counts.get(s, 0) > ran]
        missing = [s for s in waits if s not in come and s not in self._may_run]
        if len(waits) - len(missing) >= max(1, node.join.need - len(base)):
            return
        if ran and not come:
            return  # it has had its turn, and nothing new has come for it
        before = self._old.nodes.get(name)
        if before == node and not {*missing} & self._could_run:
            return  # so it was without the change
        yield BlockedNode(
            node=name,
            requirement=listed(missing),
            because=f"{listed(missing)} will not run",
            then="people are asked",
        )


def _sets(node: PlanNode, agents: Mapping[AgentName, PlanAgent], fact: Fact) -> bool:
    """Whether a node may set what a fact looks at: a flag, or an agent's output."""
    if node.ask is not None and node.ask.sets == fact.name:
        return True
    return any(
        _agent_sets(name, rules, node, fact)
        for name in node.agents
        if (rules := agents.get(name)) is not None and rules.enabled
    )


def _agent_sets(agent: AgentName, rules: PlanAgent, node: PlanNode, fact: Fact) -> bool:
    if FlagName(fact.name) in rules.flags:
        return True
    own = fact.name in rules.outputs or fact.name == "text"
    policy = node.on_error or rules.on_error
    return fact.agent == agent and (own or (fact.name == ERROR and policy not in ("ask", "fail")))
