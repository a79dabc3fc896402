"""The driver: one apply at a time, an order of its own, and what was sent."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send
from typing_extensions import override

from crewlog.errors import InternalError
from crewlog.graph.driver import RESTORE, Driver, SendRecorder, Target
from crewlog.graph.saver import LatestSaver
from crewlog.graph.turn_graph import TurnGraph
from crewlog.state.model import Turn


class Facts(TypedDict, total=False):
    to: list[Any]
    seen: int


NAMES = ["zebra", "apple", "mango"]


class SlowSaver(LatestSaver):
    """Yields to the event loop where it is read, as a saver may."""

    @override
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        await asyncio.sleep(0)
        return await super().aget_tuple(config)


def driver() -> Driver:
    """Three nodes, added in another order, and a router that goes where `to` says."""
    sends = SendRecorder()

    async def placeholder(state: Facts) -> Facts:
        return state

    async def route(state: Facts) -> list[str | Send]:
        return sends.record(state.get("to") or [END])

    graph = StateGraph(Facts)
    for name in (*sorted(NAMES), RESTORE):
        graph.add_node(name, placeholder)
    for name in (START, *NAMES):
        graph.add_conditional_edges(name, route, [*NAMES, END])
    saver = SlowSaver()
    return Driver(graph.compile(checkpointer=saver), saver, NAMES, sends)


async def test_targets_come_in_the_order_of_the_plan() -> None:
    found = await driver().apply("t", "zebra", {"to": ["mango", "apple", "zebra"]})
    assert found == [Target("zebra"), Target("apple"), Target("mango")]


async def test_what_was_sent_comes_with_its_target_in_the_order_of_sending() -> None:
    to = [Send("mango", 2), "zebra", Send("apple", {"n": 1}), Send("mango", 1)]
    found = await driver().apply("t", "zebra", {"to": to})
    expected = [Target("zebra"), Target("mango", 2), Target("apple", {"n": 1}), Target("mango", 1)]
    assert found == expected


async def test_what_was_sent_is_not_sent_again() -> None:
    one = driver()
    await one.apply("t", "zebra", {"to": [Send("mango", 2)]})
    assert await one.apply("t", "mango", {"to": ["apple"]}) == [Target("apple")]


async def test_a_goto_comes_besides_the_routes() -> None:
    found = await driver().apply("t", "zebra", {"to": ["mango"]}, goto=("apple",))
    assert found == [Target("apple"), Target("mango")]


async def test_restoring_makes_nothing_ready_and_keeps_the_values() -> None:
    one = driver()
    await one.restore("t", {"to": ["mango"]})
    assert await one.apply("t", "zebra", {"seen": 1}) == [Target("mango")]


async def test_threads_are_apart_and_can_be_forgotten() -> None:
    one = driver()
    await one.restore("t", {"to": ["mango"]})
    assert await one.apply("other", "zebra", {"seen": 1}) == []
    await one.forget("t")
    await one.forget("never")
    assert await one.apply("t", "zebra", {"seen": 1}) == []


async def test_a_second_apply_is_refused_wherever_the_first_one_yields() -> None:
    one = driver()
    first = asyncio.ensure_future(one.apply("t", "zebra", {"to": ["mango"]}))
    await asyncio.sleep(0)
    refused = 0
    while not first.done():
        with pytest.raises(InternalError, match="while another one was being applied"):
            await one.apply("t", "apple", {"to": ["apple"]})
        with pytest.raises(InternalError):
            await one.restore("t", {"to": ["apple"]})
        refused += 1
        await asyncio.sleep(0)
    assert refused > 2
    assert await first == [Target("mango")]
    assert await one.apply("t", "mango", {"to": ["apple"]}) == [Target("apple")]


async def test_an_apply_that_fails_does_not_lock_the_driver() -> None:
    one = driver()
    with pytest.raises(Exception, match="nobody"):
        await one.apply("t", "nobody", {})
    assert await one.apply("t", "zebra", {"to": ["mango"]}) == [Target("mango")]


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_a_turn_goes_back_to_the_model_after_its_last_tool(count: int) -> None:
    graph = TurnGraph()
    numbers = list(range(2, 2 + count))
    assert await graph.replied("a#1", numbers) == numbers  # type: ignore[arg-type]
    turn = Turn(expected=count, next_call=2 + count)
    for done in range(1, count + 1):
        turn = turn.model_copy(update={"returned": done})
        assert await graph.returned("a#1", turn) is (done == count)  # type: ignore[arg-type]


async def test_a_turn_is_put_back_in_the_middle_of_a_batch() -> None:
    graph = TurnGraph()
    turn = Turn(expected=3, next_call=5, returned=1)
    await graph.restore("a#1", turn)  # type: ignore[arg-type]
    for done in (2, 3):
        turn = turn.model_copy(update={"returned": done})
        assert await graph.returned("a#1", turn) is (done == 3)  # type: ignore[arg-type]
    assert await graph.replied("a#1", [6, 7]) == [6, 7]  # type: ignore[arg-type]
