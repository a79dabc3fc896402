"""Answers and hand-offs that go back begin a new generation of the joins between."""

from __future__ import annotations

from typing import Any

from crewlog.canonical_json import hash_json
from crewlog.definition.load import load_data
from crewlog.graph.answers import answer, find_interrupt
from crewlog.graph.engine import Engine
from crewlog.graph.lowering.plans import lower
from crewlog.ids import InterruptId, RunId
from crewlog.state.calls import (
    CallModelResult,
    CallToolResult,
    FinalMessage,
    RequestedToolCall,
    ToolCallsRequested,
    ToolReturned,
)
from crewlog.state.journal import RunOutputSet


def says(text: str, *tools: RequestedToolCall) -> CallModelResult:
    body: dict[str, Any] = {"type": "ai", "content": text}
    outcome = ToolCallsRequested(calls=tools) if tools else FinalMessage()
    return CallModelResult(body=body, hash=hash_json(body), outcome=outcome)


async def engine_of(flow: list[Any], **more: Any) -> Engine:
    agents = {name: {"prompt": "p"} for name in ("a", "b", "c")}
    crew = {"crew": "x", "model": "scripted:s", "agents": agents, "flow": flow, **more}
    run = RunId("r")
    return await Engine.begin(lower(load_data(crew)), run, input_text="go", by="", at=1)


async def turn(engine: Engine, *expected: str) -> None:
    """Lets every step that is due take its turn; these are the steps."""
    await engine.advance(())
    orders = list(engine.pending_calls(()))
    assert [order.step for order in orders] == list(expected)
    for order in orders:
        await engine.turns.apply_model_call(order.step, order.call.call, says("done"))
    await engine.advance(())


async def test_an_answer_that_goes_back_runs_the_join_again():
    engine = await engine_of([["a", "b"], "c", {"ask": "Good?", "options": ["yes", "a"]}])
    await turn(engine, "a#1", "b#1")
    await turn(engine, "c#1")
    asked = find_interrupt(engine, "i1")
    await answer(engine, asked, "a", by="me", command=None)
    await turn(engine, "a#2")
    await turn(engine, "c#2")
    await answer(engine, find_interrupt(engine, "i2"), "yes", by="me", command=None)
    await engine.advance(())
    assert engine.state.status == "completed"


async def test_a_hand_off_that_goes_back_runs_the_join_again():
    tools = {"back": {"run": "m:f", "effects": "read"}}
    engine = await engine_of([["a", "b"], "c"], tools=tools)
    await turn(engine, "a#1", "b#1")
    await engine.advance(())
    (order,) = engine.pending_calls(())
    await engine.turns.apply_model_call(
        order.step, 1, says("", RequestedToolCall(id="t1", tool="back"))
    )
    body = {"type": "tool", "content": "back to a"}
    result = CallToolResult(body=body, hash=hash_json(body), outcome=ToolReturned(goto=("a",)))
    await engine.turns.apply_tool_call(order.step, 2, result)
    await turn(engine, "a#2")
    await turn(engine, "c#2")
    assert engine.state.status == "completed"


async def test_two_steps_at_the_limit_ask_once():
    engine = await engine_of(["a", ["b", "c"]], limits={"steps": 1})
    await turn(engine, "a#1")
    assert list(engine.state.interrupts) == ["i1"]
    await answer(engine, find_interrupt(engine, "i1"), "go on", by="me", command=None)
    await engine.advance(())
    assert [order.step for order in engine.pending_calls(())] == ["b#1"]
    assert list(engine.state.interrupts) == ["i2"]


async def test_a_question_about_a_requirement_is_withdrawn_when_it_comes_true():
    flow = [{"agent": "a", "when": "ready"}, {"agent": "b", "after": []}, "c"]
    engine = await engine_of(flow, flags={"ready": False})
    await turn(engine, "b#1")
    await turn(engine, "c#1")
    assert [i.kind for i in engine.state.interrupts.values()] == ["requirement"]
    engine.record(RunOutputSet(flag="ready", value=True, by="somebody"))
    await turn(engine, "a#1")
    assert InterruptId("i1") not in engine.state.interrupts
    assert engine.state.status == "completed"
