"""The builder of teams: what it becomes, and that a plan is shared, checked and worked over."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.builders import Place, find_builder
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.team import Team
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.graph.run_context import CallRequest
from crewlog.state.calls import CallModelResult, CallToolResult, OutputValue, StructuredOutput
from graph.simulation import Simulation, run, says

STEPS = [
    {"id": "a", "agent": "coder", "task": "write it", "after": []},
    {"id": "b", "agent": "tester", "task": "test it", "after": ["a"]},
    {"id": "c", "agent": "coder", "task": "document it", "after": []},
]


def data(**options: Any) -> dict[str, Any]:
    options = {"planner": "planner", "workers": ["coder", "tester"], **options}
    reviewer = options.get("reviewer", "planner")
    names = ["planner", *options["workers"], *options.get("checks", ()), reviewer, "writer"]
    agents = {name: {"prompt": "p", "on_error": "continue"} for name in names}
    flow = [{"use": "team", "with": options}, "writer"]
    return {"crew": "t", "model": "openai:x", "agents": agents, "flow": flow}


def crew(**options: Any) -> CrewDefinition:
    return load_data(data(**options))


class Script:
    """The planner shares the steps; the reviewer sends the coder again, so and so often."""

    def __init__(self, *, again: int = 0, steps: Any = STEPS) -> None:
        self.again = again
        self.steps = steps

    def __call__(self, order: CallRequest) -> CallModelResult | CallToolResult:
        fields: dict[str, Any] = {}
        if order.agent == "planner":
            fields = {"steps": self.steps}
        elif order.agent == "reviewer":
            visit = int(order.step.rpartition("#")[2])
            more = [{"target": "coder", "directive": "mend it"}]
            fields = {"proceed": visit > self.again, "actions": more if visit <= self.again else []}
        if not fields:
            return says(str(order.step))
        values = tuple(OutputValue(key=key, value=value) for key, value in fields.items())
        return says(str(order.step), reply=StructuredOutput(outputs=values))


async def ran(script: Script, **options: Any) -> Simulation:
    return await run(lower(crew(**options)), script)


async def test_a_plan_is_shared_by_those_who_are_named() -> None:
    sim = await ran(Script(), at_once=2)
    assert sim.state.status == "completed"
    agents = {f["step"]: f["agent"] for f in sim.facts("StepStarted")}
    assert agents["team.work#1.1"] == agents["team.work#1.3"] == "coder"
    assert agents["team.work#1.2"] == "tester"
    order = [f["step"] for f in sim.facts("StepStarted")]
    done = [f["step"] for f in sim.facts("StepCompleted")]
    assert done.index("team.work#1.1") < done.index("team.work#1.2")
    assert order[-1] == "writer#1"


async def test_only_those_work_again_whom_the_reviewer_names() -> None:
    sim = await ran(Script(again=2), reviewer="reviewer", checks=["lint"], rounds=2)
    assert sim.state.status == "completed"
    ran_by = [(f["step"], f["agent"]) for f in sim.facts("StepStarted") if "rework" in f["step"]]
    assert ran_by == [("team.rework#1.1", "coder"), ("team.rework#2.1", "coder")]
    assert sum(step.startswith("lint#") for step in sim.ran()) == 3
    assert sim.ran()[-1] == "writer#1"


async def test_several_checks_look_side_by_side_each_time() -> None:
    sim = await ran(Script(again=1), reviewer="reviewer", checks=["lint", "types"])
    assert sim.state.status == "completed"
    ran_ = sim.ran()
    assert [ran_.count(f"{name}#{n}") for name in ("lint", "types") for n in (1, 2)] == [1] * 4
    assert ran_.count("reviewer#2") == 1
    assert "reviewer#3" not in ran_


async def test_a_budget_that_is_used_up_asks_people() -> None:
    sim = await ran(Script(again=9), reviewer="reviewer", rounds=1)
    assert sim.asked().kind == "ask"
    assert "team.rework 1 times" in sim.asked().question
    sim = await ran(Script(again=9), reviewer="reviewer", rounds=1, **{"else": "next"})
    assert sim.state.status == "completed"
    assert sim.ran()[-1] == "writer#1"


async def test_people_approve_the_plan_first() -> None:
    sim = await ran(Script(), approve=True)
    assert sim.asked().question == "Carry out the plan of planner?"
    assert "write it" in sim.asked().detail, "people see what they approve"
    assert sim.asked().options == ("approve", "planner", "reject")
    await sim.answer("reject")
    await sim.run()
    assert not any("work" in step for step in sim.ran())
    assert sim.state.status == "stopped"


async def test_the_planner_plans_anew_and_sees_why() -> None:
    sim = await ran(Script(), approve=True)
    await sim.answer("no documents, please")
    await sim.run()
    assert sim.ran() == ["planner#1", "team.approve#1", "planner#2", "team.approve#2"]
    said = sim.facts("MessageAdded")[-1]
    assert said["ref"]["inline"]["content"] == "no documents, please"
    assert said["ref"]["logs"] == ["private:planner"], "nobody else is told"
    await sim.answer("planner")
    await sim.run()
    assert "planner#3" in sim.ran()
    await sim.answer("approve")
    await sim.run()
    assert sim.state.status == "completed"
    assert "team.work#1.1" in sim.ran()


async def test_a_plan_in_a_circle_asks_people_and_starts_nothing() -> None:
    steps = [
        {"id": "a", "agent": "coder", "task": "x", "after": ["b"]},
        {"id": "b", "agent": "tester", "task": "y", "after": ["a"]},
    ]
    sim = await ran(Script(steps=steps))
    assert sim.asked().kind == "requirement"
    assert sim.ran() == ["team#1"]


@pytest.mark.parametrize(
    "options",
    [
        {"workers": ["coder", "planner"]},
        {"reviewer": "coder"},
        {"checks": ["lint", "lint"]},
    ],
)
def test_nobody_has_two_places(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition, match="is named twice"):
        crew(**options)


def test_the_smallest_team_is_a_plan_and_who_carries_it_out() -> None:
    made = find_builder("team").expand(
        Team(planner="planner", workers=("coder",)), Place("team", crew())
    )
    assert [item.agents for item in made.items] == [("planner",), ("coder",)]  # type: ignore[union-attr]
