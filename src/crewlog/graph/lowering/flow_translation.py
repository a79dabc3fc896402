"""Translates a LangGraph `StateGraph` to phases of a flow: its topology is data.

Nodes are agents: by their name, or by `metadata={"agent": ..., "task": ...}`. Their functions are
not called; the agents take their turns. Edges become joins. Paths must be data, too: `route` and
`choose` build path functions that LangGraph can run and that become branches here.

In LangGraph, a node with several plain edges runs at every superstep in which one of them arrives.
That equals a join of all if they always arrive together, and a join of any if only one of them ever
arrives. Otherwise the node would run more than once, and the graph is rejected with the remedy
`add_edge([a, b], c)`. To tell, the translation simulates the supersteps for all choices.
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

_LIST_EDGE_REMEDY = "Write add_edge([{0}], {1!r}) to wait for all of them."
_MAX_SIMULATIONS = 4096


class UntranslatableGraph(DefinitionError):
    """A `StateGraph` with code in its edges, or with something that a flow does not support."""


def translate(graph: Any, place: Place) -> Built:
    """Translates a `StateGraph` to phases.

    In an agent's pattern, a node whose name is no agent's stands for the pattern's agent.

    Raises:
        UntranslatableGraph: its edges contain code, or a flow does not support a part of it.
    """
    if isinstance(graph, CompiledStateGraph):
        graph = cast("Any", graph).builder
    whole: Any = graph
    if not isinstance(graph, StateGraph):
        raise UntranslatableGraph(
            f"a {type(graph).__name__} is no StateGraph", remedy="Return the StateGraph itself."
        )
    return _Translation(whole, place).build(place.phase)


class _Translation:
    def __init__(self, graph: StateGraph[Any, Any, Any, Any], place: Place) -> None:
        self.crew, self.task, self.own_agent = place.crew, place.task, place.agent
        self.last_phases: dict[str, str] = {}
        self.simulations: list[_Simulation] = []
        self.specs = dict(graph.nodes)
        self.agents = {name: self._agent_of(name) for name in self.specs}
        order = {name: i for i, name in enumerate([START, *self.specs, END])}
        known = [*order]
        for source, target in sorted(graph.edges, key=str):
            for end in (source, target):
                if end not in order:
                    raise UntranslatableGraph(
                        f"the edge {source!r} → {target!r} names the node {end!r}, which is "
                        "not in the graph",
                        remedy=did_you_mean(end, known, "Add it by add_node."),
                        place=f"edge {source!r} → {target!r}",
                    )
        self.plain_edges: dict[str, list[str]] = {name: [] for name in order}
        """The sources of plain edges, by target."""
        for source, target in sorted(graph.edges, key=lambda e: (order[e[0]], order[e[1]])):
            self.plain_edges[target].append(source)
        self.list_edges: dict[str, list[tuple[str, ...]]] = {name: [] for name in order}
        for sources, target in sorted(graph.waiting_edges, key=lambda e: (order[e[1]], e[0])):
            ordered = tuple(sorted(dict.fromkeys(sources), key=lambda name: order[name]))
            self.list_edges[target].append(ordered)
        self.choices = {
            source: self._choice_of(source, branches)
            for source, branches in graph.branches.items()
            if branches
        }
        self.plain_targets = {
            n: [t for t, ss in self.plain_edges.items() if n in ss] for n in order
        }
        self.successors = {n: list(targets) for n, targets in self.plain_targets.items()}
        for name in self.specs:
            if not self._has_successor(name):
                self.successors[name].append(END)
        self.order = order
        self.forward: dict[str, list[str]] = {}
        self.back_edges = self._find_back_edges()

    # -- nodes and paths ---------------------------------------------------------------------

    def _agent_of(self, name: str) -> str:
        spec = self.specs[name]
        place = f"node {name!r}"
        runnable: Any = spec.runnable
        if isinstance(runnable, Pregel):
            raise UntranslatableGraph(
                f"the node {name!r} is a graph of its own",
                remedy="Add its nodes to this graph, or make a builder of it and use both.",
                place=place,
            )
        unsupported = {
            "defer=True": (spec.defer, "Wait for all of its sources: add_edge([a, b], node)."),
            "destinations (it returns a Command)": (
                bool(spec.ends),
                "Name the targets in add_conditional_edges, by crewlog.route or crewlog.choose.",
            ),
            "a retry policy": (spec.retry_policy is not None, "Set 'retry' of the agent."),
            "a cache policy": (spec.cache_policy is not None, "Leave it out: turns are stored."),
            "a timeout": (spec.timeout is not None, "Set 'timeout' of the agent."),
            "an error handler": (
                spec.error_handler_node is not None or spec.is_error_handler,
                "Set 'on_error' of the agent.",
            ),
        }
        for what, (is_set, remedy) in unsupported.items():
            if is_set:
                message = f"the node {name!r} has {what}, which a flow does not support"
                raise UntranslatableGraph(message, remedy=remedy, place=place)
        own = name if name in self.crew.agents else self.own_agent or name
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

    def _choice_of(self, source: str, branches: Mapping[str, Any]) -> Choice:
        place = f"conditional edges of {source!r}"
        if source == START:
            raise UntranslatableGraph(
                "the graph begins with conditional edges",
                remedy="Begin with an agent, and put the choice after it.",
                place=place,
            )
        if len(branches) > 1:
            raise UntranslatableGraph(
                f"the node {source!r} has {len(branches)} sets of conditional edges",
                remedy="Merge them into one by crewlog.choose.",
                place=place,
            )
        (name, branch), *_ = branches.items()
        path: Any = branch.path
        functions = (path, *_path_functions(path))
        choice = next((each for each in functions if isinstance(each, Choice)), None)
        if choice is None:
            raise UntranslatableGraph(
                f"the target of {source!r} is decided by the function {name!r}, which is code",
                remedy="Give add_conditional_edges a path that is data: crewlog.route(when=…, "
                "then=…) or crewlog.choose({…}). Send and Command are code too: for a list that "
                "is known only at run time, use the builder map_reduce.",
                place=place,
            )
        ends: Mapping[Any, str] | None = branch.ends
        parsed = tuple((c, self._target(source, t, ends, place)) for c, t in choice.branches)
        otherwise = self._target(source, choice.otherwise, ends, place)
        return Choice(parsed, otherwise, choice.at_most, choice.used_up)

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

    # -- edges -------------------------------------------------------------------------------

    def _edges(self) -> Iterator[tuple[str, str, bool]]:
        """Source, target, and whether the edge is conditional."""
        for target, sources in self.plain_edges.items():
            yield from ((source, target, False) for source in sources)
        for target, lists in self.list_edges.items():
            yield from ((source, target, False) for sources in lists for source in sources)
        for source, choice in self.choices.items():
            yield from ((source, target, True) for target in choice.targets)

    def _find_back_edges(self) -> set[tuple[str, str]]:
        """The conditional edges that lead back: without them the graph has no cycle."""
        forward: dict[str, list[str]] = {}
        back: set[tuple[str, str]] = set()

        def key(edge: tuple[str, str, bool]) -> tuple[bool, bool]:
            # Plain edges come first, so that the back edges are conditional. Of each kind, edges
            # against the order of the nodes come last, so that the errors name those.
            return edge[2], self.order[edge[0]] >= self.order[edge[1]]

        for source, target, is_conditional in sorted(self._edges(), key=key):
            if source not in reachable(target, forward):
                forward.setdefault(source, []).append(target)
            elif not is_conditional:
                raise UntranslatableGraph(
                    f"the edge {source!r} → {target!r} closes a cycle without a limit",
                    remedy="Go back by a choice with a limit: "
                    f"crewlog.route(when=…, then={target!r}, at_most=3).",
                    place=f"edge {source!r} → {target!r}",
                )
            elif self.choices[source].at_most is None:
                raise UntranslatableGraph(
                    f"{source!r} goes back to {target!r} without a limit",
                    remedy="Set a limit: at_most=3.",
                    place=f"conditional edges of {source!r}",
                )
            else:
                back.add((source, target))
        self.forward = forward
        return back

    def _next_target(self, name: str) -> str:
        """The target of a choice that needs no branch: the flow continues there if none jumps.

        It is never the target of a back edge.
        """
        choice = self.choices[name]
        if (name, choice.otherwise) not in self.back_edges:
            return choice.otherwise
        forward = [t for _, t in choice.branches if (name, t) not in self.back_edges]
        return forward[-1] if forward else END

    # -- simulation of LangGraph -------------------------------------------------------------

    def _simulations(self) -> list[_Simulation]:
        """One for each combination of choices, from the start and from each loop's start."""
        options = [[(name, t) for t in choice.targets] for name, choice in self.choices.items()]
        if prod(map(len, options)) > _MAX_SIMULATIONS:
            raise UntranslatableGraph(
                f"the graph has {len(options)} choices, too many to check all combinations",
                remedy="Divide it into several smaller graphs, each a builder.",
            )
        starts = [self._entries(), *sorted({(target,) for _, target in self.back_edges})]
        return [
            self._simulate(start, dict(targets))
            for start in starts
            for targets in product(*options)
        ]

    def _entries(self) -> tuple[str, ...]:
        return tuple(name for name in self.specs if START in self.plain_edges[name])

    def _simulate(self, start: Sequence[str], targets: Mapping[str, str]) -> _Simulation:
        """Simulates the supersteps from some nodes, with a target for each choice.

        It does not follow back edges.
        """
        simulation = _Simulation(targets, {name: [0] for name in start}, {})
        running, superstep = list(start), 0
        partial: dict[tuple[str, tuple[str, ...]], set[str]] = {}
        while running:
            superstep += 1
            arrivals: dict[str, list[_Arrival]] = {}
            for source in running:
                for target, arrival in self._arrivals(source, targets, partial):
                    arrivals.setdefault(target, []).append(arrival)
            for target, found in arrivals.items():
                simulation.arrivals.setdefault(target, []).extend(found)
                if target != END:
                    simulation.supersteps.setdefault(target, []).append(superstep)
            running = [target for target in arrivals if target != END]
        return simulation

    def _arrivals(
        self,
        source: str,
        targets: Mapping[str, str],
        partial: dict[tuple[str, tuple[str, ...]], set[str]],
    ) -> Iterator[tuple[str, _Arrival]]:
        """The arrivals of a node.

        Args:
            source: The node.
            targets: The target of each choice.
            partial: The sources that have arrived by each list edge; updated.
        """
        for target in self.successors[source]:
            yield target, _Arrival(source, "plain")
        if source in self.choices and (source, targets[source]) not in self.back_edges:
            kind = "on" if targets[source] == self._next_target(source) else "go"
            yield targets[source], _Arrival(source, kind)
        for target, lists in self.list_edges.items():
            for sources in lists:
                if source in sources:
                    arrived = partial.setdefault((target, sources), set())
                    arrived.add(source)
                    if arrived == {*sources}:
                        arrived.clear()
                        yield target, _Arrival(source, "list")

    # -- phases ------------------------------------------------------------------------------

    def build(self, phase: str) -> Built:
        """The flow items: a phase for each node, and branches after it for its choice."""
        self._check_reachability()
        self.simulations = self._simulations()
        for simulation in self.simulations:
            self._check_single_runs(simulation)
            self._check_loop_joins(simulation)
        items: list[FlowItem] = []
        done = f"{phase}.done"
        branches = {name: list(self._branches(name, done)) for name in self.choices}
        self.last_phases = {
            n: str(found[-1].phase) if found else n for n, found in branches.items()
        }
        entries = self._entries()
        for name in [*entries, *(name for name in self.specs if name not in entries)]:
            items += [self._phase(name), *branches.get(name, [])]
        after = self._after(END)
        if isinstance(after, tuple) and len(after) == 1 and not self._has_jump(END):
            return Built(items, last=after[0])
        # A branch that never jumps: it only makes one last phase of several.
        never = Fact(agent=self.agents[entries[0]], name="text", operator="in", value=[])
        fields = {"if": never, "go": RUN_END, "after": after, "phase": done}
        return Built([*items, DecisionPhase.model_validate(fields)], last=done)

    def _check_reachability(self) -> None:
        if not self.specs:
            raise UntranslatableGraph("the graph has no nodes", remedy="Add agents by add_node.")
        reached = reachable(START, self.forward)
        for name in self.specs:
            if name not in reached:
                raise UntranslatableGraph(
                    f"nothing leads to the node {name!r}",
                    remedy=f"Add an edge to it, e.g. add_edge(START, {name!r}).",
                    place=f"node {name!r}",
                )

    def _check_single_runs(self, simulation: _Simulation) -> None:
        """Checks that every node runs at most once."""
        for name, supersteps in simulation.supersteps.items():
            if len(supersteps) == 1:
                continue
            arrivals = simulation.arrivals.get(name, ())
            sources = list(dict.fromkeys(arrival.source for arrival in arrivals))
            if supersteps[0] == 0:
                problem = "starts with the graph, and again after"
                remedy = "Make it two nodes of one agent, or go back by a choice with at_most."
            elif any(arrival.kind in ("go", "on") for arrival in arrivals):
                problem = "would run once for each arrival: it is reached from"
                remedy = "Lead to it by edges or by a choice, not by both."
            else:
                problem = "would run once for each arrival: at different times it is reached from"
                remedy = _LIST_EDGE_REMEDY.format(", ".join(map(repr, sources)), name)
            raise UntranslatableGraph(
                f"the node {name!r} {problem} {listed(sources)}",
                remedy=remedy,
                place=f"node {name!r}",
            )

    def _check_loop_joins(self, simulation: _Simulation) -> None:
        """Checks that no loop repeats only some of the sources of a join outside of it."""
        for source, target in simulation.targets.items():
            if (source, target) not in self.back_edges or source not in simulation.supersteps:
                continue
            for name in simulation.supersteps:
                is_join = len(self._sources(name)) + sum(map(len, self.list_edges[name])) > 1
                follows = name in reachable(target, self.forward)
                if is_join and follows and source not in reachable(name, self.forward):
                    raise UntranslatableGraph(
                        f"the node {name!r} waits for several nodes, and runs while {source!r} may "
                        f"still go back to {target!r}",
                        remedy=f"Put it after {source!r}, or go back to a node that does not lead "
                        f"to {name!r}.",
                        place=f"node {name!r}",
                    )

    def _sources(self, name: str) -> list[tuple[str, str]]:
        """The sources of a node: of its plain edges, and the choices whose `_next_target` it is."""
        found: list[tuple[str, str]] = [(s, "plain") for s in self.plain_edges[name] if s != START]
        if name == END:
            found += [(node, "plain") for node in self.specs if not self._has_successor(node)]
        found += [(s, "on") for s in self.choices if self._next_target(s) == name]
        return found

    def _has_successor(self, node: str) -> bool:
        in_list = any(node in each for lists in self.list_edges.values() for each in lists)
        return bool(self.plain_targets[node]) or node in self.choices or in_list

    def _has_jump(self, name: str) -> bool:
        """Whether a branch of a choice jumps to a node."""
        return any(
            name in choice.targets and self._next_target(source) != name
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
        sources, lists = self._sources(name), self.list_edges[name]
        if START in self.plain_edges[name]:
            return ()
        if lists and (len(lists) > 1 or sources):
            raise UntranslatableGraph(
                f"the node {name!r} has a list edge and other edges: it would run for each",
                remedy="Make one list edge of them.",
                place=f"node {name!r}",
            )
        if lists:
            return lists[0]
        phases = tuple(s if kind == "plain" else self.last_phases[s] for s, kind in sources)
        if len(phases) == 1:
            return phases
        if not phases:
            return "go"
        if kind := self._join_kind(name, sources):
            return JoinAny(any=phases) if kind == "any" else phases
        what = "the end of the graph" if name == END else f"the node {name!r}"
        names = [source for source, _ in sources]
        raise UntranslatableGraph(
            f"{what} is reached from {listed(names)}: sometimes from all of them, and sometimes "
            "not",
            remedy=_LIST_EDGE_REMEDY.format(", ".join(map(repr, names)), name)
            if name != END
            else "Lead all of them to one last node.",
            place=what.removeprefix("the "),
        )

    def _join_kind(self, name: str, sources: Sequence[tuple[str, str]]) -> str:
        """`any` or `all`, by the arrivals in all simulations; empty if it is neither."""
        is_any = is_all = True
        for simulation in self.simulations:
            if name not in simulation.arrivals:
                continue
            arrived = {(each.source, each.kind) for each in simulation.arrivals[name]}
            has_jump = any(kind == "go" for _, kind in arrived)
            if has_jump and len(arrived) > 1:
                return ""
            is_any = is_any and len(arrived) == 1
            is_complete = arrived == {*sources}
            is_complete = is_complete or self._is_complete_loop(simulation, arrived, sources)
            is_all = is_all and (has_jump or is_complete)
        return "any" if is_any else "all" if is_all else ""

    def _is_complete_loop(
        self,
        simulation: _Simulation,
        arrived: set[tuple[str, str]],
        sources: Sequence[tuple[str, str]],
    ) -> bool:
        """Whether all sources inside a loop arrived; those outside arrived before the loop."""
        start = [name for name, times in simulation.supersteps.items() if times[0] == 0]
        if [*start] == [*self._entries()]:
            return False
        inside = set[str]().union(*(reachable(name, self.forward) for name in start))
        return arrived == {(s, kind) for s, kind in sources if s in inside}

    def _branches(self, name: str, done: str) -> Iterator[DecisionPhase]:
        """A branch for each target of a choice except its `_next_target`."""
        choice, next_target = self.choices[name], self._next_target(name)
        passing: list[Condition] = []  # for `next_target`: later branches exclude them
        branches: list[tuple[Condition, str]] = []
        for condition, target in choice.branches:
            if target == next_target:
                passing.append(condition)
            else:
                branches.append((_conjunction([*(Not(of=c) for c in passing), condition]), target))
        if choice.otherwise != next_target:
            branches.append(
                (_conjunction([Not(of=c) for c, _ in choice.branches]), choice.otherwise)
            )
        after = name
        for number, (condition, target) in enumerate(branches, start=1):
            phase = f"{name}.choice" if number == 1 else f"{name}.choice_{number}"
            is_back = (name, target) in self.back_edges
            fields = {
                "if": condition,
                "go": done if target == END else target,
                "at_most": choice.at_most if is_back else None,
                "else": choice.used_up if is_back and choice.used_up != "next" else None,
                "after": after,
                "phase": phase,
            }
            yield DecisionPhase.model_validate(fields)
            after = phase


@dataclass(frozen=True)
class _Arrival:
    """An arrival at a node."""

    source: str
    kind: str
    """`plain`, `list`; of a choice: `on` if the node is its `_next_target`, else `go`."""


@dataclass(frozen=True)
class _Simulation:
    """The run of a LangGraph graph in which every choice has one target."""

    targets: Mapping[str, str]
    """The target of each choice."""
    supersteps: dict[str, list[int]]
    """The supersteps at which each node runs."""
    arrivals: dict[str, list[_Arrival]]
    """The arrivals at each node."""


def _conjunction(parts: Sequence[Condition]) -> Condition:
    return parts[0] if len(parts) == 1 else AllOf(of=tuple(parts))


def _path_functions(path: Any) -> Iterator[Any]:
    """The functions behind a path, which LangGraph wraps as a runnable."""
    for name in ("func", "afunc"):
        yield getattr(path, name, None)
