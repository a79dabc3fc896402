"""A LangGraph `StateGraph` as a part of a crew's flow: its topology is data, so it can be read.

Nodes are agents: by their name, or by `metadata={"agent": ..., "task": ...}`. What a node's
function does is not called; the agent takes its turn. Edges become what each phase waits for.
A path must be data too: `route` and `choose` make path functions that LangGraph can run, and that
can be read here as decisions.

Several plain edges into one node mean in LangGraph: run at every superstep in which one of them
arrives. That is the same as waiting for all of them where they always arrive together, and the same
as waiting for the first where only one of them comes. Where it is neither, the node would run more
than once, and the graph is refused: `add_edge([a, b], c)` says what is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, cast

from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel

from crewlog.definition.builders import Built, Place
from crewlog.definition.conditions import AllOf, Condition, Fact, Not
from crewlog.definition.findings import did_you_mean, listed
from crewlog.definition.model import After, AgentPhase, DecisionPhase, FlowItem, JoinAny
from crewlog.definition.phases import END as RUN_END
from crewlog.definition.phases import reachable
from crewlog.errors import DefinitionError
from crewlog.graph.lowering.conditional_edges import Choice, langgraph_target

_LIST = "Write add_edge([{0}], {1!r}) to wait for all of them."
_MOST_COURSES = 4096


class UntranslatableGraph(DefinitionError):
    """A `StateGraph` that says something which is no data, or which a crew's flow cannot say."""


def translate(graph: Any, place: Place) -> Built:
    """The part of a flow that a `StateGraph` stands for.

    In an agent's pattern a node that has no agent's name is a step of that agent.

    Raises:
        UntranslatableGraph: where it says what is no data, or what a flow cannot say.
    """
    if isinstance(graph, CompiledStateGraph):
        graph = cast("Any", graph).builder
    whole: Any = graph
    if not isinstance(graph, StateGraph):
        raise UntranslatableGraph(
            f"a {type(graph).__name__} is no StateGraph", remedy="Return the StateGraph itself."
        )
    return _Translation(whole, place).built(place.phase)


class _Translation:
    def __init__(self, graph: StateGraph[Any, Any, Any, Any], place: Place) -> None:
        self.crew, self.task, self.own = place.crew, place.task, place.agent
        self.last: dict[str, str] = {}
        self.courses: list[_Path] = []
        self.specs = dict(graph.nodes)
        self.agents = {name: self._agent(name) for name in self.specs}
        order = {name: i for i, name in enumerate([START, *self.specs, END])}
        known = [*order]
        for source, target in sorted(graph.edges, key=str):
            for end in (source, target):
                if end not in order:
                    raise UntranslatableGraph(
                        f"the edge {source!r} → {target!r} leads to the node {end!r}, which is "
                        "not in the graph",
                        remedy=did_you_mean(end, known, "Add it by add_node."),
                        place=f"edge {source!r} → {target!r}",
                    )
        self.plain: dict[str, list[str]] = {name: [] for name in order}
        """The sources of plain edges, by target."""
        for source, target in sorted(graph.edges, key=lambda e: (order[e[0]], order[e[1]])):
            self.plain[target].append(source)
        self.lists: dict[str, list[tuple[str, ...]]] = {name: [] for name in order}
        for sources, target in sorted(graph.waiting_edges, key=lambda e: (order[e[1]], e[0])):
            ordered = tuple(sorted(dict.fromkeys(sources), key=lambda name: order[name]))
            self.lists[target].append(ordered)
        self.choices = {
            source: self._branch_path(source, branches)
            for source, branches in graph.branches.items()
            if branches
        }
        self.explicit = {n: [t for t, ss in self.plain.items() if n in ss] for n in order}
        self.following = {n: list(targets) for n, targets in self.explicit.items()}
        for name in self.specs:
            if not self._has_successor(name):
                self.following[name].append(END)
        self.order = order
        self.ahead: dict[str, list[str]] = {}
        self.back = self._back()

    # -- reading ------------------------------------------------------------------------------

    def _agent(self, name: str) -> str:
        spec = self.specs[name]
        place = f"node {name!r}"
        runnable: Any = spec.runnable
        if isinstance(runnable, Pregel):
            raise UntranslatableGraph(
                f"the node {name!r} is a graph of its own",
                remedy="Add its nodes to this graph, or make a builder of it and use both.",
                place=place,
            )
        refused = {
            "defer=True": (spec.defer, "Wait for all that must be done: add_edge([a, b], node)."),
            "destinations (it returns a Command)": (
                bool(spec.ends),
                "Put where it goes into add_conditional_edges, by crewlog.route or crewlog.choose.",
            ),
            "a retry policy": (spec.retry_policy is not None, "Say 'retry' at the agent."),
            "a cache policy": (spec.cache_policy is not None, "Leave it out: turns are kept."),
            "a timeout": (spec.timeout is not None, "Say 'timeout' at the agent."),
            "an error handler": (
                spec.error_handler_node is not None or spec.is_error_handler,
                "Say 'on_error' at the agent.",
            ),
        }
        for what, (there, remedy) in refused.items():
            if there:
                say = f"the node {name!r} has {what}, which is no part of a crew's flow"
                raise UntranslatableGraph(say, remedy=remedy, place=place)
        own = name if name in self.crew.agents else self.own or name
        agent = str((spec.metadata or {}).get("agent", own))
        if agent not in self.crew.agents:
            raise UntranslatableGraph(
                f"the node {name!r} stands for the agent {agent!r}, which the crew does not have",
                remedy=did_you_mean(
                    agent,
                    self.crew.agents,
                    f"It has {listed(sorted(self.crew.agents))}; name one by "
                    'add_node(..., metadata={"agent": ...}).',
                ),
                place=place,
            )
        return agent

    def _branch_path(self, source: str, branches: Mapping[str, Any]) -> Choice:
        place = f"conditional edges of {source!r}"
        if source == START:
            raise UntranslatableGraph(
                "the graph begins with conditional edges",
                remedy="Begin with an agent; put the choice behind it.",
                place=place,
            )
        if len(branches) > 1:
            raise UntranslatableGraph(
                f"the node {source!r} has {len(branches)} sets of conditional edges",
                remedy="Make one of them, by crewlog.choose.",
                place=place,
            )
        (name, branch), *_ = branches.items()
        path: Any = branch.path
        found = next((f for f in (path, *_functions(path)) if isinstance(f, Choice)), None)
        if found is None:
            raise UntranslatableGraph(
                f"where {source!r} goes is decided by the function {name!r}, which is code",
                remedy="Give add_conditional_edges a path that is data: crewlog.route(when=…, "
                "then=…) or crewlog.choose({…}). Send and Command are code too: for a list that "
                "is known only at run time, use the builder map_reduce.",
                place=place,
            )
        ends: Mapping[Any, str] | None = branch.ends
        ways = tuple((c, self._target(source, t, ends, place)) for c, t in found.ways)
        otherwise = self._target(source, found.otherwise, ends, place)
        return Choice(ways, otherwise, found.at_most, found.used_up)

    def _target(self, source: str, target: str, ends: Mapping[Any, str] | None, place: str) -> str:
        target = langgraph_target(target)
        if ends is not None:
            target = ends.get(target, target)
        if target != END and target not in self.specs:
            raise UntranslatableGraph(
                f"{source!r} may go to the node {target!r}, which is not in the graph",
                remedy=did_you_mean(target, [*self.specs, "END"], "Add it by add_node."),
                place=place,
            )
        return target

    # -- the order ----------------------------------------------------------------------------

    def _ways(self) -> Iterator[tuple[str, str, bool]]:
        """Every way between nodes, and whether it is a choice's."""
        for target, sources in self.plain.items():
            yield from ((source, target, False) for source in sources)
        for target, lists in self.lists.items():
            yield from ((source, target, False) for sources in lists for source in sources)
        for source, choice in self.choices.items():
            yield from ((source, target, True) for target in choice.targets)

    def _back(self) -> set[tuple[str, str]]:
        """The ways of choices that go back: all that is left has no cycle."""
        ahead: dict[str, list[str]] = {}
        back: set[tuple[str, str]] = set()

        def late(way: tuple[str, str, bool]) -> tuple[bool, bool]:
            return way[2], self.order[way[0]] >= self.order[way[1]]  # blame what goes backwards

        for source, target, chosen in sorted(self._ways(), key=late):
            if source not in reachable(target, ahead):
                ahead.setdefault(source, []).append(target)
            elif not chosen:
                raise UntranslatableGraph(
                    f"the edge {source!r} → {target!r} closes a cycle that nothing ends",
                    remedy="Go back by a choice with a bound: "
                    f"crewlog.route(when=…, then={target!r}, at_most=3).",
                    place=f"edge {source!r} → {target!r}",
                )
            elif self.choices[source].at_most is None:
                raise UntranslatableGraph(
                    f"{source!r} goes back to {target!r} without a bound",
                    remedy="Say how often: at_most=3.",
                    place=f"conditional edges of {source!r}",
                )
            else:
                back.add((source, target))
        self.ahead = ahead
        return back

    def _on(self, name: str) -> str:
        """The target that a choice reaches by going on: never one that is before it."""
        choice = self.choices[name]
        if (name, choice.otherwise) not in self.back:
            return choice.otherwise
        ahead = [t for _, t in choice.ways if (name, t) not in self.back]
        return ahead[-1] if ahead else END

    # -- what LangGraph would do ----------------------------------------------------------------

    def _paths(self) -> list[_Path]:
        """Every course from the beginning, and from every node that a choice goes back to."""
        chosen = [[(name, t) for t in choice.targets] for name, choice in self.choices.items()]
        if prod(len(ways) for ways in chosen) > _MOST_COURSES:
            raise UntranslatableGraph(
                f"the graph has {len(chosen)} choices: more than can be looked through",
                remedy="Make several smaller graphs of it, each a builder.",
            )
        entries = self._entries()
        starts = [entries, *sorted({(target,) for _, target in self.back})]
        return [self._course(begin, dict(ways)) for begin in starts for ways in product(*chosen)]

    def _entries(self) -> tuple[str, ...]:
        return tuple(name for name in self.specs if START in self.plain[name])

    def _course(self, begin: Sequence[str], ways: Mapping[str, str]) -> _Path:
        """What runs at which superstep where every choice takes that way; none goes back."""
        course = _Path(ways, {name: [0] for name in begin}, {})
        now, time = list(begin), 0
        seen: dict[tuple[str, tuple[str, ...]], set[str]] = {}
        while now:
            time += 1
            arrived: dict[str, list[_Way]] = {}
            for source in now:
                for target, way in self._next_nodes(source, ways, seen):
                    arrived.setdefault(target, []).append(way)
            for target, found in arrived.items():
                course.arrivals.setdefault(target, []).extend(found)
                if target != END:
                    course.times.setdefault(target, []).append(time)
            now = [target for target in arrived if target != END]
        return course

    def _next_nodes(
        self,
        source: str,
        ways: Mapping[str, str],
        seen: dict[tuple[str, tuple[str, ...]], set[str]],
    ) -> Iterator[tuple[str, _Way]]:
        for target in self.following[source]:
            yield target, _Way(source, "plain")
        if source in self.choices and (source, ways[source]) not in self.back:
            kind = "on" if ways[source] == self._on(source) else "go"
            yield ways[source], _Way(source, kind)
        for target, lists in self.lists.items():
            for some in lists:
                if source in some:
                    there = seen.setdefault((target, some), set())
                    there.add(source)
                    if there == {*some}:
                        there.clear()
                        yield target, _Way(source, "list")

    # -- writing ------------------------------------------------------------------------------

    def built(self, phase: str) -> Built:
        """The part: each node as a phase, and each choice as decisions after it."""
        self._check_reached()
        self.courses = self._paths()
        for course in self.courses:
            self._check_once(course)
            self._check_loop_joins(course)
        items: list[FlowItem] = []
        done = f"{phase}.done"
        decisions = {name: list(self._decisions(name, done)) for name in self.choices}
        self.last = {n: str(found[-1].phase) if found else n for n, found in decisions.items()}
        entries = self._entries()
        for name in [*entries, *(name for name in self.specs if name not in entries)]:
            items += [self._phase(name), *decisions.get(name, [])]
        after = self._after(END)
        if isinstance(after, tuple) and len(after) == 1 and not self._sent(END):
            return Built(items, last=after[0])
        never = Fact(agent=self.agents[entries[0]], name="text", operator="in", value=[])
        fields = {"if": never, "go": RUN_END, "after": after, "phase": done}
        return Built([*items, DecisionPhase.model_validate(fields)], last=done)

    def _check_reached(self) -> None:
        if not self.specs:
            raise UntranslatableGraph("the graph has no nodes", remedy="Add agents by add_node.")
        reached = reachable(START, self.ahead)
        for name in self.specs:
            if name not in reached:
                raise UntranslatableGraph(
                    f"nothing leads to the node {name!r}",
                    remedy=f"Add an edge to it, e.g. add_edge(START, {name!r}).",
                    place=f"node {name!r}",
                )

    def _check_once(self, course: _Path) -> None:
        for name, times in course.times.items():
            if len(times) == 1:
                continue
            sources = list(dict.fromkeys(way.source for way in course.arrivals.get(name, ())))
            if times[0] == 0:
                said = "starts with the graph, and again after"
                remedy = "Let it be two nodes of one agent, or go back by a choice with at_most."
            elif any(way.kind in ("go", "on") for way in course.arrivals[name]):
                said = "would run once for each arrival: it is reached from"
                remedy = "Let it be reached by edges or by a choice, not by both at once."
            else:
                said = "would run once for each arrival: at different times it is reached from"
                remedy = _LIST.format(", ".join(map(repr, sources)), name)
            raise UntranslatableGraph(
                f"the node {name!r} {said} {listed(sources)}",
                remedy=remedy,
                place=f"node {name!r}",
            )

    def _check_loop_joins(self, course: _Path) -> None:
        """A join beside a loop would be met anew by half of what it waits for."""
        for source, target in course.ways.items():
            if (source, target) not in self.back or source not in course.times:
                continue
            for name in course.times:
                joined = len(self._joined(name)) + sum(map(len, self.lists[name])) > 1
                again = name in reachable(target, self.ahead)
                if joined and again and source not in reachable(name, self.ahead):
                    raise UntranslatableGraph(
                        f"the node {name!r} waits for several, and runs while {source!r} may "
                        f"still go back to {target!r}",
                        remedy=f"Let it come after {source!r}, or begin the loop behind the fork.",
                        place=f"node {name!r}",
                    )

    def _joined(self, name: str) -> list[tuple[str, str]]:
        """What a node waits for: its plain edges, and choices that go on to it."""
        found: list[tuple[str, str]] = [(s, "plain") for s in self.plain[name] if s != START]
        if name == END:
            found += [(node, "plain") for node in self.specs if not self._has_successor(node)]
        found += [(s, "on") for s in self.choices if self._on(s) == name]
        return found

    def _has_successor(self, node: str) -> bool:
        listed_ = any(node in some for lists in self.lists.values() for some in lists)
        return bool(self.explicit[node]) or node in self.choices or listed_

    def _sent(self, name: str) -> bool:
        """Whether a choice goes to a node otherwise than by going on."""
        return any(
            name in choice.targets and self._on(source) != name
            for source, choice in self.choices.items()
        )

    def _phase(self, name: str) -> AgentPhase:
        metadata = self.specs[name].metadata or {}
        task = metadata.get("task") or self.task
        return AgentPhase(
            agent=self.agents[name],
            phase=name,
            task=str(task) if task else None,
            after=self._after(name),
        )

    def _after(self, name: str) -> After:
        joined, lists = self._joined(name), self.lists[name]
        if START in self.plain[name]:
            return ()
        if lists and (len(lists) > 1 or joined):
            raise UntranslatableGraph(
                f"the node {name!r} has a list edge and other edges: it would run for each",
                remedy="Make one list edge of them.",
                place=f"node {name!r}",
            )
        if lists:
            return lists[0]
        named = tuple(s if kind == "plain" else self.last[s] for s, kind in joined)
        if len(named) == 1:
            return named
        if not named:
            return "go"
        together = apart = clean = True
        for course in self.courses:
            if name not in course.arrivals:
                continue
            there = {(w.source, w.kind) for w in course.arrivals[name]}
            sent = any(kind == "go" for _, kind in there)
            clean = clean and (not sent or len(there) == 1)
            apart = apart and len(there) == 1
            came = there == {*joined} or self._late(course, there, joined)
            together = together and (sent or came)
        if clean and apart:
            return JoinAny(any=named)
        if clean and together:
            return named
        what = "the end of the graph" if name == END else f"the node {name!r}"
        sources = [s for s, _ in joined]
        raise UntranslatableGraph(
            f"{what} is reached from {listed(sources)}: sometimes from all of them, and sometimes "
            "not",
            remedy=_LIST.format(", ".join(map(repr, sources)), name)
            if name != END
            else "Lead all of them to one last node.",
            place=what.removeprefix("the "),
        )

    def _late(
        self, course: _Path, there: set[tuple[str, str]], joined: Sequence[tuple[str, str]]
    ) -> bool:
        """Whether all came that can, in a course that begins in the midst: the rest came before."""
        begin = [name for name, times in course.times.items() if times[0] == 0]
        if [*begin] == [*self._entries()]:
            return False
        can = set[str]().union(*(reachable(name, self.ahead) for name in begin))
        return there == {(s, kind) for s, kind in joined if s in can}

    def _decisions(self, name: str, done: str) -> Iterator[DecisionPhase]:
        """A decision for each way but the one by which the choice goes on."""
        choice, on = self.choices[name], self._on(name)
        passed: list[Condition] = []  # those that hold go on: what comes later must not take them
        ways: list[tuple[Condition, str]] = []
        for condition, target in choice.ways:
            if target == on:
                passed.append(condition)
            else:
                ways.append((_all([*(Not(of=c) for c in passed), condition]), target))
        if choice.otherwise != on:
            ways.append((_all([Not(of=c) for c, _ in choice.ways]), choice.otherwise))
        after = name
        for number, (condition, target) in enumerate(ways, start=1):
            phase = f"{name}.choice" if number == 1 else f"{name}.choice_{number}"
            back = (name, target) in self.back
            fields = {
                "if": condition,
                "go": done if target == END else target,
                "at_most": choice.at_most if back else None,
                "else": choice.used_up if back and choice.used_up != "next" else None,
                "after": after,
                "phase": phase,
            }
            yield DecisionPhase.model_validate(fields)
            after = phase


@dataclass(frozen=True)
class _Way:
    """How a node is reached."""

    source: str
    kind: str
    """`plain`, `list`, or for a choice `on` where it just goes on, else `go`."""


@dataclass(frozen=True)
class _Path:
    """What LangGraph does where every choice takes one of its ways."""

    ways: Mapping[str, str]
    times: dict[str, list[int]]
    """The supersteps at which each node runs."""
    arrivals: dict[str, list[_Way]]


def _all(parts: Sequence[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else AllOf(of=tuple(parts))


def _functions(path: Any) -> Iterator[Any]:
    """What a path of LangGraph's calls."""
    for name in ("func", "afunc"):
        yield getattr(path, name, None)
