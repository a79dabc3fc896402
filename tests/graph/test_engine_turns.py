"""Turns: results in call order, refusals, writes, handoffs, and what a late answer may do."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from crewlog.graph.plan import GraphPlan
from crewlog.state.calls import OutputValue
from graph.crews import plan_of
from graph.simulation import Failure, Replies, Simulation, returns, run, says

TOOLS = {name: {"run": "m:f"} for name in ("act", "read", "secret")}
THREE = [says("", "act", "act", "read")]


def one(**agent: Any) -> GraphPlan:
    """A crew of the agent `a`, and of `b` after it."""
    return plan_of(["a", "b"], {"a": agent}, tools=TOOLS, permissions={"secret": []})


def applied(sim: Simulation) -> list[int]:
    return [entry["call"] for entry in sim.facts("ToolCallCompleted")]


@pytest.mark.parametrize("order", list(itertools.permutations([2, 3, 4])))
async def test_results_in_any_order_are_applied_in_call_order(order: tuple[int, ...]) -> None:
    tools = {f"{t}/{n}": returns(f"{t}{n}", flags={"ok": n}) for n in (2, 3, 4) for t in TOOLS}
    script = Replies({"a#1": THREE}, tools)
    sim = await Simulation.begin(one(writes_flags=["ok"]), script)
    await sim.finish("a#1")
    for number in order:
        before = applied(sim)
        await sim.land(("a#1", number))
        ready = set(order[: order.index(number) + 1])
        assert applied(sim) == list(itertools.takewhile(ready.__contains__, (2, 3, 4)))
        assert (len(applied(sim)) > len(before)) or sim.journal[-1]["kind"] == "CompletionBuffered"
    assert [f["value"] for f in sim.facts("RunOutputSet")] == [2, 3, 4]
    assert sim.state.flags["ok"] == 4  # type: ignore[index]
    await sim.run()
    assert [e["call"] for e in sim.facts("ModelCallCompleted")] == [1, 5, 1]


async def test_the_log_of_an_agent_does_not_depend_on_which_tool_was_faster() -> None:
    bodies: set[tuple[str, ...]] = set()
    for order in itertools.permutations([2, 3, 4]):
        sim = await Simulation.begin(one(), Replies({"a#1": THREE}))
        await sim.finish("a#1")
        for number in order:
            await sim.land(("a#1", number))
        bodies.add(tuple(entry["ref"]["body"] for entry in sim.facts("ToolCallCompleted")))
    assert len(bodies) == 1


async def test_the_same_tool_twice_is_two_calls() -> None:
    sim = await run(one(), Replies({"a#1": [says("", "act", "act"), says("", "act")]}))
    assert [made for made in sim.made if made[0] == "a#1"] == [
        ("a#1", number, 1) for number in (1, 2, 3, 4, 5, 6)
    ]
    assert [e["call"] for e in sim.facts("ToolCallCompleted")] == [2, 3, 5]
    assert sim.state.usage["a"].tool_calls == 3  # type: ignore[index]


@pytest.mark.parametrize(
    ("tool", "reason"),
    [
        ("secret", "permissions do not let 'a' call 'secret'"),
        ("set_flag", "there is no tool 'set_flag'"),
        ("acT", "there is no tool 'acT'"),
    ],
)
async def test_what_is_not_allowed_is_refused_and_the_model_is_told(tool: str, reason: str) -> None:
    sim = await run(one(), Replies({"a#1": [says("", tool, "act")]}))
    (denied,) = sim.facts("PermissionDenied")
    assert (denied["tool"], denied["reason"]) == (tool, reason)
    assert ("a#1", 2, 1) not in sim.made
    refused, other = sim.facts("ToolCallCompleted")
    assert refused["ok"] is False
    assert refused["ref"]["inline"]["content"] == (
        f"Refused: {reason}. Tools you may call: act, read."
    )
    assert refused["ref"]["inline"]["status"] == "error"
    assert other["tool"] == "act"
    assert sim.state.status == "completed"


async def test_a_reply_of_refused_calls_only_goes_back_to_the_model() -> None:
    sim = await run(one(), Replies({"a#1": [says("", "secret", "nope")]}))
    assert [made[:2] for made in sim.made] == [("a#1", 1), ("a#1", 4), ("b#1", 1)]


async def test_a_tool_that_was_forbidden_in_the_meantime_is_refused() -> None:
    plan = plan_of(["a"], tools=TOOLS, permissions={"act": ["a"]})
    sim = await Simulation.begin(plan, Replies({"a#1": [says("", "act")]}))
    assert sim.engine.check("a", "act").allowed  # type: ignore[arg-type]
    forbidden = {**sim.state.tool_permissions, "act": ()}
    sim.engine.journal.state = sim.state.model_copy(update={"tool_permissions": forbidden})
    await sim.run()
    assert sim.facts("PermissionDenied")[0]["reason"] == "permissions do not let 'a' call 'act'"


async def test_flags_and_outputs_are_set_only_where_they_are_declared() -> None:
    values = tuple(OutputValue(key=key, value=1) for key in ("score", "other"))
    writes = returns(flags={"ok": 1, "mine": True}, outputs=values, goto=("nowhere",))
    plan = one(writes_flags=["ok"], outputs=["score"])
    sim = await run(plan, Replies({"a#1": [says("", "act")]}, {"act": writes}))
    assert [(e["flag"], e["value"]) for e in sim.facts("RunOutputSet")] == [("ok", 1)]
    assert [e["key"] for e in sim.facts("OutputSet")] == ["score"]
    assert [e["reason"] for e in sim.facts("PermissionDenied")] == [
        "there is no node 'nowhere' to go to",
        "'a' may not set the flag 'mine': it does not declare it",
        "'a' may not set the output 'other': it does not declare it",
    ]
    assert "mine" not in sim.state.flags


@pytest.mark.parametrize("value", [True, 1, 1.0, False, 0, None, "", [1, True]])
async def test_a_flag_keeps_its_very_value(value: Any) -> None:
    """1 equals True in Python, and a journal that leaves out defaults must not mix them."""
    script = Replies({"a#1": [says("", "act")]}, {"act": returns(flags={"ok": value})})
    sim = await run(one(writes_flags=["ok"]), script)
    (entry,) = sim.facts("RunOutputSet")
    assert repr(entry["value"]) == repr(value)
    assert repr(sim.state.flags["ok"]) == repr(value)  # type: ignore[index]


async def test_a_handoff_ends_the_turn_after_its_batch_and_nothing_else_follows() -> None:
    flow: list[Any] = ["a", "b", {"agent": "z", "after": "go"}]
    sent: list[Any] = [{"if": "ok", "go": "z", "phase": "d", "after": "b"}]
    script = Replies({"a#1": [says("", "act", "read")]}, {"act": returns(goto=("z",))})
    sim = await run(plan_of([*flow, *sent], tools=TOOLS), script)
    assert sim.ran() == ["a#1", "z#1"]
    assert applied(sim) == [2, 3]
    assert sim.facts("StepCompleted")[0]["because"] == "handed off"
    assert sim.facts("NodesReached")[1]["outcome"] == ["z"]
    assert sim.state.status == "completed"


async def test_a_turn_that_does_not_end_asks_every_so_many_calls() -> None:
    replies = [says(str(n), "act") for n in range(9)]
    sim = await run(one(max_calls=3), Replies({"a#1": replies}))
    assert sim.asked().kind == "step_failed"
    assert "took 3 model calls and did not end" in sim.asked().detail
    assert len([made for made in sim.made if made[1] in (1, 3, 5, 7)]) == 3
    await sim.answer("retry")
    await sim.run()
    assert len(sim.facts("ModelCallCompleted")) == 6
    await sim.answer("skip")
    assert (await sim.run()).ran() == ["a#1", "b#1"]


@pytest.mark.parametrize("writes", [["public"], ["group:g"], ["group:g", "public"]])
async def test_the_final_message_goes_where_the_agent_writes_and_where_it_reads(
    writes: list[str],
) -> None:
    sim = await run(one(writes=writes))
    unseen = [] if "public" in writes else ["private:a"]
    assert sim.facts("ModelCallCompleted")[0]["ref"]["logs"] == [*writes, *unseen]


async def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    sim = await Simulation.begin(one(), Replies({"a#1": THREE}))
    await sim.finish("a#1")
    turns, before = sim.engine.turns, len(sim.journal)
    await turns.apply_model_call("a#1", 1, says("again", "act"))  # type: ignore[arg-type]
    await turns.apply_model_call("nobody#1", 1, says("who"))  # type: ignore[arg-type]
    await turns.apply_tool_call("a#1", 1, returns())  # type: ignore[arg-type]
    await turns.apply_tool_call("a#1", 99, returns())  # type: ignore[arg-type]
    await sim.engine.apply_call_failure("a#1", 99, "late", "Timeout")  # type: ignore[arg-type]
    await sim.engine.apply_call_failure("a#9", 1, "late", "Timeout")  # type: ignore[arg-type]
    assert len(sim.journal) == before


@pytest.mark.parametrize(
    ("policy", "status", "ran"),
    [
        ("continue", "completed", ["a#1", "b#1"]),
        ("fail", "failed", ["a#1"]),
        ("ask", "running", ["a#1"]),
    ],
)
async def test_a_failure_does_what_the_agent_says(policy: str, status: str, ran: list[str]) -> None:
    script = Replies({"a#1": [Failure("no key", "ModelRequestRejected")]})
    sim = await run(one(on_error=policy), script)
    (failed,) = sim.facts("StepFailed")
    assert (failed["error"], failed["error_type"]) == ("no key", "ModelRequestRejected")
    assert (sim.state.status, sim.ran()) == (status, ran)
    if policy == "ask":
        assert sim.asked().options == ("retry", "skip", "stop")
    if policy == "fail":
        assert sim.state.error == "a#1: no key"


async def test_results_of_a_step_that_went_on_without_them_are_dropped() -> None:
    script = Replies({"a#1": THREE}, {"act/2": Failure("broke")})
    sim = await Simulation.begin(one(on_error="continue"), script)
    await sim.finish("a#1", "a#1")
    assert sim.facts("StepCompleted")[0]["because"] == "failed: broke"
    before = len(sim.journal)
    await sim.land(("a#1", 3))
    assert len(sim.journal) == before
    assert (await sim.run()).state.status == "completed"


async def test_while_one_call_asks_the_others_go_on() -> None:
    script = Replies({"a#1": THREE}, {"act/2": Failure("gone", "OutcomeUnknown")})
    sim = await run(one(), script)
    assert {c.call: c.status for c in sim.state.frontier["a#1"].turn.calls} == {  # type: ignore[index, union-attr]
        2: "interrupted",
        3: "buffered",
        4: "buffered",
    }
    assert sim.state.frontier["a#1"].status == "running"  # type: ignore[index]
    await sim.answer("it printed two pages")
    assert applied(sim) == [2, 3, 4]
    said = sim.facts("ToolCallCompleted")[0]["ref"]["inline"]["content"]
    assert said == "The tool did not answer. eve says: it printed two pages"
    assert (await sim.run()).state.status == "completed"
