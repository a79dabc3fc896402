"""Links: what a batch of journal entries adds to the logs it extends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from crewlog.ids import ContentHash, LogName, RunId
from crewlog.model import Json
from crewlog.state.hashing import chain, log_root
from crewlog.state.journal import Batch, JournalEntry, entry_from_json

_REWINDS = frozenset({"RolledBack", "Forked", "Reopened"})
"""Entries after which the logs stand where the state says that they hold."""
_WAITING = frozenset({"MessageQueued"})
"""Entries with a message that is in no log yet."""


class Link(NamedTuple):
    """A message's place in a log's chain."""

    log: LogName
    head: ContentHash
    previous: ContentHash
    position: int
    body: ContentHash


def entries_of(batch: Batch) -> Iterator[tuple[int, JournalEntry]]:
    """The entries of a batch with their positions."""
    for offset, data in enumerate(batch.entries):
        yield batch.first + offset, entry_from_json(data)


def heads_of(entry: Mapping[str, Json]) -> dict[LogName, ContentHash] | None:
    """All logs' heads after an entry that goes on from another state; none after any other.

    Read from the JSON, as `message_of`. A log that is not among them begins at its root.
    """
    if entry["kind"] not in _REWINDS:
        return None
    logs: Mapping[LogName, Mapping[str, Json]] = entry["state"].get("messages", {})
    return {log: at["head"] for log, at in logs.items()}


def source_of(batch: Batch) -> RunId | None:
    """The run that a fork goes on from whose journal begins with this batch; none of any other."""
    first = batch.entries[0] if batch.entries else None
    return RunId(first["source"]) if first is not None and first["kind"] == "Forked" else None


def heads_before(run: RunId, batch: Batch, log: LogName) -> ContentHash | None:
    """The head that a log had before what a batch adds to it last; none where that is no matter.

    Where the run went back within the batch, that is the head that it went back to.
    """
    found = [heads for entry in batch.entries if (heads := heads_of(entry)) is not None]
    if not found:
        return batch.heads.get(log)
    return found[-1].get(log) or log_root(run, log)


def links_of(run: RunId, batch: Batch) -> Iterator[Link]:
    """The chain links that a batch's whole entries make, in order: the same in every process."""
    heads = dict(batch.heads)
    for offset, entry in enumerate(batch.entries):
        if (gone_back := heads_of(entry)) is not None:
            heads = gone_back
        ref = message_of(entry)
        position = batch.first + offset
        for log in ref["logs"] if ref else ():
            previous = heads.get(log) or log_root(run, log)
            head = chain(previous, position, ref["body"])
            heads[log] = head
            yield Link(log, head, previous, position, ref["body"])


def extended(batch: Batch) -> set[LogName]:
    """The logs that a batch extends, since the run last went back in it."""
    logs: set[LogName] = set()
    for entry in batch.entries:
        if heads_of(entry) is not None:
            logs.clear()
        logs.update(message_of(entry).get("logs", ()))
    return logs


def heads_through(
    run: RunId, heads: Mapping[LogName, ContentHash], batch: Batch
) -> dict[LogName, ContentHash]:
    """The logs' heads after a batch's whole entries.

    Args:
        run: The run.
        heads: All logs' heads before it.
        batch: The batch.
    """
    found = dict(heads)
    links = iter(links_of(run, batch.model_copy(update={"heads": found})))
    link = next(links, None)
    for position, entry in enumerate(batch.entries, batch.first):
        if (gone_back := heads_of(entry)) is not None:
            found = gone_back
        while link is not None and link.position == position:
            found[link.log] = link.head
            link = next(links, None)
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
