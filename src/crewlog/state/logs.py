"""Links: what a batch of journal entries adds to the logs it extends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from crewlog.ids import ContentHash, LogName, RunId
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
    """The chain links that a batch's entries make, in order: the same in every process."""
    heads = dict(batch.heads)
    for position, entry in entries_of(batch):
        ref = entry.message
        for log in ref.logs if ref is not None else ():
            previous = heads.get(log) or log_root(run, log)
            head = chain(previous, position, ref.body)  # type: ignore[union-attr]
            heads[log] = head
            yield Link(log, head, previous, position, ref.body)  # type: ignore[union-attr]

