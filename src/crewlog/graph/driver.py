"""Drives a compiled LangGraph graph one completion at a time, without its Pregel loop.

The loop would put a barrier after every superstep, hold the transcript in channels and own the
frontier. Instead, each completion is applied by public API: `update_state(as_node=...)` runs the
node's routers, and `get_state().next` is what this one completion made ready. Five rules follow
from how LangGraph works:

- `.next` is a delta: the caller keeps the frontier.
- Every apply writes all channels, in a thread of its own: so nothing has to be restored, and two
  applies cannot disturb each other.
- `.next` names the targets of a `Send` but not what was sent: the driver asks the routers, too.
- What follows depends on the node and on the routes that its routers choose, and on nothing else.
  So LangGraph is asked once for each such choice, and its answer is remembered: an apply takes
  0.7 ms, and a run takes few choices over and over. The graph is compiled at the first question,
  once in a process.
- LangGraph's asynchronous calls suspend, and an answer that is remembered does not. In a workflow,
  others go on in between: a process that knows the answer would give commands in another order
  than one that does not, and could not replay what that one did. So LangGraph is asked by its
  synchronous calls, with routers that are: they return before anybody else goes on.
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
"""Chooses routes by the channels' values; pure, so that it may be asked twice."""
Graph = CompiledStateGraph[Any, Any, Any, Any]
Compile = Callable[[LatestSaver], Graph]
"""Compiles a graph with a saver as its checkpointer."""
ANSWERS_KEPT = 10_000
"""A graph with more choices than this is asked again; a node with k targets has at most 2^k."""
GRAPHS_KEPT = 256
"""Graphs that a process remembers."""


class GraphCache:
    """What a process remembers of a graph: its answers, and the graph once it was compiled.

    All drivers of equal graphs share one. Workflow threads may use it at the same time: an answer
    depends on its key alone, and each question has a thread of its own in the saver.
    """

    def __init__(self) -> None:
        self.answers: dict[Hashable, tuple[str, ...]] = {}
        """The nodes that follow, by the node, its routes, and where it was sent."""
        self.saver = LatestSaver()
        self._graph: Graph | None = None
        self._threads = itertools.count()

    def graph(self, compile_: Compile) -> Graph:
        """The compiled graph; the first caller compiles it."""
        if self._graph is None:
            self._graph = compile_(self.saver)
        return self._graph

    def next_thread(self) -> str:
        """A thread id that no other question has."""
        return str(next(self._threads))


@lru_cache(maxsize=GRAPHS_KEPT)
def graph_cache(graph: str) -> GraphCache:
    """What this process remembers of a graph.

    Args:
        graph: What names it: equal graphs have equal names, and no others.
    """
    return GraphCache()


def clear_graph_caches() -> None:
    """Forgets all graphs and their answers, as in a new process."""
    graph_cache.cache_clear()


class Target(NamedTuple):
    """A node that a completion made ready, and what it was sent."""

    node: str
    item: Json = None


class Driver:
    """Applies completions to a graph.

    Args:
        compiled: Compiles the graph, where it has to be asked at all.
        routers: Each node's router, the same that the graph has. The graph has no other edges:
            where a router chooses nothing, nothing follows.
        order: The nodes in the order in which targets start.
        memory: What is remembered of the graph.
    """

    def __init__(
        self,
        compiled: Compile,
        routers: Mapping[str, Router],
        order: Sequence[str],
        memory: GraphCache,
    ) -> None:
        self._compiled = compiled
        self._routers = routers
        self._rank = {name: rank for rank, name in enumerate(order)}
        self._memory = memory

    def compile(self) -> Graph:
        """Compiles the graph, whether it was compiled before or not."""
        return self._compiled(LatestSaver())

    def apply(self, node: str, values: Mapping[str, Any], goto: Sequence[str] = ()) -> list[Target]:
        """Applies the completion of `node` with all channels' values; what follows, in order.

        `goto` names nodes to go to besides what the routers say, as a `Command` does; the caller
        has checked that they exist, since LangGraph only logs an unknown one.
        """
        routes = self._routers[node](values)
        if not routes and not goto:
            return []
        sent = [route for route in routes if isinstance(route, Send)]
        chosen = tuple(("send", r.node) if isinstance(r, Send) else r for r in routes)
        key = (node, chosen, tuple(goto))
        answers = self._memory.answers
        names = answers.get(key)
        if names is None:
            names = self._ask(node, values, goto, [send.node for send in sent])
            if len(answers) >= ANSWERS_KEPT:
                answers.clear()
            answers[key] = names
        return [Target(name) for name in names] + [Target(s.node, s.arg) for s in sent]

    def _ask(
        self, node: str, values: Mapping[str, Any], goto: Sequence[str], sent: Sequence[str]
    ) -> tuple[str, ...]:
        """What LangGraph says that follows, besides what was sent."""
        graph, thread = self._memory.graph(self._compiled), self._memory.next_thread()
        config: RunnableConfig = {"configurable": {"thread_id": thread}}
        update = Command(update=dict(values), goto=list(goto)) if goto else dict(values)
        # With LangSmith tracing on, applying would send network traffic from the workflow.
        with tracing_context(enabled=False):
            graph.update_state(config, update, as_node=node)
        names = list(graph.get_state(config).next)
        self._memory.saver.delete_thread(thread)
        for target in sent:
            names.remove(target)
        # LangGraph's own order comes from a set; ours must be the same in every process.
        return tuple(sorted(names, key=lambda name: self._rank.get(name, len(self._rank))))
