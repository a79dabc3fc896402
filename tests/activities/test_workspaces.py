from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from crewlog.activities.workspaces import Workspaces
from crewlog.ids import RunId
from crewlog.store import InMemoryStore
from store.journals import Journal, started

RUN = RunId("r")


async def store_of(began: int) -> InMemoryStore:
    """A store that knows when a run began."""
    store = InMemoryStore()
    journal = Journal(RUN, [started(RUN).model_copy(update={"at": began})])
    await store.append(RUN, journal.batch())
    return store


@pytest.mark.parametrize("run", ["r", "a run/with: signs"])
async def test_a_new_run_with_a_used_id_has_an_empty_directory(tmp_path: Path, run: str) -> None:
    id_ = RunId(run)

    async def workspaces(began: int) -> Workspaces:
        store = InMemoryStore()
        journal = Journal(id_, [started(id_).model_copy(update={"at": began})])
        await store.append(id_, journal.batch())
        return Workspaces(tmp_path, store)

    one = await workspaces(1000)
    folder = await one.make(id_, "e1")
    (folder / "a.txt").write_text("of the first")
    assert await one.make(id_, "e2") == folder, "it continued as new"
    assert await (await workspaces(1000)).make(id_, "e3") == folder, "another worker has it"
    assert (folder / "a.txt").exists()
    two = await workspaces(2000)
    assert await two.make(id_, "e4") == folder
    assert list(folder.iterdir()) == []
    (folder / "a.txt").write_text("of the second")
    assert await two.make(id_, "e5") == folder
    assert (folder / "a.txt").read_text() == "of the second"
    aside = folder.with_name(f"{folder.name}~1000")
    assert (aside / "a.txt").read_text() == "of the first"


async def test_files_stay_if_the_start_of_the_run_is_unknown(tmp_path: Path) -> None:
    folder = await Workspaces(tmp_path, await store_of(1000)).make(RUN, "e1")
    (folder / "a.txt").write_text("x")
    await Workspaces(tmp_path, InMemoryStore()).make(RUN, "e2")  # its rows are lost
    assert (folder / "a.txt").exists()


async def test_files_from_before_the_run_stay(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "given.txt").write_text("x")
    folder = await Workspaces(tmp_path, await store_of(1000)).make(RUN, "e1")
    assert (folder / "given.txt").exists()


async def test_parallel_calls_move_a_directory_once(tmp_path: Path) -> None:
    folder = await Workspaces(tmp_path, await store_of(1000)).make(RUN, "e1")
    (folder / "old.txt").write_text("x")
    store = await store_of(2000)

    async def call(number: int) -> None:
        made = await Workspaces(tmp_path, store).make(RUN, "e2")
        (made / f"{number}.txt").write_text("new")

    await asyncio.gather(*map(call, range(8)))
    assert sorted(each.name for each in folder.iterdir()) == [f"{n}.txt" for n in range(8)]
