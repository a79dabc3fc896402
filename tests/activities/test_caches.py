"""The caches of a worker are limited, and a value is made once."""

from __future__ import annotations

import asyncio
import importlib
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from activity_kit import crew
from langchain_core.language_models import BaseChatModel, FakeListChatModel

from crewlog.activities import tool_loader as tools_module
from crewlog.activities.caches import LoadingCache
from crewlog.activities.chat_models import ModelFactory, register
from crewlog.activities.tool_loader import Tool, ToolLoader
from crewlog.definition.model import ToolDefinition
from crewlog.errors import ModelRequestRejected
from crewlog.ids import ToolName


class Slow:
    """Builds models, each only when it may."""

    def __init__(self) -> None:
        self.built: list[str] = []
        self.begun, self.may_end = threading.Event(), threading.Event()
        self.fails = False

    def __call__(self, name: str, *_: object) -> BaseChatModel:
        self.built.append(name)
        self.begun.set()
        assert self.may_end.wait(10)
        if self.fails:
            raise ModelRequestRejected("not now")
        return FakeListChatModel(responses=[name])


@pytest.fixture
def slow() -> Iterator[Slow]:
    builder = Slow()
    register("slow", builder)
    yield builder
    builder.may_end.set()


async def test_a_model_of_two_calls_is_made_once(slow: Slow) -> None:
    factory = ModelFactory()
    asking = [asyncio.ensure_future(factory.get("slow:a", {}, 1)) for _ in "abc"]
    assert await asyncio.to_thread(slow.begun.wait, 10)
    slow.may_end.set()
    first, *others = await asyncio.gather(*asking)
    assert all(other is first for other in others)
    assert await factory.get("slow:a", {}, 1) is first
    assert slow.built == ["a"]


async def test_a_cancelled_call_does_not_cancel_the_others(slow: Slow) -> None:
    factory = ModelFactory()
    first, second = (asyncio.ensure_future(factory.get("slow:a", {}, 1)) for _ in "ab")
    assert await asyncio.to_thread(slow.begun.wait, 10)
    first.cancel()
    await asyncio.wait({first})
    slow.may_end.set()
    assert isinstance(await second, BaseChatModel)
    assert slow.built == ["a"]


async def test_each_call_has_its_own_error_and_errors_are_not_cached(slow: Slow) -> None:
    factory = ModelFactory()
    slow.fails = True
    slow.may_end.set()
    asking = [factory.get("slow:a", {}, 1) for _ in "ab"]
    one, other = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(one, ModelRequestRejected)
    assert isinstance(other, ModelRequestRejected)
    assert one is not other
    slow.fails = False
    assert isinstance(await factory.get("slow:a", {}, 1), BaseChatModel)


async def test_the_models_used_longest_ago_are_dropped(slow: Slow) -> None:
    slow.may_end.set()
    factory = ModelFactory(most=2)
    for name in ("a", "b", "a", "c", "a", "b"):
        await factory.get(f"slow:{name}", {}, 1)
    assert slow.built == ["a", "b", "c", "b"]
    assert len(factory._models) == 2


async def test_each_setting_makes_another_model(slow: Slow) -> None:
    slow.may_end.set()
    factory = ModelFactory()
    made = [
        await factory.get("slow:a", settings, timeout)
        for settings, timeout in [({}, 1), ({"t": 1}, 1), ({}, 2), ({"t": 1}, 1)]
    ]
    assert len(slow.built) == 3
    assert made[1] is made[3]


async def test_tools_are_imported_once_and_the_oldest_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []
    resolved = tools_module._import_tool

    def noting(name: ToolName, definition: ToolDefinition, *more: Any) -> Tool:
        made.append(name)
        return resolved(name, definition, *more)

    monkeypatch.setattr(tools_module, "_import_tool", noting)
    registry = ToolLoader(most=2)
    definition = crew()

    async def ready(name: str) -> Tool:
        return await registry.load(ToolName(name), definition)

    first, second = await asyncio.gather(ready("add"), ready("add"))
    assert first is second
    for name in ("boom", "add", "gives", "add", "boom"):
        await ready(name)
    assert made == ["add", "boom", "gives", "boom"]


async def test_import_caches_are_cleared_by_one_thread_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Python's own deletes entries of a list that it made before: the second one finds them gone.
    both, at_once = threading.Barrier(2), list[bool]()

    def invalidate() -> None:
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
            at_once.append(True)

    monkeypatch.setattr(importlib, "invalidate_caches", invalidate)
    registry = ToolLoader()
    names = [ToolName(name) for name in ("loads", "dumps")]
    definition = crew(tools={name: {"run": f"json:{name}"} for name in names})
    await asyncio.gather(*(registry.load(name, definition) for name in names))
    assert not at_once


async def test_values_are_dropped_beyond_the_limit() -> None:
    made: LoadingCache[str, str] = LoadingCache(2)
    for key in "abc":
        assert await made.get_or_load(key, lambda key=key: key * 2) == key * 2  # type: ignore[misc]
    assert len(made) == 2
