"""Routes: the run goes where an output says, so often and no more, and elsewhere after garbage."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import InvalidDefinition
from crewlog.ids import NodeName
from crewlog.reporting.drawing.mermaid import mermaid
from crewlog.reporting.explanation import explain
from crewlog.state.calls import OutputValue
from graph.crews import crew, plan_of
from graph.simulation import Outcome, Replies, Simulation, folded, returns, says

SPOKES: list[Any] = [{"agent": "billing", "after": "go"}, {"agent": "general", "after": "go"}]


def hub(*spokes: Any, **route: Any) -> list[Any]:
    return ["router", {"route": "router.next", "to": ["billing", "general"], **route}, *spokes]


def setting(value: Any) -> Replies:
    """The router sets where to go by a tool, and says something."""
    turn: list[Outcome] = [says("", "set_output"), says("There.")]
    result = returns(outputs=(OutputValue(key="next", value=value),))
    return Replies({f"router#{n}": list(turn) for n in (1, 2, 3)}, {"set_output": result})


async def ran(flow: list[Any], value: Any, **more: Any) -> Simulation:
    plan = plan_of(flow, {"router": {"outputs": ["next"]}}, **more)
    return await (await Simulation.begin(plan, setting(value))).run()


@pytest.mark.parametrize(
    ("value", "route", "steps", "warned"),
    [
        ("billing", {}, ["router#1", "billing#1"], ""),
        (" Billing ", {}, ["router#1", "billing#1"], ""),
        ("weather", {}, ["router#1"], "router.next is 'weather', none of billing or general"),
        ("weather", {"else": "general"}, ["router#1", "general#1"], "none of"),
        (["billing"], {}, ["router#1"], "none of"),
        (None, {}, ["router#1"], "none of"),
        ("end", {"else": "general"}, ["router#1"], ""),
        ("weather", {"else": "next"}, ["router#1"], "none of"),
    ],
)
async def test_it_goes_where_the_output_says(
    value: Any, route: dict[str, Any], steps: list[str], warned: str
) -> None:
    sim = await ran(hub(*SPOKES, **route), value)
    assert sim.state.status == "completed"
    assert sim.ran() == steps
    refused = [entry["because"] for entry in sim.facts("BranchTargetRefused")]
    assert len(refused) == (1 if warned else 0)
    assert all(warned in each for each in refused)
    counts = {NodeName(steps[1].partition("#")[0]): 1} if len(steps) > 1 else {}
    assert sim.state.execution_count == counts
    assert folded(sim.journal) == sim.state


async def test_the_agent_of_a_phase_is_named_too() -> None:
    desk = {"agent": "a", "phase": "desk", "after": "go"}
    flow = ["router", {"route": "router.next", "to": ["desk"]}, desk]
    assert (await ran(flow, "a")).ran() == ["router#1", "desk#1"]


async def test_it_goes_so_often_and_then_ends_with_a_warning() -> None:
    again = {"if": "router.next", "go": "router", "at_most": 5, "after": "billing"}
    sim = await ran(hub(*SPOKES, again, at_most=2), "billing")
    assert sim.ran() == ["router#1", "billing#1", "router#2", "billing#2", "router#3"]
    assert sim.state.execution_count == {"billing": 3}, "the try that is refused counts"
    assert folded(sim.journal) == sim.state
    (warned,) = sim.facts("BranchTargetRefused")
    assert "went to billing 2 times, the most" in warned["because"]
    assert warned["goes"] == "end"
    assert sim.state.status == "completed"


async def test_people_say_where_to_go() -> None:
    sim = await ran(hub(*SPOKES, **{"else": "ask_human"}), "weather")
    question = sim.asked()
    assert question.options == ("billing", "general", "end", "stop")
    assert "weather" in question.question
    await sim.answer("general")
    await sim.run()
    assert sim.ran() == ["router#1", "general#1"]
    assert sim.state.execution_count == {"general": 1}


async def test_what_is_garbage_may_fail_the_run() -> None:
    sim = await ran(hub(*SPOKES, **{"else": "fail"}), "weather")
    assert sim.state.status == "failed"
    assert "weather" in sim.state.error


def test_unknown_phases_and_outputs_are_told() -> None:
    with pytest.raises(InvalidDefinition) as told:
        plan_of(hub(*SPOKES, to=["billing", "genral"], **{"else": "nowhere"}))
    text = str(told.value)
    assert "'to' of 'route_1' names the phase 'genral'" in text
    assert "Did you mean 'general'?" in text
    assert "'else' of 'route_1' names the phase 'nowhere'" in text
    assert "'router' neither writes the flag 'next' nor has it as output" in text


def test_it_is_drawn_and_explained() -> None:
    definition = crew(hub(*SPOKES), {"router": {"outputs": ["next"]}})
    plan = plan_of(hub(*SPOKES), {"router": {"outputs": ["next"]}})
    assert "router.next is billing" in mermaid(plan)
    rule = "route_1: where router.next says: billing or general (≤ 1 each), else end"
    assert rule in plan.rules
    told = explain(definition, "route_1")
    assert [way.to for way in told.outgoing_edges] == ["billing", "general", "end"]
