"""An agent's turn as a graph of its own: `model ⇄ tools`, driven like the run's.

    model ──(tool calls)──► tool * n ──(all applied)──► model
      └──(none)──► end        └──(a tool handed off)──► end

The position inside a turn is a `Turn` in the frontier, and each apply is given all of it. So one
graph serves every turn. Every turn begins with its model, so beginning one needs no apply: the
first is the model's reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, cast

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from crewlog.graph.driver import Driver, graph_cache
from crewlog.graph.saver import LatestSaver
from crewlog.state.model import Turn

MODEL = "model"
TOOL = "tool"


class Position(TypedDict):
    """The channels of a turn."""

    calls: tuple[int, ...]
    """The numbers of the tool calls that the last reply asked for."""
    returned: int
    """How many of them are applied."""
    handed_off: bool
    """Whether a tool sent the run elsewhere, which ends the turn."""


async def _placeholder(state: Position) -> Position:
    return state


def _after_model(state: Position) -> list[str | Send]:
    return [Send(TOOL, number) for number in state["calls"]] or [END]


def _after_tool(state: Position) -> list[str | Send]:
    if state["returned"] < len(state["calls"]):
        return []
    return [END if state["handed_off"] else MODEL]


def _compiled(saver: LatestSaver) -> Any:
    graph: StateGraph[Position, None, Position, Position] = StateGraph(Position)
    graph.add_node(MODEL, _placeholder)
    graph.add_node(TOOL, _placeholder)
    graph.add_edge(START, MODEL)
    graph.add_conditional_edges(MODEL, _after_model, [TOOL, END])
    graph.add_conditional_edges(TOOL, _after_tool, [MODEL, END])
    return graph.compile(checkpointer=saver, name="turn")


class TurnSubgraph:
    """Drives turns: which calls follow a reply, and whether a result ends the batch."""

    def __init__(self) -> None:
        routers = {MODEL: _after_model, TOOL: _after_tool}
        self._driver = Driver(_compiled, routers, [MODEL, TOOL], graph_cache("turn"))

    async def replied(self, calls: Sequence[int]) -> list[int]:
        """Applies a model's reply; returns the tool calls to make, empty where the turn is over."""
        values: Position = {"calls": tuple(calls), "returned": 0, "handed_off": False}
        return [cast("int", t.item) for t in self._driver.apply(MODEL, values)]

    async def returned(self, turn: Turn) -> bool:
        """Applies a tool's result, counted in `turn` already; true where the model is next."""
        values: Position = {
            "calls": tuple(range(turn.next_call - turn.expected, turn.next_call)),
            "returned": turn.returned,
            "handed_off": bool(turn.goto),
        }
        return bool(self._driver.apply(TOOL, values))
