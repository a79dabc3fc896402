"""The report of a run: its journal, folded, with the values that the store has."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from crewlog.client.merged_journals import JournalSource, merged_runs
from crewlog.errors import StoreIncomplete, StoreUnavailable
from crewlog.graph.timers import status_by_journal
from crewlog.ids import ContentHash, RunId
from crewlog.model import Json
from crewlog.reporting.report.builder import run_report, with_bodies
from crewlog.reporting.report.view import ReportView
from crewlog.state.fold import fold_journal
from crewlog.state.journal import JournalEntry, entry_from_json

if TYPE_CHECKING:
    from crewlog.store.protocol import Store

_PAGE = 1000
_AT_ONCE = 500
"""Bodies that are asked for at a time."""


async def report_on(
    run: JournalSource,
    store: Callable[[], Coroutine[Any, Any, Store]],
    last: int | None = None,
    visited: set[RunId] | None = None,
) -> ReportView:
    """The report of a run, with those of the runs that were merged into it.

    Args:
        run: The run.
        store: Opens the store.
        last: The position that it is about; by default the last there is.
        visited: The runs whose reports are being made: see `merged_runs`.
    """
    visited = set() if visited is None else visited
    entries: list[tuple[int, JournalEntry]] = []
    after = 0
    while True:
        page = await run.journal(after, _PAGE)
        entries += ((item.position, entry_from_json(item.data)) for item in page.entries)
        if not page.entries or entries[-1][0] >= (last or page.position):
            break
        after = entries[-1][0]
    told = [each for each in entries if last is None or each[0] <= last]
    found = run_report(told)
    parts = [
        await report_on(run.sibling(each), store, visited=visited)
        async for each in merged_runs(run, (entry for _, entry in told), visited)
    ]
    found = found.model_copy(update={"merged_runs": tuple(parts)})
    if found.status == "running" and told:
        state = fold_journal(found.run, (entry for _, entry in told), base=told[0][0] - 1)
        found = found.model_copy(update={"status": status_by_journal(state)})
    return with_bodies(found, await _bodies(store, found.bodies))


async def _bodies(
    store: Callable[[], Coroutine[Any, Any, Store]], wanted: tuple[ContentHash, ...]
) -> dict[ContentHash, Json]:
    """Those of some bodies that the store has; where it is away, none."""
    found: dict[ContentHash, Json] = {}
    with suppress(StoreUnavailable):
        opened = await store()
        for at in range(0, len(wanted), _AT_ONCE):
            some = wanted[at : at + _AT_ONCE]
            try:
                found |= await opened.get_bodies(some)
            except StoreIncomplete:  # of a run that is under way, some are not stored yet
                for each in some:
                    with suppress(StoreIncomplete):
                        found |= await opened.get_bodies([each])
    return found
