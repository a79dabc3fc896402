"""Two runs that become one: a handshake over their journals, and a union that loses nothing."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from covers import covers
from crewlog.client import Run
from crewlog.definition.operations import (
    Connect,
    DisableAgent,
    Disconnect,
    EditAgent,
    RemoveAgent,
)
from crewlog.encryption import purposes
from crewlog.encryption.codec import encrypt_for
from crewlog.errors import ChangeConflict, CommandRejected, ComponentConflict, RunAlreadyMerged
from crewlog.ids import AgentName, CommandId, RunId
from crewlog.reporting.wire_views import rename_view
from crewlog.state.command_outcomes import OUTCOMES_KEPT
from crewlog.state.model import CommandOutcome
from crewlog.state.run_merge.protocol import READ_INTERVAL
from crewlog.state.run_merge.surviving_state import dropped_steps
from crewlog.wire import ChangeResult

from .harness import LIMIT, Site, calls, tool, until
from .test_artifacts import TOOLS, add, change
from .test_creatures import heard, living, rested, sends
from .test_splits import EDGES, part_of, until_begun

A = {"ann": {"listen": ["x"], "send": ["y"]}, "bob": {"listen": ["y"]}, "cid": {"listen": ["y"]}}
D = {"dan": {"listen": ["x"], "send": ["z"]}, "eve": {"listen": ["z"]}}


def speaking(names: str, says: int = 3) -> dict[str, Any]:
    return {name: [{"text": f"{name}-{n}"} for n in range(says)] for name in names.split()}


async def pair(site: Site) -> tuple[Run, Run]:
    """A run of three creatures, and one of two: both have a channel `x`, which are not the same."""
    one = await site.start(living(site, speaking("ann bob cid"), A), "")
    two = await site.start(living(site, speaking("dan eve"), D), "")
    await rested(one)
    await rested(two)
    return one, two


def to(run: Run, sender: str, listener: str, channel: str) -> Connect:
    return Connect(
        sender=AgentName(sender), listener=AgentName(listener), channel=channel, other=RunId(run.id)
    )


async def alone(run: Run) -> None:
    """Waits until a run is in no merge: whoever was taken in learns of it a moment later."""
    async with asyncio.timeout(LIMIT):
        while (await run.state()).pending_merge is not None:  # noqa: ASYNC110 - a query tells
            await asyncio.sleep(0.02)


@covers("C101", "C104", "C105")
async def test_the_smaller_run_joins_the_larger(crews: Site) -> None:
    one, two = await pair(crews)
    await two.message("before", to="channel:z", by="fay")
    await two.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    changed = await one.change(operations=[to(two, "ann", "eve", "tie")], id="tie", by="fay")
    result = await two.result(LIMIT)
    assert (result.status, result.surviving_run) == ("merged", one.id)
    (merged,) = await crews.entries(one, "RunMerged")
    assert merged.merged_run == two.id
    assert merged.change == "merge"
    assert (merged.old_graph_ids, merged.new_graph_ids) == (
        tuple(sorted((one.id, two.id))),
        (one.id,),
    )
    assert changed.report is not None
    assert changed.report.component_change is not None
    assert changed.report.component_change.kind == "merge"
    # What was said in the other run is read on here, and its creatures hear here.
    await one.message("after", to="channel:z", by="fay")
    await one.message("tied", to="channel:tie", by="fay")
    await one.wait_until(lambda view: view.is_idle and view.steps >= 2, LIMIT)
    texts = [
        m["content"]
        for m in [p for p in crews.prompted(one) if p["agent"] == "eve"][-1]["messages"]
    ]
    assert [t for t in texts if t in ("before", "eve-0", "after", "tied")][:3] == [
        "before",
        "eve-0",
        "after",
    ]
    await one.stop()
    assert (await one.result(LIMIT)).status == "stopped"


async def test_the_one_that_asks_may_be_the_one_that_joins(crews: Site) -> None:
    one, two = await pair(crews)
    asked = to(one, "dan", "bob", "tie")
    assert await two.merged(await two.change(operations=[asked], id="tie", wait=False)) == one.id
    await one.message("hello", to="channel:tie", by="fay")
    await one.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    assert [e.agent for e in await crews.entries(one, "StepStarted")] == ["bob"]
    assert {*(await one.graph()).plan["nodes"]} == {"ann", "bob", "cid", "dan", "eve"}


async def test_who_comes_has_not_the_turns_of_one_that_was_removed_by_its_name(crews: Site) -> None:
    one = await crews.start(living(crews, speaking("ann bob cid"), A), "")
    two = await crews.start(living(crews, speaking("bob"), {"bob": {"listen": ["z"]}}), "")
    await rested(one)
    await rested(two)
    for number, each in enumerate((DisableAgent(name="bob"), RemoveAgent(name="bob"))):
        await one.change(operations=[each], id=f"c{number}", by="fay")
        if not number:
            await one.message("for bob of one", to="channel:y", by="fay")
    await one.wait_until(lambda view: view.is_idle and view.steps == 1, LIMIT)
    tie = to(two, "ann", "bob", "tie")
    seen = await one.change(operations=[tie], by="fay", dry_run=True)
    assert seen.report is not None
    assert seen.report.component_change is not None
    changed = await one.change(operations=[tie], id="tie", by="fay", wait=False)
    assert await one.merged(changed) == one.id
    (merged,) = await crews.entries(one, "RunMerged")
    assert {each.was: each.now for each in merged.renames if each.kind == "agent"} == {
        "bob": "bob-2"
    }
    assert seen.report.component_change.renames == tuple(map(rename_view, merged.renames)), (
        "it was told beforehand"
    )
    state = await one.state()
    assert [*state.detached_steps] == ["bob#1"]
    assert not state.frontier


async def test_a_quota_of_the_day_is_not_renewed_by_another_crew(crews: Site) -> None:
    calls_once = calls(("echo", {"text": "again"}))
    script = {"dan": [calls_once, {"text": "1"}, calls_once, {"text": "2"}], "eve": []}
    mine = crews.crew(script, rules=D, tools={"echo": tool("echo")}, graph={}) | {
        "crew": f"bounded-{time.time_ns()}",
        "rules": [{"tool": "echo", "quota": "1 per day"}],
    }
    one = await crews.start(living(crews, speaking("ann bob cid"), A), "")
    two = await crews.start(mine, "")
    await rested(one)
    await rested(two)
    await two.message("work", to="channel:x", by="fay")
    await two.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    assert len(crews.ledger(two, "start", tool="echo")) == 1
    await one.change(operations=[to(two, "ann", "eve", "tie")], id="tie", by="fay")
    merged = (await one.graph()).plan["component"]
    (x,) = [name for name in merged["channels"] if name.startswith("x-")]
    before = (await one.state()).steps
    await one.message("more", to=f"channel:{x}", by="fay")
    await one.wait_until(lambda view: view.steps > before and view.is_idle, LIMIT)
    assert crews.ledger(one, "start", tool="echo") == []
    (refused,) = [
        m["content"]
        for m in [p for p in crews.prompted(one) if p["agent"] == "dan"][-1]["messages"]
        if "at most 1 per day" in m["content"]
    ]
    assert refused.startswith("Refused")


@covers("C103")
async def test_turns_go_on_in_the_run_that_stays(crews: Site) -> None:
    one = await crews.start(living(crews, speaking("ann bob cid"), A), "")
    crew = crews.crew(
        {
            "dan": [
                calls(("gate", {"name": "g"})),
                sends("z", "Hear."),
                {"text": "done"},
                {"text": "2"},
            ]
        }
        | speaking("eve"),
        rules=D,
        tools={"gate": tool("gate")},
        graph={},
    )
    two = await crews.start(crew, "")
    await rested(one)
    await rested(two)
    await two.message("first", to="channel:x", by="fay")
    await two.message("second", to="channel:x", by="fay")
    await until(lambda: crews.ledger(two, "start", tool="gate"), "the tool")
    changed = await one.change(
        operations=[to(two, "ann", "eve", "tie")], id="tie", by="fay", wait=False
    )
    await two.wait_until(lambda view: view.merge_status == "draining", LIMIT)
    await one.message("meanwhile", to="channel:y", by="fay")  # who is not in it goes on
    await one.wait_until(lambda view: view.steps == 2 and view.is_idle, LIMIT)
    crews.open_gate(two, "g")
    assert await one.merged(changed) == one.id
    await one.wait_until(lambda view: view.is_idle, LIMIT)
    await one.stop()
    await one.result(LIMIT)
    done = [e.step for e in await crews.entries(one, "StepCompleted")]
    assert Counter(done) == dict.fromkeys(("bob#1", "cid#1", "dan#1", "dan#2", "eve#1"), 1)
    assert [e.step for e in await crews.entries(two, "StepCompleted")] == []
    assert len(crews.ledger(two, "start", tool="gate")) == 1


async def tied_in_the_last_turn(crews: Site, one: Run, two: Run) -> ChangeResult:
    """Makes two runs one while an agent that was removed from the second is in its last turn."""
    await until(lambda: crews.ledger(two, "start", tool="gate"), "the tool")
    await two.change(operations=[RemoveAgent(name="dan")], id="gone", by="fay")
    tie = to(two, "ann", "eve", "tie")
    changed = await one.change(operations=[tie], id="tie", by="fay", wait=False)
    await two.wait_until(lambda view: view.merge_status == "draining", LIMIT)
    crews.open_gate(two, "g")
    return changed


async def test_who_was_removed_ends_its_turn_before_its_run_is_part_of_another(crews: Site) -> None:
    """And nothing of it comes along: the turns that it had not begun are dropped, which is told."""
    one = await crews.start(living(crews, speaking("ann bob cid"), A), "")
    last = [calls(("gate", {"name": "g"})), sends("z", "Hear."), {"text": "bye"}]
    script = {"dan": [*last, {"text": "never"}]} | speaking("eve")
    two = await crews.start(crews.crew(script, rules=D, tools={"gate": tool("gate")}, graph={}), "")
    await rested(one)
    await rested(two)
    for text in ("first", "second"):
        await two.message(text, to="channel:x", by="fay")
    changed = await tied_in_the_last_turn(crews, one, two)
    assert await one.merged(changed) == one.id
    await one.wait_until(lambda view: view.is_idle, LIMIT)
    await one.stop()
    await one.result(LIMIT)
    kinds = [(type(e).__name__, getattr(e, "step", None)) for e in await crews.entries(two)]
    ended, offered = kinds.index(("StepCompleted", "dan#1")), kinds.index(("MergeFrozen", None))
    assert ended < offered
    assert ("StepStarted", "eve#1") not in kinds, "nobody else goes on meanwhile"
    assert [e.step for e in await crews.entries(one, "StepCompleted")] == ["eve#1"]
    (heard_there,) = [p for p in crews.prompted(one) if p["agent"] == "eve"]
    assert "Hear." in str(heard_there["messages"])
    (merged,) = await crews.entries(one, "RunMerged")
    assert [*dropped_steps(merged)] == ["dan#2"]


async def test_what_the_last_turn_asks_is_asked_and_answered_before_its_run_joins(
    crews: Site,
) -> None:
    one = await crews.start(living(crews, speaking("ann bob cid"), A), "")
    dan = [calls(("gate", {"name": "g"})), calls(("echo", {"text": "?"})), {"text": "bye"}]
    script = {"dan": dan} | speaking("eve")
    tools = {name: tool(name) for name in ("gate", "echo")}
    crew = crews.crew(script, rules=D, tools=tools, graph={}, approvals={"echo": None})
    two = await crews.start(crew, "")
    await rested(one)
    await rested(two)
    await two.message("work", to="channel:x", by="fay")
    changed = await tied_in_the_last_turn(crews, one, two)
    await two.wait_until(lambda view: bool(view.interrupts), LIMIT)
    async with asyncio.timeout(LIMIT):  # it is in the store while nothing else happens
        while not await crews.entries(two, "InterruptRaised"):  # noqa: ASYNC110 - a query tells
            await asyncio.sleep(0.02)
    [asked] = await two.interrupts()
    await two.answer(asked.id, "approve", by="fay")
    assert await one.merged(changed) == one.id
    assert len(crews.ledger(two, "start", tool="echo")) == 1
    await one.stop()
    await one.result(LIMIT)


async def test_what_can_be_no_merge_is_refused_at_once(crews: Site) -> None:
    one, two = await pair(crews)
    flow = crews.crew(
        speaking("gus hal"), flow=["gus"], rules={"hal": {"listen": ["x"], "beside": "gus"}}
    )
    third = await crews.start({**flow, "graph": {"idle": "1h"}}, "")
    await rested(third)
    gone = RunId("nowhere-to-be-seen")
    tie = Connect(sender=AgentName("ann"), listener=AgentName("eve"), channel="tie", other=gone)
    for operations, says in (
        ([tie], "there is no run"),
        ([to(one, "ann", "bob", "tie")], "itself"),
        ([to(two, "nobody", "eve", "tie")], "no agent 'nobody'"),
        ([to(two, "ann", "nobody", "tie")], "no agent 'nobody'"),
        (
            [to(two, "ann", "eve", "tie"), Disconnect(sender="ann", listener="bob")],
            "in a change with other operations",
        ),
    ):
        with pytest.raises(CommandRejected, match=says):
            await one.change(operations=operations)
    dry = await one.change(operations=[to(third, "ann", "hal", "tie")], dry_run=True)
    assert dry.report is not None
    assert dry.report.component_change is not None
    assert dry.report.component_change.new_graph_ids == (third.id,)  # who has a flow stays
    last = (await one.journal((await one.state()).position - 5)).entries
    assert [item.data["kind"] for item in last] == ["CommandRejected"] * 5
    for run in (one, two, third):
        assert (await run.state()).pending_merge is None
        assert not await crews.entries(run, "MergeRequested", "MergeAccepted", "MergeFailed")


@pytest.mark.parametrize("number", range(10))
async def test_who_asks_at_once_waits_until_the_other_run_has_stored_something(
    crews: Site, number: int
) -> None:
    """Both have just been started; by turns the larger one asks, and the smaller one."""
    one = await crews.start(living(crews, speaking("ann bob cid"), A), "")
    two = await crews.start(living(crews, speaking("dan eve"), D), "")
    if number % 2:
        await one.change(operations=[to(two, "ann", "eve", "tie")])
    else:
        await two.change(operations=[to(one, "eve", "ann", "tie")])
    assert (await two.result(LIMIT)).surviving_run == one.id


async def test_what_is_no_run_is_not_waited_for(crews: Site) -> None:
    one = await crews.start(living(crews, speaking("ann bob cid"), A), "")
    await rested(one)
    stranger = await crews.temporal.start_workflow(
        "Stranger",
        id=f"stranger-{one.id}",
        task_queue="nobody",
        execution_timeout=timedelta(seconds=60),
    )
    for other in (RunId("nowhere-to-be-seen"), RunId(stranger.id)):
        tie = Connect(sender=AgentName("ann"), listener=AgentName("eve"), channel="t", other=other)
        began = time.monotonic()
        with pytest.raises(ComponentConflict, match="there is no run"):
            await one.change(operations=[tie])
        assert time.monotonic() - began < READ_INTERVAL / 2000
    await stranger.terminate()


async def test_runs_that_ask_each_other_become_one(crews: Site) -> None:
    one, two = await pair(crews)
    came = await asyncio.gather(
        one.change(operations=[to(two, "ann", "eve", "tie")]),
        two.change(operations=[to(one, "eve", "ann", "back")]),
        return_exceptions=True,
    )
    assert sum(not isinstance(each, BaseException) for each in came) == 1, came
    for each in came:
        assert not isinstance(each, BaseException) or isinstance(each, CommandRejected)
    assert (await two.result(LIMIT)).surviving_run == one.id
    assert {*(await one.graph()).plan["component"]["agents"]} == {
        "ann",
        "bob",
        "cid",
        "dan",
        "eve",
    }


async def test_a_ring_of_requests_comes_to_an_end(crews: Site) -> None:
    one, two = await pair(crews)
    three = await crews.start(
        living(crews, speaking("ida jon"), {"ida": {"send": ["w"]}, "jon": {"listen": ["w"]}}), ""
    )
    await rested(three)
    came = await asyncio.gather(
        one.change(operations=[to(two, "ann", "eve", "r1")]),
        two.change(operations=[to(three, "eve", "jon", "r2")]),
        three.change(operations=[to(one, "jon", "ann", "r3")]),
        return_exceptions=True,
    )
    assert any(not isinstance(each, BaseException) for each in came), came
    for each in came:
        assert not isinstance(each, BaseException) or isinstance(each, CommandRejected)
    graphs = Counter[str]()
    for run in (one, two, three):
        await alone(run)
        if not (await run.state()).is_ended:
            graphs.update([*(await run.graph()).plan["component"]["agents"]])
    assert graphs == dict.fromkeys(("ann", "bob", "cid", "dan", "eve", "ida", "jon"), 1)


@pytest.mark.parametrize("asked", ["coordinator", "merged run"])
async def test_a_run_in_a_merge_refuses_another_request_until_it_has_ended(
    crews: Site, asked: str
) -> None:
    one = await crews.start(living(crews, speaking("ann bob cid"), A), "")
    says = {"dan": [calls(("gate", {"name": "g"})), {"text": "done"}]}
    edges = {"dan": {"listen": ["x"]}}
    two = await crews.start(crews.crew(says, rules=edges, tools={"gate": tool("gate")}, graph={}))
    await two.message("work", to="channel:x", by="fay")
    await until(lambda: crews.ledger(two, "start", tool="gate"), "the tool")
    three = await crews.start(living(crews, speaking("ida"), {"ida": {"listen": ["w"]}}), "")
    for each in (one, three):
        await rested(each)
    first = await one.change(operations=[to(two, "ann", "dan", "r1")], wait=False)
    await two.wait_until(lambda view: view.merge_status == "draining", LIMIT)
    tie = to(one, "ida", "ann", "r2") if asked == "coordinator" else to(two, "ida", "dan", "r2")
    with pytest.raises(ChangeConflict, match="retry when that has ended"):
        await three.change(operations=[tie])
    crews.open_gate(two, "g")
    assert await one.merged(first) == one.id
    if asked == "coordinator":
        assert await three.merged(await three.change(operations=[tie], wait=False)) == one.id
    else:
        with pytest.raises(CommandRejected, match=f"merged into the run {one.id}"):
            await three.change(operations=[tie])


async def test_who_says_something_to_a_merged_run_is_led_on(crews: Site) -> None:
    one, two = await pair(crews)
    await one.change(operations=[to(two, "ann", "eve", "tie")])
    assert (await two.result(LIMIT)).surviving_run == one.id
    await two.message("hello", to="channel:z", by="fay")
    await one.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    assert (await two.successor()).id == one.id
    # Nobody stops the run that stays, or answers its questions, by the name of the other one.
    with pytest.raises(RunAlreadyMerged, match=one.id):
        await two.stop()
    with pytest.raises(RunAlreadyMerged, match=one.id):
        await two.change(operations=[Disconnect(sender="ann", listener="eve")])
    assert (await one.state()).status == "running"


ANN_TOO = {"ann": {"listen": ["x"], "send": ["z"]}, "eve": {"listen": ["z"]}}
"""Of the names that `A` has, too: a creature, and a channel."""


async def strangers(site: Site, first: list[dict[str, Any]], **where: Any) -> tuple[Run, Run]:
    """Two runs without a common past that have an `ann` each, who hears a channel `x`.

    Args:
        site: Where.
        first: What the second one's ann says first.
        where: Of the first one: on which queue it runs.
    """
    one = await site.start(living(site, speaking("ann bob cid"), A), "", **where)
    says = speaking("ann ann-2 ann-3 eve", 6)
    crew = site.crew(
        {"ann": [*first, *says["ann"]], "eve": says["eve"]},
        rules=ANN_TOO,
        tools={"gate": tool("gate")},
        graph={},
    )
    model = site.script({**says, "ann": [*first, *says["ann"]]})
    two = await site.start({**crew, "model": model}, "")
    await rested(one)
    await rested(two)
    return one, two


async def ended_with(site: Site, run: Run) -> Counter[tuple[str, str]]:
    """Stops a run, and tells who heard what."""
    await run.wait_until(lambda view: view.is_idle, LIMIT)
    await run.stop()
    await run.result(LIMIT)
    return await heard(site, run)


async def test_who_still_speaks_to_a_merged_run_is_heard_by_whom_is_meant(crews: Site) -> None:
    one, two = await strangers(crews, [])
    await one.change(operations=[to(two, "cid", "eve", "tie")])
    renamed = {(each.was, each.now) for each in (await two.result(LIMIT)).renames}
    assert renamed == {("ann", "ann-2"), ("x", "x-2")}
    for log in ("channel:x", "private:ann", "channel:z"):
        command = await two.message(f"to {log}", to=log, by="fay")
        await two.message(f"to {log}", to=log, by="fay", id=command)
    await two.message("to nobody", to="channel:w", by="fay", id="lost")
    with pytest.raises(RunAlreadyMerged, match="its agent 'ann' is named 'ann-2' there"):
        await two.stop()
    assert {*map(rename_view, (await two.whereabouts()).renamed)} == {
        *(await two.result(LIMIT)).renames
    }
    told = await until_taken(one, "lost")
    assert (told.ok, "nobody reads 'channel:w'" in told.detail) == (False, True)
    assert await ended_with(crews, one) == {
        ("ann-2", "to channel:x"): 1,
        ("ann-2", "to private:ann"): 1,
        ("eve", "to channel:z"): 1,
    }


@pytest.mark.parametrize("since", [0, OUTCOMES_KEPT])
async def test_what_was_said_before_a_merge_is_not_said_again_after_it(
    crews: Site, since: int
) -> None:
    """It names the log as it was called when it was said first.

    Args:
        crews: Where.
        since: How much else the run was told before the merge: after that much no state has its id.
    """
    one, two = await strangers(crews, [])
    await two.message("first", to="channel:x", by="fay", id="early")
    await two.wait_until(lambda view: view.steps == 1 and view.is_idle, LIMIT)
    for number in range(since // 2):
        await two.pause(by="fay", id=f"pause-{number}")
        await two.resume(by="fay", id=f"resume-{number}")
    if since:
        await until_taken(two, f"resume-{since // 2 - 1}")
        assert "early" not in (await two.state()).commands
    await one.change(operations=[to(two, "cid", "eve", "tie")])
    assert (await two.result(LIMIT)).surviving_run == one.id
    await two.message("first", to="channel:x", by="fay", id="early")
    await two.message("second", to="channel:x", by="fay", id="late")
    assert (await until_taken(one, "late")).ok
    assert await ended_with(crews, one) == {("ann-2", "second"): 1}
    assert not await crews.entries(one, "CommandRejected")


async def until_taken(run: Run, command: str) -> CommandOutcome:
    async with asyncio.timeout(LIMIT):
        while (found := await run.outcome(CommandId(command))) is None:  # noqa: ASYNC110 - a query
            await asyncio.sleep(0.02)
    return found


async def test_what_comes_in_a_runs_last_moments_is_heard_by_whom_is_meant(crews: Site) -> None:
    """The run that stays has no worker while the other one waits for its word."""
    queue = "stays-alone"
    worker = await crews.start_worker(queue)
    one, two = await strangers(crews, [calls(("gate", {"name": "g"}))], queue=queue)
    await two.message("first", to="channel:x", by="fay")
    await until(lambda: crews.ledger(two, "start", tool="gate"), "the tool")
    await one.change(operations=[to(two, "cid", "eve", "tie")], wait=False)
    await two.wait_until(lambda view: view.merge_status == "draining", LIMIT)
    await one.wait_until(lambda view: view.merge_status == "coordinating", LIMIT)
    worker.kill()
    crews.open_gate(two, "g")
    await two.wait_until(lambda view: view.merge_status == "frozen", LIMIT)
    raw = crews.temporal.get_workflow_handle(two.id)
    for log in ("channel:x", "private:ann"):
        said = {"id": log, "by": "fay", "text": f"raw to {log}", "to": log}
        with encrypt_for(purposes.signal("message")):
            await raw.signal("message", said)
            await raw.signal("message", said)
        await two.message(f"to {log}", to=log, by="fay")
    await crews.start_worker(queue)
    assert (await two.result(LIMIT)).surviving_run == one.id
    assert await ended_with(crews, one) == {
        ("ann-2", "raw to channel:x"): 1,
        ("ann-2", "to channel:x"): 1,
        ("ann-2", "raw to private:ann"): 1,
        ("ann-2", "to private:ann"): 1,
    }


async def test_of_merges_one_after_the_other_each_says_who_is_meant(crews: Site) -> None:
    one, two = await strangers(crews, [])
    many = {"ann": {"listen": ["x"]}} | {f"gil{n}": {"listen": ["x"]} for n in range(5)}
    three = await crews.start(living(crews, speaking(" ".join(many)), many), "")
    await rested(three)
    await one.change(operations=[to(two, "cid", "eve", "tie")])
    await two.result(LIMIT)
    await three.change(operations=[to(one, "ann", "cid", "knot")])
    assert (await one.result(LIMIT)).surviving_run == three.id
    meant = {each.was: each.now for each in (await two.whereabouts()).renamed}
    assert meant["ann"] in (await three.graph()).plan["component"]["agents"]
    assert meant["ann"] != "ann"
    await two.message("hello", to="channel:x", by="fay")
    await two.message("you", to="private:ann", by="fay")
    assert await ended_with(crews, three) == {(meant["ann"], "hello"): 1, (meant["ann"], "you"): 1}


async def test_a_partner_that_was_ended_from_outside_keeps_nobody_waiting(crews: Site) -> None:
    one, two = await pair(crews)
    await two.terminate("gone")
    began = time.monotonic()
    with pytest.raises(CommandRejected, match="has ended"):
        await one.change(operations=[to(two, "ann", "eve", "tie")], id="tie")
    assert time.monotonic() - began < 5
    await one.message("on", to="channel:y", by="fay")
    await one.wait_until(lambda view: view.steps == 2 and view.is_idle, LIMIT)
    crews.runs.remove(two)  # the store was shut to it: it has no end there


async def parted(site: Site) -> tuple[Run, Run]:
    """A run whose artifact everybody may change, and the part that ann is alone in."""
    says = ("ann", "bob", "cid")
    agents = {n: [calls(change(add(f"/{n}{i}"))) for i in range(2)] for n in says}
    for name in says:
        agents[name] = [each for call in agents[name] for each in (call, {"text": "done"})]
    crew = site.crew(agents, rules=EDGES, tools=TOOLS, artifacts={"doc": {"initial": {}}}, graph={})
    run = await site.start(crew, "")
    await rested(run)
    await said(run, "channel:x", 1)
    await run.change(operations=[Disconnect(sender="ann", listener="bob")], id="cut")
    part = part_of(site, run, "cut", "ann")
    await until_begun(part)
    await rested(part)
    return run, part


async def said(run: Run, to: str, turns: int) -> None:
    """Says something, and waits for the turns that follow."""
    before = (await run.status()).steps
    await run.message("go on", to=to, by="fay")
    await run.wait_until(lambda view: view.steps == before + turns and view.is_idle, LIMIT)


async def doc(run: Run) -> Any:
    return (await run.artifacts())["doc"].content


HERE = {"bob0": 1, "cid0": 1}


@pytest.mark.parametrize("who", ["ann", "bob"])
async def test_an_artifact_that_one_side_changed_since_is_as_that_side_has_it(
    crews: Site, who: str
) -> None:
    run, part = await parted(crews)
    if who == "ann":
        await said(part, "channel:x", 1)
    else:
        await said(run, "channel:y", 2)
    await run.change(operations=[to(part, "cid", "ann", "tie")], id="tie")
    assert (await part.result(LIMIT)).surviving_run == run.id
    newer = {"ann0": 1} | ({"ann1": 1} if who == "ann" else HERE)
    assert await doc(run) == newer
    await said(run, "channel:y", 2)  # and it goes on from there
    newer |= HERE if who == "ann" else {"bob1": 1, "cid1": 1}
    assert await doc(run) == newer
    await run.stop()
    await run.result(LIMIT)
    before = await crews.journal(run)
    report = await run.rebuild(replace=True)
    assert (report.whole, report.missing, report.problems) == (True, (), ())
    assert await crews.journal(run) == before
    assert await doc(run) == newer


async def test_an_artifact_that_both_changed_since_keeps_them_apart(crews: Site) -> None:
    run, part = await parted(crews)
    await said(part, "channel:x", 1)
    await said(run, "channel:y", 2)
    tie = to(part, "cid", "ann", "tie")
    with pytest.raises(CommandRejected, match="both changed the artifact 'doc'") as refused:
        await run.change(operations=[tie], dry_run=True)
    assert "crewlog rollback" in refused.value.remedy
    with pytest.raises(CommandRejected, match="both changed the artifact 'doc'"):
        await run.change(operations=[tie], id="tie")
    assert await doc(run) == {"ann0": 1, **HERE}
    assert await doc(part) == {"ann0": 1, "ann1": 1}
    for each in (run, part):
        state = await each.state()
        assert (state.pending_merge, state.is_ended) == (None, False)


@pytest.mark.parametrize("requester", [0, 1], ids=["the larger", "the smaller"])
async def test_a_merge_leads_to_the_definition_of_its_dry_run(crews: Site, requester: int) -> None:
    runs = await pair(crews)
    own, other = runs[requester], runs[1 - requester]
    names = [("ann", "eve"), ("eve", "ann")][requester]
    tie = to(other, *names, "tie")
    seen = await own.change(operations=[tie], dry_run=True)
    edit = EditAgent(name=names[1], set={"prompt": "Do something else."})
    await other.change(operations=[edit])
    await crews.stored(other)
    with pytest.raises(ChangeConflict, match="leads to the definition"):
        await own.change(operations=[tie], expect=seen.definition)
    assert not await crews.entries(own, "MergeRequested")
    seen = await own.change(operations=[tie], dry_run=True)
    changed = await own.change(operations=[tie], expect=seen.definition)
    survivor = await own.merged(changed)
    assert survivor == runs[0].id
    (merged,) = await crews.entries(runs[0], "RunMerged")
    assert merged.definition == seen.definition
