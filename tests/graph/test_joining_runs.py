"""A run that is to be one with another run: what it starts, and what it lets be changed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from crewlog.authority.principals import authorize_right
from crewlog.errors import ChangeConflict, RunAlreadyMerged
from crewlog.graph.plan import GraphPlan
from crewlog.graph.restore import reopen, roll_back
from crewlog.graph.swap import live_change
from crewlog.ids import CommandId, ContentHash, RunId, StepId
from crewlog.state import journal as j
from crewlog.state.calls import (
    MergeNotification,
    PrepareChangeResult,
    ReadOtherRun,
    ReadOtherRunResult,
    StoreBatchResult,
)
from crewlog.state.components import Rename
from crewlog.state.model import CrewState, MergeOutcome, PendingMerge
from crewlog.state.restore import reopen_point
from crewlog.state.run_merge import protocol
from crewlog.wire import Change
from crewlog.workflows import run_merge as merging_runs
from crewlog.workflows.commands.changes import check
from crewlog.workflows.commands.queue import QueuedCommand
from crewlog.workflows.run_merge import MAX_REQUESTS, RunMerge
from graph.crews import plan_of
from graph.simulation import RUN, Failure, Replies, Simulation, Witness, folded, says
from graph.test_listening import creatures

OTHER = RunId("other")
OP = "r/x"


async def at_work(stage: str, plan: GraphPlan | None = None, script: Any = None) -> Simulation:
    """A run with a call of `a` under way, at a stage of a merge."""
    sim = await Simulation.begin(plan or plan_of(["a", "c"]), *([script] if script else []))
    await sim.settle()
    sim.launch()
    enter(sim, stage)
    return sim


def enter(sim: Simulation, stage: str) -> None:
    accepted: dict[str, Any] = {
        "merge": OP,
        "other": OTHER,
        "requester": OTHER,
        "deadline": 9_000,
        "other_position": 3,
    }
    if not stage:
        return
    if stage == "requested":
        request = protocol.merge_request(
            sim.state,
            OTHER,
            CommandId("x"),
            survives=False,
            at=1,
            operation=None,
            what="",
            size=protocol.RunSize(1, has_flow=True),
        )
        sim.engine.record(request)
    else:
        status = "coordinating" if stage == "coordinating" else "draining"
        sim.engine.record(j.MergeAccepted(status=status, **accepted))
    if stage == "frozen":
        sim.engine.record(j.MergeFrozen(merge=OP, other=OTHER))


@pytest.mark.parametrize("stage", ["requested", "coordinating"])
async def test_a_run_that_asks_or_takes_another_one_in_goes_on_working(stage: str) -> None:
    sim = await at_work(stage)
    await sim.run()
    assert sim.ran() == ["a#1", "c#1"]
    assert [entry["kind"] for entry in sim.journal][-2:] == ["MergeFailed", "RunCompleted"]
    assert "ended first" in sim.facts("MergeFailed")[0]["reason"]
    assert sim.state.pending_merge is None


async def test_a_run_that_joins_lands_what_is_under_way_and_starts_nothing() -> None:
    script = Replies({"a#1": [says("wait", "set_flag")]})
    sim = await at_work("draining", script=script)
    await sim.land(("a#1", 1))
    await sim.settle()
    sim.launch()
    assert not sim.flights, "the turn's next call is not made yet"
    turn = sim.state.frontier[StepId("a#1")].turn
    assert turn is not None
    assert [call.status for call in turn.calls] == ["ready"]
    position = sim.state.position
    sim.engine.record(j.MergeFrozen(merge=OP, other=OTHER))
    await sim.settle()
    assert list(sim.engine.pending_calls(())) == []
    assert sim.state.position == position + 1
    sim.engine.record(j.MergeFailed(merge=OP, other=OTHER, reason="no"))
    await sim.run()
    assert sim.ran() == ["a#1", "c#1"]
    assert sim.state.status == "completed"


LISTENS: dict[str, Any] = {"a": {"listen": ["x"]}, "b": {"listen": ["x"], "send": ["x"]}}


async def removed(says_last: str = "bye") -> Simulation:
    """A run in which `a` and `b` are between two calls of a turn, and `b` was removed."""
    waits = says("", "wait")
    script = Replies({"a#1": [waits], "b#1": [waits, waits, says(says_last)]})
    sim = await Simulation.begin(creatures(LISTENS), script)
    for text in ("one", "two"):
        await sim.command("message", text=text, to="channel:x")
    await sim.settle()
    sim.launch()
    await sim.drain()
    await sim.change(creatures({"a": LISTENS["a"]}))
    assert {step: entry.is_detached for step, entry in sim.state.frontier.items()} == {
        "a#1": False,
        "a#2": False,
        "b#1": True,
    }
    assert [*sim.state.detached_steps] == ["b#2"]
    return sim


async def test_a_run_that_joins_ends_the_turn_of_who_was_removed_and_no_other() -> None:
    sim = await removed()
    enter(sim, "draining")
    rounds = 0
    while sim.engine.is_finishing_detached_turns:
        await sim.settle()
        sim.launch()
        assert {step for step, _ in sim.flights} <= {"b#1"}, "nobody else goes on"
        await sim.drain()
        rounds += 1
        assert rounds < 10
    assert [done["step"] for done in sim.facts("StepCompleted")] == ["b#1"]
    assert not sim.state.detached_turns
    assert [*sim.state.frontier] == ["a#1", "a#2"]
    turn = sim.state.frontier[StepId("a#1")].turn
    assert turn is not None
    assert [call.status for call in turn.calls] == ["ready"]
    position = sim.state.position
    await sim.settle()
    assert list(sim.engine.pending_calls(())) == []
    assert (sim.state.position, sim.state.status) == (position, "running"), "it does not rest"


async def test_no_turn_ends_in_a_frozen_run() -> None:
    sim = await removed()
    enter(sim, "frozen")
    position = sim.state.position
    await sim.settle()
    assert not sim.engine.is_finishing_detached_turns
    assert list(sim.engine.pending_calls(())) == []
    assert sim.state.position == position


async def test_a_merge_fails_that_waits_too_long_for_the_turn_of_who_was_removed() -> None:
    sim = await removed()
    enter(sim, "draining")
    turns = sim.state.detached_turns
    entry = protocol.next_entry(sim.state, 9_000, has_drained=False, ending_turns=turns)
    assert isinstance(entry, j.MergeFailed)
    assert "the turns b#1 of removed agents did not end in 60 s" in entry.reason
    assert "crewlog show" in entry.reason
    sim.engine.record(entry)
    await sim.run()
    assert sorted(sim.ran()) == ["a#1", "a#2", "b#1"]


async def test_a_call_that_fails_the_run_fails_the_merge_first() -> None:
    plan = plan_of(["a", "c"], {"a": {"on_error": "fail"}})
    sim = await at_work("draining", plan, lambda _: Failure("boom"))
    await sim.land(("a#1", 1))
    assert [entry["kind"] for entry in sim.journal][-2:] == ["MergeFailed", "RunFailed"]
    assert sim.state.merges[OP].outcome == "failed"


@pytest.mark.parametrize("stage", ["requested", "coordinating", "draining", "frozen"])
async def test_the_graph_stays_as_it_is_while_two_runs_become_one(stage: str) -> None:
    sim = await at_work(stage)
    plan = plan_of(["a", "b", "c"])
    then = CrewState.from_json(sim.state.to_json())
    journal = list(sim.journal)
    with pytest.raises(ChangeConflict, match="merge with 'other'") as refused:
        live_change.change_report(sim.engine, PrepareChangeResult(plan=plan.to_json()))
    assert "MergeFailed" in refused.value.remedy
    change = Change(id=CommandId("y"), prompt="other")
    with pytest.raises(ChangeConflict, match="merge with 'other'"):
        check(sim.engine, change)
    with pytest.raises(ChangeConflict, match="merge with 'other'"):
        roll_back(sim.engine, 3, then, sim.engine.plan, by="ana")
    assert sim.journal == journal
    mine = sim.state.pending_merge
    assert mine is not None
    sim.engine.record(j.MergeFailed(merge=mine.merge, other=OTHER, reason="no"))
    report, _ = live_change.change_report(sim.engine, PrepareChangeResult(plan=plan.to_json()))
    check(sim.engine, change)
    assert report.graph_version == 2


async def test_a_merge_that_a_run_was_ended_in_has_failed_when_it_is_taken_up() -> None:
    sim = await at_work("coordinating")
    journal = list(sim.journal)
    found = reopen_point(RUN, list(enumerate(map(j.entry_from_json, journal), 1)))
    then = folded(journal[: found.position])
    engine = reopen(sim.engine.plan, Witness(sim.state), then, found, by="ana", at=20_000)
    kinds = [entry["kind"] for entry in engine.journal.entries]  # type: ignore[attr-defined]
    assert kinds[:2] == ["MergeFailed", "RunReopened"]
    assert engine.state.pending_merge is None
    assert engine.state.merges[OP].outcome == "failed"


async def store_nothing(notifications: Sequence[MergeNotification]) -> StoreBatchResult | None:
    """Stores nothing, and sends no notification."""
    return StoreBatchResult()


async def refuse_to_store(notifications: Sequence[MergeNotification]) -> StoreBatchResult | None:
    raise AssertionError(notifications)


async def test_a_coordinator_that_ends_confirms_that_the_merge_failed() -> None:
    sim = await at_work("coordinating")
    merging = RunMerge(sim.state)
    assert merging.take_notifications(sim.state) == ()
    await sim.run()
    assert sim.state.merges[OP].outcome == "failed"
    assert merging.take_notifications(sim.state) == (MergeNotification(merge=OP, to=OTHER),)
    assert merging.take_notifications(sim.state) == ()


@pytest.mark.parametrize("stage", ["requested", "draining", "frozen"])
async def test_only_a_coordinator_confirms_an_outcome(stage: str) -> None:
    sim = await at_work(stage)
    merging = RunMerge(sim.state)
    assert merging.take_notifications(sim.state) == ()
    sim.engine.record(j.MergeFailed(merge=OP, other=OTHER, reason="no"))
    assert merging.take_notifications(sim.state) == ()


async def test_a_run_that_has_ended_answers_nobody() -> None:
    """Otherwise the loop would not wait for the calls that are being cancelled."""
    sim = await at_work("coordinating")
    merging = RunMerge(sim.state)
    await sim.run()
    merging.add_request("third/y", RunId("third"))
    merging.add_notification(sim.state, {"op": OP, "run": OTHER})
    assert not merging.has_work(sim.state)
    await merging.advance(sim.engine, refuse_to_store, is_drained=False)
    assert not merging.has_work(sim.state)


@pytest.mark.parametrize("stage", ["requested", "coordinating", "draining", "frozen"])
async def test_a_confirmation_makes_a_run_read_that_waits_for_the_outcome(stage: str) -> None:
    sim = await at_work(stage)
    merging = RunMerge(await before(stage))
    assert not merging.has_work(sim.state)
    assert sim.state.pending_merge is not None
    merge = sim.state.pending_merge.merge
    merging.add_notification(sim.state, {"op": merge, "run": "whoever"})
    assert merging.has_work(sim.state) == (stage != "coordinating")


async def before(stage: str) -> CrewState:
    """The state with which an execution begins that later is at a stage of a merge."""
    return (await Simulation.begin(plan_of(["a", "c"]))).state


async def test_a_new_execution_of_a_frozen_run_reads_the_outcome() -> None:
    """The execution before may have got the confirmation."""
    for stage in ("requested", "coordinating", "draining", "frozen"):
        state = (await at_work(stage)).state
        assert RunMerge(state).has_work(state) == (stage == "frozen")


@pytest.mark.parametrize(
    "content",
    [
        None,
        "m",
        ["m", "other"],
        {},
        {"run": "other"},
        {"op": 1, "run": "other"},
        {"op": "m", "run": "other"},
    ],
)
async def test_an_invalid_confirmation_is_ignored(content: Any) -> None:
    """Any client of the server may signal a run."""
    sim = await at_work("requested")
    merging = RunMerge(sim.state)
    for state in (sim.state, CrewState(run=RUN)):
        merging.add_notification(state, content)
        assert not merging.has_work(state)
    assert merging.take_notifications(CrewState(run=RUN)) == ()


def test_few_requests_of_other_runs_wait_for_an_answer() -> None:
    state = CrewState(run=RUN)
    merging = RunMerge(state)
    assert merging.next_deadline(state) is None, "a run in no merge reads no other one by itself"
    requests = []
    for number in range(MAX_REQUESTS):
        assert not merging.is_full
        requests.append(merging.add_request(f"m{number}", OTHER))
        assert merging.has_work(state)
    assert merging.is_full
    merging.refuse_requests("it has no crew yet")
    assert {each.answer.refused for each in requests if each.answer} == {"it has no crew yet"}
    assert all(each.answer is not None and each.answer.may_retry for each in requests)
    assert not merging.is_full
    assert not merging.has_work(state)


@pytest.mark.parametrize("stage", ["requested", "coordinating", "draining", "frozen"])
async def test_a_run_in_a_merge_has_a_deadline(stage: str) -> None:
    sim = await at_work(stage)
    mine = sim.state.pending_merge
    assert mine is not None
    assert RunMerge(sim.state).next_deadline(sim.state) == protocol.next_read_at(sim.state, mine.at)


class Activities:
    """Activities that complete when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.started: list[tuple[Any, asyncio.Future[Any]]] = []
        monkeypatch.setattr(merging_runs, "execute_activity", self.execute)
        monkeypatch.setattr(merging_runs, "execute_local_activity_or_fallback", self.execute)

    async def execute(self, name: str, task: Any, result_type: Any, options: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.started.append((task, future))
        return await future

    async def complete(self, result: Any) -> None:
        """Completes the last one."""
        await asyncio.sleep(0)
        self.started[-1][1].set_result(result)
        for _ in range(3):
            await asyncio.sleep(0)


async def test_a_read_that_completes_after_the_merge_failed_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the loop would never wait again."""
    activities = Activities(monkeypatch)
    sim = await at_work("draining")
    merging = RunMerge(sim.state)
    merging.add_notification(sim.state, {"op": OP, "run": OTHER})
    await merging.advance(sim.engine, store_nothing, is_drained=False)
    sim.engine.record(j.MergeFailed(merge=OP, other=OTHER, reason="late"))
    await merging.advance(sim.engine, store_nothing, is_drained=False)
    assert not merging.has_work(sim.state)
    await activities.complete(ReadOtherRunResult(merge=OP))
    assert merging.has_work(sim.state)
    await merging.advance(sim.engine, store_nothing, is_drained=False)
    assert not merging.has_work(sim.state)


async def test_a_run_has_one_read_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    activities = Activities(monkeypatch)
    sim = await at_work("draining")
    merging = RunMerge(sim.state)
    for number in range(2):
        merging.add_request(f"m{number}", RunId("third"))
    merging.add_notification(sim.state, {"op": OP, "run": OTHER})
    for other in ("other", "third", "third"):
        await merging.advance(sim.engine, store_nothing, is_drained=False)
        await merging.advance(sim.engine, store_nothing, is_drained=False)
        await asyncio.sleep(0)
        task, _ = activities.started[-1]
        assert task.other == other
        await activities.complete(ReadOtherRunResult(merge=task.merge))
    await merging.advance(sim.engine, store_nothing, is_drained=False)
    assert [task.merge for task, _ in activities.started] == [OP, "m0", "m1"]
    assert not merging.has_work(sim.state)


SIGNED_POLICY = {
    "mode": "signed",
    "principals": {
        "ada": {"key": f"ed25519:{'B' * 42}A=", "rights": ["grant"]},
        "dev": {"key": f"ed25519:{'D' * 42}A=", "rights": ["change"]},
    },
}


def coordinating(merge: str, started_at: int) -> dict[str, Any]:
    """The stored state of a run that coordinates a merge with the run `RUN`."""
    pending = PendingMerge(
        merge=merge,
        position=3,
        other=RUN,
        status="coordinating",
        requester=RUN,
        deadline=9_000,
        other_started_at=started_at,
        agents=9,
    )
    return CrewState(run=OTHER, status="running", pending_merge=pending).to_json()


@pytest.mark.parametrize("is_own", [True, False], ids=["own request", "request of another run"])
@pytest.mark.parametrize(
    ("widens", "is_current", "refusal"),
    [
        ((), True, ""),
        (("agent b: tools + x",), True, "it widens authority: agent b: tools + x"),
        (None, True, "it was not compared with the definition in force"),
        ((), False, "it was not compared with the definition in force"),
    ],
    ids=["nothing", "tools", "not compared", "compared with an earlier definition"],
)
async def test_a_run_joins_another_one_only_if_what_that_widens_is_permitted(
    monkeypatch: pytest.MonkeyPatch,
    is_own: bool,
    widens: tuple[str, ...] | None,
    is_current: bool,
    refusal: str,
) -> None:
    """The state when the other run asks decides: it may have changed since the request."""
    activities = Activities(monkeypatch)
    sim = await at_work("requested" if is_own else "", creatures(LISTENS, policy=SIGNED_POLICY))
    pending = sim.state.pending_merge
    merge = pending.merge if pending is not None else OP
    dev = authorize_right("dev", ("change",), "change", "the merge")
    monkeypatch.setattr(merging_runs, "authorize_merge", lambda *_, **__: dev)
    merging = RunMerge(sim.state)
    request = merging.add_request(merge, OTHER)
    await merging.advance(sim.engine, store_nothing, is_drained=False)
    await asyncio.sleep(0)
    activities.started = [each for each in activities.started if isinstance(each[0], ReadOtherRun)]
    ((task, _),) = activities.started
    assert task.find_widenings
    await activities.complete(
        ReadOtherRunResult(
            merge=merge,
            state=coordinating(merge, sim.state.started_at),
            widens=widens,
            compared=task.definition if is_current else ContentHash("earlier"),
        )
    )
    await merging.advance(sim.engine, store_nothing, is_drained=False)
    after = sim.state.pending_merge
    if refusal:
        assert request.answer is not None
        assert refusal in request.answer.refused
        assert after == pending
    else:
        assert request.answer is None
        assert after is not None
        assert after.status == "draining"


async def test_a_frozen_run_answers_before_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    activities = Activities(monkeypatch)
    sim = await at_work("frozen")
    merging = RunMerge(await before("frozen"))
    request = merging.add_request(OP, OTHER)
    await merging.advance(sim.engine, refuse_to_store, is_drained=True)
    assert request.answer is not None
    mine = sim.state.pending_merge
    assert mine is not None
    assert request.answer.frozen_position == mine.frozen_position
    assert not activities.started


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """What is signalled to other runs: which, by which signal, and what. One of them has ended."""
    found: list[tuple[str, str, Any]] = []

    def handle_of(run: str) -> Any:
        async def signal(name: str, data: Any) -> None:
            found.append((run, name, data))
            if run == "gone":
                raise ApplicationError("it has ended")

        return SimpleNamespace(signal=signal)

    monkeypatch.setattr(merging_runs.workflow, "get_external_workflow_handle", handle_of)
    return found


def merged(into: str) -> CrewState:
    renamed = (Rename(kind="channel", run=RUN, was="x", now="x-2"),)
    outcome = MergeOutcome(outcome="merged", other=RunId(into), position=9, renames=renamed)
    return CrewState(run=RUN, status="merged", merges={"m": outcome})


@pytest.mark.parametrize("into", ["other", "gone"])
async def test_what_is_said_to_a_merged_run_is_handed_on_by_the_names_of_there(
    into: str, sent: list[tuple[str, str, Any]]
) -> None:
    for data in (
        {"text": "1", "to": "channel:x"},
        {"text": "2", "to": "channel:x", "original_to": "channel:w"},
        {"text": "3", "to": "public"},
        {"text": "4"},
        {"text": "5", "to": 7},
        "6",
    ):
        await merging_runs.forward(merged(into), QueuedCommand("message", data))
    assert sent == [
        (into, "message", {"text": "1", "to": "channel:x-2", "original_to": "channel:x"}),
        (into, "message", {"text": "2", "to": "channel:x-2", "original_to": "channel:w"}),
        (into, "message", {"text": "3", "to": "public"}),
        (into, "message", {"text": "4"}),
        (into, "message", {"text": "5", "to": 7}),
        (into, "message", "6"),
    ]


async def test_a_merged_run_hands_on_nothing_else_and_tells_where_to_ask(
    sent: list[tuple[str, str, Any]],
) -> None:
    stop, asked = QueuedCommand("stop", {}), QueuedCommand("message", {"text": "1"}, is_update=True)
    for incoming in (stop, asked):
        await merging_runs.forward(merged("other"), incoming)
    assert not sent
    assert stop.outcome is None
    assert isinstance(asked.error, RunAlreadyMerged)
    assert asked.error.message == (
        "the run 'sim' was merged into 'other'; its channel 'x' is named 'x-2' there"
    )
    plain = merged("other").model_copy(
        update={"merges": {"m": MergeOutcome(outcome="merged", other=OTHER, position=9)}}
    )
    asked = QueuedCommand("stop", {}, is_update=True)
    await merging_runs.forward(plain, asked)
    assert asked.error is not None
    assert asked.error.message == "the run 'sim' was merged into 'other'"
