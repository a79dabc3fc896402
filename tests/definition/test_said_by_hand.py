"""What people say of an agent counts before what a builder brings, also where it is the default."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog import Registry, compile_prompt
from crewlog.definition.diff import diff
from crewlog.definition.expand import expand
from crewlog.definition.load import load_data, load_definition
from crewlog.definition.model import FILLED, AgentDefinition, CrewDefinition
from crewlog.definition.write import to_yaml
from crewlog.graph.lowering.plans import lower
from crewlog.ids import AgentName
from crewlog.model import Model
from crewlog.prompt.keeping import kept
from crewlog.prompt.registry import registry_of_crew
from crewlog.prompt.renaming import keep_names
from definition.test_operations import after

HUB = {"use": "hub", "with": {"router": "lead"}}
STAGES = {
    "use": "stages",
    "with": {"supervisor": "lead", "stages": ["find", "build"], "responder": "answer"},
}
NAMES = ("lead", "find", "build", "answer")
OTHERS = {"reply", "outputs", "writes_flags", "pattern", "window"}
"""Fields that are joined, or that say themselves what they replace: `window: {}` shows all."""
PROMPT = "The router sends each message to billing or general."


def crew(part: dict[str, Any], **said: dict[str, Any]) -> CrewDefinition:
    agents = {name: {"prompt": "p", "description": name} | said.get(name, {}) for name in NAMES}
    data = {"crew": "t", "model": "scripted:x", "conversation": {}, "agents": agents}
    return load_data({**data, "flow": [part]})


def brought(part: dict[str, Any]) -> list[tuple[str, str]]:
    """The fields that a builder fills, each with its agent."""
    plain, made = crew(part), expand(crew(part)).definition
    return [
        (name, key)
        for name, agent in made.agents.items()
        for key in AgentDefinition.model_fields
        if getattr(agent, key) != getattr(plain.agents[name], key)
    ]


def test_builders_fill_what_is_kept_where_it_is_said() -> None:
    filled = {key for part in (HUB, STAGES) for _, key in brought(part)}
    assert filled - OTHERS == FILLED


@pytest.mark.parametrize(
    ("part", "name", "key"),
    [
        (part, *each)
        for part in (HUB, {**HUB, "with": {"router": "lead", "on_error": "fail"}}, STAGES)
        for each in brought(part)
        if each[1] not in OTHERS
    ],
)
def test_a_default_that_is_said_is_in_force(part: dict[str, Any], name: str, key: str) -> None:
    default = AgentDefinition.model_fields[key].get_default(call_default_factory=True)
    value: Any = list(default) if isinstance(default, tuple) else default  # pyright: ignore
    value = value.to_json() if isinstance(value, Model) else value
    # With what it writes to, or nobody may see what the lead tells its stages, which is a fault.
    more = {"writes": ["public"]} if key == "shares" else {}
    before, said = crew(part, **{name: more}), crew(part, **{name: {**more, key: value}})
    assert said.to_json()["agents"][name][key] == value
    again = [said, CrewDefinition.from_json(said.to_json()), load_definition(to_yaml(said))]
    if key != "shares":  # in an operation null puts back what is not said
        again.append(after(before, {"op": "edit_agent", "name": name, "set": {key: value}}))
    again.append(after(said, {"op": "edit_crew", "set": {"description": "Another."}}))
    for each in again:
        assert getattr(expand(each).definition.agents[name], key) == default
        silent = after(each, {"op": "edit_agent", "name": name, "set": {key: None}})
        assert key not in silent.to_json()["agents"][name]
        assert getattr(expand(silent).definition.agents[name], key) != default
    (change,) = diff(before, said).changes
    assert change.words.startswith(f"agent {name}: {key} ")
    assert change.words.endswith("said of it now")


def test_what_is_not_said_is_not_written_and_the_builder_fills_it() -> None:
    for part in (HUB, STAGES):
        data = crew(part).to_json()
        assert all({*agent} == {"prompt", "description"} for agent in data["agents"].values())
        assert CrewDefinition.from_json(data).to_json() == data
    extra = after(crew(STAGES), {"op": "add_agent", "name": "more", "agent": {"prompt": "p"}})
    gone = after(extra, {"op": "remove_agent", "name": "more"})
    assert gone.to_json()["agents"] == crew(STAGES).to_json()["agents"]


def test_who_was_shown_what_an_agent_said_that_left_is_shown_what_the_builder_brings() -> None:
    extra = after(crew(STAGES), {"op": "add_agent", "name": "more", "agent": {"prompt": "p"}})
    shown = {"op": "edit_agent", "name": "find", "set": {"inputs": ["more.text"]}}
    gone = after(after(extra, shown), {"op": "remove_agent", "name": "more"})
    made = expand(gone).definition.agents["find"]
    assert [each.from_ for each in made.inputs] == ["input", "lead.instructions"]


def understood(prompt: str, registry: Registry) -> CrewDefinition:
    """The crew of a prompt in which the forms understand everything."""
    found = compile_prompt(prompt, registry)
    assert found.ok, found.faults
    assert found.definition is not None
    return found.definition


def test_a_prompt_says_it_and_keeps_it() -> None:
    said = understood(f"{PROMPT} If billing fails, ask me.", Registry(model="scripted:x"))
    said = CrewDefinition.from_json(said.to_json() | {"conversation": {}})
    on_error = {name: agent.on_error for name, agent in lower(said).agents.items()}
    assert on_error == {"router": "continue", "billing": "ask", "general": "continue"}
    own = registry_of_crew(said)
    for more, wanted in ("", "ask"), (" If billing fails, go on without it.", "continue"):
        fresh = understood(PROMPT + more, own)
        now = kept(said, keep_names(said, fresh), own, own=True)
        again = CrewDefinition.from_json(now.to_json())
        assert lower(again).agents[AgentName("billing")].on_error == wanted
        assert not again.agents["general"].says("on_error")
