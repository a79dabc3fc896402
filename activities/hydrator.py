"""Hydration: the messages of a view, from the worker's memory as far as it has them.

A head names a whole transcript, so what is remembered under a head can never be wrong, only
missing. Logs grow at the end: all heads of a log that never forked share one list, and a head is
that list and a length. So a call of a long run reads and parses only what is new. A head that joins
two has a list of its own: the messages of both, by position and then by body, those that both have
once. The log goes on at its end.

Nothing here is more than a cache. It is bounded by forgetting the runs that were used longest ago.
What a run weighs is summed up as it grows: a link and a message are one each, and a long message is
one more for every `CHARACTERS` that it holds, since a single one may have megabytes.

Several activities hydrate one run at a time. Every change to the cache happens between awaits, and
is one that every other activity would have made; a transcript that was moved on meanwhile by
another activity is noticed, because it no longer is a beginning of the wanted view.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from langchain_core.messages import BaseMessage

from crewlog.activities.caches import LruCache
from crewlog.activities.log_roots import LogRoots, former_names
from crewlog.activities.transcripts import Quotes, Transcript, shortened
from crewlog.activities.windows import Chain, Cut, Log, cut
from crewlog.definition.context import Window
from crewlog.errors import LogAccessDenied
from crewlog.ids import AgentName, ContentHash, LogName, RunId, StepId, is_artifact, item_number
from crewlog.model import Json
from crewlog.state.calls import CallInput, View
from crewlog.state.journal import Batch
from crewlog.state.logs import Link, batch_links, fork_source, heads_before, said_in, source_run_ids
from crewlog.state.logs import chain as chained
from crewlog.state.messages import message_from_json
from crewlog.store.missing_rows import missing_rows_error
from crewlog.store.protocol import LogLink, Store

CHARACTERS = 1024
"""Characters of a message that weigh as much as a short message."""
ITEMS_KEPT = 128
"""Transcripts of items' steps that are kept of a run: as many as are at work, and some more."""


class ChainHead(NamedTuple):
    """A head: the first `length` links of a chain, which may grow behind it and is never cut."""

    chain: Chain
    length: int
    roots: tuple[ContentHash, ...]
    """Where the log begins: no other log begins there. Several, where logs were joined."""

    def joined(self, other: ChainHead) -> ChainHead:
        """What both heads have."""
        links = sorted({*self.chain[: self.length], *other.chain[: other.length]})
        both = Chain(links)
        same = next((n for n, link in enumerate(self.chain[: self.length]) if link != links[n]), -1)
        both.heads = self.chain.heads[: self.length if same < 0 else same]
        head = both.heads[-1] if both.heads else self.roots[0]
        for position, body in links[len(both.heads) :]:
            head = chained(head, position, body)
            both.heads.append(head)
        return ChainHead(both, len(both), tuple(dict.fromkeys((*self.roots, *other.roots))))


class _ViewTranscript(Transcript):
    """An agent's transcript, and how far it has taken the logs of its view."""

    def __init__(self, agent: AgentName, quotes: Quotes, step: StepId | None, view: View) -> None:
        super().__init__(agent, quotes, step, view.former_steps, view.after)
        self.taken: dict[LogName, ChainHead] = {}
        self.position = 0

    def fresh(self, view: Mapping[LogName, ChainHead]) -> list[tuple[int, ContentHash]] | None:
        """What is new in a view, by position; none where the view is not a continuation."""
        new: set[tuple[int, ContentHash]] = set()
        for log, at in view.items():
            before = self.taken.get(log)
            if before is not None and (before.chain is not at.chain or before.length > at.length):
                return None
            new.update(at.chain[before.length if before else 0 : at.length])
        if not self.taken.keys() <= view.keys():
            return None
        # A message that is in several logs has one position: the set holds it once.
        found = sorted(new)
        return None if found and found[0][0] <= self.position else found


class _Run:
    """What is remembered of a run."""

    def __init__(self, run: RunId) -> None:
        self.run = run
        self.heads: dict[ContentHash, ChainHead] = {}
        self.roots = LogRoots(run)
        self.tips: dict[LogName, ContentHash] = {}
        """The head that was wanted last, by log."""
        self.messages: dict[ContentHash, BaseMessage] = {}
        self.quotes: Quotes = {}
        self.transcripts: dict[AgentName, _ViewTranscript] = {}
        self.of_items: LruCache[StepId, _ViewTranscript] = LruCache(ITEMS_KEPT)
        """Those of items' steps, which have one each."""
        self.joined = 0
        """How many links the joined logs had when they were joined."""
        self.text = 0
        """What the messages and the quotes weigh besides being there: their text."""
        self.counted = 0
        """How much of it is in the hydrator's sum."""

    @property
    def size(self) -> int:
        return len(self.heads) + self.joined + len(self.messages) + len(self.quotes) + self.text

    def root(self, log: LogName) -> ContentHash:
        root = self.roots.own(log)
        self.begins(root)
        return root

    def begins(self, root: ContentHash) -> None:
        """Remembers where a log begins that is not this run's own, or had another name."""
        self.heads.setdefault(root, ChainHead(Chain(), 0, (root,)))

    def learn(self, link: Link | LogLink) -> None:
        """Remembers a link, if what is before it is known."""
        before = self.heads.get(link.previous)
        if before is None or link.head in self.heads:
            return
        if link.other is not None:
            if (other := self.heads.get(link.other)) is not None:
                self.heads[link.head] = both = before.joined(other)
                self.joined += both.length
            return
        chain, length, roots = before
        if length < len(chain):  # the log was forked, by a rollback
            chain = chain.until(length)
        chain.append((link.position, link.body))
        chain.heads.append(link.head)
        self.heads[link.head] = ChainHead(chain, length + 1, roots)

    def parse(self, bodies: Mapping[ContentHash, Json]) -> None:
        for hash_, body in bodies.items():
            if hash_ not in self.messages:
                message = self.messages[hash_] = shortened(message_from_json(body))
                self.text += _characters(message) // CHARACTERS

    def take(self, merged: _ViewTranscript, position: int, body: ContentHash) -> None:
        """Adds the next message to a transcript, which may have it quoted: a copy of the text."""
        quotes = len(self.quotes)
        merged.add(self.messages[body], body, position)
        merged.position = position
        if len(self.quotes) > quotes:
            self.text += _characters(self.quotes[body]) // CHARACTERS

    def transcript(
        self,
        agent: AgentName,
        logs: Mapping[LogName, ChainHead],
        step: StepId | None,
        view: View,
    ) -> tuple[_ViewTranscript, list[tuple[int, ContentHash]]]:
        """The transcript that the view continues, a new one if need be, and what is new.

        Args:
            agent: Whose it is.
            logs: The logs, as far as they are wanted.
            step: The step, where it is that of an item.
            view: The view, which says what such a step sees of its visit.
        """
        merged = self.transcripts.get(agent) if step is None else self.of_items.get(step)
        fresh = None if merged is None else merged.fresh(logs)
        if merged is None or fresh is None:
            merged = _ViewTranscript(agent, self.quotes, step, view)
            fresh = merged.fresh(logs) or []
        return merged, fresh


class Hydrator:
    """Turns views into messages.

    Args:
        store: Where links and bodies are read that the memory lacks.
        max_entries: How many links and messages are remembered over all runs; every `CHARACTERS`
            of a message are one more. The run that is being hydrated is kept whole.
    """

    def __init__(self, store: Store, max_entries: int = 100_000) -> None:
        self._store = store
        self._max_entries = max_entries
        self._runs: OrderedDict[RunId, _Run] = OrderedDict()
        self._size = 0

    async def hydrate(
        self,
        run: RunId,
        agent: AgentName,
        view: View,
        batch: Batch = Batch.EMPTY,
        bodies: Mapping[ContentHash, Json] | None = None,
        *,
        step: StepId | None = None,
        complete: bool = True,
        barred: Collection[LogName] = (),
    ) -> list[BaseMessage]:
        """The messages of a view in order, as the agent sees them, and nothing besides.

        Args:
            run: The run.
            agent: Whose view it is: its messages are its own, all others are quoted.
            view: The logs, each at a head.
            batch: Entries that may not have been in the store yet; their links need no reading.
            bodies: Message bodies at hand.
            step: The step that the view is for.
            complete: Whether calls without a result are given one.
            barred: Logs that the agent may not read, for the reason of a refusal.

        Raises:
            LogAccessDenied: a head is that of another log than the view says, or of another run's.
            StoreUnavailable: where what is missing cannot be read now.
            StoreIncomplete: where what is missing is not in the store.
        """
        _, merged = await self._hydrated(run, agent, view, batch, bodies, step, barred)
        return merged.complete() if complete else merged.messages()

    async def windowed(
        self,
        task: CallInput,
        view: View,
        window: Window,
        barred: Collection[LogName],
        *,
        script: bool = False,
    ) -> Cut:
        """The messages of a call's view as a window shows them; see `hydrate`.

        What it leaves out is told with it: summaries are made of that, and take their time.
        """
        run, step = task.run, task.step
        known, merged = await self._hydrated(run, task.agent, view, task.batch, None, step, barred)
        logs = {log: Log(at.chain, at.length) for log, at in merged.taken.items()}
        # Not what is remembered of the run now: that may have been forgotten meanwhile.
        return cut(merged, logs, known.messages, window, step, script=task.agent if script else "")

    async def _hydrated(
        self,
        run: RunId,
        agent: AgentName,
        view: View,
        batch: Batch,
        bodies: Mapping[ContentHash, Json] | None,
        step: StepId | None,
        barred: Collection[LogName],
    ) -> tuple[_Run, _ViewTranscript]:
        """The transcript of a view, and what it is made of.

        Until its caller awaits something it is that of the view.
        """
        step = step if step is not None and item_number(step) else None
        known = self._remembered(run)
        self._learn(known, batch)
        known.parse(bodies or {})
        logs = await self._proven(known, view, batch, step, barred)
        _, fresh = known.transcript(agent, logs, step, view)
        await self._read_bodies(known, (body for _, body in fresh))
        merged, fresh = known.transcript(agent, logs, step, view)
        for position, body in fresh:
            known.take(merged, position, body)
        merged.taken = logs
        if step is None:
            known.transcripts[agent] = merged
        else:
            known.of_items.put(step, merged)
        self._count(known)
        return known, merged

    async def chains(
        self, run: RunId, view: View, batch: Batch, *, barred: Collection[LogName] = ()
    ) -> dict[LogName, ChainHead]:
        """The logs of a view as they are chained, of which no body is read: those of artifacts.

        Args:
            run: The run.
            view: The logs, each at a head.
            batch: Entries that may not have been in the store yet.
            barred: Logs that the agent may not read, for the reason of a refusal.

        Raises:
            LogAccessDenied: a head is that of another log than the view says, or of another run's.
            StoreUnavailable: where what is missing cannot be read now.
            StoreIncomplete: where what is missing is not in the store.
        """
        known = self._remembered(run)
        self._learn(known, batch)
        logs = await self._proven(known, view, batch, None, barred)
        self._count(known)
        return logs

    async def _proven(
        self,
        known: _Run,
        view: View,
        batch: Batch,
        step: StepId | None,
        barred: Collection[LogName],
    ) -> dict[LogName, ChainHead]:
        """The logs of a view, each of which is the one that it is said to be."""
        logs = await self._logs(known, view, batch)
        for log, at in logs.items():
            was = (*former_names(log, step, view.former_steps), *view.former_names.get(log, ()))
            for root in at.roots:
                if not await known.roots.has_root(log, root, self._store, was):
                    raise _refused(known.roots.log_at(root, barred), log)
        return logs

    def learn(self, run: RunId, batch: Batch) -> None:
        """Keeps what a batch that may never be stored tells: its links and its messages."""
        known = self._remembered(run)
        self._learn(known, batch)
        self._count(known)

    async def message(self, run: RunId, hash_: ContentHash) -> BaseMessage:
        """One message by its body's hash."""
        known = self._remembered(run)
        await self._read_bodies(known, [hash_])
        self._count(known)
        return known.messages[hash_]

    def remember(self, run: RunId, hash_: ContentHash, body: Json) -> None:
        """Keeps a body that this worker just made, which it will soon be asked for."""
        known = self._remembered(run)
        known.parse({hash_: body})
        self._count(known)

    @property
    def size(self) -> int:
        """How many links and messages are remembered, long ones weighed by their text."""
        return self._size

    def _remembered(self, run: RunId) -> _Run:
        known = self._runs.get(run)
        if known is None:
            known = self._runs[run] = _Run(run)
        self._runs.move_to_end(run)
        return known

    def _learn(self, known: _Run, batch: Batch) -> None:
        if not batch.entries:
            return
        if (source := fork_source(batch)) is not None:
            known.roots.source = source
        known.roots.parents |= source_run_ids(batch)
        for link in batch_links(known.run, batch):
            known.root(link.log)
            known.learn(link)
        known.parse(dict(_inline(batch)))

    async def _logs(self, known: _Run, view: View, batch: Batch) -> dict[LogName, ChainHead]:
        # The batch is being stored at the same time: only what was before it can be relied on.
        unknown = [
            (log, before)
            for log, head in view.heads.items()
            if head not in known.heads
            for before in heads_before(known.run, batch, log) or {head}
        ]
        if unknown:
            await asyncio.gather(*(self._read(known, log, head) for log, head in unknown))
            self._learn(known, batch)
        for log, head in view.heads.items():
            if head not in known.heads:  # it follows neither from the batch nor from what is before
                raise _refused(None, log)
        known.tips |= view.heads
        return {log: known.heads[head] for log, head in view.heads.items()}

    async def _read(self, known: _Run, log: LogName, head: ContentHash) -> None:
        root = known.root(log)
        if head in known.heads:
            return
        # The newest head is enough to stop at: a log that forked is read to its root, once.
        tip = known.tips.get(log, root)
        links = await self._store.read_log(head, {tip, root})
        for link in links:
            if link.previous not in known.heads:  # a log that began in a run that this goes on from
                known.begins(link.previous)
            known.learn(link)
        if head not in known.heads:
            raise missing_rows_error(known.run, f"the log {log!r} has a gap")

    async def _read_bodies(self, known: _Run, hashes: Iterable[ContentHash]) -> None:
        missing = {h for h in hashes if h not in known.messages}
        if missing:
            known.parse(await self._store.get_bodies(missing))

    def _count(self, known: _Run) -> None:
        """Takes a run's growth into the sum, and forgets old runs where that is too much."""
        if self._runs.get(known.run) is not known:
            return  # forgotten while something of it was read
        self._size += known.size - known.counted
        known.counted = known.size
        while len(self._runs) > 1 and self._size > self._max_entries:
            _, oldest = self._runs.popitem(last=False)
            self._size -= oldest.counted


def _refused(other: LogName | None, log: LogName) -> LogAccessDenied:
    whose = repr(other) if other else "no log of that name, here or where the run was forked from"
    return LogAccessDenied(f"the head of {log!r} in the view is one of {whose}")


def _characters(message: BaseMessage) -> int:
    """The characters of all texts that a message holds: its own, and its calls' arguments."""
    found = 0
    left: list[Any] = [vars(message)]
    while left:
        value = left.pop()
        if isinstance(value, str):
            found += len(value)
        elif isinstance(value, dict):
            left.extend(cast("dict[str, Any]", value).values())
        elif isinstance(value, list):
            left.extend(value)  # pyright: ignore[reportUnknownArgumentType]
    return found


def _inline(batch: Batch) -> Iterator[tuple[ContentHash, Json]]:
    for entry in batch.entries:
        ref = said_in(entry)
        if "inline" in ref and not any(map(is_artifact, ref["logs"])):
            yield ref["body"], ref["inline"]
