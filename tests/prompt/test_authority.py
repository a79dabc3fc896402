"""What the rules of a prompt about tools and logs come to, statement by statement."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.model import CrewDefinition
from crewlog.prompt.ast import PromptAst
from crewlog.prompt.compile import compiled
from crewlog.prompt.compiled import CompiledPrompt
from crewlog.prompt.registry import Registry

TEXT = "The writer drafts, then the checker reads, then the printer prints."
TOOLS = {
    "deploy": {"run": "desk:deploy", "effects": "external", "risk": "high"},
    "read": {"run": "desk:read", "effects": "read"},
}


def read(*statements: dict[str, Any], **registry: Any) -> CompiledPrompt:
    """What statements come to after three agents have worked in turn."""
    works = [
        {"kind": "step", "parts": [{"agent": agent}]} for agent in ("writer", "checker", "printer")
    ]
    words = [{"start": 0, "end": 10}]
    tree = PromptAst.model_validate(
        {"statements": [{**said, "words": words} for said in (*works, *statements)]}
    )
    offered = {"model": "openai:gpt-5-mini", "tools": TOOLS, **registry}
    return compiled(TEXT, tree, Registry.model_validate(offered))


def crew(*statements: dict[str, Any], **registry: Any) -> CrewDefinition:
    found = read(*statements, **registry)
    assert found.ok, [remark.diagnostic.message for remark in found.remarks]
    assert found.definition is not None
    return found.definition


ALLOW = {"kind": "allow", "tools": ["deploy"]}


def ask(*agents: str) -> dict[str, Any]:
    return {"kind": "ask_tool", "tools": ["deploy"], "agents": agents}


@pytest.mark.parametrize(
    ("said", "registered", "expected"),
    [
        ([ask("writer"), ask("checker")], {}, ("writer", "checker")),
        ([ask("writer"), ask()], {}, None),
        ([ask(), ask("writer")], {}, None),
        ([], {"deploy": ["writer"]}, ("writer",)),
        ([ask("checker")], {"deploy": ["writer"]}, ("checker", "writer")),
        ([ask()], {"deploy": ["writer"]}, None),
        ([ask("checker")], {"deploy": None}, None),
    ],
)
def test_approvals_add_up(said: list[Any], registered: Any, expected: Any) -> None:
    assert crew(ALLOW, *said, approvals=registered).approvals == {"deploy": expected}


def test_approvals_of_tools_that_are_not_used_are_left_out() -> None:
    assert crew(approvals={"deploy": None}).approvals == {}


def test_a_tool_that_is_only_needed_is_in_the_crew() -> None:
    part = {"agent": "editor", "needs": ["read"]}
    made = crew({"kind": "step", "parts": [part]}, approvals={"read": None})
    assert list(made.tools) == ["read"]
    assert made.approvals == {"read": None}


def test_everyone_and_no_one() -> None:
    found = read(ALLOW, {"kind": "deny", "tools": ["deploy"]})
    (told,) = [remark for remark in found.remarks if remark.error]
    assert told.code == "contradiction"
    assert "everyone and no one may use 'deploy'" in told.diagnostic.message


def test_what_one_agent_may_not_see_all_others_do() -> None:
    hidden = {"kind": "sees", "agents": ["printer"], "whose": ["writer"], "hidden": True}
    agents = crew(hidden).agents
    assert agents["writer"].writes == ("group:writer",)
    reads = {name: agent.reads for name, agent in agents.items()}
    assert reads == {
        "writer": ("public",),
        "checker": ("public", "group:writer"),
        "printer": ("public",),
    }


@pytest.mark.parametrize("offered", [[], ["supervisor"]])
def test_a_builder_that_is_not_offered(offered: list[str]) -> None:
    said = {"kind": "inside", "agent": "writer", "use": "review_loop"}
    found = read(said, builders=offered)
    assert [remark.code for remark in found.remarks if remark.error] == ["not_offered"]
    assert found.definition is None or found.definition.agents["writer"].pattern is None
    assert crew(said, builders=["review_loop"]).agents["writer"].pattern is not None


def test_a_builder_for_the_flow_is_no_pattern() -> None:
    found = read({"kind": "inside", "agent": "writer", "use": "supervisor"})
    assert "is for the flow" in found.remarks[0].diagnostic.message


NEVER = {"kind": "rule", "do": "never", "tools": ["deploy"]}


@pytest.mark.parametrize(
    ("given", "forbidden", "told"),
    [
        (["writer"], ["writer"], "'writer' may use 'deploy', and must never call it"),
        (["writer", "checker"], ["checker"], "'checker' may use 'deploy'"),
        (["writer"], [], "'writer' may use 'deploy'"),
        ([], [], "every agent may use 'deploy'"),
        ([], ["writer"], ""),
        (["writer"], ["checker"], ""),
    ],
)
def test_a_right_that_a_rule_takes_back(given: list[str], forbidden: list[str], told: str) -> None:
    found = read({**ALLOW, "agents": given}, {**NEVER, "agents": forbidden})
    assert found.ok
    messages = [each.diagnostic.message for each in found.remarks if each.code == "contradiction"]
    assert len(messages) == bool(told)
    assert all(told in message and "line 1, column 1" in message for message in messages)
    assert not any("no agent may call" in each.diagnostic.message for each in found.remarks)


def test_members_of_a_group_may_be_excepted() -> None:
    group = {"kind": "group", "name": "desk", "agents": ["writer", "checker"]}
    two = {**ALLOW, "agents": ["writer", "checker"]}
    assert read(group, two, {**NEVER, "agents": ["writer"]}).remarks == ()
