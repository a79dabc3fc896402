"""Graphs that fall apart: each part is a run of its own, and goes on where it was."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import AddAgent, Connect, Disconnect, RemoveAgent
from crewlog.errors import CommandRejected, RunNotFound, StoreIncomplete
from crewlog.ids import AgentName, RunId
from crewlog.state.components import split_run_id
from crewlog.wire import WORKFLOW_TYPE
from crewlog.workflows.commands.changes import SPLIT_AT_START

from .harness import LIMIT, RUN_LIMIT, Site, calls, tool, until
from .test_creatures import living, rested, sends

EDGES: dict[str, Any] = {
    "ann": {"listen": ["x"], "send": ["bridge"]},
    "bob": {"listen": ["bridge", "y"], "send": ["y"]},
    "cid": {"listen": ["y"]},
}


def part_of(site: Site, run: Run, command: str, first: str) -> Run:
    """The run of a part, to be checked at the test's end."""
    part = site.client().run(split_run_id(RunId(run.id), command, AgentName(first)))
    site.runs.append(part)
    return part


async def until_begun(part: Run) -> None:
    """Waits until a part begins, which nobody was told of who could wait for it."""
    async with asyncio.timeout(LIMIT):
        while True:
            try:
                await part.state()
            except RunNotFound:
                await asyncio.sleep(0.02)
            else:
                return


async def ann_at_a_gate(site: Site, **says: list[dict[str, Any]]) -> Run:
    """A run in which ann is in the middle of a turn: her tool waits at the gate `g`."""
    ann = [calls(("gate", {"name": "g"})), {"text": "went on"}]
    crew = site.crew(
        {"ann": ann, "bob": [], "cid": [], **says},
        rules=EDGES,
        tools={"gate": tool("gate")},
        graph={},
    )
    run = await site.start(crew, "")
    await rested(run)
    await run.message("work", to="channel:x", by="dot")
    await until(lambda: site.ledger(run, "start", tool="gate"), "the tool")
    return run


@covers("C97", "C106", "C107", "C108")
async def test_each_part_goes_on_as_a_run_of_its_own(crews: Site) -> None:
    crew = living(
        crews,
        {
            "ann": [{"text": "one"}, {"text": "two"}],
            "bob": [{"text": "three"}, sends("y", "Hear me."), {"text": "four"}],
            "cid": [{"text": "five"}, {"text": "six"}],
        },
        EDGES,
        root="bob",
    )
    run = await crews.start(crew, "")
    await rested(run)
    await run.message("before", to="channel:x", by="dot")
    await run.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    changed = await run.change(
        operations=[Disconnect(sender="ann", listener="bob")], id="cut", by="eve"
    )
    part = part_of(crews, run, "cut", "ann")
    report = changed.report
    assert report is not None
    assert report.component_change is not None
    assert report.component_change.kind == "split"
    assert report.component_change.old_graph_ids == (run.id,)
    assert report.component_change.new_graph_ids == tuple(sorted((run.id, part.id)))
    assert {"ann", "bob"} <= {*report.component_change.affected_creatures}

    await rested(part)
    await part.message("after", to="channel:x", by="dot")
    await part.wait_until(lambda view: view.steps == 2 and view.is_idle, LIMIT)
    await run.message("there", to="channel:y", by="dot")
    await run.wait_until(lambda view: view.steps >= 3 and view.is_idle, LIMIT)
    # Its history goes on: ann has read what was said before, and her second visit is her second.
    texts = [m["content"] for m in crews.prompted(part)[-1]["messages"]]
    assert texts[1:4] == ["before", "one", "after"]
    assert [e.step for e in await crews.entries(part, "StepStarted")] == ["ann#2"]
    (forked,) = await crews.entries(part, "RunForked")
    assert (forked.source, forked.split, forked.by) == (run.id, "cut", "eve")
    (parted,) = await crews.entries(run, "ComponentChanged")
    assert parted.change == "split"
    assert [p.run for p in parted.split_runs] == [part.id]
    # The larger one keeps the id; each has its own channels.
    for each, who, channels in ((run, {"bob", "cid"}, {"y"}), (part, {"ann"}, {"x"})):
        topology = (await each.graph()).plan["component"]
        assert ({*topology["agents"]}, {*topology["channels"]}) == (who, channels)
        plan = (await each.graph()).plan
        assert (await each.state()).coordination_rules == tuple(plan["rules"])

    # Who is not there is not heard there.
    await run.message("lost", to="channel:x", by="dot")
    await part.message("lost", to="channel:y", by="dot")
    for each, log in ((run, "channel:x"), (part, "channel:y")):
        await each.stop()
        assert (await each.result(LIMIT)).status == "stopped"
        (refused,) = await crews.entries(each, "CommandRejected")
        assert f"nobody reads {log!r}" in refused.reason


@covers("C98")
async def test_a_creature_goes_with_its_turn_and_nobody_else_waits(crews: Site) -> None:
    run = await ann_at_a_gate(
        crews,
        bob=[{"text": "three"}, {"text": "four"}],
        cid=[{"text": "five"}, {"text": "six"}],
    )
    changed = await run.change(
        operations=[Disconnect(sender="ann", listener="bob")], id="cut", wait=False
    )
    assert changed.swap
    assert changed.report is not None
    assert [(s.step, s.effect) for s in changed.report.steps] == [("ann#1", "moves")]
    # ann's tool is under way: she leaves when it has answered, and the others go on meanwhile.
    await run.message("meanwhile", to="channel:y", by="dot")
    await run.wait_until(lambda view: view.steps == 3 and len(view.frontier) == 1, LIMIT)
    assert not await crews.entries(run, "ComponentChanged")
    crews.open_gate(run, "g")
    await run.swapped(changed)
    part = part_of(crews, run, "cut", "ann")
    await part.wait_until(lambda view: view.is_idle, LIMIT)
    await part.stop()  # all of it is stored then
    await part.result(LIMIT)
    (reply,) = [e for e in await crews.entries(part, "ModelCallCompleted") if not e.calls]
    bodies = await crews.store.get_bodies([reply.message.body])
    assert bodies[reply.message.body]["content"] == "went on"
    assert len(crews.ledger(run, "start", tool="gate")) == 1
    assert not crews.ledger(part)
    assert [e.step for e in await crews.entries(part, "StepCompleted")] == ["ann#1"]
    assert "ann#1" not in [e.step for e in await crews.entries(run, "StepCompleted")]
    # Nothing was started anew, and no model was asked what becomes of the graph.
    assert (await run.state()).execution == 1
    asked = Counter(p["agent"] for each in (run, part) for p in crews.prompted(each))
    assert asked == {"ann": 2, "bob": 1, "cid": 1}


@covers("C99", "C111")
async def test_who_is_added_alone_is_a_graph_alone(crews: Site) -> None:
    crew = living(crews, {"ann": [], "dot": [{"text": "hm"}]}, {"ann": {"listen": ["x"]}})
    dot = crew["agents"].pop("dot")
    run = await crews.start(crew, "")
    await rested(run)
    await run.change(operations=[AddAgent(name="dot", agent={**dot, "listen": ["z"]})], id="more")
    part = part_of(crews, run, "more", "dot")
    await rested(part)
    await part.message("hello", to="channel:z", by="dot")
    await part.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    (parted,) = await crews.entries(run, "ComponentChanged")
    assert [(each.event, each.agent, each.to) for each in parted.events] == [
        ("CREATURE_STARTED", "dot", ""),
        ("SESSION_FORKED", "dot", part.id),
        ("CREATURE_SESSION_ATTACHED", "dot", part.id),
    ]


@covers("C102")
async def test_a_bridge_that_is_removed_parts_the_graph(crews: Site) -> None:
    crew = living(
        crews,
        {"ann": [{"text": "one"}], "bob": [], "cid": [{"text": "six"}], "dan": []},
        EDGES | {"dan": {"listen": ["y"]}},
    )
    run = await crews.start(crew, "")
    await rested(run)
    await run.message("before", to="channel:x", by="dot")
    await run.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    one = (await run.checkpoints()).checkpoints[-1].position
    dry = await run.change(operations=[RemoveAgent(name="bob")], dry_run=True)
    assert dry.report is not None
    assert dry.report.component_change is not None
    assert dry.report.component_change.kind == "split"
    assert len(await crews.entries(run, "ChangeAccepted")) == 0
    await run.change(operations=[RemoveAgent(name="bob")], id="cut")
    part = part_of(crews, run, "cut", "ann")
    await rested(part)
    state = await run.state()
    assert {*state.visits} <= {"ann", "cid", "dan"}
    with pytest.raises(CommandRejected, match="the run was split or merged"):
        await run.rollback(one)
    fork = await run.fork(one, by="test", execution_timeout=RUN_LIMIT)
    crews.runs.append(fork)
    await rested(fork)
    assert {"ann", "bob"} <= {*(await fork.graph()).plan["nodes"]}


@covers("C96")
async def test_a_crew_in_several_pieces_begins_as_several_runs(crews: Site) -> None:
    crew = living(
        crews,
        {"ann": [{"text": "one"}], "bob": [{"text": "two"}], "cid": [{"text": "three"}], "dan": []},
        {
            "ann": {"listen": ["x"]},
            "bob": {"listen": ["y"]},
            "cid": {"listen": ["y"]},
            "dan": {"send": ["y"]},  # whoever sends there is connected as who listens
        },
        root="ann",
    )
    run = await crews.start(crew, "Go.")
    part = part_of(crews, run, f"{SPLIT_AT_START}/1", "ann")
    await until_begun(part)
    await part.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    await run.message("you", to="channel:y", by="dot")
    await run.wait_until(lambda view: view.steps == 2 and view.is_idle, LIMIT)
    assert [e.agent for e in await crews.entries(part, "StepStarted")] == ["ann"]
    assert {e.agent for e in await crews.entries(run, "StepStarted")} == {"bob", "cid"}
    assert (await run.state()).graph_version == 2
    for each, who in ((run, {"bob", "cid", "dan"}), (part, {"ann"})):
        assert {*(await each.graph()).plan["component"]["agents"]} == who


async def test_a_part_is_made_again_from_its_history(crews: Site) -> None:
    crew = living(crews, {"ann": [{"text": "one"}], "bob": [{"text": "two"}], "cid": []}, EDGES)
    run = await crews.start(crew, "")
    await rested(run)
    await run.message("before", to="channel:x", by="dot")
    await run.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    await run.change(operations=[Disconnect(sender="ann", listener="bob")], id="cut")
    part = part_of(crews, run, "cut", "ann")
    await rested(part)
    for each in (run, part):
        await each.stop()
        await each.result(LIMIT)
        before = await crews.journal(each)
        report = await each.rebuild(replace=True)
        assert (report.whole, report.missing, report.problems) == (True, (), ())
        assert await crews.journal(each) == before


async def test_who_is_stopped_before_the_split_stays_in_one_piece(crews: Site) -> None:
    run = await ann_at_a_gate(crews)
    changed = await run.change(
        operations=[Disconnect(sender="ann", listener="bob")], id="cut", wait=False
    )
    await run.stop()
    crews.open_gate(run, "g")
    assert (await run.result(LIMIT)).status == "stopped"
    with pytest.raises(CommandRejected, match="did not come about"):
        await run.swapped(changed)
    with pytest.raises(RunNotFound):
        await crews.client().run(split_run_id(RunId(run.id), "cut", AgentName("ann"))).state()


async def test_a_part_whose_id_was_taken_has_the_split_called_off_and_does_not_begin(
    crews: Site,
) -> None:
    crew = living(crews, {"ann": [{"text": "one"}], "bob": [], "cid": []}, EDGES)
    run = await crews.start(crew, "")
    await rested(run)
    name = split_run_id(RunId(run.id), "cut", AgentName("ann"))
    waits = await crews.temporal.start_workflow(
        WORKFLOW_TYPE,
        {"split": {"run": run.id, "after": (await run.state()).position}},
        id=name,
        task_queue=crews.client().task_queue,
        execution_timeout=RUN_LIMIT,
    )
    changed = await run.change(
        operations=[Disconnect(sender="ann", listener="bob")], id="cut", wait=False
    )
    with pytest.raises(CommandRejected, match="did not come about"):
        await run.swapped(changed)
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(waits.result(), LIMIT)
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "SplitNeverRecorded"
    await run.message("work", to="channel:x", by="dot")
    await run.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)


async def test_a_part_that_never_began_is_begun_by_its_resumption(crews: Site) -> None:
    crew = living(crews, {"ann": [{"text": "one"}], "bob": [], "cid": []}, EDGES)
    run = await crews.start(crew, "")
    await rested(run)
    waits = await crews.temporal.start_workflow(
        WORKFLOW_TYPE,
        {"split": {"run": run.id, "after": (await run.state()).position}},
        id=f"{run.id}.part",
        task_queue=crews.client().task_queue,
        execution_timeout=RUN_LIMIT,
    )
    await waits.terminate()
    part = crews.client().run(waits.id)
    await part.reopen(execution_timeout=RUN_LIMIT)
    # It waits for that run's word again: whether there is such a part, that alone says.
    again = crews.temporal.get_workflow_handle(part.id)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(again.result(), 3)
    await run.stop()
    with pytest.raises(WorkflowFailureError) as failed:
        await asyncio.wait_for(again.result(), LIMIT)
    assert isinstance(failed.value.cause, ApplicationError)
    assert failed.value.cause.type == "SplitNeverRecorded"


async def test_a_part_whose_rows_are_lost_is_not_begun_anew(crews: Site) -> None:
    crew = living(crews, {"ann": [{"text": "one"}, {"text": "two"}], "bob": [], "cid": []}, EDGES)
    run = await crews.start(crew, "")
    await rested(run)
    await run.change(operations=[Disconnect(sender="ann", listener="bob")], id="cut")
    part = part_of(crews, run, "cut", "ann")
    await rested(part)
    await part.message("work", to="channel:x", by="dot")
    await part.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    await part.stop()
    await part.result(LIMIT)
    await crews.store.delete([RunId(part.id)], 0)
    with pytest.raises(StoreIncomplete, match="rows of the run"):
        await part.reopen(execution_timeout=RUN_LIMIT)
    await part.rebuild()
    await part.reopen(execution_timeout=RUN_LIMIT)
    await rested(part)
    await part.message("more", to="channel:x", by="dot")
    await part.wait_until(lambda view: view.steps == 2 and view.is_idle, LIMIT)


async def test_what_was_left_of_a_quota_is_divided_and_put_together(crews: Site) -> None:
    many = calls(*(("echo", {"text": f"{n}"}) for n in range(3)))
    once = calls(("echo", {"text": "more"}))
    crew = crews.crew(
        {
            "ann": [once, {"text": "one"}, many, {"text": "two"}, once, {"text": "three"}],
            "bob": [many, {"text": "four"}],
        },
        rules={"ann": {"listen": ["x"], "send": ["y"]}, "bob": {"listen": ["y", "z"]}},
        tools={"echo": tool("echo")},
    ) | {"rules": [{"tool": "echo", "quota": "5 per run"}], "graph": {"root": "ann"}}
    run = await crews.start(crew, "")
    await rested(run)

    async def work(each: Run, to: str, steps: int) -> None:
        await each.message("work", to=f"channel:{to}", by="dot")
        await each.wait_until(lambda view: view.steps == steps and view.is_idle, LIMIT)

    await work(run, "x", 1)  # one of five
    await run.change(operations=[Disconnect(sender="ann", listener="bob")], id="cut")
    part = part_of(crews, run, "cut", "bob")
    await rested(part)
    await work(run, "x", 2)
    await work(part, "z", 2)  # what both had done counts in both
    assert len(crews.ledger(run, "start", tool="echo")) == 3
    assert len(crews.ledger(part, "start", tool="echo")) == 2
    tie = Connect(
        sender=AgentName("ann"), listener=AgentName("bob"), channel="y", other=RunId(part.id)
    )
    await run.change(operations=[tie], id="tie")
    assert (await part.result(LIMIT)).surviving_run == run.id
    await work(run, "x", 3)
    await run.stop()
    await run.result(LIMIT)
    assert len(crews.ledger(run, "start", tool="echo")) == 3, "five in all: nothing is left"
    (merged,) = await crews.entries(run, "RunMerged")
    assert [*merged.remaining_budget.quotas.values()] == [5]


async def test_parts_leave_the_run_that_they_wait_for_room_on_a_small_worker(site: Site) -> None:
    """Six parts on a worker that does four workflow tasks at a time, and forgets whose they are."""
    queue = "small"
    await site.start_worker(queue, CREWLOG_STICKY_SECONDS="0.02", CREWLOG_MAX_WORKFLOW_TASKS="4")
    names = [f"n{number}" for number in range(7)]
    crew = living(
        site, {name: [] for name in names}, {name: {"listen": [f"c{name}"]} for name in names}
    )
    try:
        run = await site.start(crew, "", queue=queue)
        await run.wait_until(lambda view: view.is_idle, LIMIT)
        (split,) = await site.entries(run, "ComponentChanged")
        assert len(split.split_runs) == 6
        for part in split.split_runs:
            await site.client().run(part.run).wait_until(lambda view: view.is_idle, LIMIT)
            await site.client().run(part.run).stop()
        await run.stop()
        await run.result(LIMIT)
    finally:
        await asyncio.to_thread(site.end_workers, queue)
