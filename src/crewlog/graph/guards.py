"""The guards of a flow: its questions, and the branches that decide whether people are asked.

    [author, {if: not risky, go: publisher}, {ask: Publish?, sets: ok}, {if: not ok, go: end},
     publisher]
    question: `ask`; guards: `ask` and both branches, by `risky` and `ok`

A branch is a guard if one of its edges bypasses a question that another edge leads to, or if it
reads an answer. A branch before a question on every path is none: a loop of drafts leads to the
question after any number of rounds. A branch that asks people at its limit is a question, too.

Reachability stops at questions here: the nodes that are reached from a node are those that run
without an answer of people. All other nodes are behind a question on every path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce

from crewlog.definition.conditions import Condition, ConditionNames, condition_names, facts_in
from crewlog.graph.joins import dependents
from crewlog.graph.plan import ASK_HUMAN, GraphPlan, PlanNode
from crewlog.ids import FlagName, NodeName
from crewlog.state.model import Routing

Nodes = frozenset[NodeName]
HasArrived = Callable[[NodeName, NodeName], bool]
"""Whether a source has arrived at a join: `(join, source)`."""
LARGEST = 200
"""In a plan with more nodes every branch counts as a guard: to follow every edge of each would take
too long for a workflow task."""


class PlanGuards:
    """The guards of a plan."""

    def __init__(self, plan: GraphPlan) -> None:
        self._plan = plan
        self._joins = dependents(plan)
        self._jumps = {
            name: tuple(NodeName(each) for _, each in node.sends if each in plan.nodes)
            for name, node in plan.nodes.items()
        }
        self._bits = {name: 1 << number for number, name in enumerate(plan.nodes)}
        self._dominators: dict[NodeName, int] = {}
        self._successors: dict[NodeName, Nodes] = {}
        asks = ((name, node.ask) for name, node in plan.nodes.items() if node.ask is not None)
        self.answers: dict[FlagName, NodeName] = {
            ask.sets: name for name, ask in asks if ask.sets is not None
        }
        """The questions by the flags that their answers set."""

    def questions(self, routing: Routing | None = None) -> Nodes:
        """The nodes that ask people.

        Args:
            routing: The run's routing: then only branches at their limit count; none: all that may
                ask.
        """
        return frozenset(
            name for name, node in self._plan.nodes.items() if _is_question(name, node, routing)
        )

    def guards(self) -> Nodes:
        """The questions, and the branches that decide whether they are asked or what follows."""
        found = self.questions()
        if not found:
            return found
        readers = {n for n in self._plan.nodes if self._chooses(n) and self._reads_answer(n)}
        # Consecutive branches act as one.
        followers = {n for name in readers for n in self._targets(name) if self._is_branch(n)}
        found |= readers | followers
        branches = [name for name in self._plan.nodes if self._chooses(name)]
        if len(self._plan.nodes) > LARGEST:
            return found.union(branches)
        while more := {n for n in branches if n not in found and self._bypasses_guard(n, found)}:
            found |= more
        return found

    def names(self) -> ConditionNames:
        """The flags and outputs that decide whether people are asked, or what follows."""
        guards = self.guards()
        nodes = (n for n in self._plan.nodes if n in guards or self._reads_answer(n))
        return condition_names(
            each for name in nodes for each in _conditions(self._plan.nodes[name])
        )

    def behind(self, nodes: Nodes) -> Nodes:
        """The nodes to which every path from an entry point leads through one of some nodes."""
        entries = [name for name, node in self._plan.nodes.items() if node.entry]
        return frozenset(self._plan.nodes) - self.reached(entries, nodes)

    def unguarded(self, start: Collection[NodeName], routing: Routing) -> Nodes:
        """The nodes that run from `start` without a question, and else only after one.

        Unconditional questions and branches are left out: the nodes behind them count.

        Args:
            start: The nodes at which the run continues.
            routing: The run's routing there.
        """
        questions = self.questions(routing)
        found = self.reached(start, questions, _arrival_check(routing)) & self.behind(questions)
        return frozenset(name for name in found if self._has_effect(name, questions))

    def nodes_before_guards(self, start: Collection[NodeName], routing: Routing) -> Nodes:
        """The nodes that run before the first guard, and the guards that they reach.

        Args:
            start: The nodes at which the run continues.
            routing: The run's routing there.
        """
        return self.reached(start, self.guards(), _arrival_check(routing))

    def reached(
        self,
        start: Iterable[NodeName],
        closed: Collection[NodeName] = (),
        has_arrived: HasArrived = lambda join, source: False,
    ) -> Nodes:
        """The nodes that are reached from some nodes, including these.

        Args:
            start: The nodes.
            closed: Nodes beyond which nothing is reached.
            has_arrived: Whether a source counts as arrived at a join, even if it is not reached.
        """
        found = {name for name in start if name in self._plan.nodes}
        todo, passed = sorted(found), set[NodeName]()
        while todo:
            name = todo.pop()
            if name in closed:
                continue
            passed.add(name)
            joins = (j for j in self._joins[name] if self._is_met(j, passed, has_arrived))
            more = [each for each in (*self._jumps[name], *joins) if each not in found]
            found.update(more)
            todo += more
        return frozenset(found)

    def _has_effect(self, name: NodeName, questions: Nodes) -> bool:
        """Whether a node acts, or may be skipped although it is a question."""
        node = self._plan.nodes[name]
        if node.ask is not None:
            return node.only_if is not None
        return (node.decide is None and node.route is None) or name in questions

    def _is_branch(self, name: NodeName) -> bool:
        node = self._plan.nodes[name]
        return node.decide is not None or node.route is not None

    def _is_met(
        self,
        name: NodeName,
        passed: Collection[NodeName],
        has_arrived: HasArrived,
    ) -> bool:
        join = self._plan.nodes[name].join
        return join is not None and join.need <= sum(
            source in passed or has_arrived(name, source) for source in join.of
        )

    def _targets(self, name: NodeName) -> tuple[NodeName, ...]:
        """The targets of all edges of a node."""
        return (*self._jumps[name], *self._joins[name])

    def _all_successors(self, name: NodeName) -> Nodes:
        """All nodes that can follow a node, if other sources arrive at every join."""
        if name not in self._successors:
            found = self.reached(self._targets(name), (), lambda join, source: True)
            self._successors[name] = found
        return self._successors[name]

    def _chooses(self, name: NodeName) -> bool:
        """Whether a node chooses one of several edges."""
        node = self._plan.nodes[name]
        if node.decide is not None:
            return not node.decide.passes
        if node.route is not None:
            return True
        return node.ask is None and bool(self._jumps[name])

    def _reads_answer(self, name: NodeName) -> bool:
        conditions = _conditions(self._plan.nodes[name])
        return any(fact.name in self.answers for each in conditions for fact in facts_in(each))

    def _bypasses_guard(self, name: NodeName, guards: Nodes) -> bool:
        """Whether one edge of a node reaches a node that another edge reaches only by a guard."""
        # A guard on every path to the node has acted before it.
        ahead = frozenset(each for each in guards if not self._dominates(each, name))

        def has_arrived(join: NodeName, source: NodeName) -> bool:
            # Parallel branches arrive independently of this node.
            return source == name or source not in self._all_successors(name)

        joins = [each for each in self._joins[name] if self._is_met(each, (), has_arrived)]
        edges = [joins, *([each] for each in self._jumps[name])]
        unguarded = [self.reached(start, ahead, has_arrived) for start in edges]
        none = frozenset[NodeName]()
        guarded = (
            none.union(*(self._all_successors(each) for each in own & ahead)) - own
            for own in unguarded
        )
        both = none.union(*guarded) & none.union(*unguarded)
        return any(not self._dominates(each, name) for each in both)

    def _dominates(self, one: NodeName, other: NodeName) -> bool:
        """Whether `one` is on every path to `other`, or is `other`."""
        if not self._dominators:
            self._dominators = self._find_dominators()
        return bool(self._dominators[other] & self._bits[one])

    def _find_dominators(self) -> dict[NodeName, int]:
        """For each node the bits of the nodes on every path to it, itself included.

        The greatest fixed point, as in `crewlog.authority.guards`.
        """
        sources: dict[NodeName, list[NodeName]] = {name: [] for name in self._plan.nodes}
        for name, targets in self._jumps.items():
            for target in targets:
                sources[target].append(name)
        every = (1 << len(self._bits)) - 1
        found = dict.fromkeys(self._plan.nodes, every)
        while True:
            before = dict(found)
            for name, node in self._plan.nodes.items():
                edges = [0] * node.entry + [found[each] for each in sources[name]]
                if node.join is not None:
                    edges.append(_join_bits([found[each] for each in node.join.of], node.join.need))
                found[name] = self._bits[name] | reduce(int.__and__, edges, every)
            if found == before:
                return found


def _join_bits(sources: Sequence[int], need: int) -> int:
    """The bits that any `need` of some sources have together."""
    if need == len(sources):
        return reduce(int.__or__, sources)
    # A bit can be missing only if at least `need` sources lack it.
    found = 0
    for bit in range(max(each.bit_length() for each in sources)):
        if sum(not each >> bit & 1 for each in sources) < need:
            found |= 1 << bit
    return found


def _is_question(name: NodeName, node: PlanNode, routing: Routing | None) -> bool:
    decide, route = node.decide, node.route
    if route is not None:  # it asks only for some values: with a routing, the run may pass
        return routing is None and ASK_HUMAN in (route.otherwise, route.used_up)
    if decide is None or decide.otherwise != ASK_HUMAN:
        return node.ask is not None
    return routing is None or routing.loops.get(name, 0) >= (decide.at_most or 0)


def _arrival_check(routing: Routing) -> HasArrived:
    def has_arrived(join: NodeName, source: NodeName) -> bool:
        arrivals = routing.arrivals.get(join, {})
        return arrivals.get(source, 0) > 0 or source in routing.completed_before.get(join, ())

    return has_arrived


def _conditions(node: PlanNode) -> tuple[Condition, ...]:
    """The conditions of a node: for its start, and for its edges."""
    conditions: tuple[Condition | None, ...] = (
        node.when,
        node.only_if,
        node.decide.when if node.decide is not None else None,
        node.route.reads if node.route is not None else None,
    )
    return tuple(each for each in conditions if each is not None)
