"""Event loops of async tools: each tool has one of its own, in a thread, and holds up only itself.

A tool's coroutine may block its loop (`time.sleep`, a driver that is not async, a long
computation), or go on where it is cancelled. In the worker's own loop it would hold up every other
call, the heartbeats by which the server knows that the worker lives, and the worker's end.

    the worker's loop                      a tool's loop
    run ── start ────────────────────────► the call's task
        ◄─ every `LOOK` seconds: there? ──► answers between two steps of its tasks
        ◄──────────────── result, error ──

A loop that does not answer for `LATE` seconds is blocked: the log says by which tool and where, it
gets no more calls, and calls that have not begun there begin in another one. A call that has begun
is given up once its loop was silent for longer than the call's heartbeat timeout. Whoever is
cancelled has `GRACE` seconds to end, and is left behind then. What is given up may go on: threads
cannot be ended. So there are at most `MOST` of them; beyond that, tools share loops.

A loop is for a tool's every call, so that what belongs to a loop, as a pool of connections does,
may be kept from one call to the next, but not shared by two tools.
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

LOOK = 0.5
"""Seconds between two looks at a call under way."""
LATE = 1.0
"""Seconds without an answer after which a loop is blocked."""
GRACE = 2.0
"""Seconds that a cancelled tool has to end."""
MOST = 64
"""Threads of a worker for the loops of its tools, those that were given up among them."""
_REMEDY = "Make it a plain function, which runs in a thread, or await what it waits for."
_ELSEWHERE = (sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), __file__)
"""Where the code is that tools call, and that calls them."""


class EventLoopBlocked(ToolFailed):
    """A tool does not let its event loop go on; nobody knows what becomes of its call."""

    retryable = True


class EventLoops:
    """The loops of a worker's async tools.

    Args:
        most: How many threads there may be.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._threads: dict[str, _Thread] = {}
        self._left: list[_Thread] = []
        """Threads that get no more calls, and have some."""

    async def run(self, tool: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """What comes of a tool's coroutine, run in the tool's loop with the context of now.

        Args:
            tool: Which tool it is: `module:function`.
            work: Makes the coroutine.

        Raises:
            EventLoopBlocked: the loop was silent for longer than the call may be.
        """
        limit = _heartbeat()
        thread, call = self._begun(tool, work)
        try:
            while not (await asyncio.wait({call.waited}, timeout=LOOK))[0]:
                silent = thread.silent()
                if silent <= LATE:
                    continue
                thread.tell(silent)
                if call.take():  # it has not begun: nobody notices
                    thread.calls.discard(call)
                    thread, call = self._begun(tool, work)
                elif limit is not None and silent >= limit:
                    raise EventLoopBlocked(thread.blocked(silent), remedy=_REMEDY)
            return call.waited.result()
        except asyncio.CancelledError:
            if call.waited.done():  # it cancelled itself
                raise
            call.cancel()
            if not (await asyncio.wait({call.waited}, timeout=GRACE))[0]:
                log.warning(
                    "a tool does not end where it is cancelled: its call is left behind",
                    tool=tool,
                    at=thread.where(),
                    threads=len(self._threads) + len(self._left),
                )
            raise
        finally:
            if not call.waited.done():
                self._leave(thread)
                call.cancel()
                call.waited.cancel()

    async def close(self) -> None:
        """Ends the loops; those that do not end in time are left behind."""
        threads = [*self._threads.values(), *self._left]
        self._threads, self._left = {}, []
        for each in threads:
            each.stop()
        ends = {asyncio.wrap_future(each.ended) for each in threads}
        if ends:
            await asyncio.wait(ends, timeout=GRACE)

    def _begun(
        self, tool: str, work: Callable[[], Coroutine[Any, Any, Any]]
    ) -> tuple[_Thread, _Call]:
        thread = self._thread(tool)
        return thread, thread.begin(tool, work)

    def _thread(self, tool: str) -> _Thread:
        """The thread for a call of a tool."""
        found = self._threads.get(tool)
        if found is not None and found.silent() > LATE:
            self._leave(found)
            found = None
        if found is not None:
            return found
        for each in self._left[:]:
            if not each.calls and each.silent() <= LATE:
                each.stop()
                self._left.remove(each)
        if len({*self._threads.values(), *self._left}) < self._most:
            made = self._threads[tool] = _Thread(tool)
            return made
        free = [each for each in self._threads.values() if each.silent() <= LATE]
        if not free:
            threads = {*self._threads.values(), *self._left}
            names = ", ".join(sorted({each.running() for each in threads}))
            raise EventLoopBlocked(
                f"each of the {self._most} threads of this worker for async tools is blocked, or "
                f"has a call that does not end: {names}",
                remedy="Mend those tools, and start the worker anew.",
            )
        return min(free, key=lambda each: len(each.calls))

    def _leave(self, thread: _Thread) -> None:
        """Gives a thread no more calls."""
        self._threads = {tool: each for tool, each in self._threads.items() if each is not thread}
        if thread not in self._left:
            self._left.append(thread)


class _Thread:
    """A loop in a thread.

    Args:
        tool: Whose it is.
    """

    def __init__(self, tool: str) -> None:
        self.tool = tool
        self.calls: set[_Call] = set()
        """Those that are under way."""
        self.ended: Future[None] = Future()
        self.loop = asyncio.new_event_loop()
        self._asked: float | None = None
        """Since when it has not answered."""
        self._told = False
        self._stops = False
        # A daemon: a worker that ends waits for no tool.
        self._thread = threading.Thread(target=self._serve, name=f"tool {tool}", daemon=True)
        self._thread.start()

    def begin(self, tool: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> _Call:
        """Has a call begin, in the context of whoever asks."""
        call = _Call(tool, work, self)
        self.calls.add(call)
        context = contextvars.copy_context()
        self.loop.call_soon_threadsafe(call.start, context=context)
        return call

    def silent(self) -> float:
        """For how many seconds it has not answered; asks it whether it is there."""
        asked, now = self._asked, time.monotonic()
        if asked is not None:
            return now - asked
        self._asked = now
        self.loop.call_soon_threadsafe(self._answer)
        return 0.0

    def tell(self, silent: float) -> None:
        """Says in the log, once, that it is blocked, by whom and where."""
        if not self._told:
            self._told = True
            log.warning(
                "an async tool blocks its event loop",
                tool=self.running(),
                seconds=round(silent, 1),
                at=self.where(),
                remedy=_REMEDY,
            )

    def blocked(self, silent: float) -> str:
        """That it is blocked, in words."""
        return (
            f"the tool {self.running()!r} has blocked its event loop for {silent:.0f} s, at "
            f"{self.where()}"
        )

    def where(self) -> str:
        """Where its code is: the innermost line that is the tool's own."""
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - documented
        innermost = frame
        while frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(_ELSEWHERE):
                break
            frame = frame.f_back
        if (frame := frame or innermost) is None:
            return "its end"
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"

    def running(self) -> str:
        """The tool whose task runs now, where it is known; else the one whose loop it is."""
        task = asyncio.current_task(self.loop)
        return next((each.tool for each in [*self.calls] if each.task is task), self.tool)

    def stop(self) -> None:
        """Ends it, once what it does now is done."""
        self._stops = True
        with suppress(RuntimeError):  # it has ended
            self.loop.call_soon_threadsafe(self.loop.stop)

    def _answer(self) -> None:
        self._asked = None
        self._told = False

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._stops:
                with suppress(SystemExit, KeyboardInterrupt):  # of a task that a tool began
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
        tool: Of which tool.
        work: Makes its coroutine.
        thread: Where it is made.
    """

    def __init__(
        self, tool: str, work: Callable[[], Coroutine[Any, Any, Any]], thread: _Thread
    ) -> None:
        self.tool = tool
        self.task: asyncio.Task[None] | None = None
        self._work = work
        self._thread = thread
        self._begins = threading.Lock()
        """Held by whoever was first: the loop that begins it, or who takes it away."""
        self._done: Future[Any] = Future()
        self.waited = asyncio.wrap_future(self._done)
        """What comes of it, in the loop of whoever waits."""
        self._cancelled = False

    def take(self) -> bool:
        """Takes it away from its thread where it has not begun."""
        return self._begins.acquire(blocking=False)

    def start(self) -> None:
        """Begins it; in its loop."""
        if self._begins.acquire(blocking=False):
            self.task = self._thread.loop.create_task(self._run())

    def cancel(self) -> None:
        """Cancels it; where it has not begun, it never will."""
        self._cancelled = True
        if self.take():
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
            mine = ToolFailed("the tool cancelled itself") if not self._cancelled else None
            self._end(error=mine or exc)
        except BaseException as exc:  # noqa: BLE001 - whoever waits for it judges it
            self._end(error=exc)
        else:
            self._end(result)

    def _end(self, result: Any = None, error: BaseException | None = None) -> None:
        self._thread.calls.discard(self)
        with suppress(InvalidStateError):  # nobody waits any more
            if error is None:
                self._done.set_result(result)
            else:
                self._done.set_exception(error)


def _heartbeat() -> float | None:
    """For how many seconds the call of now may be silent; none where nothing says so."""
    if not activity.in_activity() or activity.info().is_local:
        return None
    timeout = activity.info().heartbeat_timeout
    return timeout.total_seconds() if timeout else None
