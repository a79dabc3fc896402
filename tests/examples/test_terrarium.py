"""The terrarium: a root that brings workers, wires them, and retires them."""

from __future__ import annotations

from typing import Any

import pytest
from ruamel.yaml import YAML

from covers import covers
from crewlog.cli.ending import last_words
from crewlog.definition.load import load_file
from crewlog.definition.validate import warnings
from shared import LIMIT, Lab

from .conftest import EXAMPLES, Inside

FOLDER = EXAMPLES / "terrarium"


def test_nothing_is_said_against_it() -> None:
    assert not warnings(load_file(FOLDER / "crew.yaml"))


@covers("C99", "C113", "C115")
@pytest.mark.server
async def test_a_keeper_has_two_diggers_look_one_after_the_other(inside: Inside, lab: Lab) -> None:
    inside("terrarium", "tools")
    crew: dict[str, Any] = YAML(typ="safe").load(FOLDER / "crew.yaml")
    async with lab.worker():
        run = await lab.start(crew, "Find the gold coin.")
        result = await run.result(LIMIT)
    assert (result.status, result.flags["found"]) == ("completed", True)
    assert result.outputs["keeper"]["text"] == "There is a gold coin in the west, 12 cm down."
    assert last_words(result) == result.outputs["keeper"]["text"], "what the run printed"
    assert result.outputs["east"]["text"] == "In the east there is nothing but sand."
    entries = [row.entry for row in await lab.store.read_journal(run.id, 0)]
    events = [
        (event["event"], event["agent"])
        for entry in entries
        for event in entry.get("events", ())
        if event["event"].startswith("CREATURE_")
    ]
    assert events == [
        ("CREATURE_STARTED", "east"),
        ("CREATURE_STOPPED", "east"),
        ("CREATURE_STARTED", "west"),
        ("CREATURE_STOPPED", "west"),
    ]
    calls = [entry for entry in entries if entry["kind"] == "ToolCallCompleted"]
    assert all(entry.get("ok", True) for entry in calls)
    assert {entry["by"] for entry in entries if entry["kind"] == "ComponentChanged"} == {"keeper"}
    assert not [entry for entry in entries if entry["kind"] == "PermissionDenied"]
