"""Snapshots of runs, made behind the calls of a worker: see `crewlog.store.loading`."""

from __future__ import annotations

import asyncio
import logging

from crewlog.errors import CrewlogError
from crewlog.ids import RunId
from crewlog.state.journal import Batch
from crewlog.store.loading import is_due, keep_snapshots
from crewlog.store.protocol import Store

_LOG = logging.getLogger(__name__)


class Snapshots:
    """Keeps snapshots of the runs whose journal a worker stores.

    Nobody waits for one: no call gets longer by it. One that is not made, because the store goes
    away or an earlier part of the journal is not stored yet, is made at the next one.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._making: dict[RunId, asyncio.Task[None]] = {}

    def stored(self, run: RunId, batch: Batch) -> None:
        """Tells that a batch was stored."""
        if is_due(batch) and run not in self._making:
            self._making[run] = making = asyncio.create_task(self._make(run, batch.last))
            making.add_done_callback(lambda _: self._making.pop(run))

    async def idle(self) -> None:
        """Waits until nothing is being made."""
        while self._making:
            await asyncio.wait(self._making.values())

    async def _make(self, run: RunId, position: int) -> None:
        try:
            await keep_snapshots(self._store, run, position)
        except CrewlogError as error:
            _LOG.info("no snapshot of the run %r at position %d: %s", run, position, error)
