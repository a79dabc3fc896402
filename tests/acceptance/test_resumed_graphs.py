"""Runs of creatures that ended and go on: as they were at last, or as their crew is written."""

from __future__ import annotations

import asyncio
import copy
import secrets
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import AddAgent, Disconnect, RemoveAgent
from crewlog.errors import CommandRejected, UsageError
from crewlog.ids import RunId
from crewlog.wire import WORKFLOW_TYPE
from crewlog.workflows.commands.changes import SPLIT_AT_START

from .harness import LIMIT, RUN_LIMIT, Site
from .test_creatures import living, rested
from .test_graph_history import says, texts
from .test_graph_units import graph
from .test_merges import A, D, speaking, to
from .test_splits import EDGES, part_of, until_begun


async def changed(site: Site, **policy: Any) -> tuple[Run, Run]:
    """A run to which dan came, which cid left for good, and ann for a run of her own."""
    crew = living(site, speaking("ann bob cid dan eve", 9), EDGES, **policy)
    dan, _ = crew["agents"].pop("dan"), crew["agents"].pop("eve")
    run = await site.start(crew, "")
    await rested(run)
    await says(run, "one", "x", 1)
    await says(run, "two", "y", 2)
    await run.change(operations=[AddAgent(name="dan", agent={**dan, "listen": ["y"]})], id="more")
    await run.change(operations=[RemoveAgent(name="cid")], id="less")
    await run.change(operations=[Disconnect(sender="ann", listener="bob")], id="cut")
    part = part_of(site, run, "cut", "ann")
    await until_begun(part)
    await says(part, "three", "x", 1)
    await says(run, "four", "y", 2)
    return run, part


async def stopped(*runs: Run) -> None:
    for run in runs:
        await run.stop()
        assert (await run.result(LIMIT)).status == "stopped"


async def made_again(site: Site, run: Run) -> None:
    """Checks that a run's rows can be made from its history."""
    before = await site.journal(run)
    report = await run.rebuild(replace=True)
    assert (report.whole, report.missing, report.problems) == (True, (), ())
    assert await site.journal(run) == before


@covers("C118")
@pytest.mark.parametrize("how", ["stop", "terminate", "idle"])
async def test_what_was_changed_live_is_there_when_it_goes_on(crews: Site, how: str) -> None:
    run, part = await changed(crews, **({"idle": "3s"} if how == "idle" else {}))
    if how == "stop":
        await run.stop()
    elif how == "terminate":
        await run.terminate("gone")
    if how != "terminate":
        ended = await run.result(LIMIT)
        assert ended.status == ("completed" if how == "idle" else "stopped")
    before = len(await crews.entries(run, "StepStarted"))
    await run.reopen("live", execution_timeout=RUN_LIMIT)
    await rested(run)  # it waits for messages as long as it may, whenever it was that it ended
    assert await graph(run) == ({"bob", "dan"}, {"y"})
    assert await texts(crews, run, "channel:y") == ["two", "four"]
    await says(run, "five", "y", 2)
    assert len(await crews.entries(run, "StepStarted")) == before + 2
    family = {each.run: each for each in await crews.client().lineage(run.id)}
    assert (family[RunId(part.id)].parents, family[RunId(part.id)].began) == ((run.id,), "split")
    assert [m.what for m in (await run.state()).changes][:2] == ["adds dan", "removes cid"]
    await stopped(run)
    await made_again(crews, run)


@covers("C118")
async def test_its_recipe_is_what_it_goes_on_from(crews: Site) -> None:
    """Who was added is gone, who was removed is there, and who left comes back where it ended."""
    run, part = await changed(crews)
    await stopped(run, part)
    await run.reopen("recipe", execution_timeout=RUN_LIMIT)
    await rested(run)
    assert await graph(run) == ({"ann", "bob", "cid"}, {"bridge", "x", "y"})
    state = await run.state()
    assert state.definition == state.recipe
    # All that was said here is there, also what only ann could read, and goes on.
    await says(run, "five", "x", 1)
    await says(run, "six", "y", 2)
    assert await texts(crews, run, "channel:x") == ["one", "five"]
    assert await texts(crews, run, "channel:y") == ["two", "four", "six"]
    read = [p for p in crews.prompted(run) if p["agent"] == "ann"][-1]["messages"]
    assert [m["content"] for m in read if m["type"] == "ai"] == ["ann-0"]
    family = {each.run: each for each in await crews.client().lineage(part.id)}
    assert {*family} == {run.id, part.id}
    assert family[RunId(part.id)].parents == (run.id,)
    assert [e.step for e in await crews.entries(run, "StepStarted") if e.agent == "ann"] == [
        "ann#1",
        "ann#2",
    ]
    await stopped(run)
    await made_again(crews, run)


@covers("C118")
@pytest.mark.parametrize("how", ["ended", "paused"])
async def test_who_lives_in_another_run_stays_there(crews: Site, how: str) -> None:
    run, part = await changed(crews)
    if how == "ended":
        await stopped(run)
        way = await run.way_back()
        assert ([each.name for each in way.leaves], way.returns) == (["dan"], ("cid",))
        assert (way.stays, way.channels_new, way.pieces) == ({"ann": part.id}, ("bridge",), 1)
        await run.reopen("recipe", execution_timeout=RUN_LIMIT)
    else:
        with pytest.raises(CommandRejected, match="it is not paused"):
            await run.resume(from_="recipe")
        assert await graph(run) == ({"bob", "dan"}, {"y"})
        await run.pause()
        await run.wait_until(lambda view: view.status == "paused", LIMIT)
        await run.resume(from_="recipe")
    await rested(run)
    assert await graph(run) == ({"bob", "cid"}, {"bridge", "y"})
    assert await graph(part) == ({"ann"}, {"x"})
    await says(run, "five", "y", 2)
    await says(part, "six", "x", 1)
    if how == "ended":
        last = (await run.state()).changes[-1]
        assert last.what.endswith(f"; ann stays in {part.id}")


@covers("C118")
async def test_nobody_comes_home_to_a_run_that_is_only_paused(crews: Site) -> None:
    """It is refused, and nothing is changed; once the run has ended, she does."""
    run, part = await changed(crews)
    await stopped(part)
    await run.pause()
    await run.wait_until(lambda view: view.status == "paused", LIMIT)
    way = await run.way_back()
    assert (way.returns, way.home, way.stays) == (("ann", "cid"), ("ann",), {})
    assert way.what.startswith("removes dan; adds cid; brings ann back; ")
    assert "away" not in way.what
    with pytest.raises(CommandRejected, match="ann left for a run of its own, which has") as no:
        await run.resume(from_="recipe")
    assert no.value.remedy.endswith(f"crewlog stop {run.id}")
    assert await graph(run) == ({"bob", "dan"}, {"y"})
    assert (await run.status()).status == "paused"
    await stopped(run)
    await run.resume(from_="recipe")
    await rested(run)
    assert (await graph(run))[0] == {"ann", "bob", "cid"}
    await says(run, "five", "x", 1)
    read = [p for p in crews.prompted(run) if p["agent"] == "ann"][-1]["messages"]
    assert [m["content"] for m in read if m["type"] == "ai"] == ["ann-0"]
    assert "; brings ann back" in (await run.state()).changes[-1].what


@covers("C118")
@pytest.mark.parametrize("registered", [True, False])
async def test_what_people_made_of_the_recipe_since_holds(crews: Site, registered: bool) -> None:
    crew = living(crews, speaking("ann bob cid eve", 9), EDGES)
    eve = crew["agents"].pop("eve")
    crew["crew"] = f"edited-{secrets.token_hex(3)}"
    client = crews.client()
    if registered:
        await client.register(crew)
    run = await crews.start(crew["crew"] if registered else crew, "")
    await rested(run)
    await says(run, "one", "y", 2)
    await run.change(operations=[RemoveAgent(name="bob")], id="live", wait=False)
    await until_begun(part := part_of(crews, run, "live", "cid"))
    await stopped(run, part)
    now = copy.deepcopy(crew)
    del now["agents"]["cid"]  # gone; eve comes, a channel, and a wire
    now["agents"]["eve"] = {**eve, "listen": ["y", "z"]}
    now["agents"]["ann"]["wires"] = ["channel:z"]
    if registered:
        assert (await client.register(now)).version == 2
        await run.resume(from_="recipe")
    else:
        await run.reopen("recipe", recipe=now, execution_timeout=RUN_LIMIT)
    await rested(run)
    assert await graph(run) == ({"ann", "bob", "eve"}, {"bridge", "x", "y", "z"})
    await says(run, "two", "y", 2)
    await says(run, "three", "x", 2)  # ann hears it, and by her wire eve hears ann
    assert await texts(crews, run, "channel:y") == ["one", "two"]
    assert await texts(crews, run, "channel:z") == ["ann-0"]
    assert "the present version of its recipe" in (await run.state()).changes[-1].what
    with pytest.raises(UsageError, match="as it is"):
        await run.reopen("live", recipe=now)


@covers("C118")
async def test_who_came_by_a_merge_is_there_live_and_not_by_the_recipe(crews: Site) -> None:
    one = await crews.start(living(crews, speaking("ann bob cid", 9), A), "")
    two = await crews.start(living(crews, speaking("dan eve", 9), D), "")
    await rested(one)
    await rested(two)
    await says(two, "one", "z", 1)
    await one.change(operations=[to(two, "ann", "eve", "tie")], id="tie")
    assert (await two.result(LIMIT)).surviving_run == one.id
    await stopped(one)
    await one.reopen("live", execution_timeout=RUN_LIMIT)
    await rested(one)
    assert (await graph(one))[0] == {"ann", "bob", "cid", "dan", "eve"}
    await says(one, "two", "z", 1)
    assert await texts(crews, one, "channel:z") == ["one", "two"]
    await stopped(one)
    way = await one.way_back()
    assert {each.name: each.came_with for each in way.leaves} == {"dan": two.id, "eve": two.id}
    await one.reopen("recipe", execution_timeout=RUN_LIMIT)
    await rested(one)
    assert (await graph(one))[0] == {"ann", "bob", "cid"}
    # What was said there is in its log, and whence it came is known.
    assert await texts(crews, one, "channel:z") == ["one", "two"]
    assert {each.run: each.parents for each in await crews.client().lineage(one.id)} == {
        one.id: (two.id,),
        two.id: (),
    }


@covers("C118")
async def test_a_recipe_in_several_pieces_is_parted_anew(crews: Site) -> None:
    edges = {"ann": {"listen": ["x"]}, "bob": {"listen": ["y"]}, "cid": {"listen": ["y"]}}
    run = await crews.start(living(crews, speaking("ann bob cid", 9), edges), "")
    await rested(run)
    part = part_of(crews, run, f"{SPLIT_AT_START}/1", "ann")
    await until_begun(part)
    await says(part, "one", "x", 1)
    await stopped(run, part)
    await run.reopen("recipe", execution_timeout=RUN_LIMIT)
    await run.wait_until(lambda view: view.is_idle and view.execution == 2, LIMIT)
    again = part_of(crews, run, f"{SPLIT_AT_START}/2", "ann")
    await until_begun(again)
    assert await graph(run) == ({"bob", "cid"}, {"y"})
    assert await graph(again) == ({"ann"}, {"x"})
    await says(again, "two", "x", 1)
    await stopped(again)
    family = {each.run: each.parents for each in await crews.client().lineage(run.id)}
    assert family == {run.id: (), part.id: (run.id,), again.id: (run.id,)}


@covers("C118")
@pytest.mark.parametrize("how", ["stopped", "terminated"])
async def test_who_came_back_does_not_live_on_where_it_had_left_for(crews: Site, how: str) -> None:
    run, part = await changed(crews)
    if how == "stopped":
        await stopped(part)
    else:
        await crews.temporal.get_workflow_handle(part.id).terminate()
        crews.runs.remove(part)  # it has no end in the store
    await stopped(run)
    way = await run.way_back()
    assert (way.stays, {"ann", "cid"}) == ({}, {*way.returns})
    await run.reopen("recipe", execution_timeout=RUN_LIMIT)
    await rested(run)
    assert {"ann"} <= (await graph(run))[0]
    with pytest.raises(UsageError, match=f"{run.id}.*continues ann of"):
        await part.reopen(execution_timeout=RUN_LIMIT)
    # Nor where a client of another version starts it, which does not look itself.
    handle = await crews.temporal.start_workflow(
        WORKFLOW_TYPE,
        {"reopen": "live", "by": "dot"},
        id=part.id,
        task_queue=crews.client().task_queue,
        execution_timeout=RUN_LIMIT,
    )
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(handle.result(), LIMIT)
    assert "continues ann of" in str(failed.value.cause)
    if how == "stopped":
        crews.runs.remove(part)  # its last execution is the one that was not let in
