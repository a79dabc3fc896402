"""The examples' prompts, which say the same crews in prose."""

from __future__ import annotations

import pytest

from crewlog import Registry, compile_prompt
from crewlog.client.catalog import registry_of

from .conftest import EXAMPLES


@pytest.mark.parametrize(
    ("example", "builder"), [("ops_hub", "hub"), ("workflow_builder", "stages")]
)
def test_a_prompt_is_understood_as_a_whole(example: str, builder: str) -> None:
    folder = EXAMPLES / example
    registry: Registry = registry_of(folder / "registry.yaml")
    found = compile_prompt((folder / "prompt.md").read_text(), registry)
    assert [each.diagnostic.message for each in found.remarks] == []
    assert found.definition is not None
    assert found.definition.to_json()["flow"][0]["use"] == builder
