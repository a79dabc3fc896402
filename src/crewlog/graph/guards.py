"""Where a flow asks people, and which of its nodes and names decide whether it does.

    [author, {if: not risky, go: publisher}, {ask: Publish?, sets: ok}, {if: not ok, go: end},
     publisher]
    asks people: the question; decides: both decisions, by `risky` and `ok`

A decision counts where one of its ways leads past a question to what another way asks about, and
where it reads an answer. What comes before a question on every way does not: a loop of drafts
leads to the question, however often it goes round. A decision that asks once it is used up is a
question, too.

A question lets nobody pass here: what is reached from a node is what the run comes to from there
with nobody asked. What is left of a plan is what is behind a question on every way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import reduce

from crewlog.authority.guards import ConditionNames, condition_names
from crewlog.definition.conditions import Condition, facts_in
from crewlog.graph.joins import dependents
from crewlog.graph.plan import ASK_HUMAN, GraphPlan, PlanNode
from crewlog.ids import FlagName, NodeName
from crewlog.state.model import Routing

Nodes = frozenset[NodeName]
LARGEST = 200
"""Nodes of a plan beyond which each of its decisions counts as one that leads past a question: to
look at every way of each would take a workflow's task too long."""


class PlanGuards:
    """What a plan's flow asks people, looked up as often as somebody needs it."""

    def __init__(self, plan: GraphPlan) -> None:
        """Looks at a plan."""
        self._plan = plan
        self._joins = dependents(plan)
        self._jumps = {
            name: tuple(NodeName(each) for _, each in node.sends if each in plan.nodes)
            for name, node in plan.nodes.items()
        }
        self._bits = {name: 1 << number for number, name in enumerate(plan.nodes)}
        self._before: dict[NodeName, int] = {}
        self._after: dict[NodeName, Nodes] = {}
        asks = ((name, node.ask) for name, node in plan.nodes.items() if node.ask is not None)
        self.answers: dict[FlagName, NodeName] = {
            ask.sets: name for name, ask in asks if ask.sets is not None
        }
        """The flags that answers set, with the questions."""

    def questions(self, routing: Routing | None = None) -> Nodes:
        """The nodes that ask people.

        Args:
            routing: Where the run is: of decisions, only those count that are used up by then.
        """
        return frozenset(
            name for name, node in self._plan.nodes.items() if _asks(name, node, routing)
        )

    def deciding(self) -> Nodes:
        """The nodes that ask people, or decide whether that is done or what comes of it."""
        found = self.questions()
        if not found:
            return found
        read = {n for n in self._plan.nodes if self._decides(n) and self._reads_an_answer(n)}
        # Decisions that follow one another are one: each says something of what comes of it.
        then = {n for name in read for n in self._next(name) if self._is_branch(n)}
        found |= read | then
        rest = [name for name in self._plan.nodes if self._decides(name)]
        if len(self._plan.nodes) > LARGEST:
            return found.union(rest)
        while more := {n for n in rest if n not in found and self._bypasses_guard(n, found)}:
            found |= more
        return found

    def names(self) -> ConditionNames:
        """What the conditions read that decide whether people are asked, or what comes of it."""
        nodes = self.deciding()
        read = (n for n in self._plan.nodes if n in nodes or self._reads_an_answer(n))
        return condition_names(
            each for name in read for each in _conditions(self._plan.nodes[name])
        )

    def behind(self, nodes: Nodes) -> Nodes:
        """The nodes to which every way leads through one of some nodes."""
        begin = [name for name, node in self._plan.nodes.items() if node.entry]
        return frozenset(self._plan.nodes) - self.reached(begin, nodes)

    def unasked(self, begin: Collection[NodeName], routing: Routing) -> Nodes:
        """The nodes that a run comes to with nobody asked, and else only behind a question.

        Questions that are asked for certain are none of them, nor decisions: what follows is.

        Args:
            begin: Where it goes on.
            routing: What has arrived at joins by then.
        """
        asks = self.questions(routing)
        found = self.reached(begin, asks, _arrived(routing)) & self.behind(asks)
        return frozenset(name for name in found if self._has_effect(name, asks))

    def nodes_before_guards(self, begin: Collection[NodeName], routing: Routing) -> Nodes:
        """The nodes that a run comes to before it is decided whether people are asked.

        Args:
            begin: Where it goes on.
            routing: What has arrived at joins by then.
        """
        return self.reached(begin, self.deciding(), _arrived(routing))

    def reached(
        self,
        begin: Iterable[NodeName],
        closed: Collection[NodeName] = (),
        came: Callable[[NodeName, NodeName], bool] = lambda join, source: False,
    ) -> Nodes:
        """The nodes that are reached from some nodes, these among them.

        Args:
            begin: The nodes.
            closed: Nodes that let nobody pass.
            came: Whether a source counts as arrived at a join, whatever is reached.
        """
        found = {name for name in begin if name in self._plan.nodes}
        todo, passed = sorted(found), set[NodeName]()
        while todo:
            name = todo.pop()
            if name in closed:
                continue
            passed.add(name)
            joins = (j for j in self._joins[name] if self._is_met(j, passed, came))
            more = [each for each in (*self._jumps[name], *joins) if each not in found]
            found.update(more)
            todo += more
        return frozenset(found)

    def _has_effect(self, name: NodeName, asks: Nodes) -> bool:
        """Whether a node does something, or may let the run pass where it asks people."""
        node = self._plan.nodes[name]
        if node.ask is not None:
            return node.only_if is not None
        return (node.decide is None and node.route is None) or name in asks

    def _is_branch(self, name: NodeName) -> bool:
        node = self._plan.nodes[name]
        return node.decide is not None or node.route is not None

    def _is_met(
        self,
        name: NodeName,
        passed: Collection[NodeName],
        came: Callable[[NodeName, NodeName], bool],
    ) -> bool:
        join = self._plan.nodes[name].join
        return join is not None and join.need <= sum(
            source in passed or came(name, source) for source in join.of
        )

    def _next(self, name: NodeName) -> tuple[NodeName, ...]:
        """The nodes that follow a node by any way."""
        return (*self._jumps[name], *self._joins[name])

    def _all_successors(self, name: NodeName) -> Nodes:
        """All that can follow a node, whatever joins wait for besides."""
        if name not in self._after:
            found = self.reached(self._next(name), (), lambda join, source: True)
            self._after[name] = found
        return self._after[name]

    def _decides(self, name: NodeName) -> bool:
        """Whether a node has several ways, of which a condition takes one."""
        node = self._plan.nodes[name]
        if node.decide is not None:
            return not node.decide.passes
        if node.route is not None:
            return True
        return node.ask is None and bool(self._jumps[name])

    def _reads_an_answer(self, name: NodeName) -> bool:
        conditions = _conditions(self._plan.nodes[name])
        return any(fact.name in self.answers for each in conditions for fact in facts_in(each))

    def _bypasses_guard(self, name: NodeName, closed: Nodes) -> bool:
        """Whether one way out of a node comes to what another one only asks about."""
        # What every way to it leads through was asked, or has been, before it decides.
        ahead = frozenset(each for each in closed if not self._dominates(each, name))

        def came(join: NodeName, source: NodeName) -> bool:
            # Other lanes come by themselves.
            return source == name or source not in self._all_successors(name)

        on = [each for each in self._joins[name] if self._is_met(each, (), came)]
        ways = [on, *([each] for each in self._jumps[name])]
        unasked = [self.reached(begin, ahead, came) for begin in ways]
        none = frozenset[NodeName]()
        asked = (
            none.union(*(self._all_successors(each) for each in own & ahead)) - own
            for own in unasked
        )
        gained = none.union(*asked) & none.union(*unasked)
        return any(not self._dominates(each, name) for each in gained)

    def _dominates(self, one: NodeName, other: NodeName) -> bool:
        """Whether every way to a node leads through another one, or it is that."""
        if not self._before:
            self._before = self._all_dominators()
        return bool(self._before[other] & self._bits[one])

    def _all_dominators(self) -> dict[NodeName, int]:
        """For each node the bits of those that every way to it leads through, and its own.

        The greatest solution, as in `crewlog.authority.guards`.
        """
        sources: dict[NodeName, list[NodeName]] = {name: [] for name in self._plan.nodes}
        for name, targets in self._jumps.items():
            for target in targets:
                sources[target].append(name)
        every = (1 << len(self._bits)) - 1
        found = dict.fromkeys(self._plan.nodes, every)
        while True:
            was = dict(found)
            for name, node in self._plan.nodes.items():
                ways = [0] * node.entry + [found[each] for each in sources[name]]
                if node.join is not None:
                    ways.append(_brought([found[each] for each in node.join.of], node.join.need))
                found[name] = self._bits[name] | reduce(int.__and__, ways, every)
            if found == was:
                return found


def _brought(sources: Sequence[int], need: int) -> int:
    """The bits that whichever `need` of some sources bring along together."""
    if need == len(sources):
        return reduce(int.__or__, sources)
    # A bit is missing only where so many sources lack it.
    found = 0
    for bit in range(max(each.bit_length() for each in sources)):
        if sum(not each >> bit & 1 for each in sources) < need:
            found |= 1 << bit
    return found


def _asks(name: NodeName, node: PlanNode, routing: Routing | None) -> bool:
    decide, route = node.decide, node.route
    if route is not None:  # it asks now and then: whoever is sent on passes
        return routing is None and ASK_HUMAN in (route.otherwise, route.used_up)
    if decide is None or decide.otherwise != ASK_HUMAN:
        return node.ask is not None
    return routing is None or routing.loops.get(name, 0) >= (decide.at_most or 0)


def _arrived(routing: Routing) -> Callable[[NodeName, NodeName], bool]:
    """Whether a source has arrived at a join, or counts as if it had."""

    def came(join: NodeName, source: NodeName) -> bool:
        arrivals = routing.arrivals.get(join, {})
        return arrivals.get(source, 0) > 0 or source in routing.completed_before.get(join, ())

    return came


def _conditions(node: PlanNode) -> tuple[Condition, ...]:
    """The conditions by which a node is skipped, waits, or sends the run elsewhere."""
    found: tuple[Condition | None, ...] = (
        node.when,
        node.only_if,
        node.decide.when if node.decide is not None else None,
        node.route.reads if node.route is not None else None,
    )
    return tuple(each for each in found if each is not None)
