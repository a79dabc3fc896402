"""Which events an observer wants, and how the events of many runs become one stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

import pytest

from covers import covers
from crewlog.client import Event, EventFilter
from crewlog.client.watching import Watch
from crewlog.errors import CrewlogError, RunFailed, RunNotFound, UsageError
from crewlog.ids import RunId
from crewlog.reporting.events.filters import ENTRY_KINDS, GRAPH_EVENTS, successors
from crewlog.state.journal import entry_from_json

CHANGED = {
    "kind": "ComponentChanged",
    "graph_version": 2,
    "crew": "pond",
    "definition": "d",
    "old_graph_ids": ["pond"],
    "new_graph_ids": ["pond"],
    "affected_creatures": ["keeper", "late", "scout"],
    "events": [
        {"event": "CREATURE_STARTED", "agent": "late"},
        {"event": "OUTPUT_WIRE_ADDED", "agent": "late", "to": "channel:reports"},
        {"event": "OUTPUT_WIRE_ADDED", "agent": "scout", "to": "keeper"},
        {"event": "PARENT_LINK_CHANGED", "agent": "late", "to": "keeper"},
        {"event": "SESSION_FORKED", "agent": "late", "to": "pond.1"},
    ],
}
SPLIT = {**CHANGED, "change": "split", "new_graph_ids": ["pond", "pond.1"], "events": []}
HEARD = {
    "kind": "AgentsWoken",
    "log": "channel:tasks",
    "body": "b",
    "by": "keeper",
    "to": ["scout", "writer.inbox"],
}
SAID = {
    "kind": "ModelCallCompleted",
    "step": "scout#2",
    "call": 1,
    "agent": "scout",
    "ref": {"body": "b", "logs": ["private:scout", "channel:reports"]},
}
RULED = {
    "kind": "DefinitionChanged",
    "crew": "pond",
    "definition": "d",
    "events": [{"event": "CREATURE_STOPPED", "agent": "scout"}],
}
MERGED = {"kind": "RunEndedByMerge", "merge": "o", "run": "lake", "position": 40}


def event(data: Mapping[str, Any], run: str = "pond", position: int = 1, at: int = 0) -> Event:
    return Event(position, at, entry_from_json({**data, "at": at}), RunId(run))


@covers("C112")
@pytest.mark.parametrize(
    ("data", "chosen", "passes"),
    [
        (CHANGED, {}, True),
        (CHANGED, {"kinds": ["ComponentChanged"]}, True),
        (CHANGED, {"kinds": ["TOPOLOGY_CHANGED"]}, True),
        (CHANGED, {"kinds": ["TOPOLOGY_CHANGED:nothing"]}, True),
        (CHANGED, {"kinds": ["TOPOLOGY_CHANGED:split", "TOPOLOGY_CHANGED:merge"]}, False),
        (SPLIT, {"kinds": ["TOPOLOGY_CHANGED:split"]}, True),
        (RULED, {"kinds": ["CREATURE_STOPPED"], "agents": ["scout"]}, True),
        (RULED, {"kinds": ["TOPOLOGY_CHANGED"]}, False),
        (CHANGED, {"kinds": ["CREATURE_STARTED"]}, True),
        (CHANGED, {"kinds": ["CREATURE_STOPPED"]}, False),
        (CHANGED, {"kinds": ["CREATURE_STARTED"], "agents": ["late"]}, True),
        (CHANGED, {"kinds": ["CREATURE_STARTED"], "agents": ["scout"]}, False),
        (CHANGED, {"kinds": ["TOPOLOGY_CHANGED"], "agents": ["scout"]}, True),
        (CHANGED, {"kinds": ["OUTPUT_WIRE_ADDED"], "agents": ["keeper"]}, True),
        (CHANGED, {"kinds": ["OUTPUT_WIRE_ADDED"], "channels": ["reports"]}, True),
        (
            CHANGED,
            {"kinds": ["OUTPUT_WIRE_ADDED"], "channels": ["reports"], "agents": ["scout"]},
            False,
        ),
        (CHANGED, {"channels": ["tasks"]}, False),
        (CHANGED, {"kinds": ["PARENT_LINK_CHANGED"], "agents": ["keeper"]}, True),
        (CHANGED, {"kinds": ["SESSION_FORKED"], "graphs": ["pond.1"]}, True),
        (CHANGED, {"kinds": ["TOPOLOGY_CHANGED"], "graphs": ["pond.1"]}, False),
        (SPLIT, {"graphs": ["pond.1"]}, True),
        (SPLIT, {"graphs": ["pond"]}, True),
        (SPLIT, {"graphs": ["lake"]}, False),
        (HEARD, {"agents": ["scout"]}, True),
        (HEARD, {"agents": ["writer"]}, True),
        (HEARD, {"agents": ["keeper"]}, True),
        (HEARD, {"agents": ["late"]}, False),
        (HEARD, {"channels": ["tasks"]}, True),
        (HEARD, {"channels": ["channel:tasks"]}, True),
        (HEARD, {"channels": "tasks", "kinds": "AgentsWoken"}, True),
        (HEARD, {"channels": ["tasks"], "kinds": ["StepStarted"]}, False),
        (SAID, {"channels": ["reports"]}, True),
        (SAID, {"channels": ["scout"]}, False),
        (
            SAID,
            {"agents": ["scout"], "kinds": ["ModelCallCompleted", "ToolCallCompleted"]},
            True,
        ),
        ({"kind": "StepCompleted", "step": "scout#2.3"}, {"agents": ["scout"]}, True),
        ({"kind": "StepCompleted", "step": "writer.inbox#2"}, {"agents": ["writer"]}, True),
        (
            {"kind": "NodesReached", "source": "a", "to": [{"node": "b"}]},
            {"agents": ["b"]},
            True,
        ),
        ({"kind": "ToolPermissionSet", "tool": "t", "agents": ["a"]}, {"agents": ["a"]}, True),
        ({"kind": "ToolPermissionSet", "tool": "t", "agents": None}, {"agents": ["a"]}, False),
        ({"kind": "IdleStarted"}, {"agents": ["a"]}, False),
        ({"kind": "IdleStarted"}, {"graphs": ["pond"]}, True),
        (MERGED, {"graphs": ["lake"]}, True),
        (
            {
                "kind": "LogsMerged",
                "parents": ["lake"],
                "merged_logs": [{"log": "channel:c", "two": "h"}],
            },
            {"graphs": ["lake"], "channels": ["c"]},
            True,
        ),
        (
            {"kind": "RunForked", "run": "pond", "source": "lake", "to": 3, "state": {}},
            {"kinds": ["SESSION_FORKED"], "graphs": ["lake"]},
            True,
        ),
    ],
)
def test_an_event_passes_by_one_of_its_meanings(
    data: dict[str, Any], chosen: dict[str, Any], passes: bool
) -> None:
    assert EventFilter(**chosen)(event(data)) is passes


def test_an_unknown_kind_is_told_with_what_is_near() -> None:
    assert {"ToolCallCompleted", "ComponentChanged", "RunEndedByMerge"} <= {*ENTRY_KINDS}
    assert {"CREATURE_STOPPED", "TOPOLOGY_CHANGED:merge"} <= {*GRAPH_EVENTS}
    with pytest.raises(UsageError, match="no event of the kind 'CREATURE_STARTE'") as caught:
        EventFilter(kinds=["CREATURE_STARTE"])
    assert "Did you mean 'CREATURE_STARTED'?" in caught.value.remedy
    assert EventFilter().all
    assert not EventFilter(channels="c").all


def test_where_a_run_goes_on() -> None:
    assert successors(event(SPLIT)) == {"pond.1": 0}
    assert successors(event(MERGED)) == {"lake": 39}
    assert successors(event(CHANGED)) == {}
    union = {**CHANGED, "change": "merge", "old_graph_ids": ["lake", "pond"]}
    assert successors(event(union)) == {}, "it is the one that goes on"


# -- many runs ---------------------------------------------------------------------------------


class Journals:
    """Journals that are there, and grow."""

    def __init__(self, **journals: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        self.there = {run.replace("_", "."): [*entries] for run, entries in journals.items()}
        self.open: dict[str, asyncio.Event] = {}
        """Runs that end only then."""
        self.asked: list[tuple[str, int]] = []
        self.again = asyncio.Event()
        """Set once a run was asked for twice."""
        self.fail: dict[str, Exception] = {}

    async def __call__(self, run: RunId, after: int) -> AsyncGenerator[Event]:
        if (run, after) in self.asked:
            self.again.set()
        self.asked.append((run, after))
        if run not in self.there:
            raise RunNotFound(f"no run {run!r}")
        for position, (at, data) in enumerate(self.there[run], 1):
            if position > after:
                yield event(data, run, position, at)
        if run in self.open:
            await self.open[run].wait()
        if run in self.fail:
            raise self.fail[run]


def rested(*times: int) -> list[tuple[int, dict[str, Any]]]:
    return [(at, {"kind": "IdleStarted"}) for at in times]


async def told(journals: Journals, *runs: str, **how: Any) -> list[tuple[str, int]]:
    chosen = EventFilter(**how)
    async with asyncio.timeout(20):
        return [(e.run, e.at) async for e, passes in Watch(journals, runs, chosen)() if passes]


async def test_events_of_many_runs_come_by_time() -> None:
    times = {f"r{n}": [*range(n, 3_000, 3 + n)] for n in range(5)}
    journals = Journals(**{run: rested(*each) for run, each in times.items()})
    found = await told(journals, *times)
    assert found == sorted(
        ((r, at) for r, ats in times.items() for at in ats), key=lambda e: e[1::-1]
    )


async def test_a_run_that_rests_holds_up_no_other() -> None:
    journals = Journals(busy=rested(5, 6), idle=rested(1))
    journals.open = {"busy": asyncio.Event(), "idle": asyncio.Event()}
    watch = Watch(journals, ("busy", "idle"), EventFilter())()
    async with asyncio.timeout(20):
        seen = [(await anext(watch))[0].at for _ in range(3)]
    assert seen == [1, 5, 6]
    await watch.aclose()


async def test_it_follows_to_where_a_run_goes_on() -> None:
    ended: list[tuple[str, object]] = []
    journals = Journals(
        pond=[(1, {"kind": "IdleStarted"}), (2, SPLIT), (9, {"kind": "IdleStarted"})],
        pond_1=[(3, {"kind": "IdleStarted"}), (4, {**MERGED, "position": 2})],
        lake=rested(0, 5, 6),
    )
    async with asyncio.timeout(20):
        watch = Watch(journals, ["pond"], EventFilter(), ended=lambda *end: ended.append(end))
        found = [(e.run, e.at) async for e, _ in watch()]
    assert found == [
        ("pond", 1), ("pond", 2), ("pond.1", 3), ("pond.1", 4), ("lake", 5), ("lake", 6),
        ("pond", 9),
    ]  # fmt: skip
    assert sorted(ended) == [("lake", None), ("pond", None), ("pond.1", None)]
    assert sorted(journals.asked) == [("lake", 1), ("pond", 0), ("pond.1", 0)]


UNION = {
    "kind": "RunMerged",
    "graph_version": 3,
    "crew": "lake",
    "definition": "d",
    "position": 2,
    "previous_position": 1,
    "merged_run": "pond",
    "merged_run_position": 1,
    "merged_run_started_at": 1,
    "merge": "o",
    "old_graph_ids": ["lake", "pond"],
    "new_graph_ids": ["lake"],
    "renames": [{"kind": "agent", "run": "pond", "was": "scout", "now": "scout-2"}],
    "merged_agents": ["scout-2", "late"],
}


@covers("C117")
async def test_who_is_called_otherwise_after_a_merge_is_still_watched() -> None:
    """And not who lives there under its old name."""
    assert EventFilter(kinds=["TOPOLOGY_CHANGED:merge"], graphs=["pond"])(event(UNION, "lake"))
    step = {"kind": "StepStarted", "step": "scout#1", "agent": "scout"}
    now = {**step, "step": "scout-2#1", "agent": "scout-2"}
    journals = Journals(
        pond=[(1, step), (2, {**MERGED, "position": 2})],
        lake=[
            (1, {"kind": "IdleStarted"}),
            (3, UNION),
            (4, now),
            (5, {**now, "agent": "late", "step": "late#1"}),
            (6, step),
        ],
    )
    scout: dict[str, Any] = {"agents": ["scout"], "kinds": ["StepStarted"]}
    assert await told(journals, "pond", **scout) == [("pond", 1), ("lake", 4)]
    # Whoever watches that run as well means both.
    both = [("pond", 1), ("lake", 4), ("lake", 6)]
    assert await told(journals, "pond", "lake", **scout) == both
    # Of a run that is not watched, nobody is meant; nor is anybody who does not come.
    assert await told(journals, "lake", **scout) == [("lake", 6)]
    assert await told(journals, "pond", agents=["else"], kinds=["StepStarted"]) == []


async def test_it_stays_in_the_graphs_that_are_named() -> None:
    journals = Journals(pond=[(2, SPLIT), (9, {"kind": "IdleStarted"})], pond_1=rested(3))
    assert await told(journals, "pond", graphs=["pond"]) == [("pond", 2), ("pond", 9)]
    assert [run for run, _ in journals.asked] == ["pond"]
    found = await told(journals, "pond", graphs=["pond", "pond.1"])
    assert found == [("pond", 2), ("pond.1", 3), ("pond", 9)]


async def test_a_part_that_is_not_there_yet_is_waited_for() -> None:
    journals = Journals(pond=[(2, SPLIT)])
    watch = Watch(journals, ["pond"], EventFilter())()
    async with asyncio.timeout(20):
        assert (await anext(watch))[0].at == 2
        reading = asyncio.ensure_future(anext(watch))
        await journals.again.wait()
        journals.there["pond.1"] = rested(3)
        assert (await reading)[0].at == 3
    await watch.aclose()


async def test_what_is_missing_is_told_at_once_and_a_lost_run_at_the_end() -> None:
    journals = Journals(pond=rested(1, 2), lost=rested(1))
    journals.open["pond"] = asyncio.Event()
    with pytest.raises(RunNotFound, match="no run 'nowhere'"):
        await told(journals, "pond", "nowhere")
    journals.open = {}
    journals.fail["lost"] = RunFailed("terminated from outside")
    ended: dict[str, CrewlogError | None] = {}
    watch = Watch(journals, ("pond", "lost"), EventFilter(), ended=ended.__setitem__)
    seen: list[int] = []

    async def look() -> None:
        async for each, _ in watch():
            seen.append(each.at)

    with pytest.raises(RunFailed, match="from outside"):
        await look()
    assert seen == [1, 1, 2]
    assert (ended["pond"], isinstance(ended["lost"], RunFailed)) == (None, True)
    journals.fail["lost"] = ValueError("a bug")
    with pytest.raises(ValueError, match="a bug"):
        await told(journals, "pond", "lost")
