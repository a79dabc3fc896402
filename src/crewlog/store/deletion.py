"""What of deleted runs nobody else uses: pure, shared by both stores.

A run's rows go at once. What it shares by content goes when it is certain that nobody needs it:

- Links of its logs may be those of its kin: the runs that it was a fork of, those whose logs came
  into it, and all that go on from these. A fork goes on from heads that its `RunForked` names, a
  run into which others' logs come from those that its entry joins; and runs that go on from one
  head, and say the same at the same positions, make the same links. Those that are kept for kin are
  orphans: they go when the last run does that has them.
- A fork that has been asked for, and whose journal does not name its heads yet, is noted: until it
  has begun, its source is not deleted. A part of a graph is noted by the entry that names it.
- A body or a definition that the run named is doomed, if nothing that is left names it. It is
  removed after a grace: an activity may have put the same content for a run of its own, whose
  journal does not name it yet. Putting it again lifts the doom. The grace is short where no run
  is open, and never none: one that has just begun is not listed yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from crewlog.errors import UsageError
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.state.journal import Batch, goes_on
from crewlog.state.logs import batch_links, heads_of, log_merges_of, message_of
from crewlog.store.projection import link_row
from crewlog.store.protocol import JournalRow, LogLink, PendingFork

NAMES = r'"([A-Za-z0-9_-]{27})"'
"""A content hash in JSON."""
_NAMES = re.compile(NAMES)


def check_no_pending_fork(starting: Sequence[PendingFork]) -> None:
    """Refuses to delete runs that forks are about to begin from.

    Raises:
        UsageError: there are such forks.
    """
    if starting:
        raise needed(starting[0])


def needed(fork: PendingFork) -> UsageError:
    """Why a run is not deleted."""
    return UsageError(
        f"the run {fork.source!r} is still needed: the run {fork.fork!r} is about to go on from it",
        remedy=f"Try again once that has begun: `crewlog show {fork.fork}` tells. If it is not to, "
        f"`crewlog delete {fork.fork} --force` deletes it first.",
        place=f"run {fork.source!r}",
    )


def named_in(text: str) -> set[ContentHash]:
    """The hashes that a JSON text names: bodies, definitions, heads."""
    return {ContentHash(found) for found in _NAMES.findall(text)}


def journal_links(run: RunId, rows: Sequence[JournalRow]) -> dict[ContentHash, LogLink]:
    """The links that a run's own journal made, by their heads."""
    links: dict[ContentHash, LogLink] = {}
    for batch in _whole(rows):
        for link in batch_links(run, batch):
            links[link.head] = link_row(link)
    return links


def _whole(rows: Sequence[JournalRow]) -> Iterator[Batch]:
    """A journal as batches, each without a gap."""
    start = 0
    while start < len(rows):
        end = start + 1
        while end < len(rows) and goes_on(
            rows[end].entry, rows[end].position, rows[end - 1].position
        ):
            end += 1
        entries = tuple(row.entry for row in rows[start:end])
        yield Batch(first=rows[start].position, entries=entries)
        start = end


def links_made_by(
    run: RunId, rows: Sequence[JournalRow], links: Mapping[ContentHash, LogLink]
) -> set[ContentHash]:
    """Those of some links that a run's own journal made, too."""
    if _has_gap(rows):
        # Batches are under way, and the heads after the gap are not known: what it may have made.
        said = {(row.position, name) for row in rows for name in _names_in(row.entry)}
        return {head for head, link in links.items() if (link.position, name_of(link)) in said}
    return links.keys() & journal_links(run, rows).keys()


def name_of(link: LogLink) -> ContentHash:
    """What an entry that makes a link names: the message's body, or the head that is joined."""
    return link.other or link.body


def _names_in(entry: Mapping[str, Json]) -> set[ContentHash]:
    return {message_of(entry).get("body", ""), *(join["two"] for join in log_merges_of(entry))}


def _has_gap(rows: Sequence[JournalRow]) -> bool:
    whole = list(_whole(rows))
    begins = whole and (whole[0].first == 1 or whole[0].entries[0]["kind"] == "RunForked")
    return len(whole) > 1 or not begins


def source_heads(entries: Iterable[Mapping[str, Json]]) -> set[ContentHash]:
    """The heads that a run went on from.

    Where it began as a fork, went back, began again, or joined logs of others.
    """
    return {
        head
        for entry in entries
        for head in (
            *(heads_of(entry) or {}).values(),
            *(join["two"] for join in log_merges_of(entry)),
        )
    }


def reached(links: Mapping[ContentHash, LogLink], heads: Iterable[ContentHash]) -> set[ContentHash]:
    """Those of some links that chains which end at `heads` have."""
    found: set[ContentHash] = set()
    ahead = list(heads)
    while ahead:
        at = ahead.pop()
        if at in links and at not in found:
            found.add(at)
            ahead += links[at].parents
    return found
