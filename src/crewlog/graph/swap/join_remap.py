"""What a swap does to the nodes of the next graph: each waits, starts, or is passed.

What is done does not depend on the graph: `Routing.arrivals` counts how often each node has arrived
at what follows it, and `Routing.generations` what the count was when a join's generation started.
So it follows for every join of the next graph how often it is complete, and `Routing.firings` says
how often it has run. The nodes are handled in the order of the edges, each by the first rule that
applies:

| the node | what happens |
| --- | --- |
| waits for the same sources, none of them passed | nothing |
| replaces a node that has steps | it starts in their place |
| has run without its join in this generation | nothing |
| is complete less often than it has fired | its steps that have not started wait again |
| is complete as often as it ran, or has its steps back | nothing |
| is kept, and waits for sources | it starts, unless it is passed and only passed sources arrived |
| is kept, is an entry point now, and has run | it starts if it was still to come |
| is back, and complete more often than it ran | it starts |
| has run already, or a node after it has started | it is passed: it counts as done |
| any other | it starts |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from crewlog.definition.phases import reachable
from crewlog.graph.joins import Counts, complete_generations, counts_at
from crewlog.graph.loops import Loops, forward_edges
from crewlog.graph.plan import GraphPlan, Join, PlanNode
from crewlog.ids import NodeName, StepId, node_of, step_id
from crewlog.state.model import CrewState, FrontierStep

NO_JOIN = Join(of=(), need=1)


def has_started(entry: FrontierStep, state: CrewState) -> bool:
    """Whether a step has started; one that only asks people about its requirement has not."""
    if entry.turn is not None or entry.child_steps is not None or entry.status == "running":
        return True
    if entry.deadline and not entry.requirement:  # its timer is set
        return True
    interrupts = state.interrupts.values() if entry.status == "interrupted" else ()
    return any(each.step == entry.step and each.kind == "ask" for each in interrupts)


class JoinRemap:
    """The nodes of a run in its next graph.

    Args:
        old: The current plan.
        new: The next plan.
        state: The state of the run.
        kept: The nodes that are the same in both.
        frontier: The steps in the new graph, before any of them is retracted.
        displaced: The steps whose nodes this change removes or replaces.
        reattached: The steps of the frontier whose nodes this change brings back.
    """

    def __init__(
        self,
        old: GraphPlan,
        new: GraphPlan,
        state: CrewState,
        *,
        kept: frozenset[NodeName],
        frontier: Mapping[StepId, FrontierStep],
        displaced: Iterable[FrontierStep],
        reattached: Iterable[FrontierStep],
    ) -> None:
        self._old, self._new, self._state, self._kept = old, new, state, kept
        self._displaced = [entry for entry in displaced if entry.parent is None]
        self.ahead = forward_edges(new)
        self.frontier = dict(frontier)
        self._before = before = state.routing
        self.routing = before.model_copy(
            update={
                "arrivals": dict(before.arrivals),
                "generations": dict(before.generations),
                "firings": dict(before.firings),
            }
        )
        """The routing in the next graph."""
        for entry in self._displaced:
            self._add_firings(entry.node, -entry.by_join)
        for entry in reattached:
            self._add_firings(entry.node, entry.by_join)
        current = [e.node for e in state.frontier.values() if not e.is_detached]
        self._was_upcoming = _reachable_nodes(current, forward_edges(old))
        self._upcoming: set[str] | None = None
        self.retracted: list[StepId] = []
        self.reached: list[NodeName] = []
        """Nodes that start."""
        self.replaced: list[NodeName] = []
        """Nodes that start in the place of steps that no join had started."""
        self.passed = [*before.passed]
        """Nodes that the run has passed: they do not start, and count as done."""
        self.repeated: list[NodeName] = []
        """New nodes that do not start, since a node of their name has run already."""
        for name in _in_order(new.nodes, self.ahead):
            self._remap(name)
        for name in old.nodes:
            if name not in new.nodes:
                self._count_new_sources(name)

    @property
    def starts(self) -> list[NodeName]:
        """All nodes that start."""
        return [*self.reached, *self.replaced]

    @property
    def generations(self) -> dict[NodeName, Counts]:
        """The changed counts of sources at the start of joins' generations."""
        before = self._before.generations
        after = self.routing.generations
        return {name: starts for name, starts in after.items() if starts != before.get(name)}

    def retracted_count(self, name: NodeName) -> int:
        """How many steps of a node were retracted."""
        return sum(node_of(step) == name for step in self.retracted)

    # -- nodes -------------------------------------------------------------------------------

    def _remap(self, name: NodeName) -> None:
        join, is_kept = _join(self._new.nodes[name]), name in self._kept
        if self._is_unchanged(name, join):
            return
        if name in self.passed:
            self.passed.remove(name)
            self.routing.arrivals[name] -= 1
        self._count_new_sources(name)
        complete = self._complete_generations(name)
        fired = self.routing.firings.get(name, 0)
        runs = fired + self._before.sent.get(name, 0)
        completed = self._before.completed.get(name, 0)
        is_visited = self._state.visits.get(name, 0) > 0
        displaced = [entry.by_join for entry in self._displaced if entry.node == name]
        has_steps = any(entry.node == name for entry in self.frontier.values())
        if displaced and not (is_kept or has_steps):
            fires = max(0, min(complete - fired, sum(displaced)))
            self._start(name, fires)
            waits = sum(displaced) - fires if self._can_still_fire(name, join) else 0
            self.replaced += [name] * (len(displaced) - fires - waits)
        elif runs > fired and (is_kept or has_steps):  # also a branch, a handoff or people ran it
            pass
        elif join.of and complete < fired:
            self._retract_steps(name, join, complete)
        elif complete <= runs or (has_steps and not is_kept):
            pass
        elif is_kept and name not in self._before.passed and (join.of or is_visited):
            is_met = is_visited or self._complete_generations(name, without=self.passed) > runs
            is_due = is_met or not self._is_passed(name)
            self._start(name, is_due if join.of else name in self._was_upcoming)
        elif not is_kept and is_visited and complete > max(runs, completed):
            self._start(name, complete - max(runs, completed))
        elif completed or self._is_passed(name):
            self.passed.append(name)
            self.routing.arrivals[name] = self.routing.arrivals.get(name, 0) + 1
        else:
            self._start(name, 1)
        if complete and completed and not (is_kept or has_steps or name in self.starts):
            self.repeated.append(name)

    def _is_unchanged(self, name: NodeName, join: Join) -> bool:
        old, new = self._old.nodes.get(name), self._new.nodes[name]
        if name not in self._kept or old is None or (old.join, old.entry) != (new.join, new.entry):
            return False
        return {name, *join.of}.isdisjoint({*self._before.passed, *self.passed})

    def _start(self, name: NodeName, times: int) -> None:
        self.reached += [name] * times
        self._add_firings(name, max(0, times))
        self._upcoming = None

    def _add_firings(self, name: NodeName, count: int) -> None:
        self.routing.firings[name] = max(0, self.routing.firings.get(name, 0) + count)

    def _is_passed(self, name: NodeName) -> bool:
        """Whether a node after this one has started."""
        steps = self.frontier.values()
        waiting = {e.node for e in steps if not has_started(e, self._state)} | {*self.starts}
        started = {e.node for e in steps if has_started(e, self._state)}
        started |= {node for node, count in self._before.completed.items() if count > 0}
        seen: set[str] = {name}
        stack = [*self.ahead.get(name, ())]
        while stack:
            node = stack.pop()
            if node in seen or node in waiting:  # the nodes after a waiting one have not run
                continue
            if node in started:
                return True
            seen.add(node)
            stack += self.ahead.get(node, ())
        return False

    def _is_upcoming(self, name: NodeName) -> bool:
        """Whether a node, or a node before it, is in the frontier or starts."""
        if self._upcoming is None:
            current = [entry.node for entry in self.frontier.values()]
            self._upcoming = _reachable_nodes([*current, *self.starts], self.ahead)
        return name in self._upcoming

    # -- joins -------------------------------------------------------------------------------

    def _complete_generations(self, name: NodeName, without: Collection[NodeName] = ()) -> int:
        """How often a join is complete, without the arrivals of passed nodes if these are given."""
        node = self._new.nodes[name]
        if node.join is None:
            return int(node.entry)
        counts = counts_at(name, node.join.of, self.routing)
        if all(count is None for count in counts.values()):  # was a step removed before it?
            former = {*_join(self._old.nodes.get(name)).of} - {*self._new.nodes}
            return int(not former.isdisjoint(self._was_upcoming))
        for source in {*without} & {*node.join.of}:
            counts[source] = (counts[source] or 1) - 1
        return max(0, complete_generations(node.join, counts))

    def _count_new_sources(self, name: NodeName) -> None:
        """Sets the counts of a join's new sources. Former sources keep theirs: they may return."""
        before, after = _join(self._old.nodes.get(name)), _join(self._new.nodes.get(name))
        counts = {**dict.fromkeys(before.of, 0), **self._before.generations.get(name, {})}
        counts |= {s: self._new_source_count(name, s) for s in after.of if s not in counts}
        if {*counts} != {*after.of} or any(count != 0 for count in counts.values()):
            self.routing.generations[name] = counts

    def _new_source_count(self, name: NodeName, source: NodeName) -> int | None:
        """The count from which a join counts a new source's arrivals; None: it counts as done.

        A source that will run again has not arrived, unless the join has fired before. In a later
        generation of a loop, a source outside of it makes nothing run.
        """
        before = self._before
        total, fired = self.routing.arrivals.get(source, 0), self.routing.firings.get(name, 0)
        starts = [each[source] for each in before.generations.values() if source in each]
        if None not in starts and total <= max(filter(None, starts), default=0):
            return total
        is_done = not self._is_upcoming(source)
        if is_done and before.completed.get(name, 0) > fired + before.sent.get(name, 0):
            bodies = [body for body, _ in Loops(self._old).loop_bodies if name in body]
            if bodies and not any(source in body for body in bodies):
                return None
        return total - max(min(fired, before.completed.get(source, 0)), is_done)

    def _retract_steps(self, name: NodeName, join: Join, complete: int) -> None:
        """Retracts steps of a join that is not complete any more, unless it would stay so.

        If the join waits for former sources again, a step that a change started is retracted in any
        case: it was not due before that change.
        """
        arrived = any((c or 0) > complete for c in counts_at(name, join.of, self.routing).values())
        is_asked = arrived or not self._before.completed.get(name, 0)
        is_back = {*join.of} <= {*self._before.generations.get(name, {})}
        while self.routing.firings[name] > complete:
            steps = [entry for entry in self.frontier.values() if entry.node == name]
            number = self._state.visits.get(name, 0) - self.retracted_count(name)
            if not steps or not steps[-1].by_join or steps[-1].step != step_id(name, number):
                return
            if steps[-1].status == "interrupted" or has_started(steps[-1], self._state):
                return
            is_undone = is_back and steps[-1].by_change
            if not (is_undone or is_asked or self._can_still_fire(name, join)):
                return
            del self.frontier[steps[-1].step]
            self.retracted.append(steps[-1].step)
            self._add_firings(name, -1)
            self._upcoming = None

    def _can_still_fire(self, name: NodeName, join: Join) -> bool:
        """Whether enough sources of a join have arrived or will arrive for it to fire again."""
        counts = counts_at(name, join.of, self.routing)
        pending = {source: count for source, count in counts.items() if count is not None}
        complete = complete_generations(join, counts)
        coming = [s for s, count in pending.items() if count > complete or self._is_upcoming(s)]
        return len(coming) >= max(1, join.need - len(counts) + len(pending))


def _join(node: PlanNode | None) -> Join:
    return NO_JOIN if node is None or node.join is None else node.join


def _reachable_nodes(start: Iterable[NodeName], ahead: Mapping[str, Iterable[str]]) -> set[str]:
    """Nodes, and all nodes after them."""
    found: set[str] = set()
    for name in start:
        if name not in found:
            found |= reachable(name, ahead)
    return found


def _in_order(names: Iterable[NodeName], ahead: Mapping[str, Iterable[str]]) -> list[NodeName]:
    """The nodes in the order of the edges, as far as there is no cycle."""
    seen: set[str] = set()
    found: list[NodeName] = []
    for start in reversed([*names]):
        stack: list[tuple[NodeName, bool]] = [(start, False)]
        while stack:
            name, is_done = stack.pop()
            if is_done:
                found.append(name)
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                stack += [(NodeName(t), False) for t in ahead.get(name, ()) if t not in seen]
    return found[::-1]
