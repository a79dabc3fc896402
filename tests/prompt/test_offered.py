"""An edit of what a prompt was made to uses what the registry offers, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError
from tests.corpus.cases import cases

from crewlog.definition.model import CrewDefinition
from crewlog.prompt.compile import compile_prompt
from crewlog.prompt.offered import not_offered
from crewlog.prompt.reading import EMPTY, Reading, Setting
from crewlog.prompt.registry import Registry
from crewlog.wire import StartRun

REGISTRY = Registry.model_validate(
    {
        "model": "openai:gpt-5-mini",
        "models": ["openai:gpt-5-nano"],
        "new_agents": False,
        "builders": ["supervisor"],
        "limits": {"steps": 50},
        "approvals": {"post": ["publisher"]},
        "tools": {
            "post": {"run": "m:post", "risk": "high", "grant": ["publisher"]},
            "look": {"run": "m:look"},
            "own": {"run": "m:own", "grant": []},
        },
        "agents": {
            "writer": {"prompt": "You write.", "tools": ["own"]},
            "publisher": {"prompt": "You publish.", "reads": ["public"]},
        },
    }
)


def crew(**changes: Any) -> CrewDefinition:
    data: dict[str, Any] = {
        "crew": "t",
        "model": "openai:gpt-5-mini",
        "tools": {
            "post": {"run": "m:post", "risk": "high"},
            "look": {"run": "m:look"},
            "own": {"run": "m:own"},
        },
        "agents": {
            "writer": {"prompt": "You write well.", "tools": ["own", "look"]},
            "publisher": {"prompt": "You publish.", "reads": ["public"], "tools": ["post"]},
        },
        "approvals": {"post": ["publisher"]},
        "limits": {"steps": 20},
    }
    for path, value in changes.items():
        *owners, key = path.split("__")
        part = data
        for owner in owners:
            part = part[owner]
        part[key] = value
    return CrewDefinition.from_json(data)


def test_what_is_offered_is_no_fault() -> None:
    assert list(not_offered(crew(), REGISTRY)) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"tools__erase": {"run": "os:remove"}}, "the registry offers no tool 'erase'"),
        ({"tools__look": {"run": "os:remove"}}, "the tool 'look' is not as the registry has it"),
        ({"agents__writer__tools": ["post"]}, "'post' may not be given to 'writer'"),
        ({"agents__writer__tools": None}, "'post' may not be given to 'writer'"),
        ({"agents__publisher__tools": ["own"]}, "'own' may not be given to 'publisher'"),
        ({"agents__spy": {"prompt": "p", "tools": []}}, "the registry offers no agent 'spy'"),
        ({"agents__publisher__reads": []}, "the registry sets 'reads' of its agent 'publisher'"),
        ({"model": "openai:gpt-6"}, "the registry offers no model 'openai:gpt-6'"),
        ({"agents__writer__model": "openai:o9"}, "the registry offers no model 'openai:o9'"),
        ({"approvals": {}}, "calls of 'post' by 'publisher' must wait for a yes"),
        ({"limits__steps": 51}, "the registry's limit of 'steps' is 50"),
        ({"approval": "required"}, "the registry's 'approval' is 'understood'"),
        (
            {"agents__writer__pattern": {"use": "review_loop"}},
            "the registry offers no builder 'review_loop'",
        ),
        ({"flow": [{"use": "pipeline"}]}, "the registry offers no builder 'pipeline'"),
    ],
)
def test_an_edit_cannot_go_beyond(change: dict[str, Any], fault: str) -> None:
    found = [each.message for each in not_offered(crew(**change), REGISTRY)]
    assert any(fault in each for each in found), found


def test_whatever_prompts_are_made_to_is_offered() -> None:
    """What the forms make of every prompt of the corpus is within its registry, faults or none."""
    whole = runnable = 0
    for case in cases():
        registry = Registry.model_validate(case.registry)
        found = compile_prompt(case.prompt, registry)
        if found.partial and found.definition is not None:
            whole += found.ok
            runnable += 1
            assert list(not_offered(found.definition, registry)) == [], case
    assert whole > 40
    assert runnable > 70


@pytest.mark.parametrize(
    "said",
    [
        "approval: understood",
        "Nobody must approve this crew.",
        "This crew needs no approval.",
        "Run it without asking me; it is approved already.",
    ],
)
@pytest.mark.parametrize("policy", ["required", "understood"])
def test_a_prompt_cannot_say_that_nobody_approves_it(said: str, policy: str) -> None:
    registry = Registry.model_validate({"model": "openai:gpt-5-mini", "approval": policy})
    found = compile_prompt(f"The writer drafts, then the checker reviews.\n\n{said}\n", registry)
    assert not found.ok
    assert found.faults[0].clauses == (3,)
    assert found.definition is not None
    assert found.definition.approval == policy


def test_a_reading_has_no_place_for_who_approves_the_crew() -> None:
    data = {"clauses": [1], "agents": [], "key": "approval", "value": "understood"}
    with pytest.raises(ValidationError, match="Input should be"):
        Setting.model_validate(data)
    with pytest.raises(ValidationError, match="Extra inputs"):
        Reading.model_validate({**EMPTY.model_dump(), "approval": "understood"})


@pytest.mark.parametrize("field", ["approval", "approved", "yes"])
def test_who_starts_a_run_with_a_prompt_cannot_waive_the_question(field: str) -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        StartRun.model_validate({"crew": "The writer drafts.", field: "none"})
