"""Rules and groups, one operation at a time."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from crewlog.definition.apply import apply_operations
from crewlog.definition.diff import diff
from crewlog.definition.load import load_data, load_definition
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import Operation
from crewlog.definition.write import to_yaml
from crewlog.errors import InvalidDefinition

OPERATIONS: TypeAdapter[tuple[Operation, ...]] = TypeAdapter(tuple[Operation, ...])
NEVER = {"tool": "send", "agents": ["group:all"], "do": "never", "if": "not ok", "reason": "Wait."}
CREW = load_data(
    {
        "crew": "t",
        "model": "openai:x",
        "agents": {"a": {"prompt": "p"}, "b": {"prompt": "p", "writes_flags": ["ok"]}},
        "tools": {"read": {"run": "m:read"}, "send": {"run": "m:send"}},
        "groups": {"all": ["a", "b"]},
        "rules": [NEVER, {"tool": ["read", "send"], "quota": "5 per run"}],
        "timezone": "Europe/Berlin",
    }
)


def after(*operations: dict[str, Any]) -> CrewDefinition:
    return apply_operations(CREW, OPERATIONS.validate_python(operations))


def faults(*operations: dict[str, Any]) -> list[tuple[str, str]]:
    with pytest.raises(InvalidDefinition) as caught:
        after(*operations)
    return [(each.place, str(each.message)) for each in caught.value.diagnostics]


def test_rules_are_added_edited_and_removed() -> None:
    rule = {"tool": "read", "do": "ask", "agents": ["a"]}
    crew = after({"op": "add_rule", "rule": rule})
    assert [r.do for r in crew.rules] == ["never", "always", "ask"]
    crew = after({"op": "edit_rule", "place": 1, "set": {"quota": "2 per day", "reason": "Cost."}})
    assert (crew.rules[1].quota, crew.rules[1].reason) == ("2 per day", "Cost.")
    crew = after({"op": "edit_rule", "place": 0, "set": {"agents": None}})
    assert crew.rules[0].agents is None
    crew = after({"op": "remove_rule", "place": 0})
    assert [r.quota for r in crew.rules] == ["5 per run"]


def test_groups_are_set_and_removed() -> None:
    crew = after(
        {"op": "set_group", "name": "all", "agents": ["b", "b"]},
        {"op": "set_group", "name": "few", "agents": ["a"]},
    )
    assert crew.groups == {"all": ("b",), "few": ("a",)}
    crew = after({"op": "remove_rule", "place": 0}, {"op": "remove_group", "name": "all"})
    assert crew.groups == {}


def test_what_is_wrong_is_said_at_its_operation() -> None:
    (place, say), *_ = faults({"op": "add_rule", "rule": {"tool": "sned", "do": "ask"}})
    assert "sned" in say
    assert place.startswith("operations[0].rule")
    (place, say), *_ = faults({"op": "edit_rule", "place": 7, "set": {"do": "ask"}})
    assert (place, say) == ("operations[0].place", "the crew has no rules[7]")
    (place, say), *_ = faults({"op": "edit_rule", "place": 1, "set": {"quota": "many"}})
    assert place.startswith("operations[0].set.quota")
    (place, say), *_ = faults({"op": "remove_group", "name": "all"})
    assert "group 'all'" in say
    (place, say), *_ = faults({"op": "set_group", "name": "few", "agents": ["c"]})
    assert (place, say) == ("operations[0].agents[0]", "the crew has no agent 'c'")
    (place, say), *_ = faults({"op": "remove_group", "name": "al"})
    assert say == "the crew has no group 'al'"


def test_they_survive_yaml_and_are_told_apart() -> None:
    assert load_definition(to_yaml(CREW), "crew.yaml") == CREW
    crew = after(
        {"op": "edit_rule", "place": 0, "set": {"do": "ask"}},
        {"op": "set_group", "name": "all", "agents": ["a"]},
    )
    assert load_definition(to_yaml(crew), "crew.yaml") == crew
    words = [change.words for change in diff(CREW, crew).changes]
    assert words == ["group all: – b", "rules[0]: do never → ask"]  # noqa: RUF001
    gone = after({"op": "remove_rule", "place": 1})
    (change,) = diff(CREW, gone).changes
    assert change.path == ("rules", "rules[1]")
    assert change.words == "rule removed: read and send at most 5 per run"
