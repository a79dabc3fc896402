"""Shared reads: one query for all who asked before it began."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from crewlog.store.shared_queries import SharedRead


class Source:
    """A value whose reads end when they are let."""

    def __init__(self) -> None:
        self.value = 0
        self.reads = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def read(self, keys: Sequence[str]) -> dict[str, tuple[str, int]]:
        self.reads += 1
        found = {key: (key, self.value) for key in keys}
        await self.gate.wait()
        return found


async def reads_begun(source: Source, count: int) -> None:
    async with asyncio.timeout(5):
        while source.reads < count:  # noqa: ASYNC110 - it ends with the next turns of the loop
            await asyncio.sleep(0)


async def test_callers_at_the_same_time_share_one_query() -> None:
    source = Source()
    shared = SharedRead(source.read)
    assert await asyncio.gather(*(shared.get("a") for _ in range(32))) == [("a", 0)] * 32
    assert source.reads == 1


async def test_keys_share_one_query() -> None:
    source = Source()
    shared = SharedRead(source.read)
    assert await asyncio.gather(shared.get("a"), shared.get("b")) == [("a", 0), ("b", 0)]
    assert source.reads == 1


async def test_no_caller_gets_a_value_older_than_its_question() -> None:
    source = Source()
    shared = SharedRead(source.read)
    source.gate.clear()
    early = asyncio.ensure_future(shared.get("a"))
    await reads_begun(source, 1)
    source.value = 1
    late = [asyncio.ensure_future(shared.get("a")) for _ in range(8)]
    await asyncio.sleep(0)
    source.gate.set()
    assert await early == ("a", 0)
    assert await asyncio.gather(*late) == [("a", 1)] * 8
    assert source.reads == 2


async def test_a_cancelled_caller_leaves_the_value_to_the_others() -> None:
    source = Source()
    shared = SharedRead(source.read)
    source.gate.clear()
    one, other = (asyncio.ensure_future(shared.get("a")) for _ in range(2))
    await reads_begun(source, 1)
    one.cancel()
    with pytest.raises(asyncio.CancelledError):
        await one
    source.gate.set()
    assert await other == ("a", 0)


async def test_a_failure_reaches_all_who_share_it_and_nobody_after() -> None:
    failures = [OSError("away")]

    async def read(keys: Sequence[str]) -> dict[str, str]:
        await asyncio.sleep(0)
        if failures:
            raise failures.pop()
        return {key: key for key in keys}

    shared = SharedRead(read)
    found = await asyncio.gather(*(shared.get("a") for _ in range(3)), return_exceptions=True)
    assert [str(each) for each in found] == ["away"] * 3
    assert await shared.get("a") == "a"


async def test_nothing_is_kept_once_all_are_answered() -> None:
    shared = SharedRead(Source().read)
    for _ in range(3):
        await asyncio.gather(shared.get("a"), shared.get("b"))
    assert not shared._waiting
    assert shared._task is None
