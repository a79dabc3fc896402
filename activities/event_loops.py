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
import contextvars
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
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
        self._threads: dict[str, _LoopThread] = {}
        self._retired: list[_LoopThread] = []
        """Threads that get no more calls; they may still have some."""

    async def run(self, tool: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Runs a tool's coroutine in the tool's loop, in the present context; returns its result.

        Args:
            tool: The tool: `module:function`.
            work: Makes the coroutine.

        Raises:
            EventLoopBlocked: the loop was silent for longer than the call's heartbeat timeout.
        """
        limit = _heartbeat_timeout()
        thread, call = self._start(tool, work)
        try:
            while not (await asyncio.wait({call.result}, timeout=CHECK_INTERVAL))[0]:
                silent = thread.silent_seconds()
                if silent <= BLOCKED_AFTER:
                    continue
                thread.log_blocked(silent)
                if call.claim():  # it has not started, so it can move
                    thread.calls.discard(call)
                    thread, call = self._start(tool, work)
                elif limit is not None and silent >= limit:
                    raise EventLoopBlocked(thread.blocked_message(silent), remedy=_REMEDY)
            return call.result.result()
        except asyncio.CancelledError:
            if call.result.done():  # the tool cancelled itself
                raise
            call.cancel()
            if not (await asyncio.wait({call.result}, timeout=CANCEL_TIMEOUT))[0]:
                log.warning(
                    "a cancelled tool does not end: its call is abandoned",
                    tool=tool,
                    at=thread.code_position(),
                    threads=len(self._threads) + len(self._retired),
                )
            raise
        finally:
            if not call.result.done():
                self._retire(thread)
                call.cancel()
                call.result.cancel()

    async def close(self) -> None:
        """Ends the loops; those that do not end in time are abandoned."""
        threads = [*self._threads.values(), *self._retired]
        self._threads, self._retired = {}, []
        for each in threads:
            each.stop()
        ends = {asyncio.wrap_future(each.ended) for each in threads}
        if ends:
            await asyncio.wait(ends, timeout=CANCEL_TIMEOUT)

    def _start(
        self, tool: str, work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> tuple[_LoopThread, _Call]:
        thread = self._get_thread(tool)
        return thread, thread.start(tool, work)

    def _get_thread(self, tool: str) -> _LoopThread:
        """Returns the thread for a call of a tool."""
        thread = self._threads.get(tool)
        if thread is not None and thread.silent_seconds() > BLOCKED_AFTER:
            self._retire(thread)
            thread = None
        if thread is not None:
            return thread
        for each in self._retired[:]:
            if not each.calls and each.silent_seconds() <= BLOCKED_AFTER:
                each.stop()
                self._retired.remove(each)
        if len({*self._threads.values(), *self._retired}) < self._most:
            thread = self._threads[tool] = _LoopThread(tool)
            return thread
        free = [each for each in self._threads.values() if each.silent_seconds() <= BLOCKED_AFTER]
        if not free:
            threads = {*self._threads.values(), *self._retired}
            names = ", ".join(sorted({each.running_tool() for each in threads}))
            raise EventLoopBlocked(
                f"each of the {self._most} threads of this worker for async tools is blocked, or "
                f"has a call that does not end: {names}",
                remedy="Correct those tools, and restart the worker.",
            )
        return min(free, key=lambda each: len(each.calls))

    def _retire(self, thread: _LoopThread) -> None:
        """Gives a thread no more calls."""
        self._threads = {tool: each for tool, each in self._threads.items() if each is not thread}
        if thread not in self._retired:
            self._retired.append(thread)


class _LoopThread:
    """An event loop in a thread.

    Args:
        tool: The tool for which it was made.
    """

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.calls: set[_Call] = set()
        """The calls in flight."""
        self.ended: Future[None] = Future()
        self.loop = asyncio.new_event_loop()
        self._probed_at: float | None = None
        """When the probe that it has not answered was sent."""
        self._logged = False
        self._stops = False
        # A daemon: a worker that ends waits for no tool.
        self._thread = threading.Thread(target=self._serve, name=f"tool {tool}", daemon=True)
        self._thread.start()

    def start(self, tool: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> _Call:
        """Starts a call in the context of the caller."""
        call = _Call(tool, work, self)
        self.calls.add(call)
        context = contextvars.copy_context()
        self.loop.call_soon_threadsafe(call.start, context=context)
        return call

    def silent_seconds(self) -> float:
        """Returns how long the loop has not answered; sends it a probe if none is pending."""
        probed_at, now = self._probed_at, time.monotonic()
        if probed_at is not None:
            return now - probed_at
        self._probed_at = now
        self.loop.call_soon_threadsafe(self._answer)
        return 0.0

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
    """A call in a thread.

    Args:
        tool: The tool.
        work: Makes the coroutine.
        thread: The thread.
    """

    def __init__(
        self, tool: str, work: Callable[[], Coroutine[Any, Any, Any]], thread: _LoopThread
    ) -> None:
        self.tool = tool
        self.task: asyncio.Task[None] | None = None
        self._work = work
        self._thread = thread
        self._start_lock = threading.Lock()
        """Taken once: by the loop that starts the call, or by the caller that prevents it."""
        self._done: Future[Any] = Future()
        self.result = asyncio.wrap_future(self._done)
        """The result, in the loop of the caller."""
        self._cancelled = False

    def claim(self) -> bool:
        """Prevents the start of the call; false: it has started."""
        return self._start_lock.acquire(blocking=False)

    def start(self) -> None:
        """Starts the call; runs in its loop."""
        if self.claim():
            self.task = self._thread.loop.create_task(self._run())

    def cancel(self) -> None:
        """Cancels the call; one that has not started never will."""
        self._cancelled = True
        if self.claim():
            self._end(error=asyncio.CancelledError())
        else:
            self._thread.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    async def _run(self) -> None:
        try:
            result = await self._work()
        except asyncio.CancelledError as exc:
            error = ToolFailed("the tool cancelled itself") if not self._cancelled else None
            self._end(error=error or exc)
        except BaseException as exc:  # noqa: BLE001 - the caller handles it
            self._end(error=exc)
        else:
            self._end(result)

    def _end(self, result: Any = None, error: BaseException | None = None) -> None:
        self._thread.calls.discard(self)
        with suppress(InvalidStateError):  # the caller does not wait any more
            if error is None:
                self._done.set_result(result)
            else:
                self._done.set_exception(error)


def _heartbeat_timeout() -> float | None:
    """Returns the heartbeat timeout of the activity, in seconds; None: it has none."""
    if not activity.in_activity() or activity.info().is_local:
        return None
    timeout = activity.info().heartbeat_timeout
    return timeout.total_seconds() if timeout else None
