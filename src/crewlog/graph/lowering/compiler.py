"""Plan → LangGraph `StateGraph`, compiled.

Nodes are placeholders: what a node does is an activity, and its completion is applied by the
driver. Edges are conditional edges whose routers read the routing facts; so joins, decisions and
answers are LangGraph's routes, and LangGraph's own drawing and Studio show the real graph.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, TypedDict, cast

from langgraph.graph import END as GRAPH_END
from langgraph.graph import START, StateGraph

from crewlog.canonical_json import hash_json
from crewlog.graph.checkpoint_saver import LatestSaver
from crewlog.graph.driver import Driver, Router, graph_cache
from crewlog.graph.joins import RESERVED, dependents, has_fired
from crewlog.graph.plan import NEXT, GraphPlan
from crewlog.ids import NodeName
from crewlog.state.model import Routing


class Facts(TypedDict, total=False):
    """The channels: routing facts only. Outputs and messages are merged by `reduce`."""

    routing: Routing
    """Who is done and who has arrived where, this completion included."""
    outcome: tuple[str, ...]
    """Where this completion goes: `next`, `end`, or nodes."""


async def _placeholder(state: Facts) -> Facts:
    return state


def compile_plan(plan: GraphPlan) -> Driver:
    """A plan's graph, to be driven.

    It is compiled only where LangGraph has to be asked: 1 ms for ten nodes, linear in nodes and
    edges. Runs of equal plans in one process share the graph and its answers.
    """
    following = dependents(plan)
    answers = _sent_targets(plan)
    routers: dict[str, Router] = {
        name: _router(plan, name, following[name], answers[name]) for name in plan.nodes
    }
    entries = [name for name, node in plan.nodes.items() if node.entry]
    entry = _entry_router(entries)

    def compiled(saver: LatestSaver) -> Any:
        graph: StateGraph[Facts, None, Facts, Facts] = StateGraph(Facts)
        for name in plan.nodes:
            graph.add_node(name, _placeholder)
        graph.add_conditional_edges(START, cast("Any", entry), _path_targets(entries))
        for name in plan.nodes:
            targets = {*following[name], *answers[name]}
            graph.add_conditional_edges(name, cast("Any", routers[name]), _path_targets(targets))
        return graph.compile(checkpointer=saver, name=plan.crew)

    memory = graph_cache(hash_json(plan.to_json()))
    return Driver(compiled, {START: entry, **routers}, list(plan.nodes), memory)


def _path_targets(names: Any) -> dict[Hashable, str]:
    return {**{name: name for name in names}, GRAPH_END: GRAPH_END}


def _sent_targets(plan: GraphPlan) -> Mapping[NodeName, Sequence[NodeName]]:
    """The nodes that each node may send the run to, besides what depends on it."""
    return {
        name: [NodeName(n) for _, n in node.sends if n in plan.nodes and n not in RESERVED]
        for name, node in plan.nodes.items()
    }


def _entry_router(entries: Sequence[NodeName]) -> Router:
    def entry(_state: Facts) -> list[str]:
        return [str(name) for name in entries]

    return entry


def _router(
    plan: GraphPlan, name: NodeName, following: Sequence[NodeName], answers: Sequence[NodeName]
) -> Router:
    def route(state: Facts) -> list[str]:
        found: list[str] = []
        for outcome in state.get("outcome", (NEXT,)):
            if outcome == NEXT:
                found += [
                    t
                    for t in following
                    if has_fired(plan, t, name, state.get("routing", Routing()))
                ]
            elif outcome in answers:
                found.append(outcome)
        return found

    return route
