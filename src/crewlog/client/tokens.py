"""What models are writing right now: text that is not in the journal yet.

A model call tells its text in its heartbeats, and the server keeps the last ones of every call that
is under way; nothing of it is in the history or in the store. So whoever comes late, or again, sees
the text so far, and when the call has ended, the journal's `ModelCallCompleted` is what counts. A
call that is tried again, since its worker was killed, say, begins anew, and so does its text.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress
from dataclasses import dataclass

from pydantic import ValidationError
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.converter import WorkflowSerializationContext

from crewlog.client.gateway import Gateway, pauses
from crewlog.errors import RunNotFound, TemporalUnavailable
from crewlog.ids import AgentName, RunId, StepId
from crewlog.reporting.events.view import Event
from crewlog.state.calls import CALL_MODEL, Chunk
from crewlog.state.journal import ModelCallCompleted, RunReopened, RunRolledBack

FAST = 0.1
"""Seconds between two looks while a model writes."""
SLOW = 0.5
"""The same while none does."""
_REMEMBERED = 1_000
"""Calls that ended which are remembered: an answer of the server may be older than the journal."""


@dataclass(frozen=True, slots=True)
class TokenEvent:
    """Text that a model has written of a reply that is not done."""

    run: RunId
    """Which run."""
    step: StepId
    """The step: of a pattern's part and of an item of a list as of any other."""
    call: int
    """The model call's number in the step."""
    agent: AgentName
    """Who writes."""
    attempt: int
    """Which attempt of the call: the text of another one is void."""
    offset: int
    """Where in the reply `text` begins, in characters from 0. Where it is more than was told
    before, the part between was too long to be told."""
    text: str
    """What is new since the event before."""
    first: bool = False
    """Whether it is the first that is told of this attempt: what was told before is void."""

    def __str__(self) -> str:
        """`writer#1/1 +120 'the next words'`."""
        return f"{self.step}/{self.call} +{self.offset} {self.text!r}"


Growth = Event | TokenEvent
"""What `Run.events(tokens=True)` gives."""


async def written(gateway: Gateway, run: RunId) -> list[Chunk]:
    """What models have written of replies that are not done, by the server's knowledge.

    Raises:
        RunNotFound: there is no such run.
        TemporalUnavailable: the server is away.
    """
    description = await gateway.describe(run)
    found: list[Chunk] = []
    for pending in description.raw_description.pending_activities:
        if pending.activity_type.name == CALL_MODEL and pending.HasField("heartbeat_details"):
            found += await _told(gateway, run, pending)
    return found


async def _told(gateway: Gateway, run: RunId, pending: PendingActivityInfo) -> list[Chunk]:
    converter = gateway.temporal.data_converter.with_context(
        WorkflowSerializationContext(gateway.temporal.namespace, run)
    )
    found: list[Chunk] = []
    for details in await converter.decode(pending.heartbeat_details.payloads):
        with suppress(ValidationError):  # a worker of another version tells something else
            told = Chunk.model_validate(details, extra="ignore")
            # The server keeps what the attempt before told until there is news.
            if told.attempt == pending.attempt:
                found.append(told)
    return found


class TokenCursor:
    """Turns what is written so far into what is new of it."""

    def __init__(self, run: RunId) -> None:
        self._run = run
        self._told: dict[tuple[StepId, int], tuple[int, int]] = {}
        """By call: the attempt, and up to where its text was told."""
        self._ended: dict[tuple[StepId, int], None] = {}

    def news(self, found: Iterable[Chunk]) -> list[TokenEvent]:
        """What was not told yet, in order of the steps."""
        events: list[TokenEvent] = []
        for each in sorted(found, key=lambda w: (w.step, w.call)):
            key = (each.step, each.call)
            event = None if key in self._ended else self._news(key, each)
            if event is not None:
                events.append(event)
        return events

    def _news(self, key: tuple[StepId, int], each: Chunk) -> TokenEvent | None:
        attempt, end = self._told.get(key, (0, 0))
        reach = each.offset + len(each.text)
        # People may have a call made again: then its attempts count from 1 anew.
        first = attempt != each.attempt or reach < end
        if first:
            end = 0
        elif reach == end:
            return None
        self._told[key] = (each.attempt, reach)
        known = max(end - each.offset, 0)
        return TokenEvent(
            run=self._run,
            step=each.step,
            call=each.call,
            agent=each.agent,
            attempt=each.attempt,
            offset=each.offset + known,
            text=each.text[known:],
            first=first,
        )

    def take(self, event: Event) -> None:
        """Takes an event of the journal: after a call's reply, nothing more is told of the call."""
        entry = event.entry
        if isinstance(entry, ModelCallCompleted):
            key = (entry.step, entry.call)
            self._told.pop(key, None)
            self._ended[key] = None
            if len(self._ended) > _REMEMBERED:
                del self._ended[next(iter(self._ended))]
        elif isinstance(entry, RunRolledBack | RunReopened):
            self._ended.clear()  # a call after the checkpoint is made again, under its number


async def with_tokens(
    journal: AsyncGenerator[Event], gateway: Gateway, run: RunId
) -> AsyncGenerator[Growth]:
    """A run's events, and between them what its models write."""
    arrived: asyncio.Queue[Event | list[Chunk] | None] = asyncio.Queue(1)
    cursor = TokenCursor(run)
    reading = asyncio.ensure_future(_read(journal, arrived))
    looking = asyncio.ensure_future(_look(gateway, run, arrived))
    try:
        while (found := await arrived.get()) is not None:
            if isinstance(found, Event):
                cursor.take(found)
                yield found
                continue
            for event in cursor.news(found):
                yield event
        await reading  # raises what ended it
    finally:
        for task in (reading, looking):
            task.cancel()
        await asyncio.wait({reading, looking})


async def _read(
    journal: AsyncGenerator[Event], arrived: asyncio.Queue[Event | list[Chunk] | None]
) -> None:
    try:
        async for event in journal:
            await arrived.put(event)
    except Exception:
        await arrived.put(None)
        raise
    await arrived.put(None)


async def _look(
    gateway: Gateway, run: RunId, arrived: asyncio.Queue[Event | list[Chunk] | None]
) -> None:
    waits = pauses(FAST, SLOW)
    while True:
        found: list[Chunk] = []
        # Text that grows is worth a look now and then, and no error: the journal has its own.
        with suppress(RunNotFound, TemporalUnavailable):
            found = await written(gateway, run)
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            return  # the SDK may tell of that as of a failed call
        if found:
            waits = pauses(FAST, SLOW)
            await arrived.put(found)
        await asyncio.sleep(next(waits))
