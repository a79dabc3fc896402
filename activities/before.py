"""What comes before a model is asked: what led to it is stored, and rulings are looked at."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

from crewlog.activities import rulings
from crewlog.activities.writing import append
from crewlog.errors import StoreUnavailable
from crewlog.state.calls import CallModel
from crewlog.store.protocol import Store


class Before:
    """What of a call's beginning is done, whoever comes to it first.

    A call that was held up looks at rulings before its model is asked, and has them with what it
    stores. Any other stores that while the model thinks, or along with its reply: so does a call of
    a model that answers at once, and a look of its own is cheaper than to store things twice.

    Args:
        store: Where the journal and the rulings are.
        task: The call.
    """

    def __init__(self, store: Store, task: CallModel) -> None:
        self._store = store
        self._task = task
        self._looked = rulings.scheduled()
        self._ruled = 0
        self._one = asyncio.Lock()
        self.stored = not task.batch.entries
        """Whether the store has what led to the call."""

    async def store(self) -> bool:
        """Stores what led to the call; false where the store is away: the run sends it again."""
        async with self._one:
            with suppress(StoreUnavailable):
                await self._append()
        return self.stored

    async def look(self, *, quick: bool) -> None:
        """Looks at what people ruled since the call was scheduled, unless it was only just now.

        Args:
            quick: Whether the model answers at once, as far as is known.

        Raises:
            PermissionsChanged: something was; the run makes the call's view anew.
            StoreUnavailable: the store is away; no model is asked.
        """
        async with self._one:
            if time.monotonic() - self._looked <= rulings.FRESH:
                pass
            elif self.stored or quick:
                at = time.monotonic()
                self._ruled = await self._store.last_permission_position(self._task.run)
                self._looked = at
            else:
                await self._append()
        rulings.check_permissions_unchanged(self._task, self._ruled)

    async def _append(self) -> None:
        if self.stored:
            return
        at = time.monotonic()
        self._ruled = await append(self._store, self._task.run, self._task.batch)
        self._looked, self.stored = at, True
