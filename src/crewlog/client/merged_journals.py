"""The merged runs whose journals are shown with that of their surviving run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from crewlog.ids import RunId
from crewlog.model import Json
from crewlog.state.journal import JournalEntry, RunMerged

if TYPE_CHECKING:
    from crewlog.wire import JournalPage


class JournalSource(Protocol):
    """A run with a journal: `crewlog.client.Run` is one."""

    id: RunId

    def sibling(self, run: RunId) -> JournalSource:
        """Another run."""
        ...

    async def journal(self, after: int = 0, limit: int = 200) -> JournalPage:
        """A part of its journal."""
        ...


async def merged_runs(
    run: JournalSource, entries: Iterable[JournalEntry], visited: set[RunId]
) -> AsyncIterator[RunId]:
    """The runs that were merged into a run, in the order of the merges.

    A later run with the id of a merged run is not among them.

    Args:
        run: The run.
        entries: Entries of its journal.
        visited: The runs that the reader has read; this run and those that are found are added, so
            that a reader which descends reads each run once.

    Raises:
        RunNotFound: neither the server nor the store knows one of them.
        StoreUnavailable, StoreIncomplete: as `Run.journal`.
    """
    visited.add(run.id)
    for entry in entries:
        if not isinstance(entry, RunMerged) or entry.merged_run in visited:
            continue
        visited.add(entry.merged_run)
        first = (await run.sibling(entry.merged_run).journal(0, 1)).entries
        if not first or start_time(first[0].data) == entry.merged_run_started_at:
            yield entry.merged_run


def start_time(first: Mapping[str, Json]) -> int:
    """When a run was started, by the first entry of its journal, in milliseconds since the epoch.

    It is `CrewState.started_at`.
    """
    at: int = first.get("started_at") or first.get("at") or 0
    return at
