"""Drives a compiled LangGraph graph one completion at a time, without its Pregel loop.

The loop would put a barrier after every superstep, hold the transcript in channels and own the
frontier. Instead, each completion is applied by public API: `update_state(as_node=...)` runs the
node's routers, and `get_state().next` is what this one completion made ready. Five rules follow
from how LangGraph works:

- `.next` is a delta: the caller keeps the frontier.
- Every apply writes all channels, in a new thread: nothing has to be restored, and two applies
  cannot disturb each other.
- `.next` names the targets of a `Send` but not its argument: the driver calls the routers, too.
- The targets depend only on the node and on the routes that its routers choose. So the driver calls
  LangGraph once for each choice and caches the targets: a call takes 0.7 ms, and a run repeats few
  choices. The first call compiles the graph, once in a process.
- LangGraph's asynchronous calls suspend, and a cache hit does not. In a workflow, other tasks run
  meanwhile: a process with a warm cache would give commands in another order than one with a cold
  cache, and replays would fail. So the driver uses LangGraph's synchronous calls and routers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send
from langsmith import tracing_context  # pyright: ignore[reportUnknownVariableType]

from crewlog.graph.checkpoint_saver import LatestSaver
from crewlog.model import Json

Router = Callable[[Any], Sequence[str | Send]]
"""Chooses routes by the channels' values; pure, since it is called twice."""
Graph = CompiledStateGraph[Any, Any, Any, Any]
Compile = Callable[[LatestSaver], Graph]
"""Compiles a graph with a saver as its checkpointer."""
MAX_CHOICES = 10_000
"""The most cached choices of a graph; a node with k targets has at most 2^k."""
MAX_GRAPHS = 256
"""The most graphs that a process caches."""


class GraphCache:
    """What a process caches of a graph: the compiled graph and the targets of its choices.

    All drivers of equal graphs share one. Workflow threads may use it at the same time: targets
    depend on their key alone, and each call of LangGraph has its own thread in the saver.
    """

    def __init__(self) -> None:
        self.targets: dict[Hashable, tuple[str, ...]] = {}
        """The targets by node, routes and `goto`."""
        self.saver = LatestSaver()
        self._graph: Graph | None = None
        self._threads = itertools.count()

    def graph(self, compile_: Compile) -> Graph:
        """The compiled graph; the first caller compiles it."""
        if self._graph is None:
            self._graph = compile_(self.saver)
        return self._graph

    def next_thread(self) -> str:
        """A new thread id."""
        return str(next(self._threads))


@lru_cache(maxsize=MAX_GRAPHS)
def graph_cache(graph: str) -> GraphCache:
    """The cache of a graph in this process.

    Args:
        graph: Its hash, or another name that only equal graphs have.
    """
    return GraphCache()


class Target(NamedTuple):
    """A node that a completion made ready."""

    node: str
    item: Json = None
    """The argument of the `Send` to it."""


class Driver:
    """Applies completions to a graph.

    Args:
        compile_graph: Compiles the graph when LangGraph is first called.
        routers: Each node's router, as in the graph. The graph has no other edges: if a router
            chooses nothing, nothing follows.
        order: The nodes in the order in which targets start.
        cache: The cache of the graph.
    """

    def __init__(
        self,
        compile_graph: Compile,
        routers: Mapping[str, Router],
        order: Sequence[str],
        cache: GraphCache,
    ) -> None:
        self._compile_graph = compile_graph
        self._routers = routers
        self._rank = {name: rank for rank, name in enumerate(order)}
        self._cache = cache

    def compile(self) -> Graph:
        """Compiles the graph without the cache."""
        return self._compile_graph(LatestSaver())

    def apply(self, node: str, values: Mapping[str, Any], goto: Sequence[str] = ()) -> list[Target]:
        """Applies the completion of a node.

        Args:
            node: The node.
            values: The values of all LangGraph channels.
            goto: Further targets, as of a `Command`. The caller has checked that they exist:
                LangGraph only logs an unknown one.

        Returns:
            The targets in the order in which they start.
        """
        routes = self._routers[node](values)
        if not routes and not goto:
            return []
        sends = [route for route in routes if type(route) is Send]
        choice = tuple(("send", r.node) if type(r) is Send else r for r in routes)
        key = (node, choice, tuple(goto))
        cached = self._cache.targets
        names = cached.get(key)
        if names is None:
            names = self._find_targets(node, values, goto, [send.node for send in sends])
            if len(cached) >= MAX_CHOICES:
                cached.clear()
            cached[key] = names
        return [Target(name) for name in names] + [Target(s.node, s.arg) for s in sends]

    def _find_targets(
        self, node: str, values: Mapping[str, Any], goto: Sequence[str], sends: Sequence[str]
    ) -> tuple[str, ...]:
        """The targets that LangGraph computes, without those of `Send`."""
        graph, thread = self._cache.graph(self._compile_graph), self._cache.next_thread()
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        update = Command(update=dict(values), goto=list(goto)) if goto else dict(values)
        # With LangSmith tracing on, applying would send network traffic from the workflow.
        with tracing_context(enabled=False):
            graph.update_state(config, update, as_node=node)
        names = list(graph.get_state(config).next)
        self._cache.saver.delete_thread(thread)
        for target in sends:
            names.remove(target)
        # LangGraph's own order comes from a set; ours must be the same in every process.
        return tuple(sorted(names, key=lambda name: self._rank.get(name, len(self._rank))))
