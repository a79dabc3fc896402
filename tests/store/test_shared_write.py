"""Shared writes: one statement for all who write while another is under way."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from crewlog.store.shared_queries import MOST_VALUES, SharedWrite


class Table:
    """Values, and the statements that stored them; a statement ends when it is let."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}
        self.statements: list[list[str]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, values: Mapping[str, int]) -> None:
        self.statements.append(list(values))
        await self.gate.wait()
        if "bad" in values:
            raise ValueError("bad is refused")
        self.values |= values


async def begun(table: Table, count: int) -> None:
    async with asyncio.timeout(5):
        while len(table.statements) < count:  # noqa: ASYNC110 - the loop's next turns end it
            await asyncio.sleep(0)


async def behind_one(table: Table, shared: SharedWrite[str, int]) -> asyncio.Task[None]:
    """A write that is under way until the gate opens."""
    table.gate.clear()
    first = asyncio.create_task(shared.put({"first": 0}))
    await begun(table, 1)
    return first


async def test_a_single_write_is_one_statement() -> None:
    table = Table()
    await SharedWrite(table.write).put({"a": 1, "b": 2})
    assert table.values == {"a": 1, "b": 2}
    assert table.statements == [["a", "b"]]


async def test_what_comes_during_a_write_is_one_statement() -> None:
    table = Table()
    shared = SharedWrite(table.write)
    first = await behind_one(table, shared)
    rest = [asyncio.create_task(shared.put({f"k{n}": n})) for n in range(32)]
    await asyncio.sleep(0)
    assert not any(each.done() for each in rest)
    table.gate.set()
    await asyncio.gather(first, *rest)
    assert table.statements == [["first"], [f"k{n}" for n in range(32)]]
    assert len(table.values) == 33


async def test_a_statement_has_a_bound() -> None:
    table = Table()
    shared = SharedWrite(table.write)
    first = await behind_one(table, shared)
    rest = [asyncio.create_task(shared.put({f"k{n}": n})) for n in range(MOST_VALUES + 1)]
    large = asyncio.create_task(shared.put({f"l{n}": n for n in range(2 * MOST_VALUES)}))
    await asyncio.sleep(0)
    table.gate.set()
    await asyncio.gather(first, *rest, large)
    assert [len(each) for each in table.statements] == [1, MOST_VALUES, 1, 2 * MOST_VALUES]


async def test_a_refused_value_fails_its_own_caller_alone() -> None:
    table = Table()
    shared = SharedWrite(table.write)
    first = await behind_one(table, shared)
    names = ["a", "bad", "c"]
    rest = [asyncio.create_task(shared.put({name: 1})) for name in names]
    await asyncio.sleep(0)
    table.gate.set()
    await first
    found = await asyncio.gather(*rest, return_exceptions=True)
    assert [str(each) for each in found] == ["None", "bad is refused", "None"]
    assert table.values == {"first": 0, "a": 1, "c": 1}


async def test_a_failed_write_is_tried_once_for_a_single_caller() -> None:
    table = Table()
    shared = SharedWrite(table.write)
    with pytest.raises(ValueError, match="refused"):
        await shared.put({"bad": 1})
    assert len(table.statements) == 1
    await shared.put({"a": 1})
    assert table.values == {"a": 1}


async def test_a_cancelled_caller_holds_up_nobody() -> None:
    table = Table()
    shared = SharedWrite(table.write)
    first = await behind_one(table, shared)
    one, other = (asyncio.create_task(shared.put({name: 1})) for name in ("a", "b"))
    await asyncio.sleep(0)
    one.cancel()
    first.cancel()
    table.gate.set()
    await other
    assert table.values == {"first": 0, "a": 1, "b": 1}


async def test_nobody_waits_for_a_statement_that_was_cancelled() -> None:
    table = Table()
    shared = SharedWrite(table.write)
    first = await behind_one(table, shared)
    waiting = asyncio.create_task(shared.put({"a": 1}))
    await asyncio.sleep(0)
    assert shared._task is not None
    shared._task.cancel()
    found = await asyncio.gather(first, waiting, return_exceptions=True)
    assert all(isinstance(each, asyncio.CancelledError) for each in found)
    table.gate.set()
    await shared.put({"b": 1})
    assert table.values == {"b": 1}
