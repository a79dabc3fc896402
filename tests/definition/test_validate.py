# ruff: noqa: E501  (tables of cases: a case is a line)
"""What a definition means: every check finds its fault, and nothing else."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import jsonschema
import pytest

from crewlog.definition.content import definition_hash
from crewlog.definition.load import load_data
from crewlog.definition.model import CrewDefinition
from crewlog.definition.schema import json_schema, schema_text
from crewlog.definition.validate import check
from crewlog.errors import InvalidDefinition


def crew(flow: list[Any] | None = None, **more: Any) -> dict[str, Any]:
    """A crew of a, b and c that write the flags of their names plus `_ok`, and the output
    `score`."""
    agents: dict[str, Any] = {
        name: {"prompt": "p", "writes_flags": [f"{name}_ok"], "outputs": ["score"]}
        for name in ("a", "b", "c")
    }
    agents.update(more.pop("agents", {}))
    data = {"crew": "t", "model": "openai:x", "agents": agents, **more}
    data["tools"] = {"git_log": {"run": "m:git_log"}} | more.get("tools", {})
    return data | ({"flow": flow} if flow is not None else {})


def faults(data: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(d.message, d.remedy, d.place) for d in check(CrewDefinition.from_json(data))]


GOOD: list[list[Any]] = [
    ["a", "b", "c"],
    [["a", "b"], "c"],
    ["a", "b", "c", {"if": "not c_ok", "go": "a", "at_most": 3, "else": "ask_human"}],
    [
        "a",
        "b",
        {"agent": "c", "when": "b.b_ok and a.score >= 0.5 and a.text != ''", "else": "skip"},
    ],
    ["a", {"if": "a_ok", "go": "c"}, "b", {"agent": "c", "after": "go"}],
    [{"ask": "Go?", "options": ["yes", "c", "stop"], "sets": "go_ok"}, "a", ["b", "c"]],
    [{"parallel": ["a", "b", {"ask": "Ok?"}], "join": 2}, {"agent": "c", "only_if": "not a_ok"}],
    ["a", "b", {"agent": "a", "phase": "again"}, {"agent": "c", "after": {"any": ["b", "again"]}}],
    ["a", {"if": "a_ok", "go": "end"}, "b", {"if": "b_ok", "go": "a", "at_most": 1}, "c"],
]


@pytest.mark.parametrize("flow", GOOD)
def test_good_flows_have_no_fault(flow: list[Any]) -> None:
    assert faults(crew(flow)) == []
    assert load_data(crew(flow)).to_json()["flow"]


@pytest.mark.parametrize(
    ("flow", "message", "remedy", "place"),
    [
        (["a", "bb", "b", "c"], "the agent 'bb', which is not defined", "'b'", "flow[1].agent"),
        (["a", "b"], "agent 'c' is in no phase of the flow", "Add '- c'", "agents.c"),
        (["a", "b", "c", "a"], "'a' is in the flow twice", "phase: a_again", "flow[3]"),
        (
            ["a", "b", {"agent": "c", "phase": "x"}, {"agent": "c", "phase": "x"}],
            "two phases are called 'x'", "another name", "flow[3].phase",
        ),
        (["a", "b", {"agent": "c", "after": "bb"}], "'bb', which is not in the flow", "'b'", "flow[2].after"),
        (
            [{"agent": "a", "phase": "first"}, {"agent": "b", "after": "a"}, "c"],
            "waits for the phase 'a'", "The agent 'a' has the phase 'first'", "flow[1].after",
        ),
        (
            ["a", "b", {"agent": "c", "after": {"quorum": 3, "of": ["a", "b"]}}],
            "waits for 3 of 2 phases", "At most 2", "flow[2].after",
        ),
        ([{"parallel": ["a", "b"], "join": 3}, "c"], "'c' waits for 3 of 2", "At most 2", "flow[1].after"),
        (["a", "b", {"agent": "c", "after": ["a", "a"]}], "waits for 'a' twice", "once", "flow[2].after"),
        (
            ["a", {"agent": "b", "after": "c"}, {"agent": "c", "after": "b"}],
            "none can start: b → c → b", "at_most", "flow[1].after",
        ),
        (
            ["a", "b", "c", {"if": "not c_ok", "go": "b"}],
            "'after_c' goes back to 'b' without a bound: b → c → after_c → b", "at_most: 3", "flow[3].go",
        ),
        (
            ["a", "b", "c", {"if": "not c_ok", "go": "b", "at_most": 2, "else": "a"}],
            "'else' of 'after_c' goes back to 'a' without a bound: a → b → c → after_c → a",
            "ask_human", "flow[3].else",
        ),
        (
            ["a", "b", {"agent": "c", "when": "c_ok", "else": "b"}],
            "'else' of 'c' goes back to 'b'", "later phase", "flow[2].else",
        ),
        (["a", {"if": "a_ok", "go": "d"}, "b", "c"], "the phase 'd', which is not", "", "flow[1].go"),
        (["a", {"if": "a_ok", "go": "c", "else": "b"}, "b", "c"], "no 'at_most'", "by itself", "flow[1].else"),
        (["a", "b", {"agent": "c", "else": "skip"}], "there is no 'when'", "Add 'when'", "flow[2].else"),
        (
            ["a", "b", {"agent": "c", "when": "a_ok", "else": "skipp"}],
            "the phase 'skipp'", "'skip'", "flow[2].else",
        ),
        (["a", "b", {"agent": "c", "after": "go"}], "nothing ever starts the phase 'c'", "'go'", "flow[2].after"),
        (["a", "b", {"agent": "c", "when": "b_okay"}], "nobody writes the flag 'b_okay'", "'b_ok'", "flow[2].when"),
        (["a", "b", {"agent": "c", "when": "score > 1"}], "the flag 'score'", "write a.score", "flow[2].when"),
        (["a", "b", {"agent": "c", "when": "d.x"}], "the agent 'd', which is not", "", "flow[2].when"),
        (["a", "b", {"agent": "c", "only_if": "b.skore"}], "neither writes", "'score'", "flow[2].only_if"),
        (["a", "b", {"agent": "c", "phase": "end"}], "cannot be called 'end'", "another", "flow[2].phase"),
        (["a", "b", "c", {"ask": "?", "options": []}], "at least one answer", "", "flow[3].options"),
    ],
)  # fmt: skip
def test_faults_of_the_flow(flow: list[Any], message: str, remedy: str, place: str) -> None:
    (found,) = faults(crew(flow))
    assert message in found[0]
    assert remedy in found[1]
    assert found[2] == place


@pytest.mark.parametrize(
    ("more", "message", "place"),
    [
        ({"model": None}, "the agents 'a', 'b' and 'c' have no model", "agents.a.model"),
        ({"model": "gpt-5-mini"}, "neither PROVIDER:NAME nor scripted:FILE", "model"),
        ({"model": "openai:"}, "neither PROVIDER:NAME", "model"),
        ({"model": "My Models:x"}, "neither PROVIDER:NAME", "model"),
        ({"model": "opneai:gpt"}, "the prefix 'opneai'", "model"),
        ({"model": "OpenAI:gpt"}, "the prefix 'OpenAI'", "model"),
        ({"agents": {"d": {"prompt": "p", "model": "script:x.yaml"}}}, "'script'", "agents.d.model"),
        ({"agents": {"next": {"prompt": "p"}}}, "an agent cannot be called 'next'", "agents.next"),
        ({"tools": {"set_flag": {"run": "m:f"}}}, "a tool cannot be called", "tools.set_flag"),
        ({"tools": {"w": {"run": "m:f", "paths": ["../x"]}}}, "outside", "tools.w.paths[0]"),
        ({"agents": {"d": {"prompt": "p", "tools": ["git_lgo"]}}}, "'git_lgo'", "agents.d.tools[0]"),
        ({"agents": {"d": {"prompt": "p", "tools": ["set_flag"]}}}, "by itself", "agents.d.tools[0]"),
        ({"agents": {"d": {"prompt": "p", "outputs": ["text"]}}}, "always", "agents.d.outputs[0]"),
        ({"agents": {"d": {"prompt": "p", "reads": ["publc"]}}}, "not a log", "agents.d.reads[0]"),
        ({"agents": {"d": {"prompt": "p", "reads": ["private:a"]}}}, "only 'a'", "agents.d.reads[0]"),
        ({"agents": {"d": {"prompt": "p", "writes": ["group:"]}}}, "not a log", "agents.d.writes[0]"),
        ({"permissions": {"git_lg": ["a"]}}, "tool 'git_lg'", "permissions.git_lg"),
        ({"permissions": {"git_log": ["z"]}}, "agent 'z'", "permissions.git_log[0]"),
    ],
)  # fmt: skip
def test_faults_besides_the_flow(more: dict[str, Any], message: str, place: str) -> None:
    (found,) = faults(crew(**more))
    assert message in found[0]
    assert found[2] == place
    assert found[1]


@pytest.mark.parametrize("model", ["local:llama", "azure_openai:gpt", "my-own_2:a:b", "ollama:q"])
def test_a_model_may_have_a_prefix_that_a_worker_registers(model: str) -> None:
    assert faults(crew(model=model)) == []


def test_a_slip_in_a_models_prefix_is_told() -> None:
    ((_, remedy, _),) = faults(crew(model="scrpited:notes.yaml"))
    assert remedy == "Did you mean 'scripted:notes.yaml'?"


def test_logs_of_groups_channels_and_its_own_are_fine() -> None:
    logs = ["public", "group:core", "channel:c-1", "private:d"]
    assert faults(crew(agents={"d": {"prompt": "p", "reads": logs, "writes": logs}})) == []


def test_without_a_flow_the_agents_follow_each_other() -> None:
    assert load_data(crew()).flow == ("a", "b", "c")
    with pytest.raises(InvalidDefinition, match="the flow is empty"):
        load_data(crew([]))


def test_equal_definitions_have_equal_hashes() -> None:
    data = crew(["a", "b", "c"])
    turned = dict(reversed(data.items())) | {"limits": {"steps": 10_000}}
    turned["agents"] = dict(reversed(data["agents"].items()))
    assert definition_hash(load_data(data)) == definition_hash(load_data(turned))
    assert definition_hash(load_data(data)) == definition_hash(load_data(crew()))
    assert definition_hash(load_data(data)) != definition_hash(load_data(crew(["b", "a", "c"])))
    assert len(definition_hash(load_data(data))) == 27


def test_the_schema_that_ships_is_up_to_date() -> None:
    committed = (
        resources.files("crewlog.definition").joinpath("crew.schema.json").read_text("utf-8")
    )
    assert committed == schema_text(), (
        "run: python -m crewlog.definition.schema > src/crewlog/definition/crew.schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(json_schema())


@pytest.mark.parametrize("flow", GOOD)
def test_good_crews_validate_against_the_schema(flow: list[Any]) -> None:
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.validate(crew(flow))
    validator.validate(load_data(crew(flow)).to_json())


@pytest.mark.parametrize(
    "flow",
    [[{"if": "x"}], [{"agent": "a", "otherwise": "b"}], [7], [], [{"agent": "a", "after": 3}]],
)
def test_bad_crews_do_not(flow: list[Any]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(crew(flow), json_schema())
    with pytest.raises(InvalidDefinition):
        load_data(crew(flow))
    assert json.dumps(json_schema())


@pytest.mark.parametrize(
    ("tool", "said"),
    [
        ({"effects": "write"}, "Only a tool with 'effects: read' may be placed local."),
        ({}, "Only a tool with 'effects: read' may be placed local."),
        ({"effects": "read", "queue": "gpu"}, "Remove one of the two"),
        ({"effects": "read"}, None),
    ],
)
def test_only_what_reads_where_the_run_is_may_be_local(tool, said) -> None:
    definition = CrewDefinition.from_json(
        {
            "crew": "c",
            "model": "scripted:x.yaml",
            "agents": {"a": {"prompt": "P."}},
            "tools": {"t": {"run": "m:t", "placed": "local", **tool}},
            "flow": ["a"],
        }
    )
    found = [fault for fault in check(definition) if "placed" in str(fault.place)]
    assert [said in str(fault) for fault in found] == ([True] if said else [])
