"""Async tools in their own loops: one that blocks or does not end delays no other."""

from __future__ import annotations

import asyncio
import contextvars
import threading
import time
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import crew_tools
import pytest
from activity_kit import crew, with_info
from structlog.testing import capture_logs
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from crewlog.activities import event_loops
from crewlog.activities.event_loops import EventLoopBlocked, EventLoops
from crewlog.errors import ToolFailed

WHO = contextvars.ContextVar[str]("WHO")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_loops, "CHECK_INTERVAL", 0.02)
    monkeypatch.setattr(event_loops, "BLOCKED_AFTER", 0.3)
    monkeypatch.setattr(event_loops, "CANCEL_TIMEOUT", 0.3)


@pytest.fixture
async def loops() -> AsyncGenerator[EventLoops]:
    made = EventLoops(most=3)
    yield made
    await made.close()


class Hog:
    """Blocks a loop until it is let go."""

    def __init__(self) -> None:
        self.began, self.ends = threading.Event(), threading.Event()

    async def __call__(self) -> str:
        self.began.set()
        self.ends.wait(60)
        return "done"


@pytest.fixture
def hog() -> Any:
    made = Hog()
    yield made
    made.ends.set()


async def told(text: str) -> str:
    return text


async def test_a_tool_has_its_own_loop_and_the_context_of_the_call(loops: EventLoops) -> None:
    async def where() -> tuple[asyncio.AbstractEventLoop, str]:
        return asyncio.get_running_loop(), WHO.get()

    WHO.set("me")
    (one, who), (same, _), (other, _) = [await loops.run(t, where) for t in ("a:x", "a:x", "a:y")]
    assert who == "me"
    assert one is same
    assert len({one, other, asyncio.get_running_loop()}) == 3


async def test_a_blocked_loop_is_logged_and_blocks_no_other_tool(
    loops: EventLoops, hog: Hog
) -> None:
    with capture_logs() as logs:
        blocked = asyncio.ensure_future(loops.run("a:hog", hog))
        await asyncio.to_thread(hog.began.wait, 60)
        assert await loops.run("a:told", lambda: told("hi")) == "hi"
        while not logs:  # noqa: ASYNC110 - another thread's loop is looked at
            await asyncio.sleep(0.01)
    (line,) = logs
    assert (line["event"], line["tool"]) == ("an async tool blocks its event loop", "a:hog")
    assert line["at"].startswith("test_event_loops.py:")
    hog.ends.set()
    assert await blocked == "done"  # without a heartbeat to miss, it may take its time


async def test_a_call_that_has_not_started_moves_to_another_loop(
    loops: EventLoops, hog: Hog
) -> None:
    blocked = asyncio.ensure_future(loops.run("a:hog", hog))
    await asyncio.to_thread(hog.began.wait, 60)
    began = time.monotonic()
    assert await asyncio.wait_for(loops.run("a:hog", lambda: told("hi")), 60) == "hi"
    assert time.monotonic() - began >= event_loops.BLOCKED_AFTER
    assert await loops.run("a:hog", lambda: told("at once")) == "at once"
    hog.ends.set()
    assert await blocked == "done"


async def test_the_number_of_threads_is_limited(loops: EventLoops) -> None:
    hogs = [Hog() for _ in range(4)]
    try:
        waiting = [
            asyncio.ensure_future(loops.run(f"a:hog{n}", each)) for n, each in enumerate(hogs[:2])
        ]
        for each in hogs[:2]:
            await asyncio.to_thread(each.began.wait, 60)
        assert await loops.run("a:one", lambda: told("1")) == "1"
        assert await loops.run("a:two", lambda: told("2")) == "2"  # shares the last thread
        waiting.append(asyncio.ensure_future(loops.run("a:hog3", hogs[2])))
        await asyncio.to_thread(hogs[2].began.wait, 60)
        with pytest.raises(
            EventLoopBlocked, match=r"each of the 3 threads .*: a:hog0, a:hog1, a:hog3"
        ):
            await asyncio.wait_for(loops.run("a:one", lambda: told("1")), 60)
    finally:
        for each in hogs:
            each.ends.set()
    assert await asyncio.gather(*waiting) == ["done"] * 3
    assert await loops.run("a:one", lambda: told("1")) == "1"


async def test_a_cancelled_call_that_does_not_end_is_abandoned(loops: EventLoops) -> None:
    began, ends = threading.Event(), threading.Event()

    async def clings() -> None:
        began.set()
        while not ends.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    call = asyncio.ensure_future(loops.run("a:clings", clings))
    await asyncio.to_thread(began.wait, 60)
    with capture_logs() as logs:
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, 60)
    assert [line["tool"] for line in logs] == ["a:clings"]
    assert "abandoned" in logs[0]["event"]
    assert await loops.run("a:clings", lambda: told("another")) == "another"
    ends.set()


async def test_a_call_that_cancels_itself_fails(loops: EventLoops) -> None:
    async def gives_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(ToolFailed, match="cancelled itself"):
        await loops.run("a:gives_up", gives_up)


async def test_a_tool_that_exits_does_not_end_its_loop(loops: EventLoops) -> None:
    async def exits() -> None:
        raise SystemExit(3)

    async def begins() -> str:
        task = asyncio.ensure_future(exits())
        await asyncio.wait({task})
        return "went on"

    assert await asyncio.wait_for(loops.run("a:begins", begins), 60) == "went on"


@pytest.mark.parametrize("repeat", ["safe", "never"])
async def test_the_error_of_a_blocked_call_names_the_blocking_tool(
    repeat: str, tool_call: Any, env: ActivityEnvironment
) -> None:
    tools = {"hog": {"run": "crew_tools:hog", "retry": repeat, "policy": {"attempts": 2}}}
    with_info(env, heartbeat_timeout=timedelta(seconds=0.5))
    crew_tools.hog_ends.clear()
    try:
        with pytest.raises(ApplicationError) as failed:
            await tool_call("hog", crew=crew(tools=tools))
        kind = "OutcomeUnknown" if repeat == "never" else "ToolFailed"
        assert (failed.value.type, failed.value.non_retryable) == (kind, repeat == "never")
        assert "has blocked its event loop for" in failed.value.message
        assert "'crew_tools:hog'" in failed.value.message
        assert "at crew_tools.py:" in failed.value.message
        if repeat == "safe":
            with_info(env, attempt=2)
            result = await tool_call("hog", crew=crew(tools=tools))
            assert "Make it a plain function" in result.body["content"]
    finally:
        crew_tools.hog_ends.set()
