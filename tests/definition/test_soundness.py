"""Soundness: crews that are well formed and could not work as they are meant."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.validate import all_findings

AGENTS = {
    "writer": {"prompt": "p"},
    "checker": {"prompt": "p", "writes_flags": ["approved"], "outputs": ["score"]},
    "editor": {"prompt": "p"},
}
LOOP = {"if": "not approved", "go": "writer", "at_most": 3}


def _crew(flow: list[Any], **more: Any) -> CrewDefinition:
    data = {"crew": "t", "model": "openai:x", "agents": AGENTS, "flow": flow}
    return load_data({**data, **more})


def _unsound(flow: list[Any], **more: Any) -> list[str]:
    return [each.message for each in all_findings(_crew(flow, **more)) if each.unsound]


@pytest.mark.parametrize(
    ("flow", "said"),
    [
        (
            [{"agent": "writer", "only_if": "approved"}, "checker", "editor"],
            "'writer' needs 'approved', and no earlier step sets it",
        ),
        (
            [{"agent": "writer", "when": "checker.approved"}, "checker", "editor"],
            "'writer' needs 'checker.approved', and no earlier step sets it",
        ),
        (
            ["writer", "checker", LOOP, {"agent": "editor", "after": "writer"}],
            "'editor' follows 'writer', which the loop of 'after_checker' repeats",
        ),
        (
            [
                "checker",
                {
                    "parallel": [
                        {"agent": "writer", "only_if": "approved"},
                        {"agent": "checker", "phase": "c2", "only_if": "not approved"},
                    ],
                    "join": "any",
                },
                "editor",
            ],
            "'editor' waits for 1 of writer and c2, and each of them may be skipped",
        ),
    ],
    ids=["undecided", "never decided", "bypassed", "all skipped"],
)
def test_what_could_not_work_is_a_warning_of_a_file(flow: list[Any], said: str) -> None:
    found = _unsound(flow)
    assert len(found) == 1, found
    assert found[0].startswith(said)


@pytest.mark.parametrize(
    "flow",
    [
        ["writer", "checker", LOOP, "editor"],
        ["writer", "checker", {"agent": "editor", "only_if": "checker.score > 1"}],
        [["writer", "checker"], {"agent": "editor", "after": "writer", "when": "checker.approved"}],
        ["checker", {"agent": "writer", "only_if": "approved"}, "editor"],
        ["writer", "checker", LOOP, {"agent": "editor", "after": ["writer", "after_checker"]}],
        [
            "writer",
            {"agent": "checker", "on_error": "editor"},
            LOOP,
            {"agent": "editor", "after": "go"},
        ],
    ],
)
def test_what_works_is_not_warned_of(flow: list[Any]) -> None:
    assert _unsound(flow) == []


def test_an_approval_of_a_tool_that_nobody_has_is_unsound() -> None:
    tools = {"deploy": {"run": "m:deploy"}}
    agents = {name: {**agent, "tools": []} for name, agent in AGENTS.items()}
    found = _unsound(
        ["writer", "checker", "editor"],
        tools=tools,
        agents=agents,
        approvals={"deploy": None},
    )
    assert found == ["calls of 'deploy' wait for a yes, and no agent may call it"]


@pytest.mark.parametrize(
    ("flow", "rule", "unsound"),
    [
        (["writer", "checker"], {"if": "not approved"}, True),
        (["writer", "checker"], {"if": "checker.score < 3", "agents": ["writer"]}, True),
        (["writer", "checker"], {"if": "approved", "agents": ["group:desk"]}, True),
        (["checker", "writer"], {"if": "not approved"}, False),
        ([["checker", "writer"]], {"if": "not approved"}, False),
        (["writer", "checker", LOOP], {"if": "not approved"}, False),
        (["writer", "checker"], {"if": "not urgent"}, False),
        (["writer", "checker", {"agent": "writer", "phase": "w2"}], {"if": "approved"}, False),
    ],
    ids=["before", "output", "group", "after", "beside", "loop", "a flag of people", "again"],
)
def test_a_rule_whose_condition_is_set_too_late(
    flow: list[Any], rule: dict[str, Any], unsound: bool
) -> None:
    agents = {**AGENTS, "writer": {"prompt": "p", "tools": ["send"]}}
    rules = [{"tool": "send", "do": "never", "agents": ["writer"], **rule}]
    found = _unsound(
        [*flow, "editor"],
        agents=agents,
        rules=rules,
        tools={"send": {"run": "m:send"}},
        flags={"urgent": False},
        groups={"desk": ["writer"]},
    )
    assert bool(found) == unsound, found
    if unsound:
        assert "which checker sets only after the last work of writer" in found[0]
