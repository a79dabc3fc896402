"""Graphs and where they come from, as the store has them, and as a tree."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from crewlog.cli.lineages import show_tree
from crewlog.cli.screen import Screen
from crewlog.client.graphs import Graph, TakenIn, family_of, living
from crewlog.definition.load import load_data
from crewlog.errors import RunNotFound
from crewlog.ids import CrewName, RunId
from crewlog.state import journal as j
from crewlog.state.model import CrewState
from crewlog.store import InMemoryStore
from crewlog.testing import scripted
from shared import LIMIT, Lab

POND: dict[str, Any] = {
    "crew": "pond",
    "model": "openai:x",
    "graph": {"root": "keeper"},
    "agents": {
        "keeper": {"prompt": "K.", "send": ["tasks"]},
        "scout": {"prompt": "S.", "listen": ["tasks"]},
    },
}
FLOW = {"crew": "flow", "model": "openai:x", "agents": {"a": {"prompt": "A."}}}


class Past:
    """A store, and what is told of its runs."""

    def __init__(self) -> None:
        self.store = InMemoryStore()
        self.ends: dict[str, int] = {}

    async def add(self, run: str, *entries: j.JournalEntry, first: int = 0) -> None:
        first = first or self.ends.get(run, 0) + 1
        data = tuple(j.entry_to_json(each) for each in entries)
        await self.store.append(RunId(run), j.Batch(first=first, heads={}, entries=data))
        self.ends[run] = first + len(entries) - 1

    async def start(self, run: str, crew: dict[str, Any], at: int) -> None:
        definition = load_data(crew)
        hashed = await self.store.put_definition(RunId(run), definition.to_json())
        began = j.RunStarted(run=RunId(run), crew=CrewName(crew["crew"]), definition=hashed, at=at)
        await self.add(run, began)

    async def part(self, run: str, source: str, crew: dict[str, Any], at: int, split: str) -> None:
        hashed = await self.store.put_definition(RunId(run), load_data(crew).to_json())
        state = CrewState(run=RunId(run), crew=CrewName("pond"), definition=hashed).to_json()
        to = self.ends[source]
        forked = j.RunForked(
            run=RunId(run),
            source=RunId(source),
            to=to,
            checkpoint=0 if split else 7,
            state=state,
            split=split,
            at=at,
        )
        await self.add(run, forked, first=to + 1)


def away(*names: str) -> dict[str, Any]:
    return {**POND, "graph": {"away": dict.fromkeys(names, "elsewhere")}}


@pytest.fixture
async def past() -> Past:
    """`pond` parts, `lake` becomes a part of what left, and somebody forked `pond`."""
    past = Past()
    await past.start("pond", POND, 1)
    await past.start("lake", POND, 2)
    await past.start("flow", FLOW, 3)
    await past.part("pond.1", "pond", away("keeper"), 4, "cut")
    await past.part("copy", "pond", POND, 5, "")
    await past.add("copy", j.RunStopped(because="enough", at=9))
    joined = j.LogsMerged(parents=(RunId("lake"),), at=6)
    await past.add("pond.1", joined)
    await past.add("lake", j.RunEndedByMerge(merge="o", run=RunId("pond.1"), position=3, at=7))
    await past.start("over", POND, 8)
    await past.add("over", j.RunCompleted(at=9))
    return past


async def test_a_family_is_all_that_is_connected(past: Past) -> None:
    found = {each.run: each for each in await family_of(past.store, RunId("lake"))}
    assert list(found) == ["pond", "lake", "pond.1", "copy"]
    pond, lake, part, copy = found.values()
    assert (pond.began, pond.members, pond.open) == ("alone", ("keeper", "scout"), True)
    assert (part.began, part.source, part.at, part.members) == ("split", "pond", 1, ("scout",))
    assert part.took_in == (TakenIn(RunId("lake"), past.ends["pond.1"], when=6),)
    assert part.parents == ("pond", "lake")
    assert (lake.status, lake.into, lake.members) == ("merged", "pond.1", ())
    assert (copy.began, copy.source, copy.status, copy.open) == ("fork", "pond", "stopped", False)
    assert copy.at == 7, "the checkpoint that was asked for, as `show` says it"
    assert [each.run for each in await family_of(past.store, RunId("over"))] == ["over"]
    with pytest.raises(RunNotFound, match="no run 'nowhere'"):
        await family_of(past.store, RunId("nowhere"))


async def test_graphs_are_the_runs_with_creatures_and_their_families(past: Past) -> None:
    family = ["pond", "lake", "pond.1", "copy"]
    assert [each.run for each in await living(past.store, ended=False, limit=99)] == family
    whole = [each.run for each in await living(past.store, ended=True, limit=99)]
    assert whole == [*family, "over"], "a crew with a flow alone is no graph"


async def test_a_run_that_is_deleted_is_told_where_others_come_from_it(past: Past) -> None:
    await past.store.delete([RunId("pond")], 1)
    found = {each.run: each for each in await family_of(past.store, RunId("pond.1"))}
    assert (found[RunId("pond")].status, found[RunId("pond.1")].source) == ("deleted", "pond")


async def test_a_deleted_run_that_took_a_part_of_its_own_in_did_not_begin_from_it(
    past: Past, capsys: pytest.CaptureFixture[str]
) -> None:
    for at, name in ((11, "z.A"), (12, "z.B")):
        if at == 11:
            await past.start("z", POND, 10)
        await past.part(name, "z", POND, at, "cut")
    await past.add("z", j.LogsMerged(parents=(RunId("z.A"),), at=13))
    await past.store.delete([RunId("z")], 1)
    for deleted in ((), (RunId("z.A"),)):
        await past.store.delete(deleted, 1)
        family = await family_of(past.store, RunId("z.B"))
        found = {each.run: each for each in family}
        root = found[RunId("z")]
        assert (root.began, root.source) == ("alone", None)
        assert [each.run for each in root.took_in] == ["z.A"]
        assert found[RunId("z.A")].source == "z"
        show_tree(Screen(), family)
        lines = capsys.readouterr().out.splitlines()
        assert [line.split()[0] for line in lines] == ["z", "├─", "└─"]


def test_a_tree_tells_all_even_of_runs_that_seem_to_have_begun_from_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, two, three = (RunId(name) for name in ("one", "two", "three"))
    found = [Graph(one, source=two), Graph(two, source=one), Graph(three, source=two)]
    show_tree(Screen(), found)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("deleted")[0].rstrip() for line in lines] == [
        "  one", "  └─ two", "     └─ three",
    ]  # fmt: skip


def test_a_tree_has_parts_under_their_source(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = [RunId(name) for name in ("pond", "pond.1", "pond.1.2", "copy", "lake")]
    found = [
        Graph(run[0], status="running", members=("a", "b")),
        Graph(run[4], status="merged", into=run[1]),
        Graph(run[1], status="waiting", members=("c",), began="split", source=run[0], at=4,
              took_in=(TakenIn(run[4], 9),)),
        Graph(run[2], status="running", began="split", source=run[1], at=12, members=("d",)),
        Graph(run[3], status="stopped", began="fork", source=run[0], at=2),
    ]  # fmt: skip
    show_tree(Screen(), found, "pond.1")
    assert capsys.readouterr().out.splitlines() == [
        "  pond            running    a, b",
        "  ├─ pond.1       waiting    c · parted from pond@4 · took in lake at 9",
        "  │  └─ pond.1.2  running    d · parted from pond.1@12",
        "  └─ copy         stopped    forked from pond@2",
        "  lake            merged     part of pond.1",
    ]
    monkeypatch.setenv("COLUMNS", "40")
    show_tree(Screen(), found[:2])
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "  pond  running",
        "    a, b",
        "  lake  merged",
        "    part of pond.1",
    ]


@pytest.mark.usefixtures("worker")
async def test_what_a_graph_does_is_told_as_of_a_run(lab: Lab) -> None:
    model = scripted({"agents": {"scout": [{"text": "ok"}]}})
    run = await lab.start({**POND, "model": model}, "")
    await run.wait_until(lambda view: view.is_idle, LIMIT)

    async def told(status: str) -> Sequence[Graph]:
        """The graphs, once `list` says that of the run."""
        async with asyncio.timeout(LIMIT):
            while (run.id, status) not in {(e.run, e.status) for e in await lab.client.list()}:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        return await lab.client.graphs()

    (rests,) = await told("waiting")
    assert (rests.status, rests.open) == ("waiting", True)
    assert [each.status for each in await lab.client.lineage(run.id)] == ["waiting"]
    await run.terminate("enough")
    assert await told("terminated") == [], "it does not live any more"
    (ended,) = await lab.client.graphs(ended=True)
    assert (ended.status, ended.open) == ("terminated", False)
    assert ended.ended is not None
