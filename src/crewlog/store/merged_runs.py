"""Merged runs whose journals other runs need.

A surviving run has no copy of the journals of the runs that were merged into it: its log, trace and
report read them. So the journal of a merged run stays while the store has the `RunMerged` of its
surviving run. That entry decides, not the status of the merged run: it may have been terminated
before it recorded the outcome.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from typing import Literal

from crewlog.errors import UsageError
from crewlog.ids import RunId
from crewlog.state.journal import RunMerged, entry_from_json
from crewlog.store.protocol import LineageLink, Store


async def find_surviving_runs(store: Store, runs: Collection[RunId]) -> dict[RunId, RunId]:
    """The stored surviving runs, by the merged runs among some runs.

    Args:
        store: The store.
        runs: The runs.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    wanted = set(runs)
    return {
        link.source: link.run
        for link in await store.lineage_links(sorted(wanted))
        if link.by_merge and link.source in wanted and await _has_merged(store, link)
    }


async def _has_merged(store: Store, link: LineageLink) -> bool:
    """Whether the run of a link merged the run that has the id of its source now."""
    if not link.position:
        return False
    for row in await store.read_journal(link.run, link.position - 1, 1):
        entry = entry_from_json(row.entry)
        if isinstance(entry, RunMerged) and entry.merged_run == link.source:
            merged = await store.get_run(link.source)
            return merged is None or merged.started_at == entry.merged_run_started_at
    return False


async def check_not_merged(store: Store, run: RunId, action: Literal["delete", "replace"]) -> None:
    """Checks that no stored run needs the journal of a run.

    Args:
        store: The store.
        run: The run.
        action: What is to be done with the run.

    Raises:
        UsageError: it was merged into a run that the store has.
        StoreUnavailable: the store does not answer.
    """
    surviving = (await find_surviving_runs(store, [run])).get(run)
    if surviving is None:
        return
    remedy = (
        "Delete that run first"
        if action == "delete"
        else "Choose another id, or delete that run first"
    )
    raise UsageError(
        f"cannot {action} the run {run!r}: it was merged into {surviving!r}, and the log of that "
        "run shows its journal",
        remedy=f"{remedy}: `crewlog delete {shlex.quote(surviving)}`.",
        place=f"run {run!r}",
    )
