"""Agents without a model: their turns are the calls that their definition names."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import InvalidDefinition
from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName
from crewlog.reporting.dry_run.runner import dry_run
from crewlog.state.calls import OutputValue, StructuredOutput, addressed_items
from graph.crews import plan_of
from graph.simulation import Replies, Simulation, returns, run, says

TOOLS = {name: {"run": "m:f"} for name in ("test", "lint", "secret")}


def doing(*does: Any, flow: list[Any] | None = None, **agent: Any) -> GraphPlan:
    """A crew of the agent `a`, which asks no model, and of `b` after it."""
    return plan_of(
        flow or ["a", "b"],
        {"a": {"does": list(does), **agent}, "b": {"outputs": ["score", "list"]}},
        tools=TOOLS,
        permissions={"secret": []},
    )


def messages(sim: Simulation, *, final: bool) -> list[dict[str, Any]]:
    """What `a` is said to have replied."""
    found = [e for e in sim.facts("ModelCallCompleted") if e["agent"] == "a"]
    return [e["ref"]["inline"] for e in found if bool(e.get("calls")) != final]


async def test_no_model_is_asked_and_the_results_make_the_final_message() -> None:
    tools = {"test": returns("2 failed", ok=True), "lint": returns("clean")}
    sim = await run(doing("test", {"tool": "lint", "args": {"path": "src"}}), Replies({}, tools))
    assert sim.state.status == "completed"
    assert [made for made in sim.made if made[0] == "a#1"] == [("a#1", 2, 1), ("a#1", 3, 1)]
    (asked,), (said,) = messages(sim, final=False), messages(sim, final=True)
    assert [(c["name"], c["args"]) for c in asked["tool_calls"]] == [
        ("test", {}),
        ("lint", {"path": "src"}),
    ]
    assert said["content"] == "test: 2 failed\n\nlint: clean"
    assert [e.get("without_model") for e in sim.facts("StepStarted")] == [True, None]
    usage = sim.state.usage[AgentName("a")]
    assert (usage.calls, usage.tool_calls) == (0, 2)


async def test_in_order_the_next_call_is_made_once_the_one_before_is_done() -> None:
    sim = await run(doing("test", "lint", in_order=True))
    asked = [[call["name"] for call in m["tool_calls"]] for m in messages(sim, final=False)]
    assert asked == [["test"], ["lint"]]
    assert messages(sim, final=True)[0]["content"].startswith("test: ")


async def test_what_failed_is_asked_about_and_only_that_is_done_again() -> None:
    tools: dict[str, Any] = {"test/2": returns("broken", ok=False), "lint": returns("clean")}
    sim = await run(doing("test", "lint"), Replies({}, tools))
    assert (sim.asked().kind, "test: broken" in sim.asked().question) == ("step_failed", True)
    await sim.answer("retry")
    await sim.run()
    assert sim.state.status == "completed"
    tried = [e["tool"] for e in sim.facts("ToolCallCompleted")]
    assert sorted(tried) == ["lint", "test", "test"]


async def test_a_call_that_is_refused_fails_the_step() -> None:
    sim = await run(doing("secret", tools=["secret"], on_error="continue"))
    (failed,) = sim.facts("StepFailed")
    assert (failed["error_type"], "secret: Refused" in failed["error"]) == ("CallFailed", True)
    assert sim.state.status == "completed"
    assert [e["agent"] for e in sim.facts("ModelCallCompleted") if not e.get("calls")] == ["b"]


async def test_an_argument_is_the_value_of_an_output_or_it_is_said_why_not() -> None:
    plan = doing(
        {"tool": "test", "args": {"least": {"from": "b.score"}, "deep": [{"from": "b.score"}]}},
        flow=["b", "a"],
    )
    score = OutputValue(key="score", value=3)
    script = Replies({"b#1": [says("", "test")]}, {"test/2": returns(outputs=(score,))})
    sim = await run(plan, script)
    assert messages(sim, final=False)[0]["tool_calls"][0]["args"] == {"least": 3, "deep": [3]}
    unset = await run(plan)
    assert "b.score has no value" in unset.asked().question


TAGGED = {"type": "object", "properties": {"list": {"type": "array", "items": {"type": "object"}}}}


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("readers", [("a", "a"), ("a", "c"), ("c", "a")])
async def test_what_is_handed_to_others_is_no_argument(
    readers: tuple[str, str], large: bool
) -> None:
    """A list of which each part has an audience of its own: who passes it on must be in all."""
    plan = plan_of(
        ["b", "a", "c"],
        {
            "a": {"does": [{"tool": "test", "args": {"x": {"from": "b.list"}}}]},
            "b": {"reply": {"schema": TAGGED, "tagged": {"list": "to"}}, "writes": []},
            "c": {},
        },
        tools=TOOLS,
    )
    canary = "the canary" + " sings" * (60 if large else 0)
    items: list[Any] = [{"to": who, "say": canary} for who in readers]
    reply = StructuredOutput(outputs=tuple(addressed_items("list", items, "to")))
    sim = await run(plan, Replies({"b#1": [says("{}", reply=reply)]}))
    told = [e["ref"]["inline"] for e in sim.facts("ModelCallCompleted") if e["agent"] == "a"]
    if readers == ("a", "a") and not large:
        assert told[0]["tool_calls"][0]["args"] == {"x": items}
        return
    assert not told
    asked = sim.asked()
    assert "the canary" not in asked.question + asked.detail
    why = "a may not see b.list" if "c" in readers else "b.list is too large to be an argument"
    assert why in asked.question


@pytest.mark.parametrize(
    ("agent", "say"),
    [
        ({"does": ["tset"]}, "agent 'a' does 'tset', and there is no such tool."),
        ({"does": ["test"], "tools": ["lint"]}, "which is not among its tools"),
        ({"does": ["test"], "model": "openai:x"}, "so it asks no model, and has 'model'"),
        ({"does": ["set_flag"]}, "does 'set_flag', and has no 'writes_flags'"),
        ({"does": [{"tool": "test", "args": {"x": {"from": "b.no"}}}]}, "declares no output 'no'"),
        ({"does": [{"tool": "test", "args": {"x": {"from": "no"}}}]}, "is neither an item nor"),
        ({"does": ["test"] * 17}, "makes 17 calls; there can be 16"),
        ({"in_order": True}, "says 'in_order', and has no 'does'"),
    ],
)
def test_what_cannot_be_is_said_with_a_remedy(agent: dict[str, Any], say: str) -> None:
    with pytest.raises(InvalidDefinition) as raised:
        plan_of(["a", "b"], {"a": agent}, tools=TOOLS)
    assert any(say in fault.message for fault in raised.value.diagnostics)


async def test_a_dry_run_calls_nothing_and_comes_to_its_end() -> None:
    found = await dry_run(doing("test", "lint"))
    assert (found.end, [step.node for step in found.steps]) == ("completed", ["a", "b"])
