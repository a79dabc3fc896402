"""A journal of several executions is read from the store and from the run."""

from __future__ import annotations

from typing import Any, cast

from crewlog.client.gateway import Gateway
from crewlog.client.journal import JournalReader
from crewlog.errors import WorkerMissing
from crewlog.ids import ContentHash, RunId
from crewlog.state import journal as j
from crewlog.store import InMemoryStore, Store
from crewlog.wire import JournalPage

RUN = RunId("r")


class OneAnswer:
    """A run of 5 entries, whose execution has the last two; its worker ends after one answer."""

    def __init__(self) -> None:
        self.answers = 0

    async def query(self, *_: Any) -> Any:
        self.answers += 1
        if self.answers > 1:
            raise WorkerMissing("no worker answers")
        return JournalPage(entries=(), position=5, first=4).to_json()


async def test_a_page_ends_with_the_older_entries_if_the_worker_ends() -> None:
    store = InMemoryStore()
    started = j.RunStarted(run=RUN, crew="c", definition=ContentHash("0" * 64), at=1)
    entries = (started, *(j.Paused(at=n) for n in (2, 3)))
    await store.append(RUN, j.Batch(first=1, entries=tuple(map(j.entry_to_json, entries))))

    async def open_store() -> Store:
        return store

    reader = JournalReader(cast("Gateway", OneAnswer()), open_store, RUN)
    part = await reader.read(0, 10)
    assert [item.position for item in part.page.entries] == [1, 2, 3]
    assert part.page.position == 5
