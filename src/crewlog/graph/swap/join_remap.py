"""How a swap moves the joins of a run to another graph.

The old graph has counted arrivals at its joins, and some joins have fired. In the new graph a join
may wait for other sources, or for more or fewer of them.

- `arrivals` count what has arrived since the generation started, however often the graph changes. A
  source that is removed from a join is still counted there, so that it counts if the join gets it
  back. A new source has arrived once if it is completed and will not run again.
- A join that has fired is not undone. If the new join is met less often than the old one has fired,
  and its node has started, `fired` keeps later arrivals from making it run again.
- In a later generation of a loop, a new source outside of the loop that has arrived counts as
  completed before the generation: it makes nothing run.
- A step that has not started is retracted if the new join is not met: its node waits again.

The nodes are handled in the order of the edges, because the result of a node (it starts, waits
again, or the run has passed it) decides what the nodes after it wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crewlog.definition.phases import reachable
from crewlog.graph.joins import complete_generations, dependents, times_met
from crewlog.graph.loops import Loops, forward_edges
from crewlog.graph.plan import GraphPlan, Join
from crewlog.ids import NodeName, StepId, step_id
from crewlog.state.model import CrewState, FrontierStep

Counts = dict[NodeName, int]
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
    """The joins of a run in its next graph.

    Args:
        old: The current plan.
        new: The next plan.
        state: The state of the run.
        kept: The nodes that are the same in both.
        frontier: The steps in the new graph, before any of them is retracted.
        displaced: The nodes whose steps belong to another node of the same name, each with the
            number of these steps that have not started.
    """

    def __init__(
        self,
        old: GraphPlan,
        new: GraphPlan,
        state: CrewState,
        *,
        kept: frozenset[NodeName],
        frontier: Mapping[StepId, FrontierStep],
        displaced: Mapping[NodeName, int],
    ) -> None:
        self._old = old
        self._new = new
        self._state = state
        self._visits = state.visits
        self._routing = state.routing
        self._old_frontier = state.frontier
        self._kept = kept
        self._displaced = displaced
        self._have_dependents = {name for name, targets in dependents(old).items() if targets}
        self.ahead = forward_edges(new)
        self._given_frontier = frontier
        self.frontier = dict(frontier)
        self.retracted: list[StepId] = []
        self.reached: list[NodeName] = []
        self.passed: list[NodeName] = []
        """New nodes that would start if the run had not passed them; they count as completed."""
        self.repeated: list[NodeName] = []
        """New nodes that would start if a node of their name had not run already."""
        self.arrivals: dict[NodeName, Counts] = {}
        """The arrivals at joins, where they change."""
        self.fired: dict[NodeName, int] = {}
        """How often changed and removed joins have fired."""
        self.completed_before: dict[NodeName, tuple[NodeName, ...]] = {}
        """The sources that count as completed before a join's generation, where they change."""
        self._loops = Loops(old)
        self._upcoming: set[str] | None = None
        self._old_upcoming: set[str] | None = None
        for name in _in_order(new.nodes, self.ahead):
            if name in kept:
                self._remap_kept_node(name)
            else:
                self._remap_new_node(name)
        for name, node in old.nodes.items():
            if name not in new.nodes and node.join is not None:
                fired = max(0, self._times_fired(name, node.join) - self._unstarted_count(name))
                self._set_counts(name, self._count_arrivals(name, node.join, NO_JOIN), fired)

    def retracted_count(self, name: NodeName) -> int:
        """How many steps of a node were retracted."""
        return sum(self._given_frontier[step].node == name for step in self.retracted)

    def is_upcoming(self, name: str) -> bool:
        """Whether a node, or a node before it, is in the frontier or starts."""
        if self._upcoming is None:
            self._upcoming = set()
            for node in {entry.node for entry in self.frontier.values()} | {*self.reached}:
                if node not in self._upcoming:
                    self._upcoming |= reachable(node, self.ahead)
        return name in self._upcoming

    def _was_upcoming(self, name: str) -> bool:
        """Whether a node, or a node before it, is in the old frontier."""
        if self._old_upcoming is None:
            ahead = forward_edges(self._old)
            nodes = {entry.node for entry in self._old_frontier.values() if not entry.is_detached}
            self._old_upcoming = {found for node in nodes for found in reachable(node, ahead)}
        return name in self._old_upcoming

    # -- nodes -------------------------------------------------------------------------------

    def _remap_kept_node(self, name: NodeName) -> None:
        before, after = self._old.nodes[name].join, self._new.nodes[name].join
        changed = before != after or self._old.nodes[name].entry != self._new.nodes[name].entry
        if not changed and not (after and {*after.of} & {*self.passed}):
            return
        fired = self._times_fired(name, before)
        visited = self._visits.get(name, 0) > 0
        counts = self._count_arrivals(name, before or NO_JOIN, after or NO_JOIN, fired)
        if after is None:
            if self._new.nodes[name].entry and not fired:
                if not visited:
                    self._start_unless_passed(name)
                elif before is not None and any(self._was_upcoming(s) for s in before.of):
                    self._reach(name)  # it was waiting for another arrival at its former join
            self._set_counts(name, counts, fired + (name in self.reached))
            return
        now = complete_generations(after, counts, self._completed_sources_of(name))
        # A branch or a handoff made the node run without its join, which then does not fire.
        sent = self._routing.sent.get(name, 0) if before is not None else 0
        if now > fired and not sent and not (before is None and visited):
            if not visited and self._is_met_by_passed(name, after, counts, fired):
                return
            self._reach(name)
        elif now < fired and not sent:
            fired = self._retract_steps(name, after, counts, fired)
        self._set_counts(name, counts, fired if now < fired else 0)

    def _is_met_by_passed(self, name: NodeName, join: Join, counts: Counts, fired: int) -> bool:
        """Whether only passed nodes meet the join of a node that the run has passed, too."""
        others = {source: count for source, count in counts.items() if source not in self.passed}
        return complete_generations(
            join, others, self._completed_sources_of(name)
        ) <= fired and self._is_passed(name)

    def _remap_new_node(self, name: NodeName) -> None:
        node = self._new.nodes[name]
        replaced = self._old.nodes.get(name)
        join = node.join or NO_JOIN
        before = (replaced.join if replaced else None) or NO_JOIN
        fired = self._routing.fired.get(name, 0)
        if replaced is not None:
            fired = self._times_fired(name, replaced.join)
        # The join fired once for each step that has not started: some go, and some are reattached.
        fired = max(0, fired - self._unstarted_count(name))
        reattached = [e for e in self.frontier.values() if e.node == name]
        sent = self._routing.sent.get(name, 0)
        if not sent:
            fired = self._times_fired_with_reattached(
                name, fired, sum(not has_started(e, self._state) for e in reattached)
            )
        counts = self._count_arrivals(name, before, join, fired)
        now = complete_generations(join, counts, self._completed_sources_of(name))
        if reattached:  # its steps continue, apart from those that are retracted
            if now < fired and not sent:
                fired = self._retract_steps(name, join, counts, fired)
            self._set_counts(name, counts, fired if now < fired else 0)
            return
        self._set_counts(name, counts, fired if now < fired else 0)
        if name in self._displaced and not self._unstarted_count(name):
            self._reach(name)
        elif node.entry if node.join is None else now > 0:
            if now > fired and self._visits.get(name, 0) > 0:
                for _ in range(now - fired):  # steps that were removed, or are new
                    self._reach(name)
            else:
                self._start_unless_passed(name)

    def _start_unless_passed(self, name: NodeName) -> None:
        """Starts a node that has not run, unless the run has passed it."""
        if self._routing.completed.get(name, 0) > 0:
            self.repeated.append(name)
        elif self._is_passed(name):
            self.passed.append(name)
        else:
            self._reach(name)

    def _reach(self, name: NodeName) -> None:
        self.reached.append(name)
        self._upcoming = None

    def _is_passed(self, name: NodeName) -> bool:
        """Whether a node after this one has started."""
        steps = self.frontier.values()
        waiting = {e.node for e in steps if not has_started(e, self._state)} | {*self.reached}
        started = {e.node for e in steps if has_started(e, self._state)}
        started |= {node for node, count in self._routing.completed.items() if count > 0}
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

    # -- joins -------------------------------------------------------------------------------

    def _count_arrivals(self, name: NodeName, before: Join, after: Join, fired: int = 0) -> Counts:
        """The arrivals at a join, with those of its new sources."""
        counts = dict(self._routing.arrivals.get(name, {}))
        for source in before.of:
            if source not in after.of:  # a removed source is counted further once it has a count
                counts.setdefault(source, 0)
        for source in after.of:
            if source in self._displaced:  # steps of the removed node do not arrive any more
                counts[source] = max(0, counts.get(source, 0))
            if source in self.passed:
                counts[source] = max(1, counts.get(source, 0))
            elif source not in counts and source not in before.of:
                if self._is_outside_loop(name, before, source):
                    self.completed_before[name] = (*self._completed_sources_of(name), source)
                else:
                    counts[source] = self._arrivals_of(source, fired)
        return counts

    def _completed_sources_of(self, name: NodeName) -> tuple[NodeName, ...]:
        """The sources that count as completed before the generation of a join."""
        return self.completed_before.get(name, self._routing.completed_before.get(name, ()))

    def _is_outside_loop(self, name: NodeName, before: Join, source: NodeName) -> bool:
        """Whether a new source is completed, and outside of the loop of the join's generation."""
        base = self._routing.completed_before.get(name)
        if base is None or self.is_upcoming(source) or not self._has_continued(source):
            return False
        bodies = [
            body
            for body, joins in self._loops.loop_bodies
            if name in joins and {s for s in joins[name] if s in self._routing.completed} == {*base}
        ]
        return bool(bodies) and not any(source in body for body in bodies)

    def _arrivals_of(self, source: NodeName, fired: int) -> int:
        """How often a source has arrived at a join that did not count it before."""
        if fired and self._has_continued(source):
            return min(fired, self._routing.completed.get(source, 0))
        return 1 if self._has_continued(source) and not self.is_upcoming(source) else 0

    def _has_continued(self, source: NodeName) -> bool:
        """Whether a source is completed, and the run continued with the nodes after it."""
        completed = self._routing.completed.get(source, 0)
        if completed == 0:
            return False
        if source in self._have_dependents:
            # Branches, answers and handoffs may have sent the run elsewhere.
            arrivals, before = self._routing.arrivals, self._routing.completed_before
            return any(counts.get(source, 0) > 0 for counts in arrivals.values()) or any(
                source in sources for sources in before.values()
            )
        return completed > self._routing.loops.get(source, 0)

    def _times_fired(self, name: NodeName, before: Join | None) -> int:
        """How often the old join of a node has fired in this generation."""
        if before is None and name in self._routing.arrivals:  # it had a join in an earlier graph
            return self._routing.fired.get(name, 0)
        if before is None:
            return 1 if self._visits.get(name, 0) > 0 else 0
        # A change may have lowered the join of a node that only branches and handoffs reached.
        by_join = self._visits.get(name, 0) - self._routing.sent.get(name, 0)
        return min(times_met(before, name, self._routing), max(0, by_join))

    def _times_fired_with_reattached(self, name: NodeName, fired: int, reattached: int) -> int:
        """How often a join has fired, with the reattached steps that have not started.

        Some of them may be of an earlier generation, which `arrivals` does not count: a join fires
        at most as often as its most frequent source arrives.
        """
        arrivals = self._routing.arrivals.get(name)
        most = fired + reattached if arrivals is None else max(arrivals.values(), default=0)
        return max(fired, min(fired + reattached, most))

    def _unstarted_count(self, name: NodeName) -> int:
        """How often the join of a removed node fired without its step starting."""
        by_join = not self._routing.sent.get(name, 0)
        return self._displaced.get(name, 0) if by_join else 0

    def _retract_steps(self, name: NodeName, join: Join, counts: Counts, fired: int) -> int:
        """Retracts steps that have not started while the join is not met; returns its firings.

        None is retracted if the join could never fire again without a question about it.
        """
        now = complete_generations(join, counts, self._completed_sources_of(name))
        if not self._may_still_fire(name, join, counts):
            return fired
        while fired > now:
            steps = [s for s, e in self.frontier.items() if e.node == name]
            last = steps[-1] if steps else None
            number = self._visits.get(name, 0) - self.retracted_count(name)
            if last is None or last != step_id(name, number):
                break
            entry = self.frontier[last]
            if entry.status == "interrupted" or has_started(entry, self._state):
                break
            del self.frontier[last]
            self.retracted.append(last)
            self._upcoming = None
            fired -= 1
        return fired

    def _may_still_fire(self, name: NodeName, join: Join, counts: Counts) -> bool:
        """Whether a join fires later, or people are asked about it."""
        before = {*self._completed_sources_of(name)} & {*join.of}
        now = complete_generations(join, counts, (*before,))
        rest = [s for s in join.of if s not in before]
        arrived = [s for s in rest if counts.get(s, 0) > now]
        upcoming = [s for s in rest if s not in arrived and self.is_upcoming(s)]
        can_fire = len(arrived) + len(upcoming) >= max(1, join.need - len(before))
        return can_fire or bool(arrived) or self._routing.completed.get(name, 0) == 0

    def _set_counts(self, name: NodeName, counts: Counts, fired: int) -> None:
        if counts != self._routing.arrivals.get(name, {}):
            self.arrivals[name] = counts
        if fired != self._routing.fired.get(name, 0):
            self.fired[name] = fired


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
