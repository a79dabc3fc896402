"""Event loops of async tools: each tool has a loop of its own in a thread, and blocks only that.

The coroutine of a tool may block its loop (`time.sleep`, a driver that is not async, a long
computation), or continue after it was cancelled. In the worker's own loop it would delay every
other call, the heartbeats, and the end of the worker.

    the worker's loop                          a tool's loop
    run ── start ────────────────────────────► the task of the call
        ◄─ every `CHECK_INTERVAL` seconds ───► answers between two steps of its tasks
        ◄──────────────────── result, error ──

A loop that does not answer for `BLOCKED_AFTER` seconds is blocked. The worker logs the tool and the
line of code; the loop gets no more calls, and calls that have not started there start in another
loop. A call that has started is abandoned when its loop was silent for longer than the heartbeat
timeout of the call. A cancelled call has `CANCEL_TIMEOUT` seconds to end, and is abandoned then.
Abandoned code may continue, since threads cannot be killed. So a worker has at most `MOST_THREADS`
of them; beyond that, tools share loops.

A tool has the same loop for all its calls. So it may keep what belongs to a loop, such as a
connection pool, from one call to the next. Two tools cannot share it.
"""

from __future__ import annotations

import asyncio
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any

import structlog
from temporalio import activity

from crewlog.errors import ToolFailed

log: structlog.stdlib.BoundLogger = structlog.get_logger("crewlog.worker")

CHECK_INTERVAL = 0.5
"""Seconds between two checks of a call in flight."""
BLOCKED_AFTER = 1.0
"""Seconds without an answer after which a loop is blocked."""
CANCEL_TIMEOUT = 2.0
"""Seconds that a cancelled tool has to end."""
MOST_THREADS = 64
"""The most threads of a worker for async tools, with the abandoned ones."""
_REMEDY = "Make it a plain function, which runs in a thread, or await what it waits for."
_NOT_OF_TOOLS = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), __file__)
"""Paths of code that is not the code of a tool."""


class EventLoopBlocked(ToolFailed):
    """A tool blocks its event loop; the outcome of its call is unknown."""

    retryable = True


class EventLoops:
    """The event loops of a worker's async tools.

    Args:
        most: The most threads.
    """

    def __init__(self, most: int = MOST_THREADS) -> None:
        self._most = most
        self._threads: list[_LoopThread] = []

    async def run(self, tool: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Runs a tool's coroutine in the tool's loop, in the present context; returns its result.

        Args:
            tool: The tool: `module:function`.
            work: Makes the coroutine.

        Raises:
            EventLoopBlocked: the loop was silent for longer than the call's heartbeat timeout.
        """
        limit = _heartbeat_timeout()
        call = _Call(tool, work, self._get_thread(tool))
        try:
            while not (await asyncio.wait({call.result}, timeout=CHECK_INTERVAL))[0]:
                silent = call.thread.silent_seconds()
                if silent <= BLOCKED_AFTER:
                    continue
                call.thread.log_blocked(silent)
                if call.prevent():  # it has not started, so it can move
                    call = _Call(tool, work, self._get_thread(tool))
                elif limit is not None and silent >= limit:
                    raise EventLoopBlocked(call.thread.blocked_message(silent), remedy=_REMEDY)
            return call.result.result()
        except asyncio.CancelledError:
            if call.result.done():  # the tool cancelled itself
                raise
            call.cancel()
            if not (await asyncio.wait({call.result}, timeout=CANCEL_TIMEOUT))[0]:
                log.warning(
                    "a cancelled tool does not end: its call is abandoned",
                    tool=tool,
                    at=call.thread.code_position(),
                    threads=len(self._threads),
                )
            raise
        finally:
            if not call.result.done():
                call.thread.is_retired = True
                call.cancel()
                call.result.cancel()

    async def close(self) -> None:
        """Ends the loops; those that do not end in time are abandoned."""
        threads, self._threads = self._threads, []
        for each in threads:
            each.stop()
        ends = {asyncio.wrap_future(each.ended) for each in threads}
        if ends:
            await asyncio.wait(ends, timeout=CANCEL_TIMEOUT)

    def _get_thread(self, tool: str) -> _LoopThread:
        """Returns the thread for a call of a tool."""
        for each in self._threads[:]:
            if each.is_retired and not each.calls and not each.is_blocked():
                each.stop()
                self._threads.remove(each)
        open_ = [each for each in self._threads if not each.is_retired]
        if (thread := next((each for each in open_ if each.tool == tool), None)) is not None:
            if not thread.is_blocked():
                return thread
            thread.is_retired = True
            open_.remove(thread)
        if len(self._threads) < self._most:
            self._threads.append(thread := _LoopThread(tool))
            return thread
        free = [each for each in open_ if not each.is_blocked()]
        if not free:
            names = ", ".join(sorted({each.running_tool() for each in self._threads}))
            raise EventLoopBlocked(
                f"each of the {self._most} threads of this worker for async tools is blocked, or "
                f"has a call that does not end: {names}",
                remedy="Correct those tools, and restart the worker.",
            )
        return min(free, key=lambda each: len(each.calls))


class _LoopThread:
    """An event loop in a thread.

    Args:
        tool: The tool for which it was made.
    """

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.calls: set[_Call] = set()
        """The calls in flight."""
        self.is_retired = False
        """Whether it gets no more calls; it may still have some."""
        self.ended: Future[None] = Future()
        self.loop = asyncio.new_event_loop()
        self._probed_at: float | None = None
        """When the probe that it has not answered was sent."""
        self._logged = False
        self._stops = False
        # A daemon: a worker that ends waits for no tool.
        self._thread = threading.Thread(target=self._serve, name=f"tool {tool}", daemon=True)
        self._thread.start()

    def silent_seconds(self) -> float:
        """Returns how long the loop has not answered; sends it a probe if none is pending."""
        probed_at, now = self._probed_at, time.monotonic()
        if probed_at is not None:
            return now - probed_at
        self._probed_at = now
        self.loop.call_soon_threadsafe(self._answer)
        return 0.0

    def is_blocked(self) -> bool:
        """Whether the loop has not answered for `BLOCKED_AFTER` seconds."""
        return self.silent_seconds() > BLOCKED_AFTER

    def log_blocked(self, silent: float) -> None:
        """Logs once that the loop is blocked, by which tool and where."""
        if not self._logged:
            self._logged = True
            log.warning(
                "an async tool blocks its event loop",
                tool=self.running_tool(),
                seconds=round(silent, 1),
                at=self.code_position(),
                remedy=_REMEDY,
            )

    def blocked_message(self, silent: float) -> str:
        """Returns the message of an error that says that the loop is blocked."""
        return (
            f"the tool {self.running_tool()!r} has blocked its event loop for {silent:.0f} s, at "
            f"{self.code_position()}"
        )

    def code_position(self) -> str:
        """Returns the innermost line of the tool's own code that the thread runs."""
        frames = sys._current_frames()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - documented
        frame = frames.get(self._thread.ident or 0)
        innermost = frame
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(_NOT_OF_TOOLS):
                break
            frame = frame.f_back
        if (frame := frame or innermost) is None:
            return "its end"
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"

    def running_tool(self) -> str:
        """Returns the tool whose task runs now, if it is known; else the tool of the loop."""
        task = asyncio.current_task(self.loop)
        return next((each.tool for each in [*self.calls] if each.task is task), self.tool)

    def stop(self) -> None:
        """Ends the loop after its present step."""
        self._stops = True
        with suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _answer(self) -> None:
        self._probed_at = None
        self._logged = False

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._stops:
                with suppress(SystemExit, KeyboardInterrupt):  # of a task that a tool started
                    self.loop.run_forever()
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            if not asyncio.all_tasks(self.loop):
                self.loop.close()
        finally:
            self.ended.set_result(None)


class _Call:
    """A call in a thread, in the context of its caller.

    Args:
        tool: The tool.
        work: Makes the coroutine.
        thread: The thread.
    """

    def __init__(
        self, tool: str, work: Callable[[], Coroutine[Any, Any, Any]], thread: _LoopThread
    ) -> None:
        self.tool = tool
        self.thread = thread
        self.task: asyncio.Task[Any] | None = None
        self._start_lock = threading.Lock()
        """Taken once: by the loop that starts the call, or by the caller that prevents it."""
        self._is_cancelled = False
        thread.calls.add(self)
        done = asyncio.run_coroutine_threadsafe(self._run(work), thread.loop)
        done.add_done_callback(lambda _: thread.calls.discard(self))
        self.result = asyncio.wrap_future(done)
        """The result, in the loop of the caller."""

    def prevent(self) -> bool:
        """Prevents the start of the call; false: it has started."""
        return self._start_lock.acquire(blocking=False) and self.result.cancel()

    def cancel(self) -> None:
        """Cancels the call; one that has not started never will."""
        self._is_cancelled = True
        if not self.prevent():
            self.thread.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def _run(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if not self._start_lock.acquire(blocking=False):
            return None
        self.task = asyncio.current_task()
        try:
            return await work()
        except asyncio.CancelledError:
            if self._is_cancelled:
                raise
            raise ToolFailed("the tool cancelled itself") from None


def _heartbeat_timeout() -> float | None:
    """Returns the heartbeat timeout of the activity, in seconds; None: it has none."""
    if not activity.in_activity() or activity.info().is_local:
        return None
    timeout = activity.info().heartbeat_timeout
    return timeout.total_seconds() if timeout else None
