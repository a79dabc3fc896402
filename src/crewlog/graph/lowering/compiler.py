"""Compiles a plan to a LangGraph `StateGraph`.

Nodes are placeholders: activities do their work, and the driver applies the completions. All edges
are conditional edges whose routers read the run's routing. So joins, branches and answers are
LangGraph's routes, and LangGraph's drawing and Studio show the real graph.
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


class RoutingChannels(TypedDict, total=False):
    """The LangGraph channels: only what routers read. The fold applies outputs and messages."""

    routing: Routing
    """The routing, including this completion."""
    outcome: tuple[str, ...]
    """The outcomes of this completion: `next`, `end`, or nodes."""


_NO_ROUTING = Routing()


async def _placeholder(state: RoutingChannels) -> RoutingChannels:
    return state


def compile_plan(plan: GraphPlan) -> Driver:
    """The driver of a plan's graph.

    The driver compiles the graph when it first calls LangGraph: 1 ms for ten nodes, linear in nodes
    and edges. Runs of equal plans in one process share the graph and its cache.
    """
    joins = dependents(plan)
    jumps = _jumps(plan)
    routers: dict[str, Router] = {
        name: _router(plan, name, joins[name], jumps[name]) for name in plan.nodes
    }
    entries = [name for name, node in plan.nodes.items() if node.entry]
    entry_router = _entry_router(entries)

    def compile_graph(saver: LatestSaver) -> Any:
        graph: StateGraph[RoutingChannels, None, RoutingChannels, RoutingChannels] = StateGraph(
            RoutingChannels
        )
        for name in plan.nodes:
            graph.add_node(name, _placeholder)
        graph.add_conditional_edges(START, cast("Any", entry_router), _path_map(entries))
        for name in plan.nodes:
            targets = {*joins[name], *jumps[name]}
            graph.add_conditional_edges(name, cast("Any", routers[name]), _path_map(targets))
        return graph.compile(checkpointer=saver, name=plan.crew)

    cache = graph_cache(hash_json(plan.to_json()))
    return Driver(compile_graph, {START: entry_router, **routers}, list(plan.nodes), cache)


def _path_map(names: Any) -> dict[Hashable, str]:
    return {**{name: name for name in names}, GRAPH_END: GRAPH_END}


def _jumps(plan: GraphPlan) -> Mapping[NodeName, Sequence[NodeName]]:
    """The nodes that each node may send the run to, besides the joins that wait for it."""
    return {
        name: [NodeName(n) for _, n in node.sends if n in plan.nodes and n not in RESERVED]
        for name, node in plan.nodes.items()
    }


def _entry_router(entries: Sequence[NodeName]) -> Router:
    def route(_state: RoutingChannels) -> list[str]:
        return [str(name) for name in entries]

    return route


def _router(
    plan: GraphPlan, name: NodeName, joins: Sequence[NodeName], jumps: Sequence[NodeName]
) -> Router:
    def route(state: RoutingChannels) -> list[str]:
        targets: list[str] = []
        routing = state.get("routing", _NO_ROUTING)
        for outcome in state.get("outcome", (NEXT,)):
            if outcome == NEXT:
                targets += [join for join in joins if has_fired(plan, join, name, routing)]
            elif outcome in jumps:
                targets.append(outcome)
        return targets

    return route
