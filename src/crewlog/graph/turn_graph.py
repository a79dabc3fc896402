"""An agent's turn as a graph of its own: `model ⇄ tools`, driven like the run's.

    model ──(tool calls)──► tool * n ──(all applied)──► model
      └──(none)──► end        └──(a tool handed off)──► end

One compiled graph serves every turn of a worker; the thread is the step. The position inside a
turn is a `Turn` in the frontier, from which `restore` puts the graph back. Every turn begins
with its model, so beginning one needs no apply: the first is the model's reply.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict, cast

from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from crewlog.graph.driver import RESTORE, Driver, SendRecorder
from crewlog.graph.saver import LatestSaver
from crewlog.ids import StepId
from crewlog.state.model import Turn

MODEL = "model"
TOOL = "tool"


class Position(TypedDict, total=False):
    """The channels of a turn."""

    calls: tuple[int, ...]
    """The numbers of the tool calls that the last reply asked for."""
    returned: int
    """How many of them are applied."""
    handed_off: bool
    """Whether a tool sent the run elsewhere, which ends the turn."""


async def _placeholder(state: Position) -> Position:
    return state


class TurnGraph:
    """Drives turns: which calls follow a reply, and whether a result ends the batch."""

    def __init__(self) -> None:
        sends = SendRecorder()

        async def after_model(state: Position) -> list[str | Send]:
            return sends.record([Send(TOOL, number) for number in state.get("calls", ())] or [END])

        async def after_tool(state: Position) -> list[str]:
            if state.get("returned", 0) < len(state.get("calls", ())):
                return []
            return [END if state.get("handed_off") else MODEL]

        graph: StateGraph[Position, None, Position, Position] = StateGraph(Position)
        for name in (MODEL, TOOL, RESTORE):
            graph.add_node(name, _placeholder)
        graph.add_edge(START, MODEL)
        graph.add_conditional_edges(MODEL, after_model, [TOOL, END])
        graph.add_conditional_edges(TOOL, after_tool, [MODEL, END])
        saver = LatestSaver()
        compiled = graph.compile(checkpointer=saver, name="turn")
        self._driver = Driver(cast("Any", compiled), saver, [MODEL, TOOL], sends)

    async def restore(self, step: StepId, turn: Turn) -> None:
        """Puts a turn back where it was; nothing becomes ready by it."""
        batch = tuple(range(turn.next_call - turn.expected, turn.next_call))
        position: Position = {
            "calls": batch,
            "returned": turn.returned,
            "handed_off": bool(turn.goto),
        }
        await self._driver.restore(step, position)

    async def replied(self, step: StepId, calls: Sequence[int]) -> list[int]:
        """Applies a model's reply; returns the tool calls to make, empty where the turn is over."""
        values: Position = {"calls": tuple(calls), "returned": 0, "handed_off": False}
        return [cast("int", t.item) for t in await self._driver.apply(step, MODEL, values)]

    async def returned(self, step: StepId, turn: Turn) -> bool:
        """Applies a tool's result, counted in `turn` already; true where the model is next."""
        values: Position = {"returned": turn.returned, "handed_off": bool(turn.goto)}
        return bool(await self._driver.apply(step, TOOL, values))

    async def end(self, step: StepId) -> None:
        """Forgets a turn."""
        await self._driver.forget(step)
