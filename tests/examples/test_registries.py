"""What an example's registry offers to prose is what its crew has: both are written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crewlog.definition.load import load_file
from crewlog.prompt.registry_file import load_registry_file

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OFFERED = {"words", "grant"}
"""Fields that a registry alone has."""


@pytest.mark.parametrize("name", sorted(each.parent.name for each in EXAMPLES.glob("*/prompt.md")))
def test_a_registry_says_what_the_crew_says(name: str) -> None:
    crew = load_file(EXAMPLES / name / "crew.yaml")
    offer = load_registry_file(EXAMPLES / name / "registry.yaml")
    assert offer.model == crew.model
    differ: set[str] = set()
    for part in ("agents", "tools", "mcp"):
        said: dict[str, Any] = getattr(crew, part)
        for key, offered in getattr(offer, part).items():
            assert key in said, f"the crew has no {part}.{key}"
            fields = {**said[key].to_json(), **offered.to_json()}.keys() - OFFERED
            pairs = ((each, getattr(said[key], each), getattr(offered, each)) for each in fields)
            differ |= {f"{part}.{key}.{each}" for each, one, other in pairs if one != other}
    assert differ == set()
