"""A prompt is untrusted text: it gains nothing that its registry does not offer."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from crewlog.definition.model import AgentDefinition, CrewDefinition, Limits
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.offered import narrower
from crewlog.prompt.registry import Registry
from crewlog.prompt.standing import not_standing

FILE = Path(__file__).with_name("injections.yaml")


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = YAML(typ="safe", pure=True).load(FILE.read_text(encoding="utf-8"))
    return data


@functools.cache
def _registry() -> Registry:
    return Registry.model_validate(_data()["registry"])


def _prompts() -> list[Any]:
    return [pytest.param(case, id=case["name"]) for case in _data()["prompts"]]


def test_there_are_at_least_fifty() -> None:
    assert len(_data()["prompts"]) >= 50


@pytest.mark.parametrize("case", _prompts())
def test_a_prompt_gains_nothing(case: dict[str, Any]) -> None:
    text = case["prompt"] + case.get("each", "") * case.get("repeat", 0)
    compiled = compile_prompt(text, _registry())
    if case["expect"] == "refused":
        assert not compiled.ok
        assert any(remark.error for remark in compiled.remarks)
    if compiled.definition is not None and compiled.ok:
        assert gained(compiled.definition, _registry()) == []


def gained(crew: CrewDefinition, registry: Registry) -> list[str]:
    """What a crew has that its registry does not offer, a line each."""
    return [*_tools(crew, registry), *_logs(crew), *_rest(crew, registry)]


def _tools(crew: CrewDefinition, registry: Registry) -> list[str]:
    found: list[str] = []
    for name, tool in crew.tools.items():
        offered = registry.tools.get(name)
        if offered is None or (tool != offered.definition() and not narrower(tool, offered)):
            found.append(f"the tool {name} is not the registry's")
    for name, agent in crew.agents.items():
        own = registry.agents[name].tools or () if name in registry.agents else ()
        for tool in _callable(name, agent, crew) - {*own}:
            grant = registry.tools[tool].grant
            if grant is not None and name not in grant:
                found.append(f"{name} may call {tool}")
    for name, whom in registry.approvals.items():
        if name not in crew.tools:
            continue
        asked = crew.approvals.get(name, ())
        if asked is not None and (whom is None or not {*whom} <= {*asked}):
            found.append(f"calls of {name} wait for nobody")
    return found


def _callable(name: str, agent: AgentDefinition, crew: CrewDefinition) -> set[str]:
    tools = crew.tools if agent.tools is None else agent.tools
    allowed = {tool: crew.permissions.get(tool) for tool in tools}
    return {tool for tool, named in allowed.items() if named is None or name in named}


def _logs(crew: CrewDefinition) -> list[str]:
    return [
        f"{name} has {log}"
        for name, agent in crew.agents.items()
        for log in (*agent.reads, *agent.writes)
        if log.startswith("private:") and log != f"private:{name}"
    ]


def _rest(crew: CrewDefinition, registry: Registry) -> list[str]:
    found: list[str] = []
    models = {registry.model, *registry.models}
    for name, agent in crew.agents.items():
        if (agent.model or crew.model) not in models:
            found.append(f"{name} has the model {agent.model}")
        if agent.pattern is not None and agent.pattern.use not in (registry.builders or ()):
            found.append(f"{name} works by {agent.pattern.use}")
        if name in registry.agents and not agent.prompt.startswith(registry.agents[name].prompt):
            found.append(f"{name} has another prompt")
    if crew.approval != registry.approval:
        found.append(f"the approval policy is {crew.approval}")
    for what in Limits.model_fields:
        has = getattr(crew.limits, what)
        if has is None or has > getattr(registry.limits, what):
            found.append(what)
    found += [each.message for each in not_standing(crew, registry.groups, registry.rules)]
    found += [
        f"the group {name} has {agent}"
        for name, agents in registry.groups.items()
        for agent in crew.groups.get(name, ())
        if agent not in agents
    ]
    found += [f"agents answer: {name}" for name in crew.interrupts.people if name in crew.agents]
    return found


def test_what_is_gained_would_be_seen() -> None:
    """The check itself: a crew that took what it wanted has all of it listed."""
    crew = CrewDefinition.model_validate(
        {
            "crew": "greedy",
            "model": "openai:other",
            "agents": {
                "writer": {"prompt": "x", "tools": ["deploy"], "reads": ["private:auditor"]},
                "auditor": {"prompt": "x", "tools": [], "pattern": "review_loop"},
            },
            "tools": {"deploy": {"run": "os:system"}},
            "limits": {"steps": 1000},
            "groups": {"desk": ["writer", "auditor"]},
            "interrupts": {"people": ["auditor"]},
            "approval": "none",
        }
    )
    narrow = _registry()
    assert len(_tools(crew, narrow)) == 3  # the tool's function, its caller, its approval
    assert len(_logs(crew)) == 1
    assert len(_rest(crew, narrow)) == 14  # one of them the rule about deploy
