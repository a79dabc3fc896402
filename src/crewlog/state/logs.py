"""Links: what a batch of journal entries adds to the logs it extends.

Heads of logs: hashes that name a whole transcript. Content addresses are `crewlog.canonical_json`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from crewlog.canonical_json import hash_bytes
from crewlog.ids import ContentHash, LogName, RunId
from crewlog.model import Json
from crewlog.state.journal import Batch, JournalEntry, entry_from_json

_REWINDS = frozenset({"RunRolledBack", "RunForked", "RunReopened"})
"""Entries after which the logs stand where the state says that they hold."""
_LINKING = frozenset({"ref", "joined", "state"})
"""An entry with none of these keys leaves the logs as they are."""
_NO_BODY = ContentHash("")
_WAITING = frozenset({"MessageQueued"})
"""Entries with a message that is in no log yet."""


class Link(NamedTuple):
    """A message's place in a log, or the place where two logs become one."""

    log: LogName
    head: ContentHash
    previous: ContentHash
    position: int
    body: ContentHash
    """The message's body; empty where logs are joined."""
    other: ContentHash | None = None
    """The other head that is gone on from, where logs are joined."""


def batch_entries(batch: Batch) -> Iterator[tuple[int, JournalEntry]]:
    """The entries of a batch with their positions."""
    return zip(batch.positions(), map(entry_from_json, batch.entries), strict=True)


def heads_of(entry: Mapping[str, Json]) -> dict[LogName, ContentHash] | None:
    """All logs' heads after an entry that goes on from another state; none after any other.

    Read from the JSON, as `message_of`. A log that is not among them begins at its root.
    """
    if entry["kind"] not in _REWINDS:
        return None
    logs: Mapping[LogName, Mapping[str, Json]] = entry["state"].get("messages", {})
    return {log: at["head"] for log, at in logs.items()}


def fork_source(batch: Batch) -> RunId | None:
    """The run that a fork goes on from whose journal begins with this batch; none of any other."""
    first = batch.entries[0] if batch.entries else None
    return RunId(first["source"]) if first is not None and first["kind"] == "RunForked" else None


def source_run_ids(batch: Batch) -> set[RunId]:
    """The runs whose logs a batch's entries bring."""
    return {RunId(parent) for entry in batch.entries for parent in entry.get("parents", ())}


def heads_before(run: RunId, batch: Batch, log: LogName) -> set[ContentHash]:
    """The heads that what a batch adds to a log goes on from; none where that is no matter.

    Where the run went back within the batch, that is the head that it went back to. Heads that
    other runs bring are among them.
    """
    start, heads = 0, batch.heads
    for place, entry in enumerate(batch.entries, 1):
        if (gone_back := heads_of(entry)) is not None:
            start, heads = place, {log: empty_log_head(run, log)} | gone_back
    found = {heads[log]} if log in heads else set[ContentHash]()
    for entry in batch.entries[start:]:
        found |= {join["two"] for join in log_merges_of(entry) if join["log"] == log}
    return found


def batch_links(run: RunId, batch: Batch) -> Iterator[Link]:
    """The chain links that a batch's whole entries make, in order: the same in every process."""
    return _links(run, batch, dict(batch.heads))


def _links(run: RunId, batch: Batch, heads: dict[LogName, ContentHash]) -> Iterator[Link]:
    """The links; `heads` are those before the batch, and then those after what was yielded."""
    for position, entry in zip(batch.positions(), batch.entries, strict=True):
        if _LINKING.isdisjoint(entry):
            continue
        if (gone_back := heads_of(entry)) is not None:
            heads.clear()
            heads |= gone_back
        ref = message_of(entry)
        for log in ref["logs"] if ref else ():
            previous = heads.get(log) or empty_log_head(run, log)
            head = heads[log] = chain(previous, position, ref["body"])
            yield Link(log, head, previous, position, ref["body"])
        for join in log_merges_of(entry):
            log, one, two = join["log"], join.get("one", ""), join["two"]
            head = heads[log] = joined(one, two, position)
            if head != two:  # or else the log goes on at that head, and there is nothing to link
                yield Link(log, head, one, position, _NO_BODY, two)


def extended_logs(batch: Batch) -> set[LogName]:
    """The logs that a batch extends, since the run last went back in it."""
    logs: set[LogName] = set()
    for entry in batch.entries:
        if _LINKING.isdisjoint(entry):
            continue
        if heads_of(entry) is not None:
            logs.clear()
        logs.update(message_of(entry).get("logs", ()))
        logs.update(join["log"] for join in log_merges_of(entry))
    return logs


def heads_after_batch(
    run: RunId, heads: Mapping[LogName, ContentHash], batch: Batch
) -> dict[LogName, ContentHash]:
    """The logs' heads after a batch's whole entries.

    Args:
        run: The run.
        heads: All logs' heads before it.
        batch: The batch.
    """
    found = dict(heads)
    deque(_links(run, batch, found), maxlen=0)
    return found


def log_merges_of(entry: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    """The logs that an entry joins with those of other runs, each a `LogMerge` in JSON."""
    found: Sequence[Mapping[str, Json]] = entry.get("joined") or ()
    return found


def message_of(entry: Mapping[str, Json]) -> Mapping[str, Json]:
    """The message that an entry adds to logs, as a `MessageRef` in JSON; empty if it adds none.

    Read from the JSON itself: links are made several times for an entry, models take long.
    """
    if entry["kind"] in _WAITING:
        return {}
    found: Mapping[str, Json] = entry.get("ref") or {}
    return found


def said_in(entry: Mapping[str, Json]) -> Mapping[str, Json]:
    """The message that an entry has itself, also one that only waits to be added to logs."""
    found: Mapping[str, Json] = entry.get("ref") or {}
    return found


def chain(previous: ContentHash, position: int, body: ContentHash) -> ContentHash:
    """The head of a log after one more message: `hash(previous head, journal position, body)`.

    So a head names a whole transcript, and two writers cannot extend one log differently without
    ending at different heads.
    """
    return hash_bytes(previous.encode(), position.to_bytes(8, "big"), body.encode())


def joined(one: ContentHash, two: ContentHash, position: int) -> ContentHash:
    """The head of a log that goes on from two heads: it names both transcripts, in this order.

    Where the first is empty, or both are the same, there is nothing to join: it is the second.
    """
    if not one or one == two:
        return two
    return hash_bytes(b"joined", one.encode(), two.encode(), position.to_bytes(8, "big"))


@lru_cache(maxsize=1024)
def empty_log_head(run: str, log: str) -> ContentHash:
    """The head of an empty log; it names the run, so that equal names never mix two runs."""
    return hash_bytes(b"log", _utf8(run), _utf8(log))


def _utf8(text: str) -> bytes:
    """A name as bytes, whatever a stranger put into it."""
    return text.encode("utf-8", "surrogatepass")
