"""Plain LangGraph with its Postgres saver, in a process that answers orders line by line.

An order is `{"do": "steps", "steps": 100}` or `{"do": "lanes", "lanes": [[0.2, 0.4], …]}`; the
answer is `{"seconds": …}`. Each run has a thread of its own; graphs are compiled before the clock
starts. The saver has a connection of its own in autocommit mode, as its documentation says.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import uuid
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.prebuilt import ToolNode

from bench.peers.model import BenchModel
from bench.peers.tools import nap

RING = 10


class Ring(MessagesState):
    """The transcript, and how long it shall get."""

    until: int


def ring(saver: AsyncPostgresSaver) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A ring of ten agents."""
    model = BenchModel()

    async def step(state: Ring) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def around(state: Ring) -> str:
        return END if len(state["messages"]) > state["until"] else "agent0"

    made = StateGraph(Ring)
    for number in range(RING):
        made.add_node(f"agent{number}", step)
    made.add_edge(START, "agent0")
    for number in range(1, RING):
        made.add_edge(f"agent{number - 1}", f"agent{number}")
    made.add_conditional_edges(f"agent{RING - 1}", around, ["agent0", END])
    return made.compile(checkpointer=saver)


def turn(seconds: float) -> CompiledStateGraph[Any, Any, Any, Any]:
    """An agent that calls a tool once: model, tool, model."""
    model = BenchModel(does=f"nap-{seconds}")

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    async def on(state: MessagesState) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    made = StateGraph(MessagesState)
    made.add_node("model", think)
    made.add_node("tools", ToolNode([nap]))
    made.add_edge(START, "model")
    made.add_conditional_edges("model", on, ["tools", END])
    made.add_edge("tools", "model")
    return made.compile()


def lanes(
    saver: AsyncPostgresSaver, naps: list[list[float]]
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """Lanes of agents, each a subgraph."""
    made = StateGraph(MessagesState)
    for lane, row in enumerate(naps):
        for place, seconds in enumerate(row):
            made.add_node(f"lane{lane}_{place}", turn(seconds))
            before = f"lane{lane}_{place - 1}" if place else START
            made.add_edge(before, f"lane{lane}_{place}")
    return made.compile(checkpointer=saver)


async def timed(app: CompiledStateGraph[Any, Any, Any, Any], given: dict[str, Any]) -> float:
    """Seconds of one run."""
    config: RunnableConfig = {
        "configurable": {"thread_id": str(uuid.uuid4())},
        "recursion_limit": 10_000,
    }
    began = time.perf_counter()
    await app.ainvoke(given, config)
    return time.perf_counter() - began


async def obey(saver: AsyncPostgresSaver, order: dict[str, Any]) -> float:
    """Seconds of what is ordered."""
    first = [HumanMessage("go")]
    if order["do"] == "steps":
        return await timed(ring(saver), {"messages": first, "until": order["steps"]})
    return await timed(lanes(saver, order["lanes"]), {"messages": first})


async def serve() -> None:
    """Answers orders until there are none."""
    async with AsyncPostgresSaver.from_conn_string(os.environ["DATABASE_URL"]) as saver:
        await saver.setup()
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            seconds = await obey(saver, json.loads(line))
            print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    asyncio.run(serve())
