"""A split run starts when the journal of the original run names it, and ends if it never will."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import pytest

from crewlog.activities import restore
from crewlog.activities.restore import wait_for_split
from crewlog.activities.server import Server
from crewlog.errors import HistoryConflict, SplitNeverRecorded, SplitNotRecorded
from crewlog.ids import AgentName, ContentHash, CrewName, InterruptId, RunId
from crewlog.state import journal as j
from crewlog.state.split import SplitContents
from crewlog.store import InMemoryStore

SOURCE, PART = RunId("r"), RunId("r-part")
AFTER = 4


def named(part: RunId) -> j.ComponentChanged:
    """What a run records when it is parted."""
    share = SplitContents(agents=(AgentName("ann"),), nodes=())
    return j.ComponentChanged(
        at=1,
        change="split",
        old_graph_ids=(SOURCE,),
        new_graph_ids=(SOURCE, part),
        graph_version=2,
        crew=CrewName("t"),
        definition=ContentHash("d"),
        split="cut",
        split_runs=(j.SplitRun(run=part, definition=ContentHash("d"), contents=share),),
    )


def unrelated() -> j.JournalEntry:
    """What may come before: somebody answered meanwhile."""
    return j.InterruptDeadlineSet(at=1, interrupt=InterruptId("i1"), deadline=2)


async def stored(*entries: j.JournalEntry) -> InMemoryStore:
    """A store with a run's journal: entries after `AFTER`."""
    store = InMemoryStore()
    before = [unrelated()] * AFTER
    await append(store, 1, *before, *entries)
    return store


async def append(store: InMemoryStore, first: int, *entries: j.JournalEntry) -> None:
    rows = tuple(j.entry_to_json(each) for each in entries)
    await store.append(SOURCE, j.Batch(first=first, entries=rows), execution="e")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody stores anything while these tests wait."""
    monkeypatch.setattr(restore, "SPLIT_WAIT_SECONDS", 0.01)


class Stopped(Server):
    async def find_last_executions(self, run: RunId) -> tuple[str, ...] | None:
        assert run == SOURCE
        return ("e",)


class Unasked(Server):
    async def find_last_executions(self, run: RunId) -> tuple[str, ...] | None:
        raise AssertionError(f"nobody asks whether {run} has ended")


async def test_a_split_run_starts_when_the_journal_names_it() -> None:
    store = await stored(unrelated(), named(RunId("another")), named(PART))
    found = await wait_for_split(store, Server(), SOURCE, PART, AFTER)
    assert (found.position, found.part.run) == (AFTER + 3, PART)
    assert found.entry == named(PART)


async def test_a_split_run_waits_while_the_original_run_is_open() -> None:
    store = await stored(unrelated())
    with pytest.raises(SplitNotRecorded) as waits:
        await wait_for_split(store, Server(), SOURCE, PART, AFTER)
    assert waits.type is SplitNotRecorded
    assert waits.value.retryable
    await append(store, AFTER + 2, named(PART))
    assert (await wait_for_split(store, Server(), SOURCE, PART, AFTER)).position == AFTER + 2


async def test_the_journal_is_read_again_before_the_server_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is about to be stored is there soon: nobody is asked, and no try is lost for it."""
    monkeypatch.setattr(restore, "SPLIT_WAIT_SECONDS", 5.0)
    store = await stored()

    async def storing() -> None:
        for position, entry in enumerate((unrelated(), unrelated(), named(PART)), AFTER + 1):
            for _ in range(3):
                await asyncio.sleep(0)
            await append(store, position, entry)

    async with asyncio.TaskGroup() as together:
        together.create_task(storing())
        found = await wait_for_split(store, Unasked(), SOURCE, PART, AFTER)
    assert found.position == AFTER + 3


@pytest.mark.parametrize(
    "instead",
    [
        j.SwapFailed(at=1, graph_version=2, error="it is taken"),
        j.RunStopped(at=1),
        j.RunEndedByMerge(at=1, merge="m", run=RunId("s"), position=9),
    ],
    ids=lambda entry: entry.kind,
)
async def test_a_split_run_ends_if_the_journal_says_otherwise(instead: j.JournalEntry) -> None:
    store = await stored(unrelated(), instead)
    with pytest.raises(SplitNeverRecorded, match=instead.kind) as never:
        await wait_for_split(store, Server(), SOURCE, PART, AFTER)
    assert not never.value.retryable
    # What came before the run was to be parted says nothing.
    with pytest.raises(SplitNotRecorded) as waits:
        await wait_for_split(store, Server(), SOURCE, PART, AFTER + 2)
    assert waits.type is SplitNotRecorded


async def test_the_stored_journal_of_a_terminated_run_decides() -> None:
    store = await stored(unrelated())
    with pytest.raises(SplitNeverRecorded, match="has ended"):
        await wait_for_split(store, Stopped(), SOURCE, PART, AFTER)
    with pytest.raises(HistoryConflict):  # it cannot say it any more
        await append(store, AFTER + 2, named(PART))

    class Late(InMemoryStore):
        """A store in which the run's last word lands before it is shut."""

        async def reject_executions(self, run: RunId, executions: Collection[str]) -> None:
            await append(self, 1, *[unrelated()] * AFTER, named(PART))
            await super().reject_executions(run, executions)

    found = await wait_for_split(Late(), Stopped(), SOURCE, PART, AFTER)
    assert found.position == AFTER + 1


async def test_a_run_that_never_existed_is_not_waited_for() -> None:
    class Empty(Server):
        async def find_last_executions(self, run: RunId) -> tuple[str, ...] | None:
            return ()

    with pytest.raises(SplitNeverRecorded):
        await wait_for_split(InMemoryStore(), Empty(), SOURCE, PART, AFTER)
