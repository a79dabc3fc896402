"""When a run asks people by itself, what expires, and edited calls: the engine without a server."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import CommandRejected, InterruptNotOpen, InvalidArguments, NotPermitted
from crewlog.state.calls import OutputValue
from crewlog.workflows.commands.effects import apply_command
from crewlog.workflows.commands.queue import (
    CheckedArguments,
    Preparation,
    QueuedCommand,
    RefusedEdit,
)
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, as_json, folded, returns, run, says

SURE = {"a": {"outputs": ["confidence"], "ask_below": 0.7}}
TOOLS = {"act": {"run": "m:f"}, "read": {"run": "m:f", "effects": "read"}}


def sure_by(*values: Any) -> Replies:
    """The agent says how sure it is, each time that it is called, and is done."""
    replies = [r for _ in values for r in (says("", "set_output"), says("done"))]
    tools: dict[str, Any] = {}
    for number, value in enumerate(values):
        call = 2 + 3 * number
        outputs = () if value is None else (OutputValue(key="confidence", value=value),)
        tools[f"set_output/{call}"] = returns(outputs=outputs)
    return Replies({"a#1": replies}, tools)


def same(sim: Simulation) -> bool:
    return as_json(folded(sim.journal)) == as_json(sim.state)


# -- confidence ------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0.7, 1, 0.95])
async def test_an_agent_that_is_sure_goes_on(value: float) -> None:
    sim = await run(plan_of(["a", "b"], SURE), sure_by(value))
    assert sim.state.status == "completed"
    assert not sim.facts("InterruptRaised")


@pytest.mark.parametrize("value", [0.69, 0, "high", True, 7, -1, None])
async def test_people_are_asked_where_an_agent_is_not_sure(value: Any) -> None:
    sim = await run(plan_of(["a", "b"], SURE), sure_by(value))
    question = sim.asked()
    assert (question.kind, question.step) == ("low_confidence", "a#1")
    assert sim.ran() == ["a#1"]
    await sim.answer("go on")
    await sim.run()
    assert sim.ran() == ["a#1", "b#1"]
    assert sim.state.status == "completed"
    assert same(sim)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"decisions": [{"type": "respond", "message": "go on"}], "reason": "seen"}, "seen"),
        ({"decisions": [{"type": "approve", "message": "it fits"}]}, "it fits"),
        ({"decisions": [{"type": "respond", "message": "go on"}]}, ""),
    ],
)
async def test_why_somebody_said_yes_is_kept(given: dict[str, Any], kept: str) -> None:
    sim = await run(plan_of(["a", "b"], SURE), sure_by(0.2))
    data = {"id": "r", "by": "eve", "interrupt": "i1", **given}
    await apply_command(sim.engine, QueuedCommand("answer", data))
    assert sim.facts("InterruptAnswered")[0].get("reason", "") == kept
    call = plan_of(["a"], tools=TOOLS, approvals={"act": None})
    sim = await run(call, Replies({"a#1": [says("", "act")]}))
    await apply_command(
        sim.engine, QueuedCommand("answer", {**data, "decisions": [{"type": "approve"}]})
    )
    assert sim.facts("InterruptAnswered")[0].get("reason", "") == given.get("reason", "")


async def test_an_agent_thinks_again_and_is_told_why() -> None:
    sim = await run(plan_of(["a", "b"], SURE), sure_by(0.2, 0.9))
    await sim.answer("the second source is wrong")
    (said,) = [e for e in sim.facts("MessageAdded") if e.get("by") == "eve"][1:]
    assert said["ref"]["inline"]["content"] == "the second source is wrong"
    assert said["ref"]["logs"] == ["private:a"]
    await sim.run()
    assert sim.state.status == "completed"
    assert [e["step"] for e in sim.facts("ModelCallCompleted")].count("a#1") == 4
    assert same(sim)


async def test_a_stop_ends_the_run() -> None:
    sim = await run(plan_of(["a", "b"], SURE), sure_by(0.2))
    await sim.answer("stop")
    await sim.run()
    assert sim.state.status == "stopped"


async def test_the_question_goes_on_in_another_execution() -> None:
    sim = await run(plan_of(["a", "b"], SURE), sure_by(0.2))
    await sim.restore()
    await sim.answer("go on")
    await sim.run()
    assert sim.state.status == "completed"


# -- budgets ---------------------------------------------------------------------------------

USES = {"calls": 1, "input_tokens": 60, "output_tokens": 40, "cost": 0.5}


def costly(*_: Any) -> Replies:
    return Replies({f"{n}#1": [says(n, usage=USES)] for n in "abcd"})


@pytest.mark.parametrize(("limits", "more"), [({"tokens": 150}, 150), ({"cost": 0.6}, 0.6)])
async def test_a_budget_that_is_used_up_asks(limits: dict[str, Any], more: float) -> None:
    sim = await run(plan_of(["a", "b", "c", "d"], limits=limits), costly())
    question = sim.asked()
    assert (question.kind, question.step, question.more) == ("budget", None, more)
    assert [m[0] for m in sim.made] == ["a#1", "b#1"]
    await sim.settle()
    sim.launch()
    assert not sim.flights
    await sim.answer("go on")
    await sim.run()
    assert [m[0] for m in sim.made] == ["a#1", "b#1", "c#1"] + (
        ["d#1"] * (not sim.state.interrupts)
    )
    assert same(sim)


async def test_people_say_how_much_more() -> None:
    sim = await run(plan_of(["a", "b", "c", "d"], limits={"tokens": 100}), costly())
    for wrong in ("a lot", "-5", "nan", "inf", "0", "1e300", "9" * 5000):
        answer = await sim.answer(wrong)
        assert isinstance(answer.error, CommandRejected)
    assert sim.state.interrupts
    await sim.answer("250")
    await sim.run()
    assert sim.state.added_budgets == {"tokens": 250}
    assert sim.state.status == "completed"


async def test_a_run_with_nothing_left_to_start_ends() -> None:
    sim = await run(plan_of(["a"], limits={"tokens": 1}), costly())
    assert sim.state.status == "completed"


async def test_time_is_a_budget() -> None:
    sim = await Simulation.begin(plan_of(["a", "b"], limits={"wall": 10}), timers=False)
    await sim.settle()
    sim.launch()
    assert sim.engine.timers.next_deadline() == sim.state.started_at + 10_000
    sim.ring()
    await sim.run()
    assert sim.asked().budget == "wall"
    assert [m[0] for m in sim.made] == ["a#1"]
    sim.engine.at += 60_000
    for endless in ("1e308", "1e17", "400000000"):
        assert isinstance((await sim.answer(endless)).error, CommandRejected)
    await sim.answer("go on")
    assert sim.engine.timers.next_deadline() == sim.engine.at + 10_000
    await sim.run()
    assert sim.state.status == "completed"
    assert same(sim)


# -- expiry ----------------------------------------------------------------------------------

ACT = Replies({"a#1": [says("", "act")]})


async def waiting(**policy: Any) -> Simulation:
    """A run whose call waits for a yes, and no time passes."""
    plan = plan_of(["a", "b"], tools=TOOLS, approvals={"act": None}, interrupts=policy)
    sim = await Simulation.begin(plan, Replies({"a#1": [says("", "act")]}), timers=False)
    return await sim.run()


async def test_a_question_that_nobody_answers_is_answered_by_the_policy() -> None:
    sim = await waiting(expires="2h")
    assert sim.engine.timers.next_deadline() == sim.asked().deadline > 0
    sim.ring()
    await sim.run()
    (answer,) = sim.facts("InterruptAnswered")
    assert (answer["by"], answer["decision"], answer["expired"]) == ("policy", "reject", True)
    assert (
        sim.facts("ToolCallCompleted")[0]["excerpt"] == "Refused by policy: nobody answered in time"
    )
    assert sim.state.status == "completed"
    assert same(sim)


async def test_it_stops_the_run_where_the_policy_says_so() -> None:
    sim = await waiting(expires="2h", kinds={"tool_approval": {"expires": 5, "default": "stop"}})
    sim.ring()
    await sim.run()
    assert sim.state.status == "stopped"


async def test_it_is_escalated_once_and_only_they_may_answer() -> None:
    sim = await waiting(expires="2h", default="escalate", escalate_to="boss")
    sim.ring()
    await sim.run()
    assert sim.asked().escalated
    assert sim.engine.timers.next_deadline() is None
    refused = await sim.answer("approve")
    assert isinstance(refused.error, NotPermitted)
    assert "boss" in str(refused.error)
    decisions = [{"type": "approve"}]
    await sim.command("answer", interrupt=sim.asked().id, decisions=decisions, by="boss")
    await sim.run()
    assert sim.state.status == "completed"
    assert same(sim)


async def test_an_answer_that_comes_too_late_is_refused() -> None:
    sim = await waiting(expires="2h")
    sim.engine.at = sim.asked().deadline
    late = await sim.answer("approve")
    assert isinstance(late.error, InterruptNotOpen)
    assert "expired" in str(late.error)


async def test_it_expires_in_another_execution_and_once_a_paused_run_goes_on() -> None:
    sim = await waiting(expires="2h")
    await sim.restore()
    await sim.command("pause")
    sim.ring()
    await sim.settle()
    assert sim.state.interrupts
    await sim.command("resume")
    await sim.run()
    assert sim.state.status == "completed"


async def test_whoever_is_second_is_told_who_was_first() -> None:
    sim = await waiting(people=["ana", "eve"])
    decisions = [{"type": "reject", "message": "not now"}]
    await sim.command("answer", interrupt="i1", decisions=decisions, by="ana")
    second = await sim.answer("approve", "i1")
    assert isinstance(second.error, InterruptNotOpen)
    assert "ana answered 'reject'" in str(second.error)


async def test_only_those_named_may_answer() -> None:
    sim = await waiting(people=["ana"])
    refused = await sim.answer("approve")
    assert isinstance(refused.error, NotPermitted)
    (entry,) = sim.facts("CommandRejected")
    assert entry["error_type"] == "NotPermitted"
    assert sim.state.interrupts


async def test_tools_of_high_risk_wait_for_a_yes() -> None:
    tools = {"act": {"run": "m:f", "risk": "high"}, "read": {"run": "m:f"}}
    plan = plan_of(["a"], tools=tools, interrupts={"approve_risk": "high"})
    sim = await run(plan, Replies({"a#1": [says("", "act", "read")]}))
    assert sim.asked().tool == "act"
    assert plan_of(["a"], tools=tools).approvals == {}


# -- a yes and its call ----------------------------------------------------------------------


async def edit(
    sim: Simulation,
    args: dict[str, Any],
    preparation: Preparation | None = None,
    *,
    tool: str = "act",
) -> QueuedCommand:
    action = {"name": tool, "args": args}
    decision = {"type": "edit", "edited_action": action}
    content = {"id": f"e{sim.state.position}", "by": "eve", "interrupt": sim.asked().id}
    incoming = QueuedCommand("answer", {**content, "decisions": [decision]})
    incoming.preparation = preparation
    await apply_command(sim.engine, incoming)
    return incoming


async def test_edited_arguments_are_what_is_approved() -> None:
    sim = await waiting()
    await edit(sim, {"to": "staging"}, CheckedArguments())
    (order,) = sim.engine.pending_calls(())
    assert order.call.edited
    assert order.call.arguments != sim.facts("InterruptRaised")[0]["interrupt"]["arguments"]
    assert sim.engine.check_approval(order.step, order.call).allowed
    (answer,) = sim.facts("InterruptAnswered")
    assert (answer["decision"], answer["inline"]) == ("edit", {"to": "staging"})
    assert same(sim)


async def test_edited_arguments_that_do_not_fit_leave_the_question_open() -> None:
    sim = await waiting()
    bad = await edit(sim, {"to": 3}, RefusedEdit(InvalidArguments("to: not a text")))
    assert isinstance(bad.error, InvalidArguments)
    unchecked = await edit(sim, {"to": "x"})
    assert isinstance(unchecked.error, CommandRejected)
    other = await edit(sim, {"to": "x"}, CheckedArguments(), tool="read")
    assert "'i1' asks about 'act', but the edit is for 'read'" in str(other.error)
    assert sim.asked().id == "i1"
    assert sim.facts("CommandRejected")[0]["error_type"] == "InvalidArguments"


async def test_a_yes_that_has_expired_is_asked_for_once_more() -> None:
    sim = await waiting(valid=10)
    await sim.command("pause")
    await sim.answer("approve")
    sim.engine.at += 60_000
    await sim.command("resume")
    await sim.run()
    assert sim.asked().id == "i2"
    await sim.answer("approve")
    await sim.run()
    assert sim.state.status == "completed"
    assert same(sim)


async def test_a_yes_of_another_run_is_none() -> None:
    sim = await waiting()
    await sim.command("pause")
    await sim.answer("approve")
    other = sim.state.model_copy(update={"run": "another"})
    sim.engine.journal.state = other
    await sim.command("resume")
    await sim.settle()
    assert not list(sim.engine.pending_calls(()))
    assert sim.asked().id == "i2"
