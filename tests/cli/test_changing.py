"""`crewlog change`: what is typed, what is shown, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from crewlog.cli.changes import Asked, wanted
from crewlog.client.run import operation_json
from crewlog.errors import InvalidDefinition, UsageError

from .conftest import Cli
from .terminal import Terminal


def operations(**typed: Any) -> list[dict[str, Any]]:
    return [operation_json(each) for each in wanted(Asked(**typed)).operations]


# -- what is typed -------------------------------------------------------------------------------


def test_edits_of_one_thing_are_one_operation() -> None:
    typed = [
        "agent.writer.prompt=Be brief: say 'no'.",
        "crew.limits={steps: 9}",
        "agent.writer.timeout=90s",
        "tool.search.retry=null",
        "phase.writer.review.when=not ok",
    ]
    assert operations(edit=typed) == [
        {
            "op": "edit_agent",
            "name": "writer",
            "set": {"prompt": "Be brief: say 'no'.", "timeout": "90s"},
        },
        {"op": "edit_crew", "set": {"limits": {"steps": 9}}},
        {"op": "edit_tool", "name": "search", "set": {"retry": None}},
        {"op": "edit_phase", "name": "writer.review", "set": {"when": "not ok"}},
    ]


def test_what_comes_comes_before_what_goes() -> None:
    found = operations(
        remove=["old,older"],
        disable=["x"],
        enable=["y"],
        add_agent=["new={prompt: P., tools: [search]}"],
        before=["a"],
        after=["b", "c"],
        add_tool=["search=my_tools:search"],
        tools_for=["a"],
    )
    assert found == [
        {"op": "add_tool", "name": "search", "tool": {"run": "my_tools:search"}, "agents": ["a"]},
        {
            "op": "add_agent",
            "name": "new",
            "agent": {"prompt": "P.", "tools": ["search"]},
            "phase": {"after": ["b", "c"]},
            "before": ["a"],
        },
        {"op": "enable_agent", "name": "y"},
        {"op": "disable_agent", "name": "x"},
        {"op": "remove_agent", "name": "old"},
        {"op": "remove_agent", "name": "older"},
    ]


def test_an_agent_is_a_file_a_mapping_or_its_prompt(tmp_path: Path) -> None:
    (tmp_path / "tester.yaml").write_text("prompt: Test it.\ntimeout: 5s\n")
    (found,) = operations(add_agent=[f"tester={tmp_path / 'tester.yaml'}"])
    assert found["agent"] == {"prompt": "Test it.", "timeout": "5s"}
    (found,) = operations(add_agent=["tester=Test it: twice."])
    assert found["agent"] == {"prompt": "Test it: twice."}
    (found,) = operations(add_agent=["tester=prompt: Test it."])
    assert found["agent"] == {"prompt": "Test it."}


def test_yaml_in_braces_must_be_yaml() -> None:
    with pytest.raises(InvalidDefinition):
        operations(edit=["crew.limits={steps: 9"])


def test_operations_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "change.yaml"
    file.write_text("- {op: remove_agent, name: a}\n- {op: set_permission, tool: t, agents: [b]}\n")
    assert operations(operations=file, remove=["c"]) == [
        {"op": "remove_agent", "name": "a"},
        {"op": "set_permission", "tool": "t", "agents": ["b"]},
        {"op": "remove_agent", "name": "c"},
    ]
    file.write_text("- {op: remove_agent}\n- {op: remove_agnet, name: a}\n")
    with pytest.raises(InvalidDefinition) as caught:
        operations(operations=file)
    assert [(d.line, d.message.split(":")[0]) for d in caught.value.diagnostics] == [
        (1, "name"),
        (2, "Input tag 'remove_agnet' found using 'op' does not match any of the expected tags"),
    ]


def test_a_prompt_or_its_file(tmp_path: Path) -> None:
    (tmp_path / "new.md").write_text("The writer writes.")
    assert wanted(Asked(prompt=str(tmp_path / "new.md"))).prompt == "The writer writes."
    assert wanted(Asked(prompt="The writer writes.")).prompt == "The writer writes."


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({}, "nothing is to be changed"),
        ({"prompt": "A b.", "remove": ["a"]}, "--prompt and single changes cannot be one change"),
        ({"prompt": "new.md"}, "there is no file 'new.md', and one word is no prompt"),
        ({"after": ["a"], "remove": ["b"]}, "--after is said of what --add-agent adds"),
        ({"tools_for": ["a"], "remove": ["b"]}, "--for is said of what --add-tool adds"),
        ({"add_agent": ["tester"]}, "--add-agent 'tester' is not NAME=…"),
        ({"add_agent": ["tester=[a]"]}, "what --add-agent adds must be a mapping"),
        ({"add_agent": ["a b=Do it."]}, "'a b' cannot be name"),
        ({"edit": ["writer.prompt=x"]}, "edits 'writer', which is nothing"),
        ({"edit": ["agent.writer=x"]}, "is not PATH=VALUE"),
        ({"edit": ["agent.writer.prompt"]}, "is not PATH=VALUE"),
    ],
)
def test_what_cannot_be_meant(typed: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        wanted(Asked(**typed))
    assert message in caught.value.message
    assert caught.value.remedy


# -- on the server -------------------------------------------------------------------------------


def asking(crewlog: Cli) -> str:
    """A run that waits at its question."""
    run = f"asker-{uuid4().hex[:6]}"
    done = crewlog("run", "ask.yaml", "--id", run, "--json")
    assert done.code == 3, done.err
    return run


@pytest.mark.server
def test_a_dry_run_shows_and_changes_nothing(crewlog: Cli) -> None:
    run = asking(crewlog)
    done = crewlog("change", run, "--add-agent", "second=Speak.", "--dry-run")
    assert done.code == 0, done.err
    assert "graph v1 → v2  adds second" in done.out
    assert "  + second" in done.out
    assert "  = gate, first keep their state" in done.out
    before, _, after = done.out.partition("  graph v2\n")
    assert "second ── done" not in before
    assert "first ── second ── done" in after
    told = crewlog("change", run, "--add-agent", "second=Speak.", "--dry-run", "--json").records[0]
    assert (told["event"], told["graph_version"], told["swap"]) == ("dry_run", 2, True)
    assert "second" in told["plan"]["nodes"]
    assert crewlog("graph", run, "--json").records[0]["version"] == 1


@pytest.mark.server
def test_a_run_is_changed_while_its_question_is_open(crewlog: Cli) -> None:
    run = asking(crewlog)
    done = crewlog("change", run, "--add-agent", "second=Speak.", "--by", "ops", "--id", "c1")
    assert done.code == 0, done.err
    assert f"✓ {run} has graph v2: adds second" in done.out
    assert f"crewlog answer {run} i1" in done.out
    again = crewlog("change", run, "--add-agent", "second=Speak.", "--id", "c1", "--json")
    assert (again.code, again.records[0]["graph_version"]) == (0, 2), again.err
    rules = crewlog("change", run, "--edit", "agent.first.timeout=90s", "--json").records[0]
    assert (rules["event"], rules["swap"], rules["graph_version"]) == ("changed", False, 2)
    first = crewlog("graph", run, "--version", "1")
    assert "first ── done" in first.out
    assert "first ── second ── done" in crewlog("graph", run, "--version", "2").out
    none = crewlog("graph", run, "--version", "3")
    assert (none.code, "It has had v1 and v2." in none.err) == (2, True)
    ended = crewlog("answer", run, "i1", "publish", "--json")
    assert ended.code == 0, ended.err
    assert set(ended.records[-1]["outputs"]) == {"first", "second"}
    late = crewlog("change", run, "--remove", "second")
    assert (late.code, "has ended" in late.err) == (2, True)


@pytest.mark.server
def test_faults_are_told_with_their_operation(crewlog: Cli) -> None:
    run = asking(crewlog)
    done = crewlog(
        "change", run, "--edit", "agent.frist.model=x", "--edit", "agent.first.timeout=z"
    )
    assert done.code == 2
    assert "operations[0].name  the crew has no agent 'frist'" in done.err
    assert "Did you mean 'first'?" in done.err
    assert "operations[1].set.timeout" in done.err
    (line,) = crewlog("change", run, "--remove", "first", "--json").err.splitlines()
    assert '"CommandRejected"' in line
    assert "only agent of the crew" in line


@pytest.mark.server
def test_at_a_terminal_it_asks_first(crewlog: Cli) -> None:
    run = asking(crewlog)
    for typed, said in (("n", "Nothing was changed."), ("y", f"{run} has graph v2: adds second")):
        terminal = Terminal(
            "change", run, "--add-agent", "second=Speak.", cwd=crewlog.cwd, env=crewlog.env
        )
        terminal.expect("Change it? [y/N]")
        assert "graph v1 → v2" in terminal.text
        terminal.type(typed)
        terminal.expect(said)
        assert terminal.end() == 0
