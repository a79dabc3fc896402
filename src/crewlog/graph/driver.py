"""Drives a compiled LangGraph graph one completion at a time, without its Pregel loop.

The loop would put a barrier after every superstep, hold the transcript in channels and own the
frontier. Instead, each completion is applied by public API: `aupdate_state(as_node=...)` runs the
node's routers, and `aget_state().next` is what this one completion made ready. Three rules follow
from how LangGraph works:

- An apply yields to the event loop in the middle, so two at once would lose one: there is one
  applier, and the driver refuses to be entered twice.
- `.next` is a delta: the caller keeps the frontier.
- `.next` names the targets of a `Send` but not what was sent: routers record it, by `sends`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, Send
from langsmith import tracing_context  # pyright: ignore[reportUnknownVariableType]

from crewlog.errors import InternalError
from crewlog.graph.saver import LatestSaver
from crewlog.model import Json

RESTORE = "__restore__"
"""An edgeless node of every driven graph: values are written as if it had produced them."""


class Target(NamedTuple):
    """A node that a completion made ready, and what it was sent."""

    node: str
    item: Json = None


class SendRecorder:
    """What the routers of a graph sent since it was last cleared, in order."""

    def __init__(self) -> None:
        self.sent: list[Send] = []

    def record(self, routes: Sequence[str | Send]) -> list[str | Send]:
        """Notes the `Send`s among a router's routes, and returns the routes."""
        self.sent.extend(route for route in routes if isinstance(route, Send))
        return list(routes)


class Driver:
    """Applies completions to one compiled graph; a thread is one run of it."""

    def __init__(
        self,
        graph: CompiledStateGraph[Any, Any, Any, Any],
        saver: LatestSaver,
        order: Sequence[str],
        sends: SendRecorder,
    ) -> None:
        """Takes the graph, its nodes in the order in which targets start, and its sends."""
        self._graph = graph
        self._saver = saver
        self._rank = {name: rank for rank, name in enumerate(order)}
        self._sends = sends
        self._busy = False

    async def restore(self, thread: str, values: Mapping[str, Any]) -> None:
        """Sets a thread's values; no router runs and nothing becomes ready."""
        with self._alone():
            await self._update(thread, values, RESTORE)

    async def apply(
        self, thread: str, node: str, values: Mapping[str, Any], goto: Sequence[str] = ()
    ) -> list[Target]:
        """Applies the completion of `node` with what it writes; returns what follows, in order.

        `goto` names nodes to go to besides what the routers say, as a `Command` does; the caller
        has checked that they exist, since LangGraph only logs an unknown one.

        Raises:
            InternalError: when entered while another apply is under way.
        """
        with self._alone():
            self._sends.sent.clear()
            await self._update(thread, values, node, goto)
            state = await self._graph.aget_state(_config(thread))
        sent = list(self._sends.sent)
        names = list(state.next)
        for send in sent:
            names.remove(send.node)
        # LangGraph's own order comes from a set; ours must be the same in every process.
        names.sort(key=lambda name: self._rank.get(name, len(self._rank)))
        return [Target(name) for name in names] + [Target(s.node, s.arg) for s in sent]

    async def forget(self, thread: str) -> None:
        """Drops a thread."""
        await self._saver.adelete_thread(thread)

    async def _update(
        self, thread: str, values: Mapping[str, Any], node: str, goto: Sequence[str] = ()
    ) -> None:
        update = Command(update=dict(values), goto=list(goto)) if goto else dict(values)
        # With LangSmith tracing on, applying would send network traffic from the workflow.
        with tracing_context(enabled=False):
            await self._graph.aupdate_state(_config(thread), update, as_node=node)

    @contextmanager
    def _alone(self) -> Generator[None]:
        """Update and get are one critical section."""
        if self._busy:
            raise InternalError("a completion was applied while another one was being applied")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False


def _config(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}
