"""Compiling a crew of 100 agents by what LangGraph itself takes for the same nodes and edges.

The crew is ten blocks of eight side by side with a join, and two in sequence. LangGraph's graph
has its own joins (`add_edge` of a list); the engine's has routers that count arrivals. Both get a
saver. A run compiles its graph when LangGraph has to be asked; here it is compiled at once.
"""

from __future__ import annotations

import gc
import time
from typing import Any, TypedDict

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph

from bench.cases import Bench
from bench.crews import blocks
from bench.pairs import Figure, figure, ratio, rounds
from crewlog.definition.load import load_data
from crewlog.graph.lowering.compiler import compile_plan
from crewlog.graph.lowering.plans import lower
from crewlog.graph.plan import GraphPlan

REPEATS = 5
"""Compilations in a round."""


class Facts(TypedDict, total=False):
    """As many channels as the engine's graph has."""

    routing: dict[str, Any]
    outcome: tuple[str, ...]


async def _nothing(state: Facts) -> Facts:
    return state


def raw(plan: GraphPlan) -> object:
    """LangGraph's own graph of a plan's nodes and joins."""
    graph: StateGraph[Facts, None, Facts, Facts] = StateGraph(Facts)
    followed: set[str] = set()
    for name in plan.nodes:
        graph.add_node(name, _nothing)
    for name, node in plan.nodes.items():
        sources = [str(source) for source in node.join.of] if node.join else []
        followed.update(sources)
        if len(sources) > 1:
            graph.add_edge(sources, name)
        else:
            graph.add_edge(sources[0] if sources else START, name)
    for name in plan.nodes:
        if name not in followed:
            graph.add_edge(name, END)
    return graph.compile(checkpointer=InMemorySaver())


async def run(bench: Bench) -> list[Figure]:
    """Both, by turns, in this process."""
    plan = lower(load_data(blocks()))
    assert len(plan.nodes) == 100

    def timed(work: Any) -> float:
        gc.collect()
        began = time.perf_counter()
        for _ in range(REPEATS):
            work(plan)
        return (time.perf_counter() - began) * 1000 / REPEATS

    async def ours() -> float:
        return timed(lambda plan: compile_plan(plan).compile())

    async def theirs() -> float:
        return timed(raw)

    found = await rounds(
        {"engine": ours, "langgraph": theirs}, bench.pairs, told=bench.told("compile")
    )
    return [
        figure("compile_100_ms", found["engine"]),
        ratio("compile_100_vs_langgraph", found["engine"], found["langgraph"]),
    ]
