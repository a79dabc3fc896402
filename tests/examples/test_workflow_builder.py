"""The workflow builder at work: stages that see only what is theirs, and one workflow at last."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ruamel.yaml import YAML

from covers import covers
from crewlog import compile_prompt
from crewlog.client.catalog import registry_of
from crewlog.state.journal import ArtifactOperationsApplied, PermissionDenied
from shared import LIMIT, Lab

from .conftest import EXAMPLES, Inside

pytestmark = pytest.mark.server
REQUEST = (
    "Every morning at seven, look up the weather in Kyiv. If it rains, mail ana@example.org a "
    "friendly line about it. Note every day in a sheet."
)
NODES = ["Every morning", "Weather", "Does it rain", "Friendly line", "Mail", "Note the day"]


@pytest.fixture
def checking(inside: Inside) -> ModuleType:
    return inside("workflow_builder", "checking")[0]


def crew(file: str = "crew.yaml", **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = YAML(typ="safe").load(EXAMPLES / "workflow_builder" / file)
    return {**found, **changes}


async def built(lab: Lab, definition: dict[str, Any]) -> tuple[Any, Any, Any]:
    """The workflow, the result and the journal of a run for the request."""
    async with lab.worker():
        run = await lab.start(definition, REQUEST)
        result = await run.result(LIMIT)
        journal = [event.entry async for event in run.events()]
        return (await run.artifact("workflow")).content, result, journal


@covers("C76", "C80", "C85", "C86", "C88")
async def test_the_stages_build_a_valid_workflow(lab: Lab, checking: ModuleType) -> None:
    workflow, result, journal = await built(lab, crew())
    assert list(workflow["nodes"]) == NODES
    assert checking.faults_of(workflow) == []
    assert result.outputs["responder"]["text"].startswith("Every morning at seven in Kyiv")
    assert result.outputs["configurator"]["placeholders"] == ["YOUR_SHEET"]
    applied = [entry for entry in journal if isinstance(entry, ArtifactOperationsApplied)]
    assert len(applied) == 6 + 5 + 6
    assert {entry.agent for entry in applied} == {"builder", "configurator"}
    assert not any(isinstance(entry, PermissionDenied) for entry in journal)


@covers("C78", "C79", "C81", "C82", "C84", "C93", "C94")
async def test_each_stage_sees_what_is_its_own(
    lab: Lab, checking: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "prompts"
    monkeypatch.setenv("CREWLOG_SCRIPT_RECORD", str(record))
    await built(lab, crew())
    calls = [json.loads(line) for line in record.read_text().splitlines()]
    seen: dict[str, str] = {}
    for call in calls:
        seen[call["agent"]] = seen.get(call["agent"], "") + json.dumps(call["messages"])
    order, times = "only its true side leads", "Daily at 07:00 in Kyiv"
    assert order in seen["builder"]
    assert order not in seen["configurator"]
    assert times in seen["configurator"]
    assert times not in seen["builder"]
    assert all(REQUEST in text for text in seen.values())
    # Nobody sees what another stage said while it worked, or what its tools answered.
    assert "world.weather_forecast" in seen["discovery"]
    assert not any("world.weather_forecast" in seen[a] for a in seen if a != "discovery")
    assert "OpenWeather" not in seen["builder"]
    tools = {call["agent"]: set(call["tools"]) for call in calls}
    assert tools["builder"] == {"discovered_details", "add_node", "connect_nodes", "remove_node"}
    assert tools["responder"] == set()


async def test_the_crew_of_the_prompt_builds_the_same(lab: Lab, checking: ModuleType) -> None:
    folder = EXAMPLES / "workflow_builder"
    registry = registry_of(folder / "registry.yaml")
    found = compile_prompt((folder / "prompt.md").read_text(), registry)
    assert found.definition is not None
    told, result, _ = await built(lab, found.definition.to_json())
    ours, *_ = await built(lab, crew())
    assert told == ours
    assert "OpenWeather" in result.outputs["responder"]["text"]


@covers("C94")
async def test_a_monolith_builds_the_same_with_three_times_the_tokens(
    lab: Lab, checking: ModuleType
) -> None:
    staged, ours, _ = await built(lab, crew())
    alone, theirs, _ = await built(lab, crew("monolith.yaml"))
    assert staged == alone
    spent = [used.input_tokens + used.output_tokens for used in (ours.total, theirs.total)]
    assert spent[0] * 3 <= spent[1]


async def test_a_stage_that_is_cut_off_leaves_what_it_built(
    lab: Lab, checking: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "prompts"
    monkeypatch.setenv("CREWLOG_SCRIPT_RECORD", str(record))
    cut = crew()
    cut["agents"]["builder"]["max_calls"] = 2
    workflow, result, _ = await built(lab, cut)
    assert list(workflow["nodes"]) == NODES
    assert workflow["connections"] == {}
    assert result.outputs["builder"]["capped"] is True
    calls = [json.loads(line) for line in record.read_text().splitlines()]
    told = next(json.dumps(call["messages"]) for call in calls if call["agent"] == "responder")
    assert "The builder was cut off" in told
    assert "The configurator was cut off" not in told
