"""A graph as the unit of all that its creatures share, and what a change of it tells."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from covers import covers
from crewlog.client import Event, EventFilter, Run
from crewlog.definition.operations import (
    AddAgent,
    AddChannel,
    Disconnect,
    EditAgent,
    Operation,
    RemoveAgent,
    RemoveChannel,
    Unwire,
    Wire,
)
from crewlog.wire import ComponentChangeView

from .harness import LIMIT, Site, calls
from .test_creatures import living, rested
from .test_group_tools import answers, without
from .test_merges import A, D, speaking, to
from .test_splits import EDGES, part_of, until_begun


async def graph(run: Run) -> tuple[set[str], set[str]]:
    """Who lives in a run, and its channels."""
    topology = (await run.graph()).plan["component"]
    return {*topology["agents"]}, {*topology.get("channels", {})}


async def turns(run: Run, text: str, log: str, number: int) -> None:
    """Says something, and waits for the turns that follow."""
    before = (await run.status()).steps
    await run.message(text, to=log, by="fay")
    await run.wait_until(lambda view: view.steps == before + number and view.is_idle, LIMIT)


async def stopped(site: Site, *runs: Run) -> None:
    """Stops runs, and waits until all of them is stored."""
    for run in runs:
        await run.stop()
        assert (await run.result(LIMIT)).status == "stopped"


@covers("C97", "C107", "C113")
async def test_each_graph_has_its_own_environment_history_and_tools(crews: Site) -> None:
    """After a split both sides make a creature of one name, by tools that reach nobody else."""
    kit = {"name": "kit", "prompt": "Help."}
    crew = living(
        crews,
        {
            "zoe": [
                calls(
                    ("group_add_node", {**kit, "listen": ["z"]}),
                    ("group_remove_node", {"name": "bob"}),
                    ("group_channel", {"action": "remove", "channel": "y"}),
                    ("group_channel", {"action": "add", "channel": "den"}),
                    ("set_flag", {"flag": "done"}),
                ),
                {"text": "zoe-1"},
                {"text": "zoe-2"},
            ],
            "ann": [
                calls(("group_add_node", {**kit, "listen": ["y"]})),
                {"text": "ann-1"},
                {"text": "ann-2"},
            ],
            **speaking("bob kit"),
        },
        {
            "zoe": {
                "privileged": True,
                "listen": ["z"],
                "send": ["bridge"],
                "writes_flags": ["done"],
            },
            "ann": {"privileged": True, "listen": ["bridge", "y"]},
            "bob": {"listen": ["y"]},
        },
    )
    run = await crews.start(without(crew, "kit"), "")
    await rested(run)
    await run.change(operations=[Disconnect(sender="zoe", listener="ann")], id="cut")
    part = part_of(crews, run, "cut", "zoe")
    await until_begun(part)
    await rested(part)
    assert await graph(part) == ({"zoe"}, {"z"})
    assert await graph(run) == ({"ann", "bob"}, {"y"})
    await turns(part, "larch", "channel:z", 1)
    added, removed, cut, *_ = answers(crews, part, "zoe")
    assert added.startswith("Done: adds kit")
    assert "bob" in removed
    assert removed.startswith("Refused: ")
    assert "y" in cut
    assert cut.startswith("Refused: ")
    assert await graph(part) == ({"zoe", "kit"}, {"z", "den"})
    assert await graph(run) == ({"ann", "bob"}, {"y"})
    await turns(run, "maple", "channel:y", 2)
    assert await graph(run) == ({"ann", "bob", "kit"}, {"y"})
    flags = [(await each.state()).flags.get("done", False) for each in (part, run)]
    assert flags == [True, False]
    # Each `kit` hears its own graph, and nobody reads what was said in the other one since.
    await turns(part, "larch again", "channel:z", 2)
    await turns(run, "maple again", "channel:y", 3)
    for where, other in ((part, "maple"), (run, "larch")):
        heard = [m["content"] for p in crews.prompted(where) for m in p["messages"]]
        assert not [text for text in heard if other in text]
    await stopped(crews, run, part)
    assert [e.step for e in await crews.entries(part, "StepStarted")] == ["zoe#1", "kit#1", "zoe#2"]


@covers("C114", "C115")
async def test_people_make_a_live_creature_privileged(crews: Site) -> None:
    """It is the creature that is: its prompt, its tools and its turns are what they were."""
    kit = ("group_add_node", {"name": "kit", "prompt": "Help.", "wires": ["ann"]})
    script = [calls(kit), {"text": "may not"}, calls(kit), {"text": "done"}]
    crew = living(crews, {"ann": script, **speaking("bob cid kit")}, A)
    run = await crews.start(without(crew, "kit"), "")
    await rested(run)
    await turns(run, "try", "channel:x", 1)
    (refused,) = answers(crews, run, "ann")
    assert refused.startswith("Refused: ")
    await run.change(operations=[EditAgent(name="ann", set={"privileged": True})], by="fay")
    await turns(run, "again", "channel:x", 1)
    assert answers(crews, run, "ann")[-1].startswith("Done: adds kit")
    granted = (await run.graph()).plan["component"]["agents"]
    assert {name for name, each in granted.items() if each.get("privileged")} == {"ann"}
    assert granted["kit"]["parent"] == "ann"  # whom it brings is not, and works for it
    await stopped(crews, run)


@covers("C100")
async def test_a_channel_alone_connects_nobody(crews: Site) -> None:
    """Nor where another run has a channel of that name, or where it is the name of an old one."""
    run = await crews.start(living(crews, speaking("ann bob cid"), EDGES), "")
    other = await crews.start(living(crews, speaking("eve"), {"eve": {"listen": ["den"]}}), "")
    await rested(run)
    await rested(other)
    before = (await run.graph()).plan["component"]
    dry = await run.change(operations=[AddChannel(name="den")], dry_run=True)
    made = await run.change(operations=[AddChannel(name="den")], id="den", by="fay")
    for each in (dry, made):
        assert each.report is not None
        assert each.report.component_change == ComponentChangeView(
            kind="nothing", old_graph_ids=(run.id,), new_graph_ids=(run.id,)
        )
    after = (await run.graph()).plan["component"]
    assert (after["agents"], after["channels"]) == (
        before["agents"],
        {**before["channels"], "den": after["channels"]["den"]},
    )
    assert await graph(other) == ({"eve"}, {"den"})
    await run.message("Anybody?", to="channel:den", by="fay")
    await stopped(crews, run)
    (told,) = await crews.entries(run, "ComponentChanged")
    assert (told.change, told.new_graph_ids, told.events, told.split_runs) == (
        "nothing",
        (run.id,),
        (),
        (),
    )
    (refused,) = await crews.entries(run, "CommandRejected")
    assert "nobody reads 'channel:den'" in refused.reason
    assert not await crews.entries(run, "StepStarted")
    assert [e.kind for e in await crews.entries(other)] == ["RunStarted", "IdleStarted"]


@covers("C99")
async def test_who_is_added_to_a_graph_lives_there(crews: Site) -> None:
    crew = living(crews, speaking("ann bob cid dan"), EDGES)
    dan = crew["agents"].pop("dan")
    run = await crews.start(crew, "")
    await rested(run)
    await run.change(operations=[AddAgent(name="dan", agent={**dan, "send": ["y"]})], id="more")
    assert (await graph(run))[0] == {"ann", "bob", "cid", "dan"}
    await run.message("Hello.", to="private:dan", by="fay")
    await run.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    assert [e.agent for e in await crews.entries(run, "StepStarted")] == ["dan"]
    (told,) = await crews.entries(run, "ComponentChanged")
    assert (told.change, told.new_graph_ids) == ("nothing", (run.id,))


@covers("C102")
@pytest.mark.parametrize(
    ("operation", "stays", "leaves"),
    [
        (RemoveChannel(name="bridge"), {"bob", "cid"}, "ann"),
        (Disconnect(sender="ann", listener="bob"), {"bob", "cid"}, "ann"),
        (RemoveAgent(name="bob"), {"ann"}, "cid"),  # of equal ones, the smallest name's stays
        (RemoveAgent(name="ann"), {"bob", "cid"}, ""),
        (RemoveAgent(name="cid"), {"ann", "bob"}, ""),
    ],
    ids=("channel", "connection", "bridge", "one end", "the other end"),
)
async def test_what_is_taken_away_parts_the_graph_where_it_led(
    crews: Site, operation: Operation, stays: set[str], leaves: str
) -> None:
    run = await crews.start(living(crews, speaking("ann bob cid"), EDGES), "")
    await rested(run)
    done = await run.change(operations=[operation], id="cut")
    assert done.report is not None
    assert done.report.component_change is not None
    assert done.report.component_change.kind == ("split" if leaves else "nothing")
    assert (await graph(run))[0] == stays
    if leaves:
        part = part_of(crews, run, "cut", leaves)
        assert done.report.component_change.new_graph_ids == (run.id, part.id)
        await until_begun(part)
        assert (await graph(part))[0] == {leaves}


@covers("C103", "C107")
async def test_graphs_that_become_one_have_the_environment_of_both(crews: Site) -> None:
    one = await crews.start(living(crews, speaking("ann bob cid"), A), "")
    crew = living(
        crews,
        {"dan": [calls(("set_flag", {"flag": "done"})), *speaking("dan")["dan"]]} | speaking("eve"),
        D | {"dan": {**D["dan"], "writes_flags": ["done"]}},
    )
    two = await crews.start(crew, "")
    await rested(one)
    await rested(two)
    await turns(two, "before", "channel:x", 1)
    await one.change(operations=[to(two, "ann", "eve", "tie")], id="tie")
    assert (await two.result(LIMIT)).surviving_run == one.id
    # Both had an `x`: they are not the same, and stay two.
    assert await graph(one) == (
        {"ann", "bob", "cid", "dan", "eve"},
        {"x", "x-2", "y", "z", "tie"},
    )
    assert (await one.state()).flags["done"] is True
    assert (await two.successor()).id == one.id
    for log, who in (("x", "ann"), ("x-2", "dan"), ("z", "eve"), ("tie", "eve")):
        await turns(one, f"to {log}", f"channel:{log}", 1)
        assert [e.agent for e in await crews.entries(one, "StepStarted")][-1] == who
    await stopped(crews, one)


@covers("C111")
async def test_each_thing_that_happens_to_a_creature_is_an_event(crews: Site) -> None:
    crew = living(crews, speaking("ann bob cid dan"), EDGES)
    dan = {**crew["agents"].pop("dan"), "listen": ["y"]}
    run = await crews.start(crew, "")
    await rested(run)
    operations: list[Operation] = [
        AddAgent(name="dan", agent={**dan, "parent": "bob", "wires": ["bob"]}),
        Wire(name="cid", to="channel:y"),
        Unwire(name="cid", to="channel:y"),
        EditAgent(name="dan", set={"parent": "cid"}),
        RemoveAgent(name="dan"),
        Disconnect(sender="ann", listener="bob"),
    ]
    for number, operation in enumerate(operations):
        await run.change(operations=[operation], id=f"c{number}")
    part = part_of(crews, run, "c5", "ann")
    await until_begun(part)
    await stopped(crews, run, part)
    told = [
        [(each.event, each.agent, each.to) for each in entry.events]
        for entry in await crews.entries(run, "ComponentChanged")
    ]
    assert told == [
        [
            ("CREATURE_STARTED", "dan", ""),
            ("OUTPUT_WIRE_ADDED", "dan", "bob"),
            ("PARENT_LINK_CHANGED", "dan", "bob"),
        ],
        [("OUTPUT_WIRE_ADDED", "cid", "channel:y")],
        [("OUTPUT_WIRE_REMOVED", "cid", "channel:y")],
        [("PARENT_LINK_CHANGED", "dan", "cid")],
        [
            ("CREATURE_STOPPED", "dan", ""),
            ("OUTPUT_WIRE_REMOVED", "dan", "bob"),
            ("PARENT_LINK_CHANGED", "dan", ""),
        ],
        [
            ("SESSION_FORKED", "ann", part.id),
            ("CREATURE_SESSION_ATTACHED", "ann", part.id),
        ],
    ]
    chosen = EventFilter(kinds={event for entry in told for event, _, _ in entry})
    seen = [e async for e in crews.client().watch([run.id], chosen)]
    assert len([e for e in seen if e.run == run.id]) == len(operations)


@covers("C117")
async def test_who_watches_a_creature_sees_it_wherever_it_lives(crews: Site) -> None:
    """Over a split, and over a merge by which it gets another name; and nobody sees the watcher."""
    crew = living(crews, speaking("ann bob cid ann-2", 6), EDGES)
    run = await crews.start(without(crew, "ann-2"), "")
    names = "ann gil hal"
    edges = {name: {"listen": ["w"]} for name in names.split()}
    big = await crews.start(living(crews, speaking(names), edges), "")
    await rested(run)
    await rested(big)
    at = {each.id: (await each.state()).position for each in (run, big)}
    chosen = EventFilter(agents=["ann"], kinds=["StepStarted"])
    seen: list[Event] = []

    async def watch() -> None:
        async for event in crews.client().watch([run.id], chosen):
            seen.append(event)  # noqa: PERF401 - it is looked at meanwhile

    watching = asyncio.create_task(watch())
    await turns(run, "one", "channel:x", 1)
    async with asyncio.timeout(LIMIT):
        while not seen:  # noqa: ASYNC110 - whoever watches is told of nothing but events
            await asyncio.sleep(0.02)
    await run.change(operations=[Disconnect(sender="ann", listener="bob")], id="cut")
    part = part_of(crews, run, "cut", "ann")
    await until_begun(part)
    await turns(part, "two", "channel:x", 1)
    await turns(run, "not ann", "channel:y", 2)
    await big.change(operations=[to(part, "gil", "ann", "tie")], id="tie")
    assert (await part.result(LIMIT)).surviving_run == big.id
    await turns(big, "three", "channel:x", 1)
    await turns(big, "to all but ann-2", "channel:w", 3)
    await stopped(crews, run, big)
    async with asyncio.timeout(LIMIT):
        await watching
    assert [(e.run, getattr(e.entry, "agent", None)) for e in seen] == [
        (run.id, "ann"),
        (part.id, "ann"),
        (big.id, "ann-2"),
    ]
    # What is in the journals since is what was done here: nobody noticed that somebody looked.
    journals = [
        each for run in (run, big) for each in await crews.journal(run) if each[0] > at[run.id]
    ]
    assert {entry.kind for _, entry in journals} <= {
        *("MessageAdded", "AgentsWoken", "StepStarted", "ModelCallCompleted", "StepCompleted"),
        *("IdleStarted", "ChangeAccepted", "ComponentChanged", "RunMerged", "StopRequested"),
        *("RunStopped", "MergeRequested", "MergeAccepted"),
    }


@covers("C119")
async def test_a_crew_that_nobody_changes_is_as_it_was_written(crews: Site) -> None:
    """No operation, no tool and no event of the graph: channels, wires and a root are enough."""
    edges: dict[str, Any] = {
        "root": {"send": ["tasks"], "listen": ["reports"]},
        "scout": {"listen": ["tasks"], "wires": ["channel:reports"]},
    }
    crew = living(
        crews,
        {
            "root": [
                calls(("send_message", {"channel": "tasks", "text": "Look."})),
                {"text": "Sent."},
                {"text": "Good."},
            ],
            "scout": [{"text": "Seen."}],
        },
        edges,
        root="root",
        idle="300ms",
    )
    run, result = await crews.finish(crew, "Begin.")
    assert (result.status, result.executions) == ("completed", 1)
    assert result.outputs["root"]["text"] == "Good."
    state = await run.state()
    assert (state.graph_version, state.changes, state.recipe) == (1, (), state.definition)
    topology = (await run.graph()).plan["component"]
    assert {name: each.get("listen") for name, each in topology["agents"].items()} == {
        "root": ["reports"],
        "scout": ["tasks"],
    }
    kinds = {entry.kind for entry in await crews.entries(run)}
    assert not kinds & {"ComponentChanged", "DefinitionChanged", "GraphSwapped", "ChangeAccepted"}
    (alone,) = await crews.client().lineage(run.id)
    assert (alone.began, alone.parents, alone.members) == ("alone", (), ("root", "scout"))
