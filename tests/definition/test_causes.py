"""A name that a builder cannot know is told once, where it stands."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.model import CrewDefinition
from crewlog.definition.validate import findings


def crew(use: str, options: dict[str, Any], *agents: str, **replies: Any) -> CrewDefinition:
    made = {
        name: {"prompt": "p", "description": name, "reply": replies.get(name)} for name in agents
    }
    flow = [{"use": use, "with": options}]
    data = {"crew": "c", "model": "openai:x", "agents": made, "flow": flow}
    return CrewDefinition.model_validate(data)


OPTIONS: dict[str, dict[str, Any]] = {
    "hub": {"router": "lead", "agents": ["a", "b"]},
    "team": {"planner": "lead", "workers": ["a", "b"], "reviewer": "last", "checks": ["look"]},
    "stages": {"supervisor": "lead", "stages": ["a", "b"], "responder": "last"},
    "supervisor": {"supervisor": "lead", "workers": ["a", "b"]},
    "parallel": {"agents": ["a", "b"], "then": "last"},
    "plan_execute": {"planner": "lead", "executor": "a"},
    "review": {"author": "a", "reviewer": "last"},
}
PLACES = [
    (use, (key, *([0] if isinstance(value, list) else [])))
    for use, options in OPTIONS.items()
    for key, value in options.items()
]


@pytest.mark.parametrize(("use", "place"), PLACES)
def test_an_unknown_name_is_one_fault_at_its_place(use: str, place: tuple[Any, ...]) -> None:
    named = [n for v in OPTIONS[use].values() for n in ([v] if isinstance(v, str) else v)]
    value = OPTIONS[use][place[0]]
    gone = value[0] if isinstance(value, list) else value
    options = {
        **OPTIONS[use],
        place[0]: ["unheard", *value[1:]] if isinstance(value, list) else "unheard",
    }
    (fault,) = findings(crew(use, options, *(name for name in named if name != gone)))
    assert fault.path == ("flow", 0, "with", *place)
    assert fault.message == "the flow names the agent 'unheard', which is not defined."


def test_a_slip_is_told_alone_and_who_is_left_out_by_the_list() -> None:
    team = {"planner": "planer", "workers": ["a"], "reviewer": "last"}
    (fault,) = findings(crew("team", team, "planner", "a", "last"))
    assert fault.remedy == "Did you mean 'planner'?"
    team = {"planner": "lead", "workers": ["a"]}
    (fault,) = findings(crew("team", team, "lead", "a", "other"))
    assert fault.remedy == "Add '- other' under 'flow:', name it in 'workers', or remove it."


def test_what_an_agent_may_decide_for_offers_what_there_is() -> None:
    team = {"planner": "lead", "workers": ["a", "b"], "reviewer": "critic"}
    own = {"lead": {"decision": "plan", "among": ["zz"]}}
    first, second = findings(crew("team", team, "lead", "a", "b", **own))
    assert first.path == ("agents", "lead", "reply", "among", 0)
    assert first.remedy == "There are: a, b, end, lead and team."
    assert second.path == ("flow", 0, "with", "reviewer")
