"""The links that a batch of entries adds to logs, and the heads of logs.

A head is a hash that names a whole transcript. Hashes of bodies: `crewlog.canonical_json`.
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

_RESTORING = frozenset({"RunRolledBack", "RunForked", "RunReopened"})
"""Entries that record a state: each log continues at the head of that state."""
_CHANGING_KEYS = frozenset({"ref", "merged_logs", "state"})
"""An entry with none of these keys changes no log."""
_NO_BODY = ContentHash("")
_QUEUED = frozenset({"MessageQueued"})
"""Entries whose message is queued, and in no log yet."""


class Link(NamedTuple):
    """One element of a log: a message, or the point where a run merge merges two logs."""

    log: LogName
    head: ContentHash
    previous: ContentHash
    position: int
    body: ContentHash
    """The message's body; empty where logs merge."""
    other: ContentHash | None = None
    """The head of the merged run's log, where logs merge."""


def batch_entries(batch: Batch) -> Iterator[tuple[int, JournalEntry]]:
    """The entries of a batch with their positions."""
    return zip(batch.positions(), map(entry_from_json, batch.entries), strict=True)


def heads_of(entry: Mapping[str, Json]) -> dict[LogName, ContentHash] | None:
    """The heads of all logs after an entry that records a state; none for any other entry.

    Read from the JSON, like `message_of`. A log that is missing is empty there.
    """
    if entry["kind"] not in _RESTORING:
        return None
    logs: Mapping[LogName, Mapping[str, Json]] = entry["state"].get("messages", {})
    return {log: head["head"] for log, head in logs.items()}


def fork_source(batch: Batch) -> RunId | None:
    """The source run of a fork whose journal begins with this batch; none for other batches."""
    first = batch.entries[0] if batch.entries else None
    return RunId(first["source"]) if first is not None and first["kind"] == "RunForked" else None


def source_run_ids(batch: Batch) -> set[RunId]:
    """The runs whose logs a batch merges into the run's own."""
    return {RunId(parent) for entry in batch.entries for parent in entry.get("parents", ())}


def heads_before(run: RunId, batch: Batch, log: LogName) -> set[ContentHash]:
    """The heads that a batch extends a log from; empty if the batch does not depend on any.

    After a rollback within the batch, it is the head of the restored state. The heads of merged
    runs are included.
    """
    first, heads = 0, batch.heads
    for index, entry in enumerate(batch.entries, 1):
        if (restored := heads_of(entry)) is not None:
            first, heads = index, {log: empty_log_head(run, log)} | restored
    result = {heads[log]} if log in heads else set[ContentHash]()
    for entry in batch.entries[first:]:
        result |= {merge["two"] for merge in log_merges_of(entry) if merge["log"] == log}
    return result


def batch_links(run: RunId, batch: Batch) -> Iterator[Link]:
    """The links of a batch of unpacked entries, in order: the same in every process."""
    return _links(run, batch, dict(batch.heads))


def _links(run: RunId, batch: Batch, heads: dict[LogName, ContentHash]) -> Iterator[Link]:
    """The links. `heads` has the heads before the batch, and is updated with each link."""
    for position, entry in zip(batch.positions(), batch.entries, strict=True):
        if _CHANGING_KEYS.isdisjoint(entry):
            continue
        if (restored := heads_of(entry)) is not None:
            heads.clear()
            heads |= restored
        ref = message_of(entry)
        for log in ref["logs"] if ref else ():
            previous = heads.get(log) or empty_log_head(run, log)
            head = heads[log] = chain(previous, position, ref["body"])
            yield Link(log, head, previous, position, ref["body"])
        for merge in log_merges_of(entry):
            log, one, two = merge["log"], merge.get("one", ""), merge["two"]
            head = heads[log] = merged_head(one, two, position)
            if head != two:  # an equal head continues the log of the other run: no link
                yield Link(log, head, one, position, _NO_BODY, two)


def extended_logs(batch: Batch) -> set[LogName]:
    """The logs that a batch extends after the last entry that records a state."""
    logs: set[LogName] = set()
    for entry in batch.entries:
        if _CHANGING_KEYS.isdisjoint(entry):
            continue
        if heads_of(entry) is not None:
            logs.clear()
        logs.update(message_of(entry).get("logs", ()))
        logs.update(merge["log"] for merge in log_merges_of(entry))
    return logs


def heads_after_batch(
    run: RunId, heads: Mapping[LogName, ContentHash], batch: Batch
) -> dict[LogName, ContentHash]:
    """The heads of all logs after a batch.

    Args:
        run: The run.
        heads: The heads of all logs before it.
        batch: The batch, unpacked.
    """
    found = dict(heads)
    deque(_links(run, batch, found), maxlen=0)
    return found


def log_merges_of(entry: Mapping[str, Json]) -> Sequence[Mapping[str, Json]]:
    """The logs that an entry merges with those of other runs, each a `LogMerge` in JSON."""
    found: Sequence[Mapping[str, Json]] = entry.get("merged_logs") or ()
    return found


def message_of(entry: Mapping[str, Json]) -> Mapping[str, Json]:
    """The message that an entry adds to logs, as a `MessageRef` in JSON; empty if it adds none.

    Read from the JSON itself: links are made several times per entry, and validation is slow.
    """
    if entry["kind"] in _QUEUED:
        return {}
    found: Mapping[str, Json] = entry.get("ref") or {}
    return found


def message_or_queued(entry: Mapping[str, Json]) -> Mapping[str, Json]:
    """The message of an entry, also a queued one, which is in no log yet."""
    found: Mapping[str, Json] = entry.get("ref") or {}
    return found


def chain(previous: ContentHash, position: int, body: ContentHash) -> ContentHash:
    """The head of a log after one more message: `hash(previous head, journal position, body)`.

    So a head names a whole transcript: different transcripts have different heads.
    """
    return hash_bytes(previous.encode(), position.to_bytes(8, "big"), body.encode())


def merged_head(one: ContentHash, two: ContentHash, position: int) -> ContentHash:
    """The head of a log that merges two logs: it names both transcripts, in this order.

    If the first head is empty, or both are equal, it is the second one.
    """
    if not one or one == two:
        return two
    return hash_bytes(b"merged", one.encode(), two.encode(), position.to_bytes(8, "big"))


@lru_cache(maxsize=1024)
def empty_log_head(run: str, log: str) -> ContentHash:
    """The head of an empty log. It includes the run id, so logs of two runs never share heads."""
    return hash_bytes(b"log", _utf8(run), _utf8(log))


def _utf8(text: str) -> bytes:
    """A name as bytes. Unauthenticated clients may send lone surrogates."""
    return text.encode("utf-8", "surrogatepass")
