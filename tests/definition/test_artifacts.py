"""Artifacts and scratch notes of a definition: what is wrong with them, each at its place."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.authority.widening import widening
from crewlog.definition.apply import apply_operations
from crewlog.definition.artifacts import LARGEST_INITIAL
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import RemoveAgent
from crewlog.definition.validate import all_findings
from crewlog.graph.lowering.plans import lower


def crew(agents: dict[str, Any] | None = None, **more: Any) -> CrewDefinition:
    """A crew of `a`, and of `b`, which works for it."""
    own = {"a": {}, "b": {"parent": "a"}, "c": {}}
    written = {
        name: {"prompt": "P", **said, **(agents or {}).get(name, {})} for name, said in own.items()
    }
    return CrewDefinition.from_json({"crew": "t", "model": "scripted:x", "agents": written, **more})


def doc(**said: Any) -> dict[str, Any]:
    return {"artifacts": {"doc": said}}


def deep(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels):
        value = {"a": value}
    return value


TOOL = {"run": "m:f", "effects": "read"}


@pytest.mark.parametrize(
    ("agents", "more", "place", "why"),
    [
        ({}, doc(readers=["zoe"]), "artifacts.doc.readers.0", "names the agent 'zoe'"),
        ({}, doc(writers=["a", "group:g"]), "artifacts.doc.writers.1", "names the group 'g'"),
        ({}, doc(writers=["b"]), "artifacts.doc.writers", "'b' may change the artifact 'doc'"),
        ({}, doc(schema={"type": "objekt"}), "artifacts.doc.schema", "'doc' is none"),
        ({}, doc(schema={"$ref": "#/no"}), "artifacts.doc.schema", "leads nowhere: #/no"),
        ({}, doc(initial=deep(120)), "artifacts.doc.initial", "no run can keep"),
        ({}, doc(initial="x" * LARGEST_INITIAL), "artifacts.doc.initial", "there may be 65,536"),
        ({"c": {"reads": ["artifact:doc"]}}, doc(), "agents.c.reads.0", "which is not a log"),
        ({"a": {"scratch": {}}}, {"tools": {"note": TOOL}}, "tools.note", "scratch notes has one"),
        ({"a": {"scratch": {}, "tools": ["notes"]}}, {}, "agents.a.tools.0", "comes by itself"),
        ({"c": {"scratch": {"readers": ["zoe"]}}}, {}, "agents.c.scratch.readers.0", "'zoe'"),
        ({"c": {"scratch": {"readers": ["b"]}}}, {}, "agents.c.scratch.readers", "notes of 'c'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_its_place(
    agents: dict[str, Any], more: dict[str, Any], place: str, why: str
) -> None:
    found = [each for each in all_findings(crew(agents, **more)) if each.severity == "error"]
    assert [".".join(map(str, each.path)) for each in found] == [place]
    assert why in found[0].message


def test_a_crew_without_scratch_notes_may_call_its_tools_as_it_likes() -> None:
    assert lower(crew(tools={"note": TOOL, "notes": TOOL})).agents["a"].tools == ("note", "notes")


def test_a_plan_says_who_sees_and_who_changes_what() -> None:
    said = {"groups": {"g": ["a", "c"]}, "artifacts": {"doc": {"writers": ["group:g"]}, "all": {}}}
    plan = lower(crew({"c": {"scratch": {"readers": ["a"]}}}, **said))
    found = {name: (rules.readers, rules.writers) for name, rules in plan.artifacts.items()}
    assert found == {
        "doc": (None, ("a", "c")),
        "all": (None, None),
        "c.notes": (("c", "a"), ("c",)),
    }
    assert [plan.agents[name].tools for name in ("a", "b", "c")] == [
        ("notes",), (), ("note", "notes")
    ]  # fmt: skip


def test_more_readers_or_writers_are_more_authority() -> None:
    old = crew(artifacts={"doc": {"writers": ["a"]}})
    assert widening(old, old) == ()
    assert widening(old, crew(artifacts={"doc": {}})) == (
        "artifact doc: writers a → all who list it",
    )
    noted = crew({"c": {"scratch": {}}})
    assert widening(noted, crew({"c": {"scratch": {"readers": ["a"]}}}))


def test_an_agent_that_is_removed_sees_and_changes_nothing_any_more() -> None:
    old = crew({"a": {"scratch": {"readers": ["c"]}}}, artifacts={"doc": {"writers": ["a", "c"]}})
    new = apply_operations(old, [RemoveAgent(name="c")])
    assert new.artifacts["doc"].writers == ("a",)
    assert new.agents["a"].scratch is not None
    assert new.agents["a"].scratch.readers == ()


def test_an_artifact_is_loaded_as_it_is_written() -> None:
    data = {
        "crew": "t",
        "model": "scripted:x",
        "agents": {"a": {"prompt": "P", "scratch": {"most": 3}}},
        "artifacts": {"doc": {"schema": {"type": "array"}, "initial": [], "readers": []}},
    }
    loaded = load_data(data)
    assert loaded.artifacts["doc"].to_json() == {
        "schema": {"type": "array"}, "initial": [], "readers": []
    }  # fmt: skip
    assert CrewDefinition.from_json(loaded.to_json()) == loaded
