"""A definition in English: what it reads like, and what it says that it cannot say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from tests.corpus.cases import Case, cases, differences, meaning
from tests.prompt.strategies import crews, registry_for

from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.prompt.compile import compile_prompt, compiled
from crewlog.prompt.english import expressible, in_english, other_words, to_english
from crewlog.prompt.registry import Registry
from crewlog.prompt.saying import say

GATHERS = "You are the collector. Your part: gathers the changes."
CHECKS = {"prompt": "You are the style checker.", "tools": []}
NOTES: dict[str, Any] = {
    "crew": "release-notes",
    "model": "openai:gpt-5-mini",
    "agents": {
        "collector": {"prompt": GATHERS, "tools": []},
        "writer": {"prompt": "You are the writer.", "tools": ["write_file"]},
        "style_checker": {**CHECKS, "writes_flags": ["approved"]},
    },
    "tools": {"write_file": {"run": "notes:write_file", "effects": "write"}},
    "flow": [
        "collector",
        "writer",
        "style_checker",
        {"if": "not approved", "go": "writer", "at_most": 3, "else": "ask_human"},
    ],
    "permissions": {"write_file": ["writer"]},
}

REVIEW = {"use": "review", "with": {"author": "writer", "reviewer": "style_checker"}}
JUMP = {"if": "approved", "go": "style_checker"}


def _with(**changes: Any) -> CrewDefinition:
    return load_data({**NOTES, **changes})


def _agent(**changes: Any) -> dict[str, Any]:
    return {**NOTES["agents"], "writer": {**NOTES["agents"]["writer"], **changes}}


def test_a_crew_reads_like_a_prompt() -> None:
    assert to_english(load_data(NOTES)) == (
        "# Release notes\n"
        "\n"
        "There are three agents: a collector, a writer and a style checker.\n"
        "\n"
        "First, the collector gathers the changes.\n"
        "Then the writer works.\n"
        "Then the style checker works.\n"
        "Unless approved, go back to the writer, at most 3 times, otherwise ask me.\n"
        "\n"
        "- Only the writer may use write_file.\n"
    )


def test_whoever_is_asked_about_may_go_back_to_who_works_beside() -> None:
    """Both wait for the collector; the one that is gone back to must have been named before."""
    ask = {"ask": "Now?", "options": ["approve", "writer"], "phase": "before_style_checker"}
    flow = ["collector", "writer", {**ask, "after": "collector"}, "style_checker"]
    crew = _with(flow=flow, agents={**NOTES["agents"], "style_checker": CHECKS})
    registry = registry_for(crew)
    assert expressible(crew, registry) == []
    english = to_english(crew, registry)
    assert english.endswith(
        "Then the writer works.\n"
        "Ask me before the style checker starts. If I reject it, back to the writer.\n"
        "After the collector finishes, the style checker works.\n"
        "\n"
        "- Only the writer may use write_file.\n"
    )
    made = compile_prompt(english, registry)
    assert made.definition is not None
    assert differences(meaning(crew), meaning(made.definition)) == []


@pytest.mark.parametrize(
    ("changes", "unsaid"),
    [
        ({"agents": _agent(max_calls=3)}, "max_calls of the agent 'writer'"),
        ({"agents": _agent(retry={"attempts": 2})}, "retry of the agent 'writer'"),
        ({"agents": _agent(model_settings={"temperature": 0})}, "model_settings of the agent"),
        ({"agents": _agent(outputs=["title"])}, "has the output 'title', which nothing asks for"),
        ({"agents": _agent(writes_flags=["late"])}, "the flag 'late', which nothing asks for"),
        ({"agents": _agent(writes=["public", "channel:x"])}, "where 'writer' writes: public and"),
        ({"agents": _agent(reads=["public", "channel:x"])}, "'writer' reads 'channel:x'"),
        ({"agents": _agent(pattern={"use": "planner_executor", "off": ["plan"]})}, "the pattern"),
        ({"crew": "Release_Notes"}, "the crew's name 'Release_Notes'"),
        ({"flags": {"weekend": True}}, "the first values of flags: weekend"),
        ({"approval": "required"}, "who must approve it: required"),
        ({"limits": {"events": 100}}, "the bound of 100 events"),
        ({"limits": {"steps": 20_000}}, "more steps than 10000"),
        ({"permissions": {"write_file": None}}, "the permission of 'write_file' for everyone"),
        ({"permissions": {"write_file": ["collector", "writer"]}}, "for 'collector', which has it"),
        ({"approvals": {"write_file": []}}, "the approval of 'write_file' for nobody"),
        (
            {"flow": ["collector", {"agent": "writer", "phase": "draft"}, "style_checker"]},
            "the phase's name 'draft', which would be 'writer'",
        ),
        (
            {"flow": ["collector", "writer", "style_checker", {"ask": "?", "phase": "really"}]},
            "the phase's name 'really'",
        ),
        (
            {"flow": [*NOTES["flow"], {"ask": "Which?", "options": ["red", "green", "blue"]}]},
            "the answers to 'ask_1': red, green or blue",
        ),
        (
            {"flow": [*NOTES["flow"], {"ask": "Which?", "sets": "colour"}]},
            "that the answer to 'ask_1' sets 'colour'",
        ),
        ({"flow": ["collector", REVIEW]}, "the builder 'review'"),
        (
            {"flow": ["collector", JUMP, "writer", "style_checker"]},
            "where the decision 'after_collector' goes",
        ),
    ],
)
def test_what_cannot_be_said_is_named(changes: dict[str, Any], unsaid: str) -> None:
    assert any(unsaid in line for line in expressible(_with(**changes)))


def test_other_words_are_named() -> None:
    crew = _with(
        description="Writes notes.",
        agents=_agent(prompt="Write.\n\nKeep it short.", description="It writes."),
        flow=[*NOTES["flow"], {"ask": "Are they good?"}],
    )
    assert expressible(crew) == []
    assert other_words(crew) == [
        "the question 'ask_1': Are they good?",
        "the crew's description",
        "the description of the agent 'writer'",
        "the prompt of the agent 'writer', word for word",
    ]


def test_what_stands_in_the_registry_is_not_said() -> None:
    registry = Registry.model_validate(
        {
            "model": "openai:gpt-5-mini",
            "agents": {"writer": {"prompt": "Write.", "tools": ["write_file"]}},
            "tools": NOTES["tools"],
            "limits": {"steps": 40},
            "approvals": {"write_file": None},
        }
    )
    crew = _with(
        agents=_agent(prompt="Write."),
        limits={"steps": 40},
        approvals={"write_file": None},
        permissions={},
    )
    assert expressible(crew, registry) == []
    assert to_english(crew, registry).endswith("otherwise ask me.\n")


def _assembled(crew: CrewDefinition, registry: Registry) -> list[str]:
    made = compiled("x", say(crew, registry).tree(), registry)
    assert made.ok, [r.diagnostic.message for r in made.remarks]
    assert made.definition is not None
    return differences(meaning(crew), meaning(made.definition))


@pytest.mark.parametrize("case", [pytest.param(c, id=c.name) for c in cases()])
def test_the_statements_of_a_crew_make_the_crew(case: Case) -> None:
    offered = {k: v for k, v in case.registry.items() if k in Registry.model_fields}
    registry = Registry.model_validate(offered)
    assert expressible(case.expected, registry) == []
    assert _assembled(case.expected, registry) == []


@settings(max_examples=150, deadline=None)
@given(crews(plain=True))
def test_the_statements_of_any_crew_make_the_crew(crew: CrewDefinition) -> None:
    registry = registry_for(crew)
    assert expressible(crew, registry) == []
    assert _assembled(crew, registry) == []


@settings(max_examples=100, deadline=None)
@given(crews(plain=False))
def test_any_crew_is_said_or_says_what_is_missing(crew: CrewDefinition) -> None:
    registry = registry_for(crew)
    said = say(crew, registry)
    assert in_english(said).startswith("# ")
    if not said.unsaid:
        assert _assembled(crew, registry) == []
