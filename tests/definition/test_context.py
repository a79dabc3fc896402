"""Windows and inputs in a definition: how they are written, and what is wrong with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from crewlog.definition.apply import apply_operations
from crewlog.definition.load import load_data, load_definition
from crewlog.definition.model import CrewDefinition
from crewlog.definition.operations import RemoveAgent
from crewlog.definition.validate import warnings
from crewlog.errors import InvalidDefinition
from crewlog.graph.lowering.plans import lower
from crewlog.reporting.explanation import explain


def crew(window: Any = None, **agents: dict[str, Any]) -> CrewDefinition:
    named = {name: {"prompt": "p", **more} for name, more in ({"a": {}, "b": {}} | agents).items()}
    data: dict[str, Any] = {"crew": "t", "model": "openai:x", "agents": named}
    return load_data(data if window is None else {**data, "window": window})


def test_short_forms_are_the_long_ones() -> None:
    short = crew(5, b={"inputs": ["a.text", "input"], "window": {}})
    long = crew({"last": 5}, b={"inputs": [{"from": "a.text"}, {"from": "input"}], "window": {}})
    assert short == long
    again = CrewDefinition.from_json(json.loads(json.dumps(short.to_json())))
    assert again == short
    assert lower(short).agents["b"].inputs == ("a.text", "input")
    assert not lower(crew()).agents["b"].to_json().keys() & {"inputs", "shares"}


def test_a_model_that_sums_up_has_time_besides_the_agents_own() -> None:
    plan = lower(crew(b={"window": {"last": 5, "summary": "openai:y"}}))
    assert plan.agents["b"].timeout == plan.agents["a"].timeout + 60


PRIVATE = {"outputs": ["x"], "writes": ["group:g"], "reads": ["group:g"]}


@pytest.mark.parametrize(
    ("agents", "say"),
    [
        ({"b": {"inputs": ["c.text"]}}, "no agent is called 'c'"),
        ({"b": {"inputs": ["a.y"]}}, "'a' has no output 'y'"),
        ({"b": {"inputs": ["flag:y"]}}, "the flag 'y', which nobody writes"),
        ({"b": {"inputs": ["a.text", "a.text"]}}, "two inputs that are called 'a.text'"),
        ({"a": PRIVATE, "b": {"inputs": ["a.x"]}}, "a.x, which is for who reads group:g"),
        ({"a": {**PRIVATE, "writes": []}, "b": {"inputs": ["a.x"]}}, "is for 'a' alone"),
        ({"b": {"inputs": ["a.b.c"]}}, r"agents.b.inputs\[0\]"),
        ({"b": {"window": {"last": 0}}}, "last"),
        ({"b": {"window": {"last": 5, "summary": "opnai:x"}}}, "Did you mean 'openai:x'"),
        ({"a": {"shares": ["club:x"]}}, "'club:x', which is not a log"),
        ({"a": {"shares": ["readers:who"]}}, "the agent 'who' is not defined"),
    ],
)
def test_what_is_wrong(agents: dict[str, Any], say: str) -> None:
    with pytest.raises(InvalidDefinition, match=say):
        crew(**agents)


def test_a_fault_names_its_line() -> None:
    text = "crew: t\nmodel: openai:x\nagents:\n  a: {prompt: p}\n  b:\n    prompt: p\n    inputs:\n"
    with pytest.raises(InvalidDefinition) as caught:
        load_definition(text + "      - a.text\n      - {from: a.sumary, as: S}\n")
    assert caught.value.diagnostics[0].line == 9


def test_what_is_shared_by_name_can_be_given() -> None:
    given = {"b": {"inputs": ["a.x"], "reads": []}}
    assert crew(a={**PRIVATE, "shares": ["readers:b"]}, **given)
    assert crew(a={**PRIVATE, "shares": ["public"]}, **given)
    assert crew(a={"outputs": ["x"]}, **given)


def test_who_works_for_another_shares_with_nobody_else() -> None:
    boss = {"reads": ["public", "group:g"], "writes": ["group:g"], "outputs": ["x"]}
    child = {**boss, "parent": "a"}
    assert crew(a=boss, b=child)
    assert crew(a=boss, b={**child, "shares": ["readers:a"]})
    assert crew(a={**boss, "shares": ["public"]}, b={**child, "shares": ["public"]})
    with pytest.raises(InvalidDefinition, match="shares its outputs with 'public'"):
        crew(a=boss, b={**child, "shares": ["public"]})


def test_a_summary_of_a_window_that_leaves_nothing_out_is_a_warning() -> None:
    (warned,) = [w for w in warnings(crew({"summary": "extract"})) if "window" in w.message]
    assert "leaves nothing out" in warned.message


def test_an_agent_that_goes_is_nobodys_input_any_more() -> None:
    left = apply_operations(crew(b={"inputs": ["a.text", "input"]}), [RemoveAgent(name="a")])
    assert [each.from_ for each in left.agents["b"].inputs] == ["input"]


def test_they_are_explained() -> None:
    window = {"last": 5, "summary": "extract"}
    found = explain(crew(b={"window": window, "inputs": ["a.text"], "shares": ["public"]}), "b")
    shown = "of the messages before its turn it is shown its last 5 messages at most"
    assert found.restrictions == (
        f"{shown}, and the beginnings of others",
        "it is shown a.text by name",
        "its outputs are for who reads public",
    )
