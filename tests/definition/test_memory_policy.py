"""`memory:` in a definition: what is wrong with it, and that nothing of it is lost on the way."""

from __future__ import annotations

from typing import Any

import pytest

from crewlog.definition.apply import apply_operations
from crewlog.definition.diff import diff
from crewlog.definition.load import load_data, load_definition
from crewlog.definition.model import CrewDefinition, MemoryPolicy
from crewlog.definition.operations import EditCrew, EditPermission, RemoveAgent
from crewlog.definition.validate import check, warnings
from crewlog.definition.write import to_yaml
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.reporting.explanation import explain


def crew(memory: Any = None, **more: Any) -> CrewDefinition:
    agents = {
        "a": {"prompt": "p", "reads": ["public", "group:g"], "writes": ["public", "group:g"]},
        "b": {"prompt": "p", "reads": [], "writes": []},
    }
    data = {"crew": "t", "model": "openai:x", "agents": agents, "memory": memory or {}, **more}
    return CrewDefinition.from_json(data)


FAULTS: list[tuple[dict[str, Any], str, str]] = [
    ({"read": {"public": ["c"]}}, "agent 'c', which is not defined", "memory.read.public[0]"),
    ({"write": {"public": ["b"]}}, "'b', who does not write that log", "memory.write.public[0]"),
    ({"read": {"group:g": ["b"]}}, "'b', who does not read that log", "memory.read.group:g[0]"),
    ({"embedding": "hash:x"}, "neither PROVIDER:NAME nor hash:NUMBER", "memory.embedding"),
    ({"embedding": "gpt"}, "neither PROVIDER:NAME nor hash:NUMBER", "memory.embedding"),
]


@pytest.mark.parametrize(("memory", "message", "place"), FAULTS)
def test_each_fault_is_found_where_it_is(memory: Any, message: str, place: str) -> None:
    (fault,) = check(crew(memory))
    assert message in fault.message
    assert fault.place == place
    assert fault.remedy


@pytest.mark.parametrize(
    "memory",
    [
        {"read": {"private:a": None}},
        {"read": {"agent:a": None}},
        {"write": {"group:": None}},
        {"read": {"channel:x": None}},
        {"retention": 0},
        {"max": 0},
        {"longest": 100_001},
        {"language": "klingon"},
        {"redd": {}},
    ],
)
def test_a_shape_that_is_wrong_is_refused(memory: Any) -> None:
    with pytest.raises(InvalidDefinition):
        load_data(_plain() | {"memory": memory})


def test_a_scope_that_is_none_is_told_as_such() -> None:
    with pytest.raises(InvalidDefinition, match="'private:a' is not a scope of a memory") as info:
        load_data(_plain() | {"memory": {"read": {"private:a": None}}})
    assert "agent, public or group:NAME" in str(info.value)


def test_a_group_that_nobody_reads_is_warned_of() -> None:
    (warning,) = warnings(crew({"read": {"group:h": None}}, groups={"g": ["a"], "h": []}))
    assert "no agent reads the log 'group:h'" in warning.message


def test_a_group_that_there_is_not_is_refused_and_the_groups_are_named() -> None:
    for named, remedy in (("desks", "Did you mean 'desk'?"), ("h", "groups: g and desk.")):
        (fault,) = check(crew({"read": {f"group:{named}": ["a"]}}, groups={"g": ["a"], "desk": []}))
        assert f"memory.read names the group '{named}'" in fault.message
        assert remedy in fault.remedy


def test_the_tools_names_are_taken_where_there_is_a_memory() -> None:
    tools = {"memory_read": {"run": "m:f"}}
    (fault, *_) = check(crew(tools=tools))
    assert "a crew with a memory has one of that name" in fault.message
    without = CrewDefinition.from_json(
        {"crew": "t", "model": "openai:x", "agents": {"a": {"prompt": "p"}}, "tools": tools}
    )
    assert not check(without)
    agents = {"a": {"prompt": "p", "tools": ["memory_read"]}}
    (fault,) = check(crew(agents=agents))
    assert "comes by itself" in fault.message


def test_each_agent_is_offered_the_tools_that_it_has_a_scope_for() -> None:
    plan = lower(crew({"read": {"public": None}, "write": {"agent": ["b"]}}))
    tools = {name: rules.tools for name, rules in plan.agents.items()}
    assert tools == {"a": ("memory_read",), "b": ("memory_write",)}
    assert plan.tools["memory_write"].effects == "write"  # type: ignore[index]
    assert "memory" not in str(lower(CrewDefinition.from_json(_plain())).to_json())


def test_permissions_and_approvals_hold_for_the_memorys_tools() -> None:
    definition = crew(permissions={"memory_write": []}, approvals={"memory_read": None})
    assert not check(definition)
    access = {each.tool: each for each in explain(definition, "a").tools}  # type: ignore[arg-type]
    assert not access["memory_write"].is_allowed
    assert access["memory_read"].needs_approval
    assert access["memory_read"].reason == "it reads agent:a and public"
    (fault,) = check(CrewDefinition.from_json(_plain() | {"permissions": {"memory_read": []}}))
    assert "comes with 'memory:'" in fault.remedy
    changed = apply_operations(crew(), [EditPermission(tool="memory_write", agents=("a",))])
    assert changed.permissions == {"memory_write": ("a",)}


def _plain() -> dict[str, Any]:
    return {"crew": "t", "model": "openai:x", "agents": {"a": {"prompt": "p"}}}


WHOLE: dict[str, Any] = {
    "read": {"agent": None, "group:g": ["a"], "public": ["a"]},
    "write": {"agent": ["a", "b"]},
    "retention": 2592000.0,
    "max": 5,
    "longest": 100,
    "language": "english",
    "embedding": "openai:text-embedding-3-small",
}


@pytest.mark.parametrize("memory", [{}, {"retention": 60.0}, WHOLE])
def test_a_memory_survives_being_written(memory: Any) -> None:
    definition = crew(memory)
    assert load_definition(to_yaml(definition)) == definition
    assert CrewDefinition.from_json(definition.to_json()) == definition
    assert definition.memory == MemoryPolicy.from_json(memory)


def test_a_change_of_it_is_told_and_can_be_made() -> None:
    old = crew()
    new = apply_operations(old, [EditCrew(set={"memory": WHOLE})])
    assert new.memory == MemoryPolicy.from_json(WHOLE)
    assert {change.path[0] for change in diff(old, new).changes} == {"memory"}
    assert apply_operations(new, [EditCrew(set={"memory": None})]).memory is None


def test_an_agent_that_is_removed_leaves_no_name_behind() -> None:
    left = apply_operations(crew(WHOLE), [RemoveAgent(name="b")])
    assert left.memory is not None
    assert left.memory.write == {"agent": ("a",)}
    assert left.memory.read == crew(WHOLE).memory.read  # type: ignore[union-attr]


def test_rules_may_name_the_memorys_tools() -> None:
    rules = [
        {"tool": "memory_write", "agents": ["b"], "do": "never"},
        {"tool": "memory_read", "quota": "5 per run"},
    ]
    assert not check(crew(rules=rules))
    assert "which is not defined" in str(
        check(CrewDefinition.from_json(_plain() | {"rules": rules}))
    )
