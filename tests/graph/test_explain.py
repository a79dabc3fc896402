"""A node explained: what it waits for, what may follow, what it may call and why not."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.errors import UsageError
from crewlog.graph.lowering.plans import lower
from crewlog.reporting.explanation import explain
from graph.crews import crew

TOOLS = {
    "read_file": {"run": "t:read_file", "effects": "read"},
    "write_file": {"run": "t:write_file", "effects": "write", "retry": "keyed"},
    "deploy": {"run": "t:deploy", "risk": "high"},
    "delete": {"run": "t:delete"},
}
AGENTS: dict[str, Any] = {
    "writer": {"prompt": "Write.", "tools": ["write_file", "deploy"], "max_calls": 7},
    "checker": {
        "prompt": "Check.",
        "tools": ["read_file", "write_file"],
        "reads": ["public", "group:editors"],
        "writes": ["group:editors"],
        "writes_flags": ["approved"],
        "outputs": ["score"],
        "model": "openai:other",
        "pattern": "review_loop",
    },
    "publisher": {"prompt": "Publish."},
}
FLOW: list[Any] = [
    {"agent": "writer", "task": "Draft the notes."},
    "checker",
    {"if": "not approved", "go": "writer", "at_most": 3, "else": "ask_human"},
    {"ask": "Publish?", "options": ["yes", "writer", "no"], "phase": "gate"},
    {"agent": "publisher", "when": "checker.score >= 0.8", "only_if": "approved"},
]
MORE: dict[str, Any] = {
    "tools": TOOLS,
    "permissions": {"write_file": ["writer"], "delete": []},
    "approvals": {"deploy": ["writer"]},
}


def test_an_agent_is_explained_whole() -> None:
    found = explain(crew(FLOW, AGENTS, **MORE), "writer")
    assert (found.kind, found.agent, found.is_entry_point) == ("agent", "writer", True)
    assert found.path == ("flow", 0)
    assert (found.task, found.prompt, found.model) == ("Draft the notes.", "Write.", "openai:x")
    assert [(way.to, way.condition) for way in found.incoming_edges] == [
        ("after_checker", "not approved (≤ 3)"),
        ("gate", "writer"),
    ]
    assert [way.to for way in found.outgoing_edges] == ["checker"]
    assert found.reads == ("public", "private:writer")
    assert found.writes == ("public",)
    assert found.limits["max_calls"] == 7


def test_each_tool_has_a_reason() -> None:
    found = explain(crew(FLOW, AGENTS, **MORE), "writer")
    tools = {each.tool: (each.is_allowed, each.reason, each.needs_approval) for each in found.tools}
    assert tools == {
        "write_file": (True, "permissions name it", False),
        "deploy": (True, "among its tools", True),
        "read_file": (False, "not among its tools", False),
        "delete": (False, "permissions let nobody call it", False),
    }
    assert [each.is_allowed for each in found.tools] == [True, True, False, False]
    deploy = next(each for each in found.tools if each.tool == "deploy")
    assert (deploy.effects, deploy.retry_mode, deploy.risk) == ("external", "never", "high")
    inherits = explain(crew(FLOW, AGENTS, **MORE), "publisher")
    why = {each.tool: each.reason for each in inherits.tools}
    assert why["read_file"] == "it has every tool"
    assert why["write_file"] == "permissions let only writer call it"


def test_what_an_agent_decides_is_told() -> None:
    found = explain(crew(FLOW, AGENTS, **MORE), "checker")
    assert (found.flags[0], found.outputs[0]) == ("approved", "score")
    assert (found.pattern, found.model) == ("review_loop", "openai:other")
    assert found.reads == ("public", "group:editors", "private:checker")
    assert found.writes == ("group:editors",)
    tools = {each.tool: each.reason for each in found.tools if each.is_allowed}
    assert tools["set_flag"].startswith("it declares approved")
    denied = {each.tool: each.reason for each in found.tools if not each.is_allowed}
    assert denied["write_file"] == "permissions let only writer call it"


def test_what_a_pattern_made_says_so() -> None:
    definition = crew(FLOW, AGENTS, **MORE)
    assert explain(definition, "writer").part == ""
    assert explain(definition, "gate").path == ("flow", 3)
    inside = [name for name in lower(definition).nodes if name.startswith("checker.")]
    assert inside
    for name in inside:
        found = explain(definition, name)
        assert found.path == ("flow", 1)
        assert found.part == "the pattern 'review_loop' of 'checker'"


def test_decisions_and_questions_are_explained() -> None:
    definition = crew(FLOW, AGENTS, **MORE)
    decision = explain(definition, "after_checker")
    assert [(way.to, way.condition) for way in decision.outgoing_edges] == [
        ("writer", "not approved (≤ 3)"),
        ("people", "else, after 3 times"),
        ("gate", "the condition does not hold"),
    ]
    asked = explain(definition, "gate")
    assert (asked.kind, asked.question) == ("ask", "Publish?")
    assert asked.options == ("yes", "writer", "no")
    assert [(way.to, way.condition) for way in asked.outgoing_edges] == [
        ("writer", "writer"),
        ("end", "no"),
        ("publisher", ""),
    ]
    assert not asked.tools
    last = explain(definition, "publisher")
    assert last.conditions == (
        (
            "once reached, it waits until checker.score >= 0.8; where it can no longer come true, "
            "people are asked"
        ),
        "skipped unless approved",
    )
    assert [way.to for way in last.outgoing_edges] == ["end"]


def test_joins_are_counted() -> None:
    flow = [{"parallel": ["a", "b", "c"], "join": 2}, "d", {"agent": "e", "after": ["a", "d"]}]
    definition = crew(flow)
    d = explain(definition, "d")
    assert (d.sources, d.need) == (("a", "b", "c"), 2)
    assert [(way.to, way.join) for way in explain(definition, "a").outgoing_edges] == [
        ("d", "once 2 of a, b and c are done"),
        ("e", "once d is done, too"),
    ]


def test_an_unknown_node_has_a_remedy() -> None:
    with pytest.raises(UsageError, match="the crew 't' has no node 'wrter'") as caught:
        explain(crew(FLOW, AGENTS, **MORE), "wrter")
    assert caught.value.remedy == "Did you mean 'writer'?"
    with pytest.raises(UsageError) as caught:
        explain(crew(["a", "b"]), "zzz")
    assert caught.value.remedy == "Its nodes are: a, b."
