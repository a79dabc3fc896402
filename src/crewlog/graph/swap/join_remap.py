"""What becomes of the joins of a run that goes on with another graph.

The run has come to some place in the old graph: arrivals have been counted at its joins, some of
which have fired. In the new graph a join may wait for other sources, or for more or fewer of them.
Three things are told apart:

- `arrivals` stay the truth, however often the graph changes: what has come since the generation
  began. A source that leaves a join is still counted there (the engine does so for every source
  that a join has a count for), so that a graph that comes back finds what has come meanwhile. A
  source that nobody has counted has come once if it is done and will not come again.
- What has fired has fired. Where the new join is not met as often as the old one, and its node has
  begun, what still comes belongs to the generation that has run: `fired` says so.
- Where a loop has begun a new generation at a join, a new source that is outside of that loop and
  has come counts as done, as it would if the join had always waited for it: it makes nothing run.
- A visit that has not begun is taken back where the new join is not met: it waits again.

Nodes are looked at in the order of the ways forward, since what one of them does (it starts, it
waits again, the run has passed it) decides what its followers wait for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from crewlog.definition.phases import reachable
from crewlog.graph.joins import complete_generations, dependents, times_met
from crewlog.graph.loops import Loops, forward_edges
from crewlog.graph.plan import GraphPlan, Join
from crewlog.ids import NodeName, StepId
from crewlog.state.model import CrewState, FrontierStep

Counts = dict[NodeName, int]
NO_JOIN = Join(of=(), need=1)


def has_begun(entry: FrontierStep, state: CrewState) -> bool:
    """Whether a visit has done something; being asked whether it may begin is nothing."""
    if entry.turn is not None or entry.child_steps is not None or entry.status == "running":
        return True
    if entry.deadline and not entry.requirement:  # its timer is set
        return True
    asked = state.interrupts.values() if entry.status == "interrupted" else ()
    return any(question.step == entry.step and question.kind == "ask" for question in asked)


class JoinRemap:
    """The joins of a new graph, for a run that comes from another one.

    Args:
        old: The plan that the run has.
        new: The plan that it is to have.
        state: Where it is.
        kept: The nodes that are the same in both.
        frontier: The visits that the new graph has, before any of them is taken back.
        displaced: Nodes whose visits belong to another node of the same name: how many of these
            have not begun.
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
        self._before = state.frontier
        self._kept = kept
        self._displaced = displaced
        self._followed = {name for name, targets in dependents(old).items() if targets}
        self.ahead = forward_edges(new)
        self._before_or_back = frontier
        self.frontier = dict(frontier)
        self.retracted: list[StepId] = []
        self.reached: list[NodeName] = []
        self.passed: list[NodeName] = []
        """New nodes that would start if the run were not beyond them: they count as done."""
        self.repeated: list[NodeName] = []
        """New nodes that would start if they, or others of their names, had not run already."""
        self.arrivals: dict[NodeName, Counts] = {}
        """The arrivals at joins, where they are others than before."""
        self.fired: dict[NodeName, int] = {}
        """How often joins have fired that are others now, or are gone."""
        self.base: dict[NodeName, tuple[NodeName, ...]] = {}
        """The sources that count as done at joins, where they are more than before."""
        self._loops = Loops(old)
        self._coming: set[str] | None = None
        self._came: set[str] | None = None
        for name in _in_order(new.nodes, self.ahead):
            if name in kept:
                self._keep(name)
            else:
                self._add(name)
        for name, node in old.nodes.items():
            if name not in new.nodes and node.join is not None:
                fired = max(0, self._times_fired(name, node.join) - self._unstarted_count(name))
                self._note(name, self._counted(name, node.join, NO_JOIN), fired)

    def retracted_count(self, name: NodeName) -> int:
        """How many steps of a node wait again."""
        return sum(self._before_or_back[step].node == name for step in self.retracted)

    def is_coming(self, name: str) -> bool:
        """Whether a node is under way, or a node is that it comes after."""
        if self._coming is None:
            self._coming = set()
            for node in {entry.node for entry in self.frontier.values()} | {*self.reached}:
                if node not in self._coming:
                    self._coming |= reachable(node, self.ahead)
        return name in self._coming

    def _was_coming(self, name: str) -> bool:
        """The same in the old graph."""
        if self._came is None:
            ahead = forward_edges(self._old)
            here = {entry.node for entry in self._before.values() if not entry.is_detached}
            self._came = {found for node in here for found in reachable(node, ahead)}
        return name in self._came

    # -- nodes -------------------------------------------------------------------------------

    def _keep(self, name: NodeName) -> None:
        before, after = self._old.nodes[name].join, self._new.nodes[name].join
        changed = before != after or self._old.nodes[name].entry != self._new.nodes[name].entry
        if not changed and not (after and {*after.of} & {*self.passed}):
            return
        fired = self._times_fired(name, before)
        visited = self._visits.get(name, 0) > 0
        counts = self._counted(name, before or NO_JOIN, after or NO_JOIN, fired)
        if after is None:
            if self._new.nodes[name].entry and not fired:
                if not visited:
                    self._begin(name)
                elif before is not None and any(self._was_coming(s) for s in before.of):
                    self._reach(name)  # it waited once more for what it waits for no longer
            self._note(name, counts, fired + (name in self.reached))
            return
        now = complete_generations(after, counts, self._satisfied_sources_of(name))
        # A node that was sent to ran without its join, which then makes it run no more.
        sent = self._routing.sent.get(name, 0) if before is not None else 0
        if now > fired and not sent and not (before is None and visited):
            if not visited and self._is_met_by_passed(name, after, counts, fired):
                return
            self._reach(name)
        elif now < fired and not sent:
            fired = self._retract_steps(name, after, counts, fired)
        self._note(name, counts, fired if now < fired else 0)

    def _is_met_by_passed(self, name: NodeName, join: Join, counts: Counts, fired: int) -> bool:
        """Whether only nodes that the run is beyond would make one run that it is beyond, too."""
        came = {source: count for source, count in counts.items() if source not in self.passed}
        return complete_generations(
            join, came, self._satisfied_sources_of(name)
        ) <= fired and self._is_passed(name)

    def _add(self, name: NodeName) -> None:
        node = self._new.nodes[name]
        replaced = self._old.nodes.get(name)
        join = node.join or NO_JOIN
        before = (replaced.join if replaced else None) or NO_JOIN
        fired = self._routing.fired.get(name, 0)
        if replaced is not None:
            fired = self._times_fired(name, replaced.join)
        # Visits that have not begun stand for having fired: some go, and some come back.
        fired = max(0, fired - self._unstarted_count(name))
        back = [e for e in self.frontier.values() if e.node == name]
        sent = self._routing.sent.get(name, 0)
        if not sent:
            fired = self._times_fired_with_returning(
                name, fired, sum(not has_begun(e, self._state) for e in back)
            )
        counts = self._counted(name, before, join, fired)
        now = complete_generations(join, counts, self._satisfied_sources_of(name))
        if back:  # it comes back with what it had, but for what has to wait again
            if now < fired and not sent:
                fired = self._retract_steps(name, join, counts, fired)
            self._note(name, counts, fired if now < fired else 0)
            return
        self._note(name, counts, fired if now < fired else 0)
        if name in self._displaced and not self._unstarted_count(name):
            self._reach(name)
        elif node.entry if node.join is None else now > 0:
            if now > fired and self._visits.get(name, 0) > 0:
                for _ in range(now - fired):  # visits that were taken away, or have come since
                    self._reach(name)
            else:
                self._begin(name)

    def _begin(self, name: NodeName) -> None:
        """Starts a node that the run has not had, unless it is beyond it."""
        if self._routing.completed.get(name, 0) > 0:
            self.repeated.append(name)
        elif self._is_passed(name):
            self.passed.append(name)
        else:
            self._reach(name)

    def _reach(self, name: NodeName) -> None:
        self.reached.append(name)
        self._coming = None

    def _is_passed(self, name: NodeName) -> bool:
        """Whether something that comes after a node has begun."""
        here = self.frontier.values()
        waiting = {e.node for e in here if not has_begun(e, self._state)} | {*self.reached}
        begun = {e.node for e in here if has_begun(e, self._state)}
        begun |= {node for node, count in self._routing.completed.items() if count > 0}
        seen: set[str] = {name}
        stack = [*self.ahead.get(name, ())]
        while stack:
            node = stack.pop()
            if node in seen or node in waiting:  # what waits has what is behind it still to come
                continue
            if node in begun:
                return True
            seen.add(node)
            stack += self.ahead.get(node, ())
        return False

    # -- joins -------------------------------------------------------------------------------

    def _counted(self, name: NodeName, before: Join, after: Join, fired: int = 0) -> Counts:
        """The arrivals at a join, with those of sources that have not been counted there yet."""
        counts = dict(self._routing.arrivals.get(name, {}))
        for source in before.of:
            if source not in after.of:  # from now on it is counted only where it has a count
                counts.setdefault(source, 0)
        for source in after.of:
            if source in self._displaced:  # what it owes is not brought any more
                counts[source] = max(0, counts.get(source, 0))
            if source in self.passed:
                counts[source] = max(1, counts.get(source, 0))
            elif source not in counts and source not in before.of:
                if self._is_outside_loop(name, before, source):
                    self.base[name] = (*self._satisfied_sources_of(name), source)
                else:
                    counts[source] = self._arrivals_of(source, fired)
        return counts

    def _satisfied_sources_of(self, name: NodeName) -> tuple[NodeName, ...]:
        """The sources that count as done at a join."""
        return self.base.get(name, self._routing.completed_before.get(name, ()))

    def _is_outside_loop(self, name: NodeName, before: Join, source: NodeName) -> bool:
        """Whether a new source is done and outside of the loop that a join was begun anew by."""
        base = self._routing.completed_before.get(name)
        if base is None or self.is_coming(source) or not self._has_continued(source):
            return False
        bodies = [
            body
            for body, joins in self._loops.loop_bodies
            if name in joins and {s for s in joins[name] if s in self._routing.completed} == {*base}
        ]
        return bool(bodies) and not any(source in body for body in bodies)

    def _arrivals_of(self, source: NodeName, fired: int) -> int:
        """How often a source has come to a join that has not counted it, and has fired so often."""
        if fired and self._has_continued(source):
            return min(fired, self._routing.completed.get(source, 0))
        return 1 if self._has_continued(source) and not self.is_coming(source) else 0

    def _has_continued(self, source: NodeName) -> bool:
        """Whether a source is done, and has gone on to what follows it."""
        done = self._routing.completed.get(source, 0)
        if done == 0:
            return False
        if source in self._followed:
            # Decisions, answers and hand-offs may have gone elsewhere.
            arrivals, base = self._routing.arrivals, self._routing.completed_before
            return any(counts.get(source, 0) > 0 for counts in arrivals.values()) or any(
                source in named for named in base.values()
            )
        return done > self._routing.loops.get(source, 0)

    def _times_fired(self, name: NodeName, before: Join | None) -> int:
        """How often the old join of a node has made it run in this generation."""
        if before is None and name in self._routing.arrivals:  # it had a join before that
            return self._routing.fired.get(name, 0)
        if before is None:
            return 1 if self._visits.get(name, 0) > 0 else 0
        # Where a change made a join lower, it may be met for a node that was only ever sent to.
        by_join = self._visits.get(name, 0) - self._routing.sent.get(name, 0)
        return min(times_met(before, name, self._routing), max(0, by_join))

    def _times_fired_with_returning(self, name: NodeName, fired: int, back: int) -> int:
        """How often a join has fired, with visits that come back and have not begun.

        Some of them may be of an earlier generation, whose arrivals are counted no more: a join
        fires no more often than the source that has come most.
        """
        arrivals = self._routing.arrivals.get(name)
        most = fired + back if arrivals is None else max(arrivals.values(), default=0)
        return max(fired, min(fired + back, most))

    def _unstarted_count(self, name: NodeName) -> int:
        """How often a node was reached by its join, and did not begin before it was taken away."""
        by_join = not self._routing.sent.get(name, 0)
        return self._displaced.get(name, 0) if by_join else 0

    def _retract_steps(self, name: NodeName, join: Join, counts: Counts, fired: int) -> int:
        """Takes visits back that have not begun, as far as the join is not met; how often it was.

        Not where the rest of the join could not come, and nobody would be asked about it.
        """
        now = complete_generations(join, counts, self._satisfied_sources_of(name))
        if not self._may_still_fire(name, join, counts):
            return fired
        while fired > now:
            visits = [s for s, e in self.frontier.items() if e.node == name]
            last = visits[-1] if visits else None
            number = self._visits.get(name, 0) - self.retracted_count(name)
            if last is None or last != f"{name}#{number}":
                break
            visit = self.frontier[last]
            if visit.status == "interrupted" or has_begun(visit, self._state):
                break
            del self.frontier[last]
            self.retracted.append(last)
            self._coming = None
            fired -= 1
        return fired

    def _may_still_fire(self, name: NodeName, join: Join, counts: Counts) -> bool:
        """Whether a node that is not met fires later, or else people are asked about it."""
        base = {*self._satisfied_sources_of(name)} & {*join.of}
        now = complete_generations(join, counts, (*base,))
        some = [s for s in join.of if s not in base and counts.get(s, 0) > now]
        others = [s for s in join.of if s not in base and s not in some and self.is_coming(s)]
        can_fill = len(some) + len(others) >= max(1, join.need - len(base))
        return can_fill or bool(some) or self._routing.completed.get(name, 0) == 0

    def _note(self, name: NodeName, counts: Counts, fired: int) -> None:
        if counts != self._routing.arrivals.get(name, {}):
            self.arrivals[name] = counts
        if fired != self._routing.fired.get(name, 0):
            self.fired[name] = fired


def _in_order(names: Iterable[NodeName], ahead: Mapping[str, Iterable[str]]) -> list[NodeName]:
    """Nodes, each after those that it comes after, as far as there is no cycle."""
    seen: set[str] = set()
    found: list[NodeName] = []
    for start in reversed([*names]):
        stack: list[tuple[NodeName, bool]] = [(start, False)]
        while stack:
            name, left = stack.pop()
            if left:
                found.append(name)
            elif name not in seen:
                seen.add(name)
                stack.append((name, True))
                stack += [(NodeName(t), False) for t in ahead.get(name, ()) if t not in seen]
    return found[::-1]
