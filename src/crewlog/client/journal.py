"""A run's journal without a seam: the newest part from the run, older parts from the store.

An execution holds the entries since it began; what came before was stored before the run
continued as new, so between the two there is no gap. Where no worker answers, or the server has
forgotten the run, the store is all there is, and `JournalPart.live` says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from crewlog.client.gateway import Gateway
from crewlog.errors import (
    CrewlogError,
    DecryptionFailed,
    EncryptionKeyMissing,
    NotEncrypted,
    RunFailed,
    RunNotFound,
    StoreIncomplete,
    StoreUnavailable,
    UsageError,
    WorkerMissing,
)
from crewlog.ids import RunId, StepId
from crewlog.reporting.wire_views import entry_view
from crewlog.state.checkpoints import exchange_number
from crewlog.state.journal import is_contiguous
from crewlog.store.projection import first_position
from crewlog.store.protocol import CheckpointRow, Store
from crewlog.wire import CheckpointPage, CheckpointView, EntryView, JournalPage, Page

OpenStore = Callable[[], Awaitable[Store]]
"""Opens the store, or says why not."""


_NO_ANSWER = (WorkerMissing, RunNotFound, RunFailed, EncryptionKeyMissing, NotEncrypted)
"""Errors of a query to a run whose journal the store may have. `RunFailed`: the run failed before
its first entry, and may have the id of another one, which it did not replace."""
_UNREADABLE = (EncryptionKeyMissing, DecryptionFailed)
"""Errors of the store that say more than that no worker answers."""


class JournalPart(NamedTuple):
    """A part of a journal, and who told it."""

    page: JournalPage
    live: bool
    """Whether the run itself answered; if not, it may be further than the page says."""


class JournalReader:
    """Reads one run's journal and checkpoints."""

    def __init__(self, gateway: Gateway, store: OpenStore, run: RunId) -> None:
        self._gateway = gateway
        self._store = store
        self._run = run

    async def read(self, after: int, limit: int, *, ask: bool = True) -> JournalPart:
        """Up to `limit` entries after a position, in order and without a gap.

        Args:
            after: The position.
            limit: At most so many.
            ask: Whether the run is asked; if not, the store is, at once.

        Raises:
            RunNotFound: neither the server nor the store knows the run.
            RunFailed: it failed before its first entry, and the store has no journal of its id.
            WorkerMissing: no worker answers, and the store cannot be asked.
            StoreUnavailable: older entries are needed, and the store is away.
            StoreIncomplete: older entries are needed, and the store lacks them.
        """
        if not ask:
            nobody = WorkerMissing(
                f"no worker answers for the run {self._run!r}, and the store cannot tell",
                remedy="Start one: `crewlog worker`.",
            )
            return JournalPart(await self._stored(after, limit, nobody), live=False)
        try:
            page = await self._ask(after, limit)
        except _NO_ANSWER as error:
            return JournalPart(await self._stored(after, limit, error), live=False)
        after = max(after, page.base)
        if page.first > after + 1:
            older = await self._older(after, min(limit, page.first - 1 - after))
            missing = limit - len(older)
            newer: tuple[EntryView, ...] = ()
            if missing > 0 and page.position >= page.first:
                # Asked again rather than kept: the first answer began at the execution's start,
                # and the run may have continued as new since.
                with suppress(WorkerMissing):  # then the page ends with the older entries
                    newer = (await self._ask(older[-1].position, missing)).entries
            page = page.model_copy(update={"entries": (*older, *newer)})
        return JournalPart(_gapless(page, after, self._run), live=True)

    async def checkpoints(self, after: int, limit: int) -> CheckpointPage:
        """Up to `limit` checkpoints after a position, from the run and the store."""
        argument = Page(after=after, limit=limit).to_json()
        page: CheckpointPage | None = None
        failure: CrewlogError | None = None
        try:
            answer = await self._gateway.query(self._run, "checkpoints", argument)
            page = CheckpointPage.model_validate(answer, extra="ignore")
        except _NO_ANSWER as error:
            failure = error
        try:
            rows = await self._rows_or(failure, after, limit)
        except (StoreUnavailable, UsageError):
            if page is None or page.first > after + 1:
                raise
            return page  # the run has all of them; which are pruned, only the store knows
        pruned = {row.position for row in rows if row.pruned}
        found = {row.position: _view(row) for row in rows}
        if page is not None:
            found |= {view.position: view for view in page.checkpoints}
        views = tuple(found[at] for at in sorted(found) if at not in pruned)[:limit]
        position = page.position if page else max(found, default=after)
        return CheckpointPage(checkpoints=views, first=page.first if page else 1, position=position)

    async def _rows_or(
        self, failure: CrewlogError | None, after: int, limit: int
    ) -> list[CheckpointRow]:
        try:
            store = await self._store()
            rows = await store.list_checkpoints(self._run, after, limit, pruned=True)
        except _UNREADABLE:
            raise
        except CrewlogError:
            if failure is not None:
                raise failure from None
            raise
        if failure is not None and not rows:
            raise failure
        return rows

    async def _ask(self, after: int, limit: int) -> JournalPage:
        argument = Page(after=after, limit=limit).to_json()
        answer = await self._gateway.query(self._run, "journal", argument)
        return JournalPage.model_validate(answer, extra="ignore")

    async def _older(self, after: int, limit: int) -> tuple[EntryView, ...]:
        """Entries of earlier executions; at least one, since there is no other place for them."""
        rows = await (await self._store()).read_journal(self._run, after, limit)
        if not rows or rows[0].position != first_position(rows[0], after):
            raise StoreIncomplete(
                f"the store lacks the journal of the run {self._run!r} after position {after}",
                remedy=f"`crewlog rebuild {self._run}` makes it again from the history.",
            )
        return tuple(entry_view(row.position, row.entry) for row in rows)

    async def _stored(self, after: int, limit: int, failure: CrewlogError) -> JournalPage:
        try:
            store = await self._store()
            row = await store.get_run(self._run)
            rows = await store.read_journal(self._run, after, limit)
        except _UNREADABLE:
            raise
        except CrewlogError:
            raise failure from None
        if row is None and not rows:
            raise failure
        items = tuple(entry_view(r.position, r.entry) for r in rows)
        known = max(row.position if row else 0, items[-1].position if items else 0)
        base = row.source_position if row else first_position(rows[0], 0) - 1
        page = JournalPage(entries=items, first=base + 1, position=known, base=base)
        return _gapless(page, after, self._run)


def _view(row: CheckpointRow) -> CheckpointView:
    turn = exchange_number(row.step)
    return CheckpointView(
        position=row.position,
        kind=row.kind,
        step=row.step if turn is None else StepId(""),
        exchange=turn or 0,
        node=row.node,
        agent=row.agent,
        at=row.at,
        tags=row.tags,
    )


def _gapless(page: JournalPage, after: int, run: RunId) -> JournalPage:
    """The page up to its first gap: a position that is skipped is never come back to."""
    after = max(after, page.base)
    kept: list[EntryView] = []
    for item in page.entries:
        if item.position <= after:
            continue
        if not is_contiguous(item.data, item.position, kept[-1].position if kept else after):
            break
        kept.append(item)
    if page.entries and not kept and page.entries[-1].position > after:
        raise StoreIncomplete(
            f"the journal of the run {run!r} has a gap after position {after}",
            remedy=f"`crewlog rebuild {run}` makes it again from the history.",
        )
    return page.model_copy(update={"entries": tuple(kept)})
