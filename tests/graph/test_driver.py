"""The driver: an order of its own, what was sent, and one question for each choice of routes."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Send

from crewlog.graph.checkpoint_saver import LatestSaver
from crewlog.graph.driver import MAX_CHOICES, Driver, GraphCache, Target, graph_cache
from crewlog.graph.turns import TurnSubgraph
from crewlog.state.model import Turn


class Facts(TypedDict, total=False):
    to: list[Any]


NAMES = ["zebra", "apple", "mango"]


class Lab:
    """Three nodes, added in another order, and a router that goes where `to` says."""

    def __init__(self, memory: GraphCache | None = None) -> None:
        self.compiled = 0
        self.memory = memory or GraphCache()
        self.targets = self.memory.targets
        self.driver = Driver(self._compile, dict.fromkeys(NAMES, route), NAMES, self.memory)

    def _compile(self, saver: LatestSaver) -> Any:
        self.compiled += 1
        graph = StateGraph(Facts)
        for name in sorted(NAMES):
            graph.add_node(name, placeholder)
        for name in (START, *NAMES):
            graph.add_conditional_edges(name, route, [*NAMES, END])
        return graph.compile(checkpointer=saver)


async def placeholder(state: Facts) -> Facts:
    return state


def route(state: Facts) -> list[str | Send]:
    return state.get("to") or [END]


async def test_targets_come_in_the_order_of_the_plan() -> None:
    found = Lab().driver.apply("zebra", {"to": ["mango", "apple", "zebra"]})
    assert found == [Target("zebra"), Target("apple"), Target("mango")]


async def test_what_was_sent_comes_with_its_target_in_the_order_of_sending() -> None:
    lab = Lab()
    for _ in range(2):  # asked, and remembered
        to = [Send("mango", 2), "zebra", Send("apple", {"n": 1}), Send("mango", 1)]
        found = lab.driver.apply("zebra", {"to": to})
        sent = [Target("mango", 2), Target("apple", {"n": 1}), Target("mango", 1)]
        assert found == [Target("zebra"), *sent]


async def test_what_was_sent_is_never_part_of_what_is_remembered() -> None:
    lab = Lab()
    assert lab.driver.apply("zebra", {"to": [Send("mango", 2)]}) == [Target("mango", 2)]
    assert lab.driver.apply("zebra", {"to": [Send("mango", 3)]}) == [Target("mango", 3)]
    assert lab.driver.apply("mango", {"to": ["apple"]}) == [Target("apple")]
    assert len(lab.targets) == 2


@pytest.mark.parametrize("sent_first", [True, False])
async def test_a_route_to_a_node_and_what_is_sent_to_it_are_two_choices(sent_first: bool) -> None:
    lab = Lab()
    choices: list[tuple[list[Any], list[Target]]] = [
        ([Send("mango", 2)], [Target("mango", 2)]),
        (["mango"], [Target("mango")]),
    ]
    for to, targets in choices if sent_first else choices[::-1]:
        assert lab.driver.apply("zebra", {"to": to}) == targets


async def test_no_checkpoint_is_kept_once_a_question_is_answered() -> None:
    lab = Lab()
    for to in (["mango"], ["apple"], [Send("mango", 2)]):
        lab.driver.apply("zebra", {"to": to})
    assert lab.memory.saver._latest == {}


async def test_a_goto_comes_besides_the_routes() -> None:
    lab = Lab()
    for _ in range(2):
        found = lab.driver.apply("zebra", {"to": ["mango"]}, goto=("apple",))
        assert found == [Target("apple"), Target("mango")]
        assert lab.driver.apply("zebra", {"to": ["mango"]}) == [Target("mango")]


async def test_nothing_is_left_of_an_apply_before() -> None:
    lab = Lab()
    assert lab.driver.apply("zebra", {"to": ["mango", "apple"]})
    assert lab.driver.apply("zebra", {"to": []}) == []
    assert lab.driver.apply("apple", {"to": ["zebra"]}) == [Target("zebra")]


async def test_langgraph_is_asked_once_for_each_choice_and_compiles_only_then() -> None:
    first = Lab()
    assert first.compiled == 0
    for _ in range(3):
        first.driver.apply("zebra", {"to": ["mango"]})
    assert first.compiled == 1
    assert len(first.targets) == 1
    second = Lab(first.memory)
    assert second.driver.apply("zebra", {"to": ["mango"]}) == [Target("mango")]
    assert second.driver.apply("apple", {"to": ["mango"]}) == [Target("mango")]
    assert second.compiled == 0


async def test_drivers_of_one_graph_can_ask_it_from_several_threads() -> None:
    memory = GraphCache()
    labs = [Lab(memory) for _ in range(8)]

    def ask(lab: Lab) -> list[list[Target]]:
        choices = [["mango"], ["apple"], ["zebra", "mango"], [Send("apple", 1)]]
        return [lab.driver.apply(name, {"to": to}) for name in NAMES for to in choices]

    found = await asyncio.gather(*(asyncio.to_thread(ask, lab) for lab in labs))
    assert all(each == ask(Lab()) for each in found)
    assert memory.saver._latest == {}


async def test_langgraph_is_not_asked_where_its_routers_choose_nothing() -> None:
    lab = Lab()
    lab.driver = Driver(lab._compile, {"zebra": lambda _: []}, NAMES, lab.memory)
    assert lab.driver.apply("zebra", {}) == []
    assert lab.compiled == 0


async def test_what_is_remembered_has_a_bound() -> None:
    lab = Lab()
    lab.targets.update(dict.fromkeys(range(MAX_CHOICES), ()))
    assert lab.driver.apply("zebra", {"to": ["mango"]}) == [Target("mango")]
    assert len(lab.targets) == 1


async def test_an_apply_that_fails_leaves_the_driver_usable() -> None:
    lab = Lab()
    with pytest.raises(KeyError, match="nobody"):
        lab.driver.apply("nobody", {})
    assert lab.driver.apply("zebra", {"to": ["mango"]}) == [Target("mango")]


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_a_turn_goes_back_to_the_model_after_its_last_tool(count: int) -> None:
    graph = TurnSubgraph()
    numbers = list(range(2, 2 + count))
    assert await graph.apply_message(numbers) == numbers
    turn = Turn(expected=count, next_call=2 + count)
    for done in range(1, count + 1):
        turn = turn.model_copy(update={"returned": done})
        assert await graph.apply_tool_result(turn) is (done == count)


async def test_a_turn_needs_nothing_but_its_position() -> None:
    turn = Turn(expected=3, next_call=5, returned=1)
    for done in (2, 3):
        turn = turn.model_copy(update={"returned": done})
        assert await TurnSubgraph().apply_tool_result(turn) is (done == 3)
    handed_off = turn.model_copy(update={"goto": ("b",)})
    assert await TurnSubgraph().apply_tool_result(handed_off) is False


async def test_nobody_else_goes_on_while_langgraph_is_asked() -> None:
    """Else a process that has the answer would give a workflow's commands in another order."""
    graph_cache.cache_clear()
    turns = TurnSubgraph()
    went: list[str] = []
    asyncio.get_running_loop().call_soon(went.append, "on")
    for _ in range(2):  # asked, and remembered
        assert await turns.apply_message([1, 2]) == [1, 2]
        assert await turns.apply_message([]) == []
    assert not went
    await asyncio.sleep(0)
    assert went
