# ruff: noqa: E501  (tables of cases: a case is a line)
"""What is there and has no use is told as a warning: the crew runs all the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crewlog.cli.main import run_cli
from crewlog.definition.load import load_data, load_definition, load_file, warnings_in
from crewlog.definition.model import CrewDefinition
from crewlog.definition.validate import check, warnings


def crew(flow: list[Any] | None = None, **more: Any) -> CrewDefinition:
    agents: dict[str, Any] = {
        "a": {"prompt": "p", "tools": [], "writes_flags": ["a_ok"], "outputs": ["score"]},
        "b": {
            "prompt": "p",
            "tools": [],
            "enabled": False,
            "outputs": ["sum"],
            "writes_flags": ["b_ok"],
        },
        "c": {"prompt": "p", "tools": ["t"]},
    }
    for name, given in more.pop("agents", {}).items():
        agents[name] |= given
    data = {"crew": "t", "model": "openai:x", "agents": agents, "tools": {"t": {"run": "m:t"}}}
    return load_data(data | {"flow": flow or ["a", "b", "c"]} | more)


def told(definition: CrewDefinition) -> list[tuple[str, str]]:
    assert check(definition) == []
    found = warnings(definition)
    assert all(each.severity == "warning" for each in found)
    return [(each.message, each.place) for each in found]


def test_a_crew_without_waste_has_no_warning() -> None:
    assert told(crew()) == []


U = {"u": {"run": "m:u"}, "t": {"run": "m:t"}}


@pytest.mark.parametrize(
    ("more", "message", "place"),
    [
        ({"tools": U}, "no agent may call the tool 'u'", "tools.u"),
        ({"agents": {"c": {"tools": []}}}, "no agent may call the tool 't'", "tools.t"),
        ({"agents": {"c": {"enabled": False}}}, "no agent may call the tool 't': c takes no part", "tools.t"),
        ({"permissions": {"t": ["a"]}}, "'t': c may use it, and the permissions do not name them", "tools.t"),
        ({"tools": U, "permissions": {"u": []}, "approvals": {"u": None}}, "calls of 'u' wait for a yes, and no agent may call it", "approvals.u"),
        ({"approvals": {"t": ["c", "a"]}}, "calls of 't' by 'a' wait for a yes, and 'a' may not call it", "approvals.t[1]"),
        ({"agents": {"a": {"tools": ["t"]}}, "rules": [{"tool": "t", "agents": ["a"], "do": "never"}]}, "'a' has the tool 't', and rules[0] says never", "agents.a.tools[0]"),
        ({"agents": {"a": {"tools": ["t"]}, "b": {"tools": ["t"], "parent": "a"}}, "permissions": {"t": ["b", "c"]}}, "'b' has the tool 't', and may not call it: 'a', whom it works for, may not", "agents.b.tools[0]"),
        ({"agents": {"a": {"tools": ["t"], "parent": "b"}}}, "'a' has the tool 't', and may not call it: 'b', whom it works for, may not", "agents.a.tools[0]"),
        ({"flags": {"x": None}}, "nobody sets the flag 'x', and it has no first value", "flags.x"),
    ],
)  # fmt: skip
def test_what_has_no_use(more: dict[str, Any], message: str, place: str) -> None:
    ((said, where),) = told(crew(**more))
    assert message in said
    assert where == place


def test_a_tool_that_is_closed_on_purpose_is_not_told() -> None:
    below = {"a": {"tools": ["t"], "parent": "c"}}
    assert told(crew(agents=below, rules=[{"tool": "t", "do": "never"}])) == []
    assert told(crew(tools=U, permissions={"u": []})) == []
    assert told(crew(agents={"a": {"tools": None}}, tools=U)) == []


@pytest.mark.parametrize(
    ("item", "message", "key"),
    [
        ({"if": "b.sum > 1", "go": "a", "at_most": 2}, "the condition looks at 'b', which takes no part", "if"),
        ({"if": "b_ok", "go": "end"}, "never goes to 'end': nobody sets 'b_ok'", "if"),
        ({"if": "not off", "go": "a", "at_most": 2}, "always goes to 'a', until it has 2 times: nobody sets 'off'", "if"),
        ({"ask": "Well?", "only_if": "off"}, "is always skipped: nobody sets 'off'", "only_if"),
        ({"agent": "a", "phase": "x", "when": "off"}, "waits for what can never hold", "when"),
        ({"agent": "a", "phase": "x", "when": "not off or a_ok"}, "never waits: nobody sets 'off'", "when"),
    ],
)  # fmt: skip
def test_conditions_that_are_settled_from_the_start(
    item: dict[str, Any], message: str, key: str
) -> None:
    ((said, where),) = told(crew(["a", "b", "c", item], flags={"off": False}))
    assert message in said
    assert where == f"flow[3].{key}"


@pytest.mark.parametrize("condition", ["a_ok", "off or a.score > 1", "a.text == 'x'", "said"])
def test_conditions_that_depend_are_not_told(condition: str) -> None:
    flow = ["a", "b", {"ask": "?", "sets": "said"}, "c", {"if": condition, "go": "end"}]
    assert told(crew(flow, flags={"off": False})) == []


TEXT = """\
crew: t
model: openai:x
agents: {a: {prompt: p, tools: []}}
tools:
  hammer: {run: "m:t"}
flow: [a]
"""


def test_warnings_have_their_place_in_the_file_and_do_not_refuse_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    Path("crew.yaml").write_text(TEXT)
    Path("m.py").write_text("def t() -> str:\n    return ''\n")
    assert load_definition(TEXT)
    (found,) = warnings_in("crew.yaml", load_file("crew.yaml"))
    assert (found.line, found.column, found.severity) == (5, 3, "warning")
    assert run_cli(["validate", "crew.yaml"]) == 0
    said = capsys.readouterr()
    assert "✓" in said.out
    assert "crew.yaml:5:3  warning: no agent may call the tool 'hammer'" in said.err
    assert run_cli(["validate", "crew.yaml", "--json"]) == 0
    (fields,) = json.loads(capsys.readouterr().out)["warnings"]
    assert (fields["line"], fields["severity"]) == (5, "warning")
