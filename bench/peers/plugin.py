"""The official LangGraph plugin: a ring of ten nodes, each an activity that calls the model.

`temporalio.contrib.langgraph` of the SDK is only another name for it. The state is the transcript,
as in LangGraph's own examples; its messages are plain dicts, the smallest form there is.
"""

from __future__ import annotations

import operator
from datetime import timedelta
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from temporalio import workflow
from temporalio.langgraph import LangGraphPlugin, graph

with workflow.unsafe.imports_passed_through():
    from bench.peers.model import BenchModel

TYPE = "PluginRun"
RING = 10
_MODEL = BenchModel()


class State(TypedDict):
    """The transcript, and how long it shall get."""

    messages: Annotated[list[dict[str, Any]], operator.add]
    until: int


async def step(state: State) -> dict[str, Any]:
    """One model call on the whole transcript."""
    reply = await _MODEL.ainvoke(state["messages"])
    return {"messages": [{"role": "assistant", "content": reply.text}]}


async def around(state: State) -> str:
    """Once more around the ring, or the end."""
    return END if len(state["messages"]) > state["until"] else "agent0"


def ring() -> StateGraph[State, None, State, State]:
    """The graph; each run has its own number of rounds."""
    made: StateGraph[State, None, State, State] = StateGraph(State)
    options = {"execute_in": "activity", "start_to_close_timeout": timedelta(seconds=60)}
    for number in range(RING):
        made.add_node(f"agent{number}", step, metadata=options)
    made.add_edge(START, "agent0")
    for number in range(1, RING):
        made.add_edge(f"agent{number - 1}", f"agent{number}")
    made.add_conditional_edges(f"agent{RING - 1}", around, ["agent0", END])
    return made


@workflow.defn(name=TYPE)
class PluginRun:
    """Runs the ring until the transcript is long enough."""

    @workflow.run
    async def run(self, steps: int) -> int:
        """Makes so many steps."""
        app = graph("ring").compile()
        first = {"role": "user", "content": "go"}
        found = await app.ainvoke(
            {"messages": [first], "until": steps}, {"recursion_limit": steps + 10}
        )
        return len(found["messages"]) - 1


def plugin() -> LangGraphPlugin:
    """The plugin with the ring."""
    return LangGraphPlugin(graphs={"ring": ring()})
