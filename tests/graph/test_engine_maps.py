"""A step for each item of a list: once each, side by side, with one completion for all of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crewlog.canonical_json import hash_json
from crewlog.graph.child_steps import MAX_INTERRUPTED
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName, StepId
from crewlog.state.calls import OutputValue
from graph.crews import plan_of
from graph.simulation import (
    Failure,
    Replies,
    Simulation,
    as_json,
    folded,
    returns,
    run,
    says,
)

MAKER: dict[str, Any] = {"maker": {"outputs": ["list"]}}
FLOW: list[Any] = ["maker", {"agent": "worker", "for_each": "maker.list"}, "end_er"]
ACT = {"act": {"run": "m:f"}, "read": {"run": "m:f"}}


def mapping(flow: list[Any] | None = None, **more: Any) -> GraphPlan:
    agents = MAKER | more.pop("agents", {})
    return plan_of(flow or FLOW, agents, **more)


def output(value: Any) -> OutputValue:
    if len(json.dumps(value)) <= 256:
        return OutputValue(key="list", value=value)
    return OutputValue(key="list", body=hash_json(value), content=value)


async def made(value: Any, plan: GraphPlan | None = None, **replies: Any) -> Simulation:
    script = Replies(
        {"maker#1": [says("", "set_output")], **replies},
        {"set_output": returns("set", outputs=(output(value),))},
    )
    return await run(plan or mapping(), script)


@pytest.mark.parametrize("size", [1, 3, 70])
async def test_each_item_has_a_step_and_what_follows_comes_once(size: int) -> None:
    sim = await made(["x" * 20] * size)
    items = [f"worker#1.{n}" for n in range(1, size + 1)]
    assert sim.ran() == ["maker#1", *items, "end_er#1"]
    assert sim.state.status == "completed"
    done = [e for e in sim.facts("StepCompleted") if e["step"] == "worker#1"]
    assert [e["because"] for e in done] == [f"all {size} items are done"]
    assert sim.state.routing.completed == {"maker": 1, "worker": 1, "end_er": 1}
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_a_thousand_items_are_at_work_as_many_at_a_time_as_the_crew_says() -> None:
    sim = await Simulation.begin(
        mapping(limits={"parallel": 8}),
        Replies(
            {"maker#1": [says("", "set_output")]},
            {"set_output": returns("set", outputs=(output(["item"] * 1000),))},
        ),
    )
    await sim.finish("maker#1", "maker#1", "maker#1")
    widest, carried = 0, 0
    while not sim.state.is_ended:
        sim.launch()
        await sim.land(next(iter(sim.flights)))
        await sim.settle()
        widest = max(widest, len(sim.state.frontier))
        carried = max(carried, len(json.dumps(sim.state.to_json())))
    assert len(sim.ran()) == 1002
    assert widest == 9, "eight items and their visit"
    assert carried < 12_000
    assert "worker#1.1000" in sim.ran()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "which has no value"),
        ("text", "which is a text and no list"),
        ({"a": 1}, "which is an object and no list"),
        ("x" * 300, "which is a large value and no list"),
        (True, "which is a truth value and no list"),
        (7, "which is a number and no list"),
    ],
)
async def test_what_is_no_list_is_asked_about(value: Any, why: str) -> None:
    sim = await made(value)
    asked = sim.asked()
    assert (asked.kind, asked.step, asked.detail) == ("requirement", "worker#1", "maker.list")
    assert why in asked.question
    assert asked.options == ("again", "skip", "stop")
    await sim.answer("again")
    await sim.run()
    assert sim.asked().id == "i2"
    await sim.answer("skip")
    await sim.run()
    assert sim.ran()[-1] == "end_er#1"


async def test_what_is_no_list_goes_where_else_says() -> None:
    each = {**FLOW[1], "when": "ok", "else": "skip"}
    sim = await made("text", mapping(["maker", each, "end_er"], flags={"ok": True}))
    assert not sim.facts("InterruptRaised")
    assert sim.ran() == ["maker#1", "end_er#1"]


async def test_a_list_that_nobody_has_set_is_asked_about_until_it_comes() -> None:
    flow = ["worker", {"agent": "worker", "phase": "each", "for_each": "maker.list", "after": []}]
    late = [*flow, {"agent": "maker", "after": []}]
    sim = await made(["a", "b"], mapping(late))
    assert sim.state.status == "completed"
    (asked,) = sim.facts("InterruptRaised")
    assert "which is not set" in asked["interrupt"]["question"]
    assert [e["decision"] for e in sim.facts("InterruptAnswered")] == ["withdrawn"]
    assert {"each#1.1", "each#1.2"} <= set(sim.ran())


@pytest.mark.parametrize("value", [[]])
async def test_an_empty_list_skips_the_phase(value: Any) -> None:
    sim = await made(value)
    assert sim.ran() == ["maker#1", "end_er#1"]
    (skipped,) = [e for e in sim.facts("StepCompleted") if e.get("skipped")]
    assert (skipped["step"], skipped["because"]) == ("worker#1", "maker.list is empty")


async def test_a_second_generation_maps_anew() -> None:
    flow = [*FLOW[:2], "end_er", {"if": "not ok", "go": "maker", "at_most": 2}]
    replies = {f"maker#{n}": [says("", "set_output")] for n in (1, 2, 3)}
    sizes = iter([2, 3, 1])

    def script(order: Any) -> Any:
        if order.call.tool:
            return returns("set", outputs=(output(["x"] * next(sizes)),))
        return scripted(order)

    scripted = Replies(replies)
    sim = await run(mapping(flow), script)
    assert [(e["step"], e["of"]) for e in sim.facts("ParentStepStarted")] == [
        ("worker#1", 2), ("worker#2", 3), ("worker#3", 1),
    ]  # fmt: skip
    assert [s for s in sim.ran() if s.startswith("end")] == ["end_er#1", "end_er#2", "end_er#3"]


@pytest.mark.parametrize("policy", ["ask", "continue", "fail"])
async def test_an_item_that_fails_does_as_its_agent_says(policy: str) -> None:
    plan = mapping(agents={"worker": {"on_error": policy}})
    sim = await made(["a", "b", "c"], plan, **{"worker#1.2": [Failure("broke")]})
    if policy == "fail":
        assert (sim.state.status, sim.state.error) == ("failed", "worker#1.2: broke")
        return
    if policy == "ask":
        assert sim.asked().step == "worker#1.2"
        done = {e["step"] for e in sim.facts("StepCompleted")}
        assert done == {"maker#1", "worker#1.1", "worker#1.3"}
        await sim.answer("retry")
        await sim.run()
    assert sim.state.status == "completed"
    assert sim.ran().count("end_er#1") == 1


async def test_an_error_that_all_items_have_does_not_ask_about_all_of_them() -> None:
    broken = {f"worker#1.{n}": [Failure("broke")] for n in range(1, 201)}
    sim = await made(["x"] * 200, mapping(limits={"parallel": 8}), **broken)
    assert len(sim.state.interrupts) <= MAX_INTERRUPTED + 8
    assert len(sim.facts("StepStarted")) <= 1 + MAX_INTERRUPTED + 8
    started = len(sim.facts("StepStarted"))
    for question in list(sim.state.interrupts)[: len(sim.state.interrupts) - MAX_INTERRUPTED + 1]:
        await sim.answer("skip", question)
    await sim.run()
    assert started < len(sim.facts("StepStarted")) <= started + 8  # there is room again


async def test_people_skip_an_item() -> None:
    sim = await made(["a", "b"], **{"worker#1.1": [Failure("broke")]})
    await sim.answer("skip")
    await sim.run()
    (skipped,) = [e for e in sim.facts("StepCompleted") if e.get("skipped")]
    assert skipped["step"] == "worker#1.1"
    assert sim.state.status == "completed"


async def test_an_item_hands_off_once_all_are_done() -> None:
    flow = [*FLOW, {"if": "ok", "go": "other"}, {"agent": "other", "after": "go"}]
    replies = {f"worker#1.{n}": [says("", "act")] for n in (1, 3)}
    script = Replies(
        {"maker#1": [says("", "set_output")], **replies},
        {
            "set_output": returns("set", outputs=(output(["a", "b", "c"]),)),
            "act": returns("off", goto=("other",)),
        },
    )
    sim = await run(mapping(flow, tools=ACT), script)
    assert sim.ran()[-1] == "other#1"
    assert "end_er#1" not in sim.ran()


async def test_the_limit_of_steps_and_a_break_are_asked_about_within_a_map() -> None:
    sim = await made(["a"] * 5, mapping(limits={"steps": 3}))
    assert (sim.asked().kind, sim.asked().step) == ("limit", "worker#1")
    assert sim.ran() == ["maker#1", "worker#1.1", "worker#1.2"]
    await sim.command("interrupt", node="worker")
    await sim.answer("go on")
    await sim.run()
    assert (sim.asked().kind, sim.asked().step) == ("manual", "worker#1")
    await sim.answer("go on")
    await sim.run()
    assert sim.asked().kind == "limit"
    await sim.answer("go on")
    await sim.run()
    assert sim.state.status == "completed"


async def test_an_item_sees_its_item_and_a_log_of_its_own() -> None:
    big = ["x" * 200, "y" * 200]
    sim = await Simulation.begin(
        mapping(tools=ACT),
        Replies(
            {"maker#1": [says("", "set_output")], "worker#1.1": [says("", "act")]},
            {"set_output": returns("set", outputs=(output(big),))},
        ),
    )
    await sim.finish("maker#1", "maker#1", "maker#1", "worker#1.1")
    engine, worker = sim.engine, AgentName("worker")
    item = engine.child_steps.item(StepId("worker#1.2"))
    assert item is not None
    assert (item.number, item.of, item.value, item.list_body) == (2, 2, None, hash_json(big))
    assert engine.child_steps.item(StepId("worker#1")) is None
    views = {n: engine.view(worker, StepId(f"worker#1.{n}")).heads for n in (1, 2)}
    assert set(views[1]) == {"public", "private:worker#1.1"}
    assert set(views[2]) == {"public"}
    await sim.command("message", text="Only you.", to="private:worker#1.2")
    assert set(engine.view(worker, StepId("worker#1.2")).heads) == {"public", "private:worker#1.2"}
    await sim.run()
    assert not [log for log in sim.state.messages if "#" in log]
    refused = await sim.command("message", text="Late.", to="private:worker#1.2")
    assert refused.error is not None


async def test_a_small_list_goes_along_item_by_item() -> None:
    sim = await Simulation.begin(
        mapping(),
        Replies(
            {"maker#1": [says("", "set_output")]},
            {"set_output": returns("set", outputs=(output(["a", {"b": 1}]),))},
        ),
    )
    await sim.finish("maker#1", "maker#1", "maker#1")
    items = [sim.engine.child_steps.item(StepId(f"worker#1.{n}")) for n in (1, 2)]
    assert [i and i.value for i in items] == ["a", {"b": 1}]


async def test_a_stop_ends_the_items_and_their_visit() -> None:
    sim = await Simulation.begin(
        mapping(),
        Replies(
            {"maker#1": [says("", "set_output")]},
            {"set_output": returns("set", outputs=(output(["a"] * 3),))},
        ),
    )
    await sim.finish("maker#1", "maker#1", "maker#1", "worker#1.2")
    await sim.command("stop")
    await sim.run()
    cancelled = [e["step"] for e in sim.facts("StepCancelled")]
    assert cancelled == ["worker#1", "worker#1.1", "worker#1.3"]
    assert (sim.state.status, sim.state.frontier) == ("stopped", {})


# -- what is skipped ---------------------------------------------------------------------------


async def test_a_phase_is_skipped_that_needs_a_tool_its_agent_may_not_call() -> None:
    flow: list[Any] = [{"agent": "a", "needs": ["act", "read"]}, "b"]
    allowed = await run(plan_of(flow, tools=ACT))
    assert allowed.ran() == ["a#1", "b#1"]
    for more in ({"permissions": {"read": ["b"]}}, {"agents": {"a": {"tools": ["act"]}}}):
        agents = more.pop("agents", {})
        sim = await run(plan_of(flow, agents, tools=ACT, **more))
        (skipped,) = [e for e in sim.facts("StepCompleted") if e.get("skipped")]
        assert skipped["step"] == "a#1"
        assert skipped["because"].startswith("it needs read: ")
        assert sim.ran() == ["b#1"]


async def test_what_is_permitted_when_the_phase_is_reached_counts() -> None:
    sim = await Simulation.begin(plan_of(["b", {"agent": "a", "needs": ["read"]}], tools=ACT))
    await sim.settle()
    journal = sim.engine.journal
    journal.state = journal.state.model_copy(update={"tool_permissions": {"read": ()}})
    await sim.run()
    (skipped,) = [e for e in sim.facts("StepCompleted") if e.get("skipped")]
    assert "permissions do not let 'a' call 'read'" in skipped["because"]


@pytest.mark.parametrize("more", [{}, {"when": "ok"}, {"for_each": "b.list"}])
async def test_the_phases_of_an_agent_that_is_switched_off_are_skipped(more: Any) -> None:
    agents = {"a": {"enabled": False}, "b": {"outputs": ["list"]}}
    sim = await run(plan_of([{"agent": "a", **more}, "b"], agents))
    (skipped,) = [e for e in sim.facts("StepCompleted") if e.get("skipped")]
    assert (skipped["step"], skipped["because"]) == ("a#1", "a is switched off")
    assert sim.ran() == ["b#1"]
    assert sim.state.status == "completed"


@pytest.mark.parametrize("ok", [True, False])
async def test_a_question_with_a_condition_is_asked_only_where_it_holds(ok: bool) -> None:
    flow: list[Any] = ["a", {"ask": "Well?", "only_if": "sure"}, "b"]
    sim = await run(plan_of(flow, flags={"sure": ok}))
    assert bool(sim.state.interrupts) is ok
    if not ok:
        (skipped,) = [e for e in sim.facts("StepCompleted") if e.get("skipped")]
        assert (skipped["step"], skipped["because"]) == ("ask_1#1", "sure does not hold")
        assert sim.ran() == ["a#1", "b#1"]
