"""Links: what a batch of journal entries adds to the logs it extends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from crewlog.ids import ContentHash, LogName, RunId
from crewlog.model import Json
from crewlog.state.hashing import chain, log_root
from crewlog.state.journal import Batch, JournalEntry, entry_from_json


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


def links_of(run: RunId, batch: Batch) -> Iterator[Link]:
    """The chain links that a batch's whole entries make, in order: the same in every process."""
    heads = dict(batch.heads)
    for offset, entry in enumerate(batch.entries):
        ref = message_of(entry)
        position = batch.first + offset
        for log in ref["logs"] if ref else ():
            previous = heads.get(log) or log_root(run, log)
            head = chain(previous, position, ref["body"])
            heads[log] = head
            yield Link(log, head, previous, position, ref["body"])


def message_of(entry: Mapping[str, Json]) -> Mapping[str, Json]:
    """The message that an entry adds to logs, as a `MessageRef` in JSON; empty if it adds none.

    Read from the JSON itself: links are made several times for an entry, models take long.
    """
    found: Mapping[str, Json] = entry.get("ref") or {}
    return found
