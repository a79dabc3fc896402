"""Redirects: where the run goes instead, what ends for it, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import CommandRejected
from crewlog.graph.plan import GraphPlan
from crewlog.graph.run_context import CallRequest
from crewlog.state.calls import OutputValue
from crewlog.workflows.commands.queue import Applied
from graph.crews import plan_of
from graph.simulation import Failure, Outcome, Replies, Simulation, final, returns, says

LINE = ["a", "b", "c", "d"]


async def at(plan: GraphPlan, script: Any = final, *done: str, **more: Any) -> Simulation:
    """A run whose calls of `done` have landed, and whose next ones are under way."""
    sim = await Simulation.begin(plan, script, **more)
    await sim.settle()
    sim.launch()
    await sim.finish(*done)
    return sim


async def test_a_running_step_goes_on_to_its_end_and_then_the_run_goes_there() -> None:
    sim = await at(plan_of(LINE), Replies({"b#1": [says("", "read")]}), "a#1")
    sent = await sim.command("redirect", node="d", reason="enough")
    assert isinstance(sent.outcome, Applied)
    assert "b#1 runs to its end" in sent.outcome.result.detail
    assert sim.state.frontier["b#1"].redirect == "d"  # type: ignore[index]
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran() == ["a#1", "b#1", "d#1"]
    (fact,) = sim.facts("StepRedirected")
    assert fact["reason"] == "enough"
    assert not any(entry.get("skipped") for entry in sim.facts("StepCompleted"))


async def test_where_people_sent_it_wins_over_where_a_tool_hands_off() -> None:
    plan = plan_of(LINE, {"b": {"tools": ["act"]}}, tools={"act": {"run": "m:f"}})
    script = Replies({"b#1": [says("", "act")]}, {"act": returns(goto=("c",))})
    sim = await at(plan, script, "a#1")
    await sim.command("redirect", node="d")
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "d#1"]


async def test_a_cut_ends_a_running_step_now_and_nothing_of_it_is_applied() -> None:
    sim = await at(plan_of(LINE), final, "a#1")
    await sim.command("redirect", node="d", cut=True)
    assert not sim.engine.waits_for_calls("b#1")  # type: ignore[arg-type]
    assert list(sim.state.frontier) == ["d#1"]
    await sim.finish("b#1")
    assert [e["step"] for e in sim.facts("ModelCallCompleted")] == ["a#1"]
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "d#1"]
    (ended,) = [e for e in sim.facts("StepCompleted") if e["step"] == "b#1"]
    assert ended["skipped"]
    assert ended["because"] == "redirected to d by eve"


async def test_a_waiting_step_gives_way_at_once() -> None:
    plan = plan_of(["a", {"agent": "b", "when": "ok"}, "c", "d"])
    sim = await at(plan, final, "a#1")
    assert sim.state.interrupts
    await sim.command("redirect", node="d")
    assert not sim.state.interrupts, "its question is withdrawn"
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran() == ["a#1", "d#1"]


async def test_a_question_gives_way_and_its_answer_is_refused() -> None:
    sim = await at(plan_of(["a", {"ask": "Go?", "phase": "q"}, "c", "d"]), final, "a#1")
    question = sim.asked().id
    await sim.command("redirect", node="a", step="q#1")
    assert [e["decision"] for e in sim.facts("InterruptAnswered")] == ["withdrawn"]
    late = await sim.answer("approve", question)
    assert late.error is not None
    await sim.run()
    assert sim.ran() == ["a#1", "q#1", "a#2", "q#2"]
    assert sim.asked().step == "q#2"


async def test_a_failed_step_that_asks_gives_way() -> None:
    def script(order: CallRequest) -> Outcome:
        return Failure("broke") if order.step == "b#1" else final(order)

    sim = await (await Simulation.begin(plan_of(LINE), script)).run()
    assert sim.asked().kind == "step_failed"
    await sim.command("redirect", node="b")
    await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran() == ["a#1", "b#1", "b#2", "c#1", "d#1"]


async def test_a_turn_that_only_asks_gives_way_and_one_that_works_too_does_not() -> None:
    plan = plan_of(
        LINE,
        {"b": {"tools": ["act", "read"]}},
        tools={"act": {"run": "m:f"}, "read": {"run": "m:f"}},
        approvals={"act": None},
    )
    for tools, ends in ((("act",), True), (("act", "read"), False)):
        sim = await at(plan, Replies({"b#1": [says("", *tools)]}), "a#1", "b#1")
        # A tool whose arguments the model's reply has is asked about.
        assert [i.kind for i in sim.state.interrupts.values()] == ["tool_approval"]
        await sim.command("redirect", node="d")
        assert ("b#1" not in sim.state.frontier) is ends
        assert bool(sim.state.interrupts) is not ends


async def test_going_back_begins_the_joins_behind_it_anew() -> None:
    plan = plan_of(["a", ["b", "c"], "d", "e"])
    sim = await at(plan, final, "a#1", "b#1", "c#1", "d#1")
    await sim.command("redirect", node="a", step="e#1", cut=True)
    (back,) = [e for e in sim.facts("NodesReached") if e.get("source") == "e"]
    assert set(back["generations"]) >= {"b", "c", "d"}
    await sim.run()
    assert sim.state.status == "completed"
    ran = sim.ran()
    assert ran[:5] == ["a#1", "b#1", "c#1", "d#1", "e#1"]
    assert set(ran[5:]) == {"a#2", "b#2", "c#2", "d#2", "e#2"}


async def test_a_lane_is_redirected_while_its_sister_works() -> None:
    plan = plan_of([["b", "c"], "d", "e"])
    sim = await at(plan)
    refused = await sim.command("redirect", node="e")
    assert isinstance(refused.error, CommandRejected)
    assert "--step on the command line: b#1, c#1." in refused.error.remedy
    await sim.command("redirect", node="e", step="b#1")
    await sim.run()
    # The join lacks a lane that will not come: people are asked, and nothing ends silently.
    assert sim.ran() == ["b#1", "c#1", "e#1"]
    assert "waits for b" in sim.asked().question


async def test_a_mapped_visit_ends_with_all_its_items() -> None:
    plan = plan_of(
        ["a", {"agent": "b", "for_each": "a.list"}, "c", "d"],
        {"a": {"outputs": ["list"], "tools": []}},
    )
    listed = returns(outputs=(OutputValue(key="list", value=[1, 2, 3]),))
    script = Replies({"a#1": [says("", "set_output")]}, {"set_output": listed})
    sim = await at(plan, script, "a#1", "a#1", "a#1")
    refused = await sim.command("redirect", node="d", step="b#1.2")
    assert refused.error is not None
    assert "'b#1'" in refused.error.remedy
    await sim.finish("b#1.1")
    await sim.command("redirect", node="d", cut=True)
    assert list(sim.state.frontier) == ["d#1"]
    assert [e["step"] for e in sim.facts("StepCancelled")] == ["b#1.2", "b#1.3"]
    await sim.run()
    assert sim.state.status == "completed"
    assert "c#1" not in sim.ran()


async def test_a_mapped_visit_goes_on_to_its_end_without_a_cut() -> None:
    plan = plan_of(
        ["a", {"agent": "b", "for_each": "a.list"}, "c", "d"],
        {"a": {"outputs": ["list"], "tools": []}},
    )
    listed = returns(outputs=(OutputValue(key="list", value=[1, 2]),))
    script = Replies({"a#1": [says("", "set_output")]}, {"set_output": listed})
    sim = await at(plan, script, "a#1", "a#1", "a#1")
    await sim.command("redirect", node="d")
    await sim.run()
    assert sorted(sim.ran()) == ["a#1", "b#1.1", "b#1.2", "d#1"]


async def test_a_queued_visit_gives_way_and_the_one_before_it_goes_on() -> None:
    plan = plan_of([["b", "c"], "d"])
    sim = await at(plan)
    await sim.command("redirect", node="c", step="b#1", cut=True)
    await sim.settle()
    assert sim.state.frontier["c#2"].status == "queued"  # type: ignore[index]
    await sim.command("redirect", node="d", step="c#2")
    assert sim.state.frontier["c#1"].status == "running"  # type: ignore[index]
    await sim.run()
    assert sim.ran() == ["b#1", "c#1", "d#1"]


async def test_it_survives_a_new_execution() -> None:
    sim = await at(plan_of(LINE), Replies({"b#1": [says("", "read")]}), "a#1")
    await sim.command("redirect", node="d")
    sim.restore_at = lambda _drain: True
    await sim.drain()
    await sim.run()
    assert sim.ran() == ["a#1", "b#1", "d#1"]


@pytest.mark.parametrize(
    ("content", "says_"),
    [
        ({"node": "dd"}, "Did you mean 'd'?"),
        ({"node": "nowhere-at-all"}, "Nodes: a, b, c, d."),
        ({"node": "d", "step": "b#2"}, "Did you mean 'b#1'?"),
        ({"node": "d", "step": "x"}, "Steps in the frontier: b#1."),
    ],
)
async def test_what_is_not_there_is_named(content: dict[str, Any], says_: str) -> None:
    sim = await at(plan_of(LINE), final, "a#1")
    before = sim.state.frontier
    refused = await sim.command("redirect", **content)
    assert refused.error is not None
    assert says_ in refused.error.remedy
    assert sim.state.frontier == before


async def test_the_same_command_again_has_no_second_effect() -> None:
    sim = await at(plan_of(LINE), final, "a#1")
    first = await sim.command("redirect", node="b", id="x")
    position = sim.state.position
    again = await sim.command("redirect", node="b", id="x")
    assert isinstance(again.outcome, Applied)
    assert isinstance(first.outcome, Applied)
    assert again.outcome.result.position == first.outcome.result.position
    assert sim.state.position == position


async def test_a_run_that_stops_goes_nowhere() -> None:
    sim = await at(plan_of(LINE), final, "a#1")
    await sim.command("stop")
    refused = await sim.command("redirect", node="d")
    assert refused.error is not None
    assert "stopping" in refused.error.message
