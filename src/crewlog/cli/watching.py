"""`crewlog watch` over several runs, or over some of their events: a timeline with a run each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from crewlog.cli import exits
from crewlog.cli.changes import names_in
from crewlog.cli.ending import WORDS
from crewlog.cli.screen import PALETTE, Screen, plain
from crewlog.cli.services import connected
from crewlog.cli.shown import facts_in_words
from crewlog.cli.timeline import WHOLE, Row, Timeline
from crewlog.client.watching import Watch
from crewlog.content_blocks import content_text
from crewlog.definition.creatures import channels_named
from crewlog.definition.findings import did_you_mean, listed
from crewlog.definition.model import CrewDefinition
from crewlog.errors import CrewlogError, UsageError, WaitTimeout
from crewlog.ids import RunId
from crewlog.reporting.events.filters import EventFilter
from crewlog.reporting.events.view import event_view
from crewlog.state.excerpt import shortened
from crewlog.state.journal import (
    AgentsWoken,
    JournalEntry,
    MessageAdded,
    RunFailed,
    RunStopped,
    entry_to_json,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from crewlog.client import Event
    from crewlog.store.protocol import Store

_WIDEST = 24
"""Columns of a run's id at most, at a terminal."""
_NARROW = 70
"""Columns of a terminal below which a run stands on a line of its own."""


def asked_for(
    runs: Sequence[str] | None,
    kinds: Sequence[str] | None,
    creatures: Sequence[str] | None,
    graphs: Sequence[str] | None,
    channels: Sequence[str] | None,
) -> tuple[list[str], EventFilter]:
    """The runs that were asked for, and which of their events.

    Raises:
        UsageError: no run was named, or there is no event of such a kind.
    """
    chosen = EventFilter(
        kinds=_names(kinds),
        agents=_names(creatures),
        graphs=_names(graphs),
        channels=_names(channels),
    )
    asked = [*dict.fromkeys(runs or _names(graphs))]
    if not asked:
        raise UsageError(
            "missing argument 'RUN…'",
            remedy="Name the runs: crewlog watch RUN …; `crewlog ps` lists them.",
            place="crewlog watch",
        )
    return asked, chosen


def _names(typed: Sequence[str] | None) -> list[str]:
    return [str(name) for name in names_in(typed)]


async def watch_many(
    runs: Sequence[str],
    chosen: EventFilter,
    *,
    after: int,
    state: bool,
    timeout: float | None,
    as_json: bool,
) -> int:
    """Follow runs, and those that they go on in, to the end of all of them.

    Args:
        runs: Their ids.
        chosen: Which events are told.
        after: Of one run, the position after which to begin.
        state: Whether it is to be told what each checkpoint changed, which one run alone can be.
        timeout: Seconds after which it leaves; none: never.
        as_json: Whether a program reads.

    Raises:
        UsageError: that is asked of several runs.
        WaitTimeout: the timeout is over.
    """
    for option, given in (("--after", after and len(runs) > 1), ("--state", state)):
        if given:
            raise UsageError(
                f"{option} is about one run, all of it",
                remedy=f"Leave {option} out, or watch one run: crewlog watch {runs[0]} {option} …",
                place="crewlog watch",
            )
    screen = Screen(as_json=as_json)
    seen = Seen(screen, runs, chosen)
    async with connected(screen, both=True) as client:
        with suppress(CrewlogError):  # it is no more than a hint: a store that is away has none
            for line in await unknown_names(await client.store(), runs, chosen):
                screen.note(("! ", "yellow"), plain(line))

        def events(run: RunId, position: int) -> AsyncGenerator[Event]:
            return client.events_there(run, position)

        watch = Watch(events, runs, chosen, after=dict.fromkeys(runs, after), ended=seen.end)
        limit = asyncio.timeout(timeout)
        try:
            async with limit, aclosing(watch()) as found:
                async for event, passes in found:
                    seen.take(event, passes=passes)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise WaitTimeout(
                f"{listed(map(repr, runs))} did not end within {timeout:g} s",
                remedy=f"Return to it: crewlog watch {' '.join(runs)}",
                place="crewlog watch",
            ) from error
    if seen.failed:
        return exits.FAILED
    return exits.STOPPED if len(runs) == 1 and runs[0] in seen.stopped else exits.OK


async def unknown_names(store: Store, runs: Sequence[str], chosen: EventFilter) -> list[str]:
    """What is waited for that none of the runs has by now: a slip would be silent for ever.

    Args:
        store: The store.
        runs: The runs.
        chosen: Which of their events are wanted.
    """
    creatures, channels, there = set[str](), set[str](), set(runs)
    for run in runs:
        there.update(await store.lineage(RunId(run)))
        there |= {
            name
            for tie in await store.lineage_links([RunId(run)])
            for name in (tie.run, tie.source)
        }
        if (row := await store.get_run(RunId(run))) is None or not row.definition:
            return []  # it is beginning, or was never there: that is told
        crew = CrewDefinition.from_json(await store.get_definition(row.definition))
        creatures |= {*crew.agents}
        channels |= {*crew.channels, *(c for a in crew.agents.values() for c in channels_named(a))}
    graphs = [each for each in chosen.graphs if each not in there]
    graphs = [each for each in graphs if await store.get_run(RunId(each)) is None]
    where = listed(map(repr, runs), "or")
    found = [
        *_slips(chosen.agents, creatures, lambda name: f"nobody is called {name} in {where}"),
        *_slips(chosen.channels, channels, lambda name: f"no channel is called {name} in {where}"),
        *_slips(graphs, there, lambda name: f"there is no run {name}"),
    ]
    return [f"{each} It is waited for." for each in found]


def _slips(typed: Iterable[str], known: Iterable[str], say: Callable[[str], str]) -> Iterator[str]:
    known = [*known]
    for name in sorted(typed):
        if name not in known:
            yield f"{say(repr(name))} now. {did_you_mean(name, known)}".rstrip()


def _silent(entry: JournalEntry) -> tuple[str, str, str]:
    """Node, glyph and text of an entry that the timeline does not show."""
    if isinstance(entry, AgentsWoken):
        by = f" from {plain(entry.by)}" if entry.by else ""
        who = listed(map(plain, (*entry.to, *entry.also)))
        return "", "»", f"{plain(entry.log)}{by}, heard by {who}"
    if isinstance(entry, MessageAdded):
        said = content_text(entry.ref.inline.get("content", "")) if entry.ref.inline else ""
        to = listed(map(plain, entry.ref.logs))
        return "", "»", f"{plain(entry.by)} to {to}" + (f": {plain(str(said))}" if said else "")
    node, words = facts_in_words(entry_to_json(entry))
    return node, "·", f"{entry.kind}  {words}"


class Seen:
    """What is told of several runs, an event at a time."""

    def __init__(self, screen: Screen, runs: Sequence[str], chosen: EventFilter) -> None:
        self.failed: set[str] = set()
        """Runs that failed."""
        self.stopped: set[str] = set()
        """Runs that people stopped."""
        self._screen = screen
        self._chosen = chosen
        self._last_entry: dict[str, JournalEntry] = {}
        self._lines: dict[str, Timeline] = {}
        self._order = [*runs]
        self._nodes = Timeline()
        """Has the nodes of all runs, for their colours."""
        self._began = 0
        self._last = ""
        """The run that was told of last."""

    def take(self, event: Event, *, passes: bool) -> None:
        """Tells of an event where it is chosen; the others are what it is understood by."""
        self._began = self._began or event.at
        self._last_entry[event.run] = event.entry
        if isinstance(event.entry, RunFailed):
            self.failed.add(event.run)
        if self._screen.as_json:
            if passes:
                view = event_view(event).model_dump(mode="json")
                self._screen.record({"event": "journal", **view})
            return
        line = self._lines.setdefault(event.run, Timeline())
        line.started = line.started or self._began
        rows = [*line.feed(event.entry), *line.settle()]
        if not passes:
            return
        if not rows and self._asks_for(event.entry):
            rows = [Row(event.at - line.started, *_silent(event.entry))]
        for row in rows:
            self._show(event.run, row)

    def _asks_for(self, entry: JournalEntry) -> bool:
        """Whether an entry is told that is none of the timeline's: it was asked for."""
        named = self._chosen.channels or self._chosen.agents
        return bool(self._chosen.kinds or (named and isinstance(entry, MessageAdded | AgentsWoken)))

    def end(self, run: RunId, error: CrewlogError | None) -> None:
        """Tells that a run has ended, where nothing of it says so."""
        if error is not None:
            self.failed.add(run)
        stopped = isinstance(self._last_entry.get(run), RunStopped)
        if stopped:
            self.stopped.add(run)
        if self._screen.as_json:
            told = {} if error is None else {"error": error.message}
            self._screen.record({"event": "ended", "run": run, **told})
        elif error is not None:
            self._screen.line(*self._head(run), ("✗ ", "red"), plain(error.message), crop=True)
        elif stopped:
            self._screen.line(*self._head(run), WORDS["stopped"], crop=True)

    def _show(self, run: RunId, row: Row) -> None:
        self._nodes.color(row.node)  # that its column is wide enough
        head = self._head(run)
        width = max(self._screen.width - sum(len(part) for part, _ in head), 20)
        room = width if width >= WHOLE else min(width, 110)
        for each in self._nodes.split(row, room):
            self._screen.line(*head, *self._nodes.parts(each, room), crop=True)

    def _head(self, run: RunId) -> list[tuple[str, str]]:
        """The run in its column; on a narrow terminal above its first line."""
        if run not in self._order:
            self._order.append(run)
        if len(self._order) == 1:
            return []
        style = PALETTE[self._order.index(run) % len(PALETTE)]
        if self._screen.width < _NARROW:
            if run != self._last:
                self._screen.line((plain(run), f"bold {style}"), crop=True)
            self._last = run
            return []
        whole = self._screen.width >= WHOLE
        longest = max(len(plain(each)) for each in self._order)
        column = longest if whole else min(longest, _WIDEST)
        return [(shortened(plain(run), column).ljust(column), style)]
