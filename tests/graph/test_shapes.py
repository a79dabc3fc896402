"""What lists say of their items: kept small, whatever they say, and told where it is too much."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crewlog.ids import StepId
from crewlog.state.calls import StructuredOutput, addressed_items
from crewlog.state.carry import Carry
from crewlog.state.item_specs import (
    MAX_AGENTS,
    MAX_IDS_READ,
    MAX_ITEMS,
    has_any_of,
    list_spec,
    pack_numbers,
    unpack_numbers,
)
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, as_json, folded, returns, run, says
from graph.test_pools import WORK, begun, made, output, pool, who, wide


def each_after_all_before(count: int) -> list[dict[str, Any]]:
    ids = [f"s{n:03}".ljust(64, "x") for n in range(count)]
    return [{"id": ids[n], "agent": "a", "after": ids[:n]} for n in range(count)]


def size(value: Any) -> int:
    return len(json.dumps(value.to_json()))


async def test_two_hundred_steps_each_after_all_before_are_a_small_state() -> None:
    sim = await begun(each_after_all_before(200), pool())
    await sim.finish("maker#1", "maker#1", "maker#1")
    for number in range(1, 7):
        await sim.finish(f"work#1.{number}")
    mapped = sim.state.frontier[StepId("work#1")].child_steps
    assert mapped is not None
    assert size(mapped) < 5_000  # 3.7 KB; every edge by its ids were 1.4 MB
    state = sim.state.to_json()
    assert size(Carry(plan=sim.engine.plan.to_json(), state=state)) < 16_000
    assert max(len(json.dumps(entry)) for entry in sim.journal[1:]) < 2_000_000
    without = [{k: v for k, v in e.items() if k != "inline"} for e in sim.journal]
    assert max(len(json.dumps(entry)) for entry in without) < 4_000
    await sim.run()
    assert sim.state.status == "completed"
    assert [s for s in sim.ran() if "." in s] == [f"work#1.{n}" for n in range(1, 201)]
    assert as_json(folded(sim.journal)) == as_json(sim.state)


def scattered(count: int) -> list[dict[str, Any]]:
    """Items that wait for every second one before them: nothing of it stands in rows."""
    return [
        {"id": n, "agent": "a", "after": list(range(n % 2, n, 2)), "task": "x" * 9}
        for n in range(count)
    ]


async def test_whatever_a_plan_of_two_hundred_steps_says_fits() -> None:
    sim = await made(scattered(200))
    assert sim.state.status == "completed"


TOO_MUCH: list[tuple[list[dict[str, Any]], str]] = [
    (scattered(240), "up to 119 others each, for 14,280 together, and at most 10,000 "),
    (each_after_all_before(1) * (MAX_ITEMS + 1), "it has 10,001 items, and at most 10,000"),
    (
        [{"agent": "a", "after": ["x"] * (MAX_IDS_READ + 1)}],
        "its items wait for 100,001 others, and at most 100,000",
    ),
    ([{"agent": f"a{n}"} for n in range(MAX_AGENTS + 1)], "its items name 101 agents"),
]


@pytest.mark.parametrize(("items", "fault"), TOO_MUCH)
async def test_what_says_more_than_is_kept_is_a_fault_that_people_are_told(
    items: list[dict[str, Any]], fault: str
) -> None:
    sim = await made(items)
    (refused,) = sim.facts("ItemsRefused")
    assert fault in refused["errors"][0]
    assert fault in sim.asked().question
    assert len(json.dumps(sim.state.to_json())) < 10_000


async def test_all_lists_of_a_run_have_one_bound() -> None:
    agents = {f"m{n}": {"outputs": ["list"]} for n in range(4)}
    listed = output(scattered(150))
    work = [{**WORK, "phase": f"w{n}", "for_each": f"m{n}.list", "among": ["a"]} for n in range(4)]
    flow: list[Any] = [*agents, {"if": "ok", "go": "end"}, *work]
    script = Replies(
        {f"m{n}#1": [says("", "set_output")] for n in range(4)},
        {"set_output": returns(outputs=(listed,))},
    )
    sim = await run(plan_of(flow, {**agents, "a": {}}, flags={"ok": True}), script)
    shapes = [e["spec"] for e in sim.facts("OutputSet") if "spec" in e]
    assert [bool(shape.get("errors")) for shape in shapes] == [False, False, False, True]
    assert "the run's other lists" in shapes[-1]["errors"][0]
    assert size(sim.state) < 80_000


def test_many_ids_that_no_item_has_are_told_quickly() -> None:
    shape = list_spec([{"id": n, "after": [f"no{n}"]} for n in range(MAX_ITEMS)], {"agent"})
    assert shape is not None
    assert (len(shape.errors), shape.more) == (5, MAX_ITEMS - 5)


@given(st.lists(st.integers(1, 60)), st.lists(st.integers(1, 60), unique=True))
def test_rows_of_numbers_are_the_numbers(numbers: list[int], others: list[int]) -> None:
    small = pack_numbers(numbers)
    assert unpack_numbers(small) == tuple(sorted({*numbers}))
    assert len(small) <= len({*numbers})
    assert has_any_of(small, sorted(others)) == bool({*numbers} & {*others})


# -- large items that are added to a list by themselves --------------------------------------------


TAGGED = {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "object"}}}}


async def test_items_that_are_handed_on_name_their_agents() -> None:
    reply = {"schema": TAGGED, "tagged": {"list": "agent"}}
    plan = pool(agents={"maker": {"reply": reply}})
    items = wide([{"agent": "b", "id": "y", "after": ["x"]}, {"agent": "a", "id": "x"}])
    read = StructuredOutput(outputs=tuple(addressed_items("list", items, "agent")))
    sim = await run(plan, Replies({"maker#1": [says("{}", reply=read)]}))
    assert (who(sim), sim.ran()[1]) == ({"1": "b", "2": "a"}, "work#1.2")


async def test_large_items_that_people_put_in_name_their_agents() -> None:
    sim = await Simulation.begin(pool(merge={"maker.list": "append"}))
    await sim.command("edit_state", set={"outputs.maker.list": wide([{"agent": "b"}])})
    await sim.run()
    assert who(sim) == {"1": "b"}
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_a_large_item_that_is_added_waits_for_few() -> None:
    long = wide([{"agent": "a", "id": "x"}, {"agent": "a", "after": [*map(str, range(21))]}])
    script = Replies(
        {"maker#1": [says("", "set_output", "set_output")]},
        {f"set_output/{n}": returns(outputs=(output(v),)) for n, v in enumerate(long, 2)},
    )
    sim = await run(pool(merge={"maker.list": "append"}), script)
    assert "waits for 21 others, and at most 20 in a list that grows" in sim.asked().question
