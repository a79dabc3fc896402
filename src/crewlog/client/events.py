"""A cursor over a run's journal: every entry once, in order, for as long as the run lives.

The position is the whole memory of the cursor, so a consumer that keeps the last position it
handled can go on in another process. The run is asked (a query) every 20 ms while something
happens, ever more rarely down to every 250 ms while nothing does. Whether it was ended from
outside (terminated, timed out), which no entry tells, is asked of the server at the beginning and
about once a second of silence; after that answer the journal is read once more, since entries may
have come between. Of a run that has ended and has no worker, the store tells at once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Protocol

from crewlog.client.gateway import pauses
from crewlog.client.journal import JournalPart, JournalReader
from crewlog.errors import RunFailed as RunEnded
from crewlog.errors import StoreUnavailable, TemporalUnavailable, WorkerMissing
from crewlog.ids import RunId
from crewlog.reporting.events.view import Event, event_of
from crewlog.state.journal import (
    RunCompleted,
    RunEndedByMerge,
    RunFailed,
    RunStopped,
)

FAST = 0.02
"""Seconds between two looks while something happens."""
SLOW = 0.25
"""The same while nothing does."""
PATIENCE = 300.0
"""Seconds for which the server or the store may be away."""
SILENCE = 1.0
"""Seconds of silence after which the server is asked whether the run is still open."""
PAGE = 500
LAST = (RunCompleted, RunFailed, RunStopped, RunEndedByMerge)
"""The entries after which none follows, unless the run is taken up again."""


class Server(Protocol):
    """What the server tells of the run."""

    async def ended(self) -> str | None:
        """How it ended: `completed`, `terminated`, …; none while it is open."""
        ...

    async def polled(self) -> bool:
        """Whether a worker polls its task queue."""
        ...

    async def silent(self) -> None:
        """Told when an open run does not answer; may be told often."""
        ...


def outside(run: RunId, ended: str, position: int, why: str = "") -> RunEnded:
    """The error for a run that somebody ended from outside: what came last, nobody recorded."""
    how = "forgotten by the server"
    if ended != FORGOTTEN:
        how = ended.replace("_", " ") + (f" from outside: {why}" if why else " from outside")
    known = f"known up to position {position}" if position else "nothing is known of it"
    return RunEnded(
        f"{how}; {known}",
        remedy=f"`crewlog show {run}` shows how far it came.",
        place=f"run {run!r}",
    )


FORGOTTEN = "forgotten"
"""An end: the server does not know the run any more."""
OUTSIDE = frozenset({"terminated", "timed_out", "canceled", FORGOTTEN})
"""Ends that no entry tells."""


async def follow(
    reader: JournalReader, run: RunId, after: int, server: Server
) -> AsyncGenerator[Event]:
    """The events after a position, until the run's last one; see the module's docstring."""
    position = after
    waits = pauses(FAST, SLOW)
    patience = _Patience()
    closed = await patience.ask(server)
    ask = closed is None or await server.polled()
    asked = time.monotonic()
    ending = False
    while True:
        try:
            part = await patience.read(reader, position, give_up=closed is not None, ask=ask)
        except RunEnded:
            # It failed before its first entry; `result` tells why.
            return
        except WorkerMissing as error:
            if closed == "failed" and not position:
                return  # likewise
            raise _untold(run, closed, position, error) from None
        entries, last = (part.page.entries, part.page.position) if part else ((), 0)
        for item in entries:
            event = event_of(run, item.position, item.data)
            position = event.position
            yield event
            # A run that ended may have been taken up again: then its journal goes on, perhaps
            # with entries that nobody can tell yet.
            ending = isinstance(event.entry, LAST) and position >= last
        if ending and (closed := closed or await patience.ask(server)) is not None:
            return
        ask = ask and (closed is None or part is None or part.live)
        if entries:
            waits, asked = pauses(FAST, SLOW), time.monotonic()
        elif closed is not None:
            _check_end(run, part, position, closed)
            return
        elif time.monotonic() - asked > SILENCE:
            asked = time.monotonic()
            closed = await patience.ask(server)
            if closed is not None:
                ask = await server.polled()
            elif part is None or not part.live:
                await server.silent()
        else:
            await asyncio.sleep(next(waits))


def _untold(
    run: RunId, closed: str | None, position: int, error: WorkerMissing
) -> RunEnded | WorkerMissing:
    return outside(run, closed, position) if closed in OUTSIDE else error


def _check_end(run: RunId, part: JournalPart | None, position: int, closed: str) -> None:
    if part is None or not part.live:
        if closed in OUTSIDE:
            raise outside(run, closed, position)
        raise WorkerMissing(
            f"the run {run!r} has ended, but only a worker can tell what happened after "
            f"position {position}",
            remedy="Start one: `crewlog worker`.",
        )


class _Patience:
    """How long a service may be away before its error is passed on."""

    def __init__(self) -> None:
        self._since: float | None = None

    async def read(
        self, reader: JournalReader, after: int, *, give_up: bool, ask: bool
    ) -> JournalPart | None:
        """A part of the journal, or none while a service is away."""
        try:
            part = await reader.read(after, PAGE, ask=ask)
        except WorkerMissing:
            # A run without workers is safe and may wait for days; so may who watches it.
            if give_up:
                raise
            self._since = None
            return None
        except (TemporalUnavailable, StoreUnavailable) as error:
            self._spend(error)
            return None
        self._since = None
        return part

    async def ask(self, server: Server) -> str | None:
        """How the run ended; none while it is open, or the server is away."""
        try:
            return await server.ended()
        except TemporalUnavailable as error:
            self._spend(error)
            return None

    def _spend(self, error: TemporalUnavailable | StoreUnavailable) -> None:
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since > PATIENCE:
            raise error
