"""Whether anybody is there for a run: the server, and a worker; asked beside whatever else is done.

Where one of them is away, a run waits, and what is shown of it does not move: so it is said, with
since when, and taken back once it is there again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from crewlog.cli.delays import tell_pending
from crewlog.cli.screen import Screen, lasted, plain
from crewlog.client.session import no_worker
from crewlog.client.stalled import Stalled
from crewlog.reporting.trace.view import PendingCall

PAUSE = 1.0
"""Seconds between two looks at the server."""
AT_ONCE = 0.5
"""Seconds for which an answer is waited for; later it is looked at later."""
AWAY = 2.5
"""Seconds without an answer after which it is said."""

Look = Callable[[], Coroutine[None, None, bool]]
"""Asks whether somebody is there."""
Find = Callable[[], Coroutine[None, None, "Waits"]]
"""Asks what a run waits for."""


class Server:
    """Says when the server does not answer, and when it does again.

    Args:
        screen: Where to.
        there: Asks it; false where it does not answer in a second.
    """

    def __init__(self, screen: Screen, there: Look) -> None:
        self._screen = screen
        self._there = there
        self._asked = 0.0
        self._asking: asyncio.Future[bool] | None = None
        self._since = 0.0
        """When it was first asked in vain, in seconds since the epoch; 0 while it answers."""
        self.away = False
        """Whether it was said to be away."""

    def look(self) -> str | None:
        """What is to be said now, if anything; begins to ask again in time."""
        said = None
        if self._asking is not None and self._asking.done():
            answers, self._asking = self._asking.result(), None
            said = self.take(answers, self._asked, time.time())
        if self._asking is None and time.time() - self._asked > PAUSE:
            self._asked = time.time()
            self._asking = asyncio.ensure_future(self._there())
        return said

    def take(self, answers: bool, asked: float, now: float) -> str | None:
        """What is to be said of an answer.

        Args:
            answers: Whether it answered.
            asked: When it was asked, in seconds since the epoch.
            now: Likewise.
        """
        if not answers:
            self._since = self._since or asked
            if self.away or now - self._since < AWAY:
                return None
            self.away = True
            at = datetime.fromtimestamp(self._since).astimezone().strftime("%H:%M:%S")
            return f"the Temporal server has not answered since {at}; the run is safe and waits"
        since, self._since = self._since, 0.0
        if not self.away:
            return None
        self.away = False
        gone = lasted(int(since * 1000), int(now * 1000))
        return f"the Temporal server answers again; it was away for {gone}"

    @property
    def doubtful(self) -> bool:
        """Whether it did not answer last, or is away."""
        return self._since > 0

    def status(self) -> str:
        """`the Temporal server does not answer, 12.3 s`: for a line that is rewritten."""
        gone = lasted(int(self._since * 1000), int(time.time() * 1000))
        return f"the Temporal server does not answer, {gone}"

    def tell(self, said: str) -> None:
        """Says it."""
        self._screen.note(("▸ ", "yellow" if self.away else "green"), said)

    def end(self) -> None:
        """Asks no more."""
        if self._asking is not None:
            self._asking.cancel()


def tell_stalled(screen: Screen, run: str, stalled: Stalled) -> None:
    """That a run stands still, what it fails to do, and what to do."""
    said = plain(f"{run} {stalled.words}")
    if stalled.remedy:
        said = f"{said.rstrip('.')}. {plain(stalled.remedy)}"
    screen.wrapped(["  ", ("! ", "bold yellow")], said, indent=4)


@dataclass(frozen=True)
class Waits:
    """What a run waits for that its journal does not say."""

    stalled: Sequence[Stalled] = ()
    """What of its own it fails to do, again and again."""
    pending: Sequence[PendingCall] = ()
    """Its calls that wait, or are made once more."""


class Stalls:
    """Says what a run waits for that its journal cannot say: that it fails, or is not begun.

    Args:
        screen: Where to.
        run: The run.
        find: Asks the server.
        pause: Seconds between two looks.
    """

    def __init__(self, screen: Screen, run: str, find: Find, pause: float) -> None:
        self._screen = screen
        self._run = run
        self._find = find
        self._pause = pause
        self._asked = time.monotonic()
        self._asking: asyncio.Future[Waits] | None = None
        self._told: set[Stalled | tuple[str, int, int, str]] = set()
        self.pending: Sequence[PendingCall] = ()
        """The calls that waited at the last look."""

    def look(self) -> list[Stalled | PendingCall]:
        """What was not told yet, of the last look that has ended; begins the next one in time."""
        found = Waits()
        if self._asking is not None and self._asking.done():
            asked, self._asking = self._asking, None
            # A server that does not answer is told elsewhere.
            found = Waits() if asked.exception() else asked.result()
            self.pending = found.pending
        if self._asking is None and time.monotonic() - self._asked > self._pause:
            self._asked = time.monotonic()
            self._asking = asyncio.ensure_future(self._find())
        new: list[Stalled | PendingCall] = []
        every: list[Stalled | PendingCall] = [*found.stalled, *found.pending]
        for each in every:
            known = each if isinstance(each, Stalled) else _attempt(each)
            if known not in self._told:
                self._told.add(known)
                new.append(each)
        return new

    def tell(self, found: Stalled | PendingCall) -> None:
        """Says it."""
        if self._screen.as_json:
            event = "stalled" if isinstance(found, Stalled) else "pending"
            self._screen.record({"event": event, "run": self._run, **asdict(found)})
        elif isinstance(found, Stalled):
            tell_stalled(self._screen, self._run, found)
        else:
            tell_pending(self._screen, found)

    def end(self) -> None:
        """Asks no more."""
        if self._asking is not None:
            self._asking.cancel()


def _attempt(call: PendingCall) -> tuple[str, int, int, str]:
    """What is told once of a call: that it comes to an attempt, or that no worker takes it."""
    return (call.step, call.call, call.attempt, "worker" if call.reason == "worker" else "")


class Worker:
    """Says, once, that nobody polls a run's task queue.

    Args:
        screen: Where to.
        queue: The task queue.
        polled: Asks whether a worker polls it.
        pause: Seconds between two looks.
    """

    def __init__(self, screen: Screen, queue: str, polled: Look, pause: float) -> None:
        self._screen = screen
        self._queue = queue
        self._polled = polled
        self._pause = pause
        self._asked = float("-inf")
        self._asking: asyncio.Future[bool] | None = None
        self._told = False
        self.alone = False
        """Whether nobody polled it when it was last looked at."""

    async def look(self) -> bool:
        """Asks in time; whether it is now to be said that nobody polls."""
        patience = 0.0
        if self._asking is None:
            if time.monotonic() - self._asked < self._pause:
                return False
            self._asked = time.monotonic()
            self._asking = asyncio.ensure_future(self._polled())
            patience = AT_ONCE
        # A server that is away would keep whoever asks it waiting.
        await asyncio.wait({self._asking}, timeout=patience)
        if not self._asking.done():
            return False
        asked, self._asking = self._asking, None
        self.alone = not asked.result()
        return self.alone and not self._told

    def end(self) -> None:
        """Asks no more."""
        if self._asking is not None:
            self._asking.cancel()

    def tell(self) -> None:
        """Says it."""
        self._told = True
        self._screen.note(("▸ ", "yellow"), no_worker(plain(self._queue)))
