"""What an agent said in an earlier visit does not stand for a later one that came to nothing."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.graph.plan import GraphPlan
from crewlog.ids import AgentName
from crewlog.state.calls import OutputValue, StructuredOutput
from graph.crews import plan_of
from graph.simulation import Failure, Outcome, Replies, Simulation, as_json, folded, returns, says

LOOK = {"look": {"run": "m:f", "effects": "read"}}
T = AgentName("t")


def passed(value: Any = True) -> Outcome:
    return returns(outputs=(OutputValue(key="passed", value=value),))


def twice(flow: list[Any] | None = None, **agent: Any) -> GraphPlan:
    """A crew that tests twice, and ships where the tests passed."""
    return plan_of(
        flow
        or [
            {"agent": "t", "phase": "p1"},
            {"agent": "t", "phase": "p2"},
            {"agent": "ship", "only_if": "t.passed"},
        ],
        {"t": {"tools": ["look"], "outputs": ["passed"], **agent}},
        tools=LOOK,
        merge={"t.passed": "last"},
    )


DOES: Any = {"does": ["look"]}
FORM = {"type": "object", "properties": {"passed": {"type": "boolean"}}}
MODEL: Any = {"reply": {"schema": FORM}, "outputs": [], "tools": []}


def script(agent: dict[str, Any], second: Outcome, *, sets: Any = True) -> Replies:
    """The first visit sets `passed`; the second ends as is said."""
    if "does" in agent:
        return _Second({"look": passed(sets)}, second)
    reply = StructuredOutput(outputs=(OutputValue(key="passed", value=sets),))
    return Replies({"p1#1": [says("{}", reply=reply)], "p2#1": [second]})


class _Second(Replies):
    """Tools that end otherwise in the second visit."""

    def __init__(self, tools: dict[str, Any], second: Outcome) -> None:
        super().__init__({}, tools)
        self._second = second

    def __call__(self, order: Any) -> Outcome:
        return self._second if order.step.startswith("p2") else super().__call__(order)


async def begun(plan: GraphPlan, made: Replies, **more: Any) -> Simulation:
    return await (await Simulation.begin(plan, made, **more)).run()


def value(sim: Simulation, key: str = "passed") -> Any:
    return sim.state.agent_outputs[T][key].value


@pytest.mark.parametrize("kind", [DOES, MODEL])
@pytest.mark.parametrize("how", ["continue", "skip"])
async def test_no_gate_opens_on_what_an_earlier_visit_said(kind: dict[str, Any], how: str) -> None:
    agent: Any = kind | ({"on_error": "continue"} if how == "continue" else {})
    sim = await begun(twice(**agent), script(agent, Failure("it was killed")))
    if how == "skip":
        assert value(sim) is True
        await sim.answer("skip")
        await sim.run()
    assert (value(sim), "ship#1" in sim.ran()) == (None, False)
    assert sim.state.status == "completed"
    assert as_json(folded(sim.journal)) == as_json(sim.state)


async def test_what_people_put_in_its_place_before_they_skip_it_stays() -> None:
    sim = await begun(twice(**DOES), script(DOES, Failure("it was killed")))
    await sim.command("edit_state", set={"outputs.t.passed": True})
    await sim.answer("skip")
    await sim.run()
    assert (value(sim), "ship#1" in sim.ran()) == (True, True)


async def test_a_step_that_people_skip_before_it_begins_says_nothing_either() -> None:
    second = {"agent": "t", "phase": "p2", "when": "ok"}
    flow = [{"agent": "t", "phase": "p1"}, second, {"agent": "ship", "only_if": "t.passed"}]
    sim = await begun(twice(flow, **DOES), script(DOES, passed()))
    await sim.answer("skip")
    await sim.run()
    assert (value(sim), "ship#1" in sim.ran()) == (None, False)


async def test_what_the_flow_itself_leaves_out_stays_as_it_was() -> None:
    second = {"agent": "t", "phase": "p2", "only_if": "ok"}
    flow = [{"agent": "t", "phase": "p1"}, second, {"agent": "ship", "only_if": "t.passed"}]
    sim = await begun(twice(flow, **DOES), script(DOES, passed()))
    assert sim.ran() == ["p1#1", "ship#1"]


async def test_what_the_visit_itself_set_before_it_failed_stays() -> None:
    made = {"p2#1": [says("", "look"), Failure("no ink")]}
    plan = twice(on_error="continue")
    sim = await begun(plan, Replies(made, {"look": passed()}))
    assert (value(sim), "ship#1" in sim.ran()) == (True, True)


async def test_a_turn_that_ends_at_its_cap_says_what_it_set_and_no_more() -> None:
    made = {"p1#1": [says("", "look")], "p2#1": [says("thinking", "other")] * 3}
    sim = await begun(twice(on_cap="end", max_calls=1), Replies(made, {"look": passed()}))
    assert sim.facts("TurnLimitReached")
    assert (value(sim), value(sim, "capped")) == (None, True)


async def test_an_error_does_not_stand_for_a_later_visit_that_went_well() -> None:
    made = Replies({"p1#1": [Failure("no ink")]})
    flow = [
        {"agent": "t", "phase": "p1"},
        {"agent": "fix", "only_if": "t.error"},
        {"agent": "t", "phase": "p2"},
        {"agent": "ship", "only_if": "not t.error"},
    ]
    sim = await begun(twice(flow, on_error="continue"), made)
    assert sim.ran() == ["p1#1", "fix#1", "p2#1", "ship#1"]
    assert [each["error"] for each in sim.facts("StepFailed")] == ["no ink"]


ROUNDS = [
    {"agent": "maker"},
    {"phase": "p1", "for_each": "maker.list", "by": "agent", "among": ["t", "b"], "at_once": 1},
    {"phase": "p2", "for_each": "maker.list", "by": "agent", "among": ["t", "b"], "at_once": 1},
]


async def test_in_a_pool_it_is_set_to_null_once_a_visit() -> None:
    items = [{"agent": "t"}, {"agent": "t"}, {"agent": "t"}, {"agent": "b"}]
    listed = OutputValue(key="list", value=items)
    more = {"outputs": ["passed"], "on_error": "continue"}
    plan = plan_of(
        ROUNDS,
        {"maker": {"outputs": ["list"]}, "t": more, "b": more},
        merge={"t.passed": "last", "b.passed": "last"},
    )
    sets = {f"p1#1.{n}": [says("", "look")] for n in range(1, 5)}
    second = {"p2#1.1": [Failure("jam")], "p2#1.2": [says("", "look")], "p2#1.3": [Failure("ink")]}
    tools = {"set_output": returns(outputs=(listed,)), "look": passed()}
    plan = plan.model_copy(
        update={
            "agents": {
                name: rules.model_copy(update={"tools": ("set_output", "look")})
                for name, rules in plan.agents.items()
            }
        }
    )
    sim = await begun(plan, Replies({"maker#1": [says("", "set_output")], **sets, **second}, tools))
    nulls = [e for e in sim.facts("OutputSet") if e["key"] == "passed" and "value" not in e]
    assert [e["agent"] for e in nulls] == ["t"]
    assert value(sim) is True  # as the second of its items said, in this visit
    assert sim.state.agent_outputs[AgentName("b")]["passed"].value is True
    assert sim.state.agent_outputs[T]["error"].value == ["jam", "ink"]


async def test_a_turn_of_a_conversation_that_fails_leaves_nothing_to_the_next() -> None:
    plan = plan_of(
        [{"agent": "t", "phase": "p1"}, {"agent": "ship", "only_if": "t.passed"}],
        {"t": {**DOES, "tools": ["look"], "outputs": ["passed"], "on_error": "fail"}},
        tools=LOOK,
        conversation={},
    )

    def made(order: Any) -> Outcome:
        if order.step == "p1#2":
            return Failure("it was killed")
        return passed() if order.call.tool else says("ok")

    sim = await Simulation.begin(plan, made)
    await sim.run()
    assert value(sim) is True
    await sim.command("message", text="again")
    await sim.run()
    assert value(sim) is None
