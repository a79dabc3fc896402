"""The rows that a deletion removes besides those of the runs: pure, shared by both stores.

The rows of a run are deleted at once. Content that runs share by its hash is deleted once no run
needs it:

- Log links may be shared with related runs: the source of a fork, merged runs, and all runs that
  continue from these. A fork continues from the heads in its `RunForked`, a run merge from those in
  its entry. Runs that continue from one head and have the same messages at the same positions have
  the same links. Links that a related run still uses are orphaned: they are deleted with the last
  run that uses them.
- A fork is pending from its request until its journal names its heads. Until then its source cannot
  be deleted. The entry of a split makes its split runs pending.
- A body or a definition that no journal names becomes unreferenced, and is deleted after a grace
  period: an activity may have stored the same content for a run whose journal does not name it yet.
  Storing it again makes it referenced. The grace period is short if no run is open, and never zero,
  since a run that has just started is not listed yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from crewlog.errors import UsageError
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.state.journal import Batch, is_contiguous
from crewlog.state.logs import batch_links, heads_of, log_merges_of, message_of
from crewlog.store.projection import link_row
from crewlog.store.protocol import JournalRow, LogLink, PendingFork

HASH = r'"([A-Za-z0-9_-]{27})"'
"""A content hash in JSON."""
_HASH = re.compile(HASH)


def check_no_pending_fork(pending: Sequence[PendingFork]) -> None:
    """Checks that there is no pending fork.

    Raises:
        UsageError: there is one.
    """
    if pending:
        raise pending_fork_error(pending[0])


def pending_fork_error(fork: PendingFork) -> UsageError:
    """The error for the deletion of a run with a pending fork."""
    return UsageError(
        f"cannot delete the run {fork.source!r}: its fork {fork.fork!r} has not started yet",
        remedy=f"Try again once `crewlog show {fork.fork}` shows that it has started, or delete it "
        f"first: `crewlog delete {fork.fork} --force`.",
        place=f"run {fork.source!r}",
    )


def hashes_in(text: str) -> set[ContentHash]:
    """The hashes in a JSON text: of bodies, definitions and heads."""
    return {ContentHash(found) for found in _HASH.findall(text)}


def journal_links(run: RunId, rows: Sequence[JournalRow]) -> dict[ContentHash, LogLink]:
    """The log links that follow from the journal of a run, by their heads."""
    links: dict[ContentHash, LogLink] = {}
    for batch in _contiguous_batches(rows):
        for link in batch_links(run, batch):
            links[link.head] = link_row(link)
    return links


def _contiguous_batches(rows: Sequence[JournalRow]) -> Iterator[Batch]:
    """The journal as batches without gaps."""
    start = 0
    while start < len(rows):
        end = start + 1
        while end < len(rows) and is_contiguous(
            rows[end].entry, rows[end].position, rows[end - 1].position
        ):
            end += 1
        entries = tuple(row.entry for row in rows[start:end])
        yield Batch(first=rows[start].position, entries=entries)
        start = end


def shared_links(
    run: RunId, rows: Sequence[JournalRow], links: Mapping[ContentHash, LogLink]
) -> set[ContentHash]:
    """The links among these that also follow from the journal of another run."""
    if _has_gap(rows):
        # Batches are missing, so the heads after the gap are unknown: all links that may follow.
        known = {(row.position, name) for row in rows for name in _entry_hashes(row.entry)}
        return {head for head, link in links.items() if (link.position, entry_hash(link)) in known}
    return links.keys() & journal_links(run, rows).keys()


def entry_hash(link: LogLink) -> ContentHash:
    """The hash that the entry of a link has: that of the body, or the head of the merged log."""
    return link.other or link.body


def _entry_hashes(entry: Mapping[str, Json]) -> set[ContentHash]:
    return {message_of(entry).get("body", ""), *(join["two"] for join in log_merges_of(entry))}


def _has_gap(rows: Sequence[JournalRow]) -> bool:
    batches = list(_contiguous_batches(rows))
    has_start = batches and (batches[0].first == 1 or batches[0].entries[0]["kind"] == "RunForked")
    return len(batches) > 1 or not has_start


def source_heads(entries: Iterable[Mapping[str, Json]]) -> set[ContentHash]:
    """The heads that a run continued from, by a fork, rollback, reopen or run merge."""
    return {
        head
        for entry in entries
        for head in (
            *(heads_of(entry) or {}).values(),
            *(join["two"] for join in log_merges_of(entry)),
        )
    }


def chain_links(
    links: Mapping[ContentHash, LogLink], heads: Iterable[ContentHash]
) -> set[ContentHash]:
    """The links among these in the chains that end at `heads`."""
    found: set[ContentHash] = set()
    ahead = list(heads)
    while ahead:
        at = ahead.pop()
        if at in links and at not in found:
            found.add(at)
            ahead += links[at].parents
    return found
