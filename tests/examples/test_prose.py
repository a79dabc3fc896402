"""The examples' prompts, which say the same crews in prose."""

from __future__ import annotations

import pytest

from crewlog import Registry, compile_prompt
from crewlog.client.catalog import registry_of

from .conftest import EXAMPLES


@pytest.mark.parametrize(
    ("example", "builder"),
    [("ops_hub", "hub"), ("workflow_builder", "stages"), ("feature_crew", "team")],
)
def test_a_prompt_is_understood_as_a_whole(example: str, builder: str) -> None:
    folder = EXAMPLES / example
    registry: Registry = registry_of(folder / "registry.yaml")
    found = compile_prompt((folder / "prompt.md").read_text(), registry)
    assert [each.diagnostic.message for each in found.remarks] == []
    assert found.definition is not None
    flow = found.definition.to_json()["flow"]
    assert [item["use"] for item in flow if isinstance(item, dict) and "use" in item] == [builder]


def test_the_team_in_prose_is_checked_reviewed_and_judged_like_the_one_in_yaml() -> None:
    folder = EXAMPLES / "feature_crew"
    found = compile_prompt(
        (folder / "prompt.md").read_text(), registry_of(folder / "registry.yaml")
    )
    assert found.definition is not None
    crew = found.definition.to_json()
    assert crew["flow"] == [
        {"agent": "init", "task": "copies the project into the workspace"},
        {
            "use": "team",
            "with": {
                "planner": "planner",
                "workers": ["pricing", "cart", "writer"],
                "approve": True,
                "at_once": 2,
                "checks": ["tests", "compiler", "linter"],
                "reviewer": "reviewer",
                "rounds": 2,
            },
        },
        "judge",
        {"if": "not judge.done", "go": "planner", "at_most": 1, "else": "ask_human"},
        "finisher",
    ]
    assert crew["agents"]["judge"]["ask_below"] == 0.7
    assert crew["permissions"]["write_file"] == ["pricing", "cart", "writer"]
