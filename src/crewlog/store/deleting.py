"""What of deleted runs nobody else uses: pure, shared by both stores.

A run's rows go at once. What it shares by content goes when it is certain that nobody needs it:

- Links of its logs are needed by forks, whose `Forked` names the heads that they began with. Those
  that are kept for forks are orphans: they go when the last such fork does.
- A fork that has been asked for, and whose journal does not name its heads yet, is noted: until it
  has begun, its source is not deleted.
- A body or a definition that the run named is doomed, if nothing that is left names it. It is
  removed after a grace: an activity may have put the same content for a run of its own, whose
  journal does not name it yet. Putting it again lifts the doom. Where no run is open there is
  nobody to wait for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from crewlog.errors import UsageError
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.state.journal import Batch
from crewlog.state.logs import links_of
from crewlog.store.protocol import JournalRow, StartingFork

NAMES = r'"([A-Za-z0-9_-]{27})"'
"""A content hash in JSON."""
_NAMES = re.compile(NAMES)


def refuse_started(starting: Sequence[StartingFork]) -> None:
    """Refuses to delete runs that forks are about to begin from.

    Raises:
        UsageError: there are such forks.
    """
    if starting:
        raise needed(starting[0])


def needed(fork: StartingFork) -> UsageError:
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


def links_in(run: RunId, rows: list[JournalRow]) -> dict[ContentHash, ContentHash]:
    """The links that a run's own journal made: the head before each, by its head."""
    links: dict[ContentHash, ContentHash] = {}
    start = 0
    while start < len(rows):
        end = start + 1
        while end < len(rows) and rows[end].position == rows[end - 1].position + 1:
            end += 1
        entries = tuple(row.entry for row in rows[start:end])
        batch = Batch(first=rows[start].position, entries=entries)
        links |= {link.head: link.previous for link in links_of(run, batch)}
        start = end
    return links


def heads_in(forked: Mapping[str, Json]) -> set[ContentHash]:
    """The heads that a fork began with."""
    return {log["head"] for log in forked["state"].get("messages", {}).values()}


def reached(
    links: Mapping[ContentHash, ContentHash], heads: Iterable[ContentHash]
) -> set[ContentHash]:
    """Those of some links that chains which end at `heads` have."""
    found: set[ContentHash] = set()
    for head in heads:
        at = head
        while at in links and at not in found:
            found.add(at)
            at = links[at]
    return found
