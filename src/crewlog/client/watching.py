"""Many runs at once: their events by time, and where they go on when graphs part or become one.

Each journal is read by a task of its own, into a queue. The earliest event that is there comes
next, once the others cannot have an earlier one any more: each of them has its next one there, has
ended, or was silent for a moment. So what happened long ago is in order, whatever the runs; what
happens now may be out of order by as much as one run is heard of later than another one, a quarter
of a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing, suppress

from crewlog.client.gateway import pauses
from crewlog.errors import CrewlogError, RunNotFound
from crewlog.ids import RunId
from crewlog.reporting.events.filters import EventFilter, successors
from crewlog.reporting.events.view import Event
from crewlog.state.journal import ComponentChanged, RunMerged

Events = Callable[[RunId, int], AsyncGenerator[Event]]
"""Gives the events of a run after a position."""
Ended = Callable[[RunId, CrewlogError | None], None]
"""Told that nothing more comes of a run; with an error where it is not known how it ended."""

QUIET = 0.3
"""Seconds of silence after which a run holds up no others."""
FIRST = 3.0
"""The same before its first event."""
COMING = 60.0
"""Seconds in which a run must be there that another one went on in."""
_AHEAD = 500
"""Events of one run that wait for those of others."""


class _Stream:
    """A run's events that have come, and how long the next one is waited for."""

    def __init__(self, run: RunId) -> None:
        self.run = run
        self.queue: asyncio.Queue[Event] = asyncio.Queue(_AHEAD)
        self.head: Event | None = None
        self.over = False
        self.patient_until = time.monotonic() + FIRST
        self.task: asyncio.Future[None]

    def pull(self) -> None:
        """Has its next event at hand, if that has come."""
        if self.head is not None or self.over:
            return
        if not self.queue.empty():
            self.head = self.queue.get_nowait()
            self.patient_until = time.monotonic() + QUIET
        elif self.task.done():
            self.over = True


class Watch:
    """The events of some runs and of those that they go on in, until all have ended."""

    def __init__(
        self,
        events: Events,
        runs: Iterable[str],
        chosen: EventFilter,
        *,
        after: Mapping[str, int] | None = None,
        ended: Ended | None = None,
    ) -> None:
        """A watch that has not begun.

        Args:
            events: Gives the events of a run.
            runs: Where it begins.
            chosen: What it lets pass; where it names graphs, no others are followed to.
            after: By run, the position after which to begin.
            ended: Told of each run that ends.
        """
        self._events = events
        self._asked = tuple(dict.fromkeys(RunId(run) for run in runs))
        self._chosen = chosen
        self._after = dict(after or {})
        self._ended = ended
        self._streams: dict[RunId, _Stream] = {}
        self._news = asyncio.Event()
        self._errors: list[CrewlogError] = []
        self._told: set[RunId] = set()
        self._filters: dict[RunId, EventFilter] = dict.fromkeys(self._asked, chosen)
        """By run, what is let pass there: a name may be somebody else's in another run."""

    async def __call__(self) -> AsyncGenerator[tuple[Event, bool]]:
        """Every event, and whether it was chosen.

        Raises:
            RunNotFound: one of the runs that were asked for is not there.
            CrewlogError: of a run it is not known how it ended; told once all others have.
        """
        try:
            for run in self._asked:
                self._follow(run, self._after.get(run, 0))
            while not all(each.over for each in self._streams.values()):
                self._news.clear()
                event = self._next()
                if event is not None:
                    yield event, self._meant(event)(event)
                elif not self._end():
                    await self._wait()
        finally:
            tasks = [each.task for each in self._streams.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        if self._errors:
            raise self._errors[0]

    def _meant(self, event: Event) -> EventFilter:
        """The filter for what happens in a run from an event on.

        It goes with those who are watched: where they leave for a run of their own, and where
        another one takes them in, whatever they are called there.
        """
        run, entry, chosen = event.run, event.entry, self._chosen
        own = self._filters.get(run)
        if isinstance(entry, RunMerged) and (own is None or entry.merged_run in self._filters):
            came = self._filters.get(entry.merged_run, chosen).after_merge(entry)
            self._filters[run] = came if own is None else own.union(came)
        found = self._filters.setdefault(run, chosen)
        if isinstance(entry, ComponentChanged):
            for part in successors(event):
                self._filters.setdefault(part, found)
        return found

    def _next(self) -> Event | None:
        """The earliest event that is there, where none that is earlier can come any more."""
        now = time.monotonic()
        for stream in self._streams.values():
            stream.pull()
        late = [each for each in self._streams.values() if each.head is None and not each.over]
        if any(now < each.patient_until for each in late):
            return None
        heads = [each for each in self._streams.values() if each.head is not None]
        first = min(heads, key=_order, default=None)
        if first is None:
            return None
        event, first.head = first.head, None
        return event

    def _end(self) -> bool:
        """Tells of runs of which nothing more comes; whether there were any."""
        over = [each for each in self._streams.values() if each.over and each.run not in self._told]
        for stream in over:
            self._told.add(stream.run)
            error = stream.task.exception()
            if error is not None:
                missing = isinstance(error, RunNotFound) and stream.run in self._asked
                if missing or not isinstance(error, CrewlogError):
                    raise error
                self._errors.append(error)
            if self._ended is not None:
                self._ended(stream.run, error)
        return bool(over)

    async def _wait(self) -> None:
        """Waits for an event, or until a silent run holds up the others no longer."""
        streams = self._streams.values()
        held = any(each.head is not None for each in streams)
        until = [each.patient_until for each in streams if each.head is None and not each.over]
        # Whose patience has ended since it was looked at is looked at again, and not waited for.
        left = max(max(until, default=0.0) - time.monotonic(), 0.0)
        timeout = left if held else None
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._news.wait()

    def _follow(self, run: RunId, after: int) -> None:
        if run in self._streams:
            return
        stream = self._streams[run] = _Stream(run)
        stream.task = asyncio.ensure_future(self._read(stream, after))
        stream.task.add_done_callback(lambda _: self._news.set())

    async def _read(self, stream: _Stream, after: int) -> None:
        async with aclosing(self._there(stream.run, after)) as found:
            async for event in found:
                for run, position in successors(event).items():
                    if not self._chosen.graphs or run in self._chosen.graphs:
                        self._follow(run, position)
                await stream.queue.put(event)
                self._news.set()

    async def _there(self, run: RunId, after: int) -> AsyncGenerator[Event]:
        """The events of a run, which may be about to begin if another one goes on in it."""
        until = time.monotonic() + (0 if run in self._asked else COMING)
        for pause in pauses(0.05, 1.0):
            try:
                async with aclosing(self._events(run, after)) as found:
                    async for event in found:
                        after = event.position
                        yield event
            except RunNotFound:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(pause)
            else:
                return


def _order(stream: _Stream) -> tuple[int, RunId]:
    return (stream.head.at if stream.head is not None else 0, stream.run)
