"""The item that a step is for, read where it is shown: histories hold a list once, and no item."""

from __future__ import annotations

import json

from crewlog.activities.recent import LruCache
from crewlog.errors import InternalError
from crewlog.ids import ContentHash
from crewlog.model import Json
from crewlog.state.calls import CallModel
from crewlog.state.journal import Batch
from crewlog.state.model import Item
from crewlog.store.protocol import Store

LISTS_KEPT = 16
"""Lists that a worker remembers: the steps of one list's items come close together."""


class Items:
    """Reads items.

    Args:
        store: Where lists are.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lists: LruCache[ContentHash, Json] = LruCache(LISTS_KEPT)

    async def shown(self, task: CallModel) -> str | None:
        """What the agent is shown of the step's item; none where the step is for none.

        Raises:
            StoreUnavailable: where the list cannot be read now.
            StoreIncomplete: where it is not in the store.
        """
        item = task.item
        if item is None:
            return None
        value = await self._value(item, task.batch)
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return f"Your item ({item.number} of {item.of}): {text}"

    async def _value(self, item: Item, batch: Batch) -> Json:
        if item.body is not None:
            return await self._body(item.body, batch)
        if item.listed is None:
            return item.value
        values = self._lists.get(item.listed)
        if values is None:
            values = self._lists.put(item.listed, await self._body(item.listed, batch))
        if not isinstance(values, list) or not 0 < item.number <= len(values):  # pyright: ignore[reportUnknownArgumentType]
            raise InternalError(f"the list {item.listed!r} has no item {item.number}")
        return values[item.number - 1]  # pyright: ignore[reportUnknownVariableType]

    async def _body(self, hash_: ContentHash, batch: Batch) -> Json:
        for entry in batch.entries:  # where the store was away, and may not have it yet
            if entry.get("body") == hash_ and "inline" in entry:
                return entry["inline"]
        return (await self._store.get_bodies([hash_]))[hash_]
