"""Hydration: the messages of a view, from the worker's cache as far as it has them.

A head names a whole transcript, so an entry of the cache is never wrong, only missing. Logs grow at
their end: all heads of a log that was never forked share one list, and a head is that list and a
length. So a call of a long run reads and parses only new messages. A head that merges two logs has
a list of its own: the messages of both, without duplicates, by position and then by body. The log
continues at its end.

The size of the cache is limited: the runs that were used longest ago are dropped. A link and a
message count as one each, and a long message counts one more for every `CHARACTERS_PER_ENTRY`,
since a single message may have megabytes.

Several activities hydrate one run at a time. Every change of the cache happens between awaits, and
every activity would make the same change. If another activity has extended a transcript meanwhile,
it is no longer a prefix of the wanted view, and is built again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from cachetools import LRUCache
from langchain_core.messages import BaseMessage

from crewlog.activities.log_roots import LogRoots, former_names
from crewlog.activities.transcripts import Quotes, Transcript, truncate_message
from crewlog.activities.windows import Chain, Log, TrimmedTranscript, trim_transcript
from crewlog.definition.context import Window
from crewlog.errors import LogAccessDenied
from crewlog.ids import AgentName, ContentHash, LogName, RunId, StepId, is_artifact, item_number
from crewlog.model import Json
from crewlog.state.calls import CallInput, View
from crewlog.state.journal import Batch
from crewlog.state.logs import (
    Link,
    batch_links,
    fork_source,
    heads_before,
    message_or_queued,
    source_run_ids,
)
from crewlog.state.logs import chain as next_head
from crewlog.state.messages import message_from_json
from crewlog.store.missing_rows import missing_rows_error
from crewlog.store.protocol import LogLink, Store

CHARACTERS_PER_ENTRY = 1024
"""Characters of a message that count as one entry of the cache."""
MOST_ITEM_TRANSCRIPTS = 128
"""The most cached transcripts of child steps of a run."""


class ChainHead(NamedTuple):
    """A head: the first `length` links of a chain, which may grow and is never cut."""

    chain: Chain
    length: int
    roots: tuple[ContentHash, ...]
    """Where the log begins, which proves its name; several after a run merge."""

    def merge(self, other: ChainHead) -> ChainHead:
        """Returns the head of a log with the links of both."""
        links = sorted({*self.chain[: self.length], *other.chain[: other.length]})
        both = Chain(links)
        same = next((n for n, link in enumerate(self.chain[: self.length]) if link != links[n]), -1)
        both.heads = self.chain.heads[: self.length if same < 0 else same]
        head = both.heads[-1] if both.heads else self.roots[0]
        for position, body in links[len(both.heads) :]:
            head = next_head(head, position, body)
            both.heads.append(head)
        return ChainHead(both, len(both), tuple(dict.fromkeys((*self.roots, *other.roots))))


class _ViewTranscript(Transcript):
    """The transcript of an agent, and the heads up to which it has the logs of its view."""

    def __init__(self, agent: AgentName, quotes: Quotes, step: StepId | None, view: View) -> None:
        super().__init__(agent, quotes, step, view.former_steps, view.after)
        self.log_heads: dict[LogName, ChainHead] = {}
        self.position = 0

    def find_new_messages(
        self, view: Mapping[LogName, ChainHead]
    ) -> list[tuple[int, ContentHash]] | None:
        """Returns what is new in a view, by position; None: the view does not continue this one."""
        new: set[tuple[int, ContentHash]] = set()
        for log, at in view.items():
            before = self.log_heads.get(log)
            if before is not None and (before.chain is not at.chain or before.length > at.length):
                return None
            new.update(at.chain[before.length if before else 0 : at.length])
        if not self.log_heads.keys() <= view.keys():
            return None
        # A message that is in several logs has one position: the set holds it once.
        messages = sorted(new)
        return None if messages and messages[0][0] <= self.position else messages


class _RunCache:
    """The cached links, messages and transcripts of a run."""

    def __init__(self, run: RunId) -> None:
        self.run = run
        self.heads: dict[ContentHash, ChainHead] = {}
        self.roots = LogRoots(run)
        self.tips: dict[LogName, ContentHash] = {}
        """The head that was read last, by log."""
        self.messages: dict[ContentHash, BaseMessage] = {}
        self.quotes: Quotes = {}
        self.transcripts: dict[AgentName, _ViewTranscript] = {}
        self.item_transcripts: LRUCache[StepId, _ViewTranscript] = LRUCache(MOST_ITEM_TRANSCRIPTS)
        """The transcripts of child steps, which have one each."""
        self.merged_links = 0
        """The number of links of merged logs when they were merged."""
        self.text_size = 0
        """The entries for which the text of messages and quotes counts."""
        self.counted_size = 0
        """The part of the size that is in the sum of the hydrator."""

    @property
    def size(self) -> int:
        """The number of entries."""
        entries = len(self.heads) + self.merged_links + len(self.messages) + len(self.quotes)
        return entries + self.text_size

    def get_root(self, log: LogName) -> ContentHash:
        """Returns the root of a log of the run."""
        root = self.roots.own(log)
        self.add_root(root)
        return root

    def add_root(self, root: ContentHash) -> None:
        """Adds the head at which a log begins."""
        self.heads.setdefault(root, ChainHead(Chain(), 0, (root,)))

    def add_link(self, link: Link | LogLink) -> None:
        """Adds a link, if the head before it is known."""
        before = self.heads.get(link.previous)
        if before is None or link.head in self.heads:
            return
        if link.other is not None:
            if (other := self.heads.get(link.other)) is not None:
                self.heads[link.head] = both = before.merge(other)
                self.merged_links += both.length
            return
        chain, length, roots = before
        if length < len(chain):  # the log was forked, by a rollback
            chain = chain.prefix(length)
        chain.append((link.position, link.body))
        chain.heads.append(link.head)
        self.heads[link.head] = ChainHead(chain, length + 1, roots)

    def add_bodies(self, bodies: Mapping[ContentHash, Json]) -> None:
        """Parses bodies and adds their messages."""
        for hash_, body in bodies.items():
            if hash_ not in self.messages:
                message = self.messages[hash_] = truncate_message(message_from_json(body))
                self.text_size += _count_characters(message) // CHARACTERS_PER_ENTRY

    def append(self, transcript: _ViewTranscript, position: int, body: ContentHash) -> None:
        """Adds the next message to a transcript, which may quote it: a copy of the text."""
        quotes = len(self.quotes)
        transcript.add(self.messages[body], body, position)
        transcript.position = position
        if len(self.quotes) > quotes:
            self.text_size += _count_characters(self.quotes[body]) // CHARACTERS_PER_ENTRY

    def find_transcript(
        self,
        agent: AgentName,
        logs: Mapping[LogName, ChainHead],
        step: StepId | None,
        view: View,
    ) -> tuple[_ViewTranscript, list[tuple[int, ContentHash]]]:
        """Returns the transcript that a view continues, or a new one, and the new messages.

        Args:
            agent: The agent of the transcript.
            logs: The logs of the view.
            step: The step, if it is a child step.
            view: The view.
        """
        transcript = (
            self.transcripts.get(agent) if step is None else self.item_transcripts.get(step)
        )
        new = None if transcript is None else transcript.find_new_messages(logs)
        if transcript is None or new is None:
            transcript = _ViewTranscript(agent, self.quotes, step, view)
            new = transcript.find_new_messages(logs) or []
        return transcript, new


class Hydrator:
    """Turns views into messages.

    Args:
        store: The store with links and bodies.
        max_entries: The most entries of the cache over all runs. The run that is being hydrated is
            kept whole.
    """

    def __init__(self, store: Store, max_entries: int = 100_000) -> None:
        self._store = store
        self._max_entries = max_entries
        self._runs: OrderedDict[RunId, _RunCache] = OrderedDict()
        self._size = 0

    async def hydrate(
        self,
        run: RunId,
        agent: AgentName,
        view: View,
        batch: Batch = Batch.EMPTY,
        *,
        step: StepId | None = None,
        complete: bool = True,
        unreadable_logs: Collection[LogName] = (),
    ) -> list[BaseMessage]:
        """Returns the messages of a view in order, as the agent sees them, and no others.

        Args:
            run: The run.
            agent: The agent of the view: its messages are its own, all others are quoted.
            view: The logs, each at a head.
            batch: Entries that the store may not have yet; their links are not read.
            step: The step that the view is for.
            complete: Whether tool calls without a result get one.
            unreadable_logs: Logs that the agent may not read, for the reason of a refusal.

        Raises:
            LogAccessDenied: a head is that of another log than the view says, or of another run's.
            StoreUnavailable: the store does not answer.
            StoreIncomplete: the store lacks a row.
        """
        _, transcript = await self._build_transcript(run, agent, view, batch, step, unreadable_logs)
        return transcript.completed_messages() if complete else transcript.messages()

    async def hydrate_window(
        self,
        task: CallInput,
        view: View,
        window: Window,
        unreadable_logs: Collection[LogName],
        *,
        script: bool = False,
    ) -> TrimmedTranscript:
        """Returns the messages of a call's view that a window shows, and what it leaves out.

        See `hydrate`.
        """
        run, step = task.run, task.step
        cache, transcript = await self._build_transcript(
            run, task.agent, view, task.batch, step, unreadable_logs
        )
        logs = {log: Log(at.chain, at.length) for log, at in transcript.log_heads.items()}
        # This object, and not the run's present cache: the run may have been dropped meanwhile.
        return trim_transcript(
            transcript, logs, cache.messages, window, step, script=task.agent if script else ""
        )

    async def _build_transcript(
        self,
        run: RunId,
        agent: AgentName,
        view: View,
        batch: Batch,
        step: StepId | None,
        unreadable_logs: Collection[LogName],
    ) -> tuple[_RunCache, _ViewTranscript]:
        """Returns the cache of a run and the transcript of a view, valid until the next await."""
        step = step if step is not None and item_number(step) else None
        cache = self._get_cache(run)
        self._add_batch(cache, batch)
        logs = await self._load_checked_logs(cache, view, batch, step, unreadable_logs)
        _, new = cache.find_transcript(agent, logs, step, view)
        await self._read_bodies(cache, (body for _, body in new))
        transcript, new = cache.find_transcript(agent, logs, step, view)
        for position, body in new:
            cache.append(transcript, position, body)
        transcript.log_heads = logs
        if step is None:
            cache.transcripts[agent] = transcript
        else:
            cache.item_transcripts[step] = transcript
        self._update_size(cache)
        return cache, transcript

    async def read_chains(
        self, run: RunId, view: View, batch: Batch, *, unreadable_logs: Collection[LogName] = ()
    ) -> dict[LogName, ChainHead]:
        """Returns the chains of the logs of a view, without reading their bodies.

        Args:
            run: The run.
            view: The logs, each at a head.
            batch: Entries that the store may not have yet.
            unreadable_logs: Logs that the agent may not read, for the reason of a refusal.

        Raises:
            LogAccessDenied: a head is that of another log than the view says, or of another run's.
            StoreUnavailable: the store does not answer.
            StoreIncomplete: the store lacks a row.
        """
        cache = self._get_cache(run)
        self._add_batch(cache, batch)
        logs = await self._load_checked_logs(cache, view, batch, None, unreadable_logs)
        self._update_size(cache)
        return logs

    async def _load_checked_logs(
        self,
        cache: _RunCache,
        view: View,
        batch: Batch,
        step: StepId | None,
        unreadable_logs: Collection[LogName],
    ) -> dict[LogName, ChainHead]:
        """Returns the logs of a view, after a check that each head belongs to its log."""
        logs = await self._load_logs(cache, view, batch)
        for log, at in logs.items():
            names = (
                *former_names(log, step, view.former_steps),
                *view.former_names.get(log, ()),
            )
            for root in at.roots:
                if not await cache.roots.has_root(log, root, self._store, names):
                    raise _access_denied(cache.roots.log_at(root, unreadable_logs), log)
        return logs

    def add_batch(self, run: RunId, batch: Batch) -> None:
        """Caches the links and messages of a batch, which may never be stored."""
        cache = self._get_cache(run)
        self._add_batch(cache, batch)
        self._update_size(cache)

    async def read_message(self, run: RunId, hash_: ContentHash) -> BaseMessage:
        """Returns a message by the hash of its body."""
        cache = self._get_cache(run)
        await self._read_bodies(cache, [hash_])
        self._update_size(cache)
        return cache.messages[hash_]

    def add_body(self, run: RunId, hash_: ContentHash, body: Json) -> None:
        """Caches a body that this worker has made."""
        cache = self._get_cache(run)
        cache.add_bodies({hash_: body})
        self._update_size(cache)

    @property
    def size(self) -> int:
        """The number of entries of the cache."""
        return self._size

    def _get_cache(self, run: RunId) -> _RunCache:
        cache = self._runs.get(run)
        if cache is None:
            cache = self._runs[run] = _RunCache(run)
        self._runs.move_to_end(run)
        return cache

    def _add_batch(self, cache: _RunCache, batch: Batch) -> None:
        if not batch.entries:
            return
        if (source := fork_source(batch)) is not None:
            cache.roots.source = source
        cache.roots.parents |= source_run_ids(batch)
        for link in batch_links(cache.run, batch):
            cache.get_root(link.log)
            cache.add_link(link)
        cache.add_bodies(dict(_inline_bodies(batch)))

    async def _load_logs(
        self, cache: _RunCache, view: View, batch: Batch
    ) -> dict[LogName, ChainHead]:
        # The batch is being stored at the same time: only the heads before it are surely there.
        unknown = [
            (log, before)
            for log, head in view.heads.items()
            if head not in cache.heads
            for before in heads_before(cache.run, batch, log) or {head}
        ]
        if unknown:
            await asyncio.gather(*(self._read_log(cache, log, head) for log, head in unknown))
            self._add_batch(cache, batch)
        for log, head in view.heads.items():
            if head not in cache.heads:  # neither the batch nor the store leads to it
                raise _access_denied(None, log)
        cache.tips |= view.heads
        return {log: cache.heads[head] for log, head in view.heads.items()}

    async def _read_log(self, cache: _RunCache, log: LogName, head: ContentHash) -> None:
        root = cache.get_root(log)
        if head in cache.heads:
            return
        # Reading stops at the newest known head; a log that forked is read to its root, once.
        tip = cache.tips.get(log, root)
        links = await self._store.read_log(head, {tip, root})
        for link in links:
            if link.previous not in cache.heads:  # the log began in an ancestor of the run
                cache.add_root(link.previous)
            cache.add_link(link)
        if head not in cache.heads:
            raise missing_rows_error(cache.run, f"the log {log!r} has a gap")

    async def _read_bodies(self, cache: _RunCache, hashes: Iterable[ContentHash]) -> None:
        missing = {h for h in hashes if h not in cache.messages}
        if missing:
            cache.add_bodies(await self._store.get_bodies(missing))

    def _update_size(self, cache: _RunCache) -> None:
        """Counts the growth of a run, and drops the oldest runs above the limit."""
        if self._runs.get(cache.run) is not cache:
            return  # it was dropped during a read
        self._size += cache.size - cache.counted_size
        cache.counted_size = cache.size
        while len(self._runs) > 1 and self._size > self._max_entries:
            _, oldest = self._runs.popitem(last=False)
            self._size -= oldest.counted_size


def _access_denied(other: LogName | None, log: LogName) -> LogAccessDenied:
    whose = repr(other) if other else "no log of that name, here or where the run was forked from"
    return LogAccessDenied(f"the head of {log!r} in the view is one of {whose}")


def _count_characters(message: BaseMessage) -> int:
    """Counts the characters of all texts of a message, with the arguments of its calls."""
    count = 0
    left: list[Any] = [vars(message)]
    while left:
        value = left.pop()
        if isinstance(value, str):
            count += len(value)
        elif isinstance(value, dict):
            left.extend(cast("dict[str, Any]", value).values())
        elif isinstance(value, list):
            left.extend(value)  # pyright: ignore[reportUnknownArgumentType]
    return count


def _inline_bodies(batch: Batch) -> Iterator[tuple[ContentHash, Json]]:
    for entry in batch.entries:
        ref = message_or_queued(entry)
        if "inline" in ref and not any(map(is_artifact, ref["logs"])):
            yield ref["body"], ref["inline"]
