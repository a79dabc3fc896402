"""A journal of several executions is read from the store and from the run."""

from __future__ import annotations

from typing import Any, cast

from crewlog.cli.look import read_with_merged_runs
from crewlog.client import Run
from crewlog.client.gateway import Gateway
from crewlog.client.journal import JournalReader
from crewlog.client.reporting import report_on
from crewlog.errors import WorkerMissing
from crewlog.ids import ContentHash, RunId
from crewlog.state import journal as j
from crewlog.state.model import CrewState
from crewlog.state.run_merge.surviving_state import transferred_state
from crewlog.store import InMemoryStore, Store
from crewlog.wire import EntryView, JournalPage

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


class Journals:
    """A run whose journal has a start and merges, among others that it can read."""

    def __init__(self, id: RunId, journals: dict[RunId, list[j.JournalEntry]]) -> None:
        self.id = id
        self._journals = journals

    def sibling(self, run: RunId) -> Journals:
        return Journals(run, self._journals)

    async def journal(self, after: int = 0, limit: int = 200) -> JournalPage:
        entries = enumerate(map(j.entry_to_json, self._journals[self.id]), 1)
        views = tuple(EntryView(position=at, kind=data["kind"], data=data) for at, data in entries)
        last = views[-1].position
        return JournalPage(entries=views[after : after + limit], position=last, first=1)


def started(run: str, at: int) -> j.RunStarted:
    return j.RunStarted(run=RunId(run), crew="c", definition=ContentHash("0" * 64), at=at)


def merged(run: str, started_at: int, position: int) -> j.RunMerged:
    return j.RunMerged(
        position=position,
        previous_position=position - 1,
        merged_run=RunId(run),
        merged_run_position=1,
        merged_run_started_at=started_at,
        merge=run,
        merged_state=transferred_state(CrewState(run=RunId(run), position=1)),
        parents=(RunId(run),),
        graph_version=2,
        crew="c",
        definition=ContentHash("0" * 64),
    )


async def read(run: Journals) -> tuple[list[str], list[str]]:
    """The runs in the log of a run, and those in its report."""

    async def open_store() -> Store:
        return InMemoryStore()

    log = [of async for of, _ in read_with_merged_runs(cast("Run", run))]
    report = await report_on(run, open_store)
    reported, ahead = list[str](), [report]
    while ahead:
        each = ahead.pop()
        reported.append(each.run)
        ahead += each.merged_runs
    return log, reported


async def test_merged_runs_are_read_before_their_merges() -> None:
    one, two, three = RunId("one"), RunId("two"), RunId("three")
    journals: dict[RunId, list[j.JournalEntry]] = {
        one: [started(one, 1), merged(two, 2, 2)],
        two: [started(two, 2), merged(three, 3, 2)],
        three: [started(three, 3)],
    }
    log, report = await read(Journals(one, journals))
    assert log == [one, two, three, two, one]
    assert report == [one, two, three]


async def test_runs_that_merged_each_other_are_read_once() -> None:
    one, two = RunId("one"), RunId("two")
    journals: dict[RunId, list[j.JournalEntry]] = {
        one: [started(one, 1), merged(two, 2, 2)],
        two: [started(two, 2), merged(one, 1, 2)],
    }
    assert await read(Journals(one, journals)) == ([one, two, two, one], [one, two])


async def test_a_later_run_with_the_id_of_a_merged_run_is_not_shown() -> None:
    one, two = RunId("one"), RunId("two")
    journals: dict[RunId, list[j.JournalEntry]] = {
        one: [started(one, 1), merged(two, 2, 2)],
        two: [started(two, 9)],
    }
    assert await read(Journals(one, journals)) == ([one, one], [one])
