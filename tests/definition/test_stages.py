"""The builder `stages`: a supervisor, stages apart from each other, and who answers."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.expand import expand
from crewlog.definition.load import load_data
from crewlog.definition.validate import warnings
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower

NAMED = {"supervisor": "lead", "stages": ["find", "build"], "responder": "answer"}
STAGES = ("find", "build")


def crew(agents: dict[str, Any] | None = None, **options: Any) -> Any:
    names = {"lead": {}, "find": {}, "build": {}, "answer": {}} | (agents or {})
    return load_data(
        {
            "crew": "t",
            "model": "scripted:x",
            "agents": {
                name: {"prompt": f"You {name}.", "description": name, **more}
                for name, more in names.items()
            },
            "flow": [{"use": "stages", "with": {**NAMED, **options}}],
        }
    )


def test_the_first_hop_is_the_supervisors_and_then_the_stages_go_on_in_order() -> None:
    plan = lower(crew())
    assert [*plan.nodes] == ["stages", "lead.route", "find", "build", "answer"]
    assert plan.nodes["find"].join is None
    assert plan.nodes["build"].join.of == ("find",)  # type: ignore[union-attr]
    assert plan.nodes["answer"].join.of == ("lead.route", "build")  # type: ignore[union-attr]


def test_with_every_hop_each_stage_reports_back() -> None:
    plan = lower(crew(hops="every_hop", at_most=2))
    assert [*plan.nodes] == [
        "stages", "lead.route", "find", "find.back", "build", "build.back", "answer",
    ]  # fmt: skip
    assert plan.nodes["find.back"].decide.go == "stages"  # type: ignore[union-attr]
    assert not warnings(crew(hops="every_hop"))


def test_a_stage_at_its_cap_ends_with_the_responder() -> None:
    made = expand(crew()).definition
    assert {name: made.agents[name].on_cap for name in STAGES} == dict.fromkeys(STAGES, "end")
    plan = lower(crew({"build": {"on_cap": "fail"}}, hops="every_hop"))
    assert plan.nodes["answer"].join.of == ("lead.route", "find.back")  # type: ignore[union-attr]
    assert plan.agents["build"].on_cap == "fail"


def test_stages_are_apart_and_what_they_say_is_for_the_supervisor_and_the_responder() -> None:
    made = expand(crew()).definition
    for name in STAGES:
        agent = made.agents[name]
        assert (agent.reads, agent.writes) == ((), ("readers:lead+answer",))
        assert [each.from_ for each in agent.inputs] == ["input", "lead.instructions"]
    assert made.agents["lead"].writes == ()
    assert made.agents["lead"].reply.among == ("find", "build", "answer")  # type: ignore[union-attr]
    plan = lower(crew())
    assert "readers:lead+answer" in plan.agents["answer"].reads


def test_what_an_agent_says_itself_counts() -> None:
    own = {"reads": ["public", "channel:c"], "writes": ["channel:c"], "inputs": ["find.text"]}
    made = expand(crew({"build": own})).definition
    build = made.agents["build"]
    assert made.agents["find"].writes == ("readers:lead+answer+build",)
    assert (build.reads, build.writes) == (("public", "channel:c"), ("channel:c",))
    assert [each.from_ for each in build.inputs] == ["input", "lead.instructions", "find.text"]


def test_what_a_stage_hands_on_apart_is_in_no_log() -> None:
    schema = {"type": "object", "properties": {"context": {"type": "array"}, "summary": {}}}
    reply = {"schema": schema, "tagged": {"context": "for"}}
    definition = crew({"find": {"reply": reply}, "build": {"inputs": ["find.context"]}})
    made = expand(definition).definition
    assert made.agents["find"].writes == ()
    for name in ("lead", "answer"):
        assert [each.from_ for each in made.agents[name].inputs] == ["find.summary"]
    assert not warnings(definition)


@pytest.mark.parametrize(
    ("options", "say"),
    [
        ({"stages": ["find", "find"]}, "'find' is named twice"),
        ({"responder": "build"}, "'build' is named twice"),
        ({"stages": []}, "stages"),
        ({"hops": "some"}, "hops"),
        ({"stages": ["find", "nobody"]}, "nobody"),
    ],
)
def test_what_is_wrong_with_a_use(options: dict[str, Any], say: str) -> None:
    with pytest.raises(InvalidDefinition, match=say):
        crew(**options)
