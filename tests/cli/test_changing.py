"""`crewlog change`: what is typed, what is shown, and how it ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from crewlog.cli.change_terms import in_terms_of
from crewlog.cli.changes import Asked, wanted
from crewlog.client.run import operation_json
from crewlog.errors import ChangeConflict, InvalidDefinition, UsageError

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
    first, second = caught.value.diagnostics
    assert (first.line, first.message) == (1, "'name' is missing")
    assert (second.line, second.message) == (2, "there is no operation 'remove_agnet'")
    assert second.remedy == "Did you mean 'remove_agent'?"


def test_a_prompt_or_its_file(tmp_path: Path) -> None:
    (tmp_path / "new.md").write_text("The writer writes.")
    assert wanted(Asked(prompt=str(tmp_path / "new.md"))).prompt == "The writer writes."
    assert wanted(Asked(prompt="The writer writes.")).prompt == "The writer writes."


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({}, "nothing is to be changed"),
        ({"prompt": "A b.", "remove": ["a"]}, "--prompt and single changes cannot be one change"),
        ({"prompt": "new.md"}, "there is no file 'new.md'"),
        ({"prompt": "new"}, "there is no file 'new', and one word is no prompt"),
        ({"prompt": "prompts/new"}, "there is no file 'prompts/new'"),
        ({"prompt": "/"}, "'/' is a directory"),
        ({"add_agent": ["x=missing.yaml"]}, "there is no file 'missing.yaml'"),
        ({"add_agent": ["x=missing.MD"]}, "there is no file 'missing.MD'"),
        ({"add_agent": ["x=agents/missing"]}, "there is no file 'agents/missing'"),
        ({"add_tool": ["x=tools/missing.yml"]}, "there is no file 'tools/missing.yml'"),
        ({"edit": ["agent.x.prompt=new.txt"]}, "there is no file 'new.txt'"),
        ({"edit": ["phase.x.task=tasks/new"]}, "there is no file 'tasks/new'"),
        ({"after": ["a"], "remove": ["b"]}, "--after is said of what --add-agent adds"),
        ({"tools_for": ["a"], "remove": ["b"]}, "--for is said of what --add-tool adds"),
        ({"add_agent": ["tester"]}, "--add-agent 'tester' is not NAME=…"),
        ({"add_agent": ["tester=[a]"]}, "what --add-agent adds must be a mapping"),
        ({"add_agent": ["a b=Do it."]}, "'a b' cannot be a name"),
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


def test_what_only_looks_like_a_file_is_a_value(tmp_path: Path) -> None:
    """A path has no spaces; models, types and quoted words are no files."""
    assert operations(
        add_agent=["x=Read notes.md.", "y={prompt: notes.md}"],
        edit=[
            "agent.a.prompt=Write to out/notes.md",
            "agent.b.prompt='out/notes.md'",
            "crew.model=openrouter:meta/llama-4",
            "agent.c.prompt=null",
        ],
    ) == [
        {"op": "add_agent", "name": "x", "agent": {"prompt": "Read notes.md."}},
        {"op": "add_agent", "name": "y", "agent": {"prompt": "notes.md"}},
        {"op": "edit_agent", "name": "a", "set": {"prompt": "Write to out/notes.md"}},
        {"op": "edit_agent", "name": "b", "set": {"prompt": "out/notes.md"}},
        {"op": "edit_crew", "set": {"model": "openrouter:meta/llama-4"}},
        {"op": "edit_agent", "name": "c", "set": {"prompt": None}},
    ]


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("One.\nTwo.", "One.\nTwo."),
        ("Fix issue #5 first.", "Fix issue #5 first."),
        ("# Heading\nText", "# Heading\nText"),
        ("'quoted: yes'", "quoted: yes"),
        ("|\n  block\n  text", "block\ntext"),
        ("~", None),
        ("", ""),
        ("90", 90),
    ],
)
def test_a_text_is_taken_as_it_was_typed(typed: str, value: Any) -> None:
    (edited,) = operations(edit=[f"agent.a.prompt={typed}"])
    assert edited["set"] == {"prompt": value}


def test_a_text_may_be_in_a_file(tmp_path: Path) -> None:
    prose = tmp_path / "writer.md"
    prose.write_text("# Writer\nTone: dry.\n")
    (edited, added) = operations(
        edit=[f"agent.writer.prompt={prose}"], add_agent=[f"second={prose}"]
    )[::-1]
    assert edited["set"] == {"prompt": "# Writer\nTone: dry.\n"}
    assert added["agent"] == {"prompt": "# Writer\nTone: dry.\n"}
    with pytest.raises(UsageError) as caught:
        operations(add_agent=[f"second={tmp_path / 'writr.md'}"])
    assert f"Did you mean {str(prose)!r}?" in caught.value.remedy


def refused(typed: Any, message: str, remedy: str = "") -> tuple[str, str]:
    with (
        pytest.raises(ChangeConflict) as caught,
        in_terms_of(wanted(Asked(**typed)).places),
    ):
        raise ChangeConflict(message, remedy=remedy)
    return caught.value.message, caught.value.remedy


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("operations[0].name", "--add-tool t"),
        ("operations[0].agents[0]", "--for"),
        ("operations[1].agent.tools[0]", "--add-agent new tools[0]"),
        ("operations[1].phase.after[0]", "--after"),
        ("operations[1].before[1]", "--before"),
        ("operations[2].name", "--edit agent.frist"),
        ("operations[2].set.timeout", "--edit agent.frist.timeout"),
        ("operations[2].flow[0].when", "--edit agent.frist → flow[0].when"),
        ("operations[3].set.limits.steps", "--edit crew.limits.steps"),
        ("operations[4].name", "--remove old"),
        ("operations[9].name", "operations[9].name"),
    ],
)
def test_faults_are_told_where_they_were_typed(said: str, told: str) -> None:
    typed = {
        "add_tool": ["t=m:f"],
        "tools_for": ["a"],
        "add_agent": ["new=Do it."],
        "after": ["a"],
        "before": ["b", "c"],
        "edit": ["agent.frist.timeout=z", "crew.limits={steps: 0}"],
        "remove": ["old"],
    }
    message, _ = refused(typed, f"the change makes no crew:\n{said}  it is wrong\n    Do so.")
    assert message == f"the change makes no crew:\n{told}  it is wrong\n    Do so."


def test_remedies_say_what_can_be_typed(tmp_path: Path) -> None:
    message, remedy = refused(
        {"remove": ["a"]},
        "Say it in an operation before this one: edit_phase b, with another 'when'.",
        "Use edit_agent, or choose another name.",
    )
    assert message == "Change that first, or with the same command: --edit phase.b.when=…."
    assert remedy == "Use --edit agent.NAME.FIELD=VALUE, or choose another name."
    file = tmp_path / "change.yaml"
    file.write_text("- {op: remove_agent, name: a}\n")
    said = "  no\nUse edit_agent, or choose"
    told, _ = refused({"operations": file}, f"operations[0].name{said}")
    assert told == f"{file}:1 name{said}"


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
    bad = crewlog("change", run, "--edit", "agent.first.tools=[nosuch]", "--by", "ops")
    assert (bad.code, "'nosuch'" in bad.err) == (2, True), bad.err
    dry = crewlog("change", run, "--edit", "agent.first.tools=[nosuch]", "--dry-run")
    assert dry.code == 2
    refused = crewlog("audit", run, "--kind", "refusal", "--json").records
    assert [(r["principal"], r["action"], "'nosuch'" in r["reason"]) for r in refused] == [
        ("ops", "change", True)
    ]
    other = crewlog("change", run, "--edit", "agent.first.prompt=Other.", "--id", "c1")
    assert (other.code, "the id 'c1' was used for another command" in other.err) == (2, True)
    text = crewlog("change", run, "--edit", "agent.first.prompt=One.\nTwo.")
    assert text.code == 0, text.err
    differs = crewlog("diff", f"{run}@{rules['position']}").out
    assert "~ agent first" in differs
    assert r'prompt P. → "One.\nTwo."' in differs
    full = crewlog("diff", f"{run}@{rules['position']}", "--full").out
    assert [f"{line}\n" in full for line in ("- P.", "+ One.", "+ Two.")] == [True] * 3
    data = crewlog("diff", f"{run}@{rules['position']}", "--json").records[0]
    assert [each["path"] for each in data["definition"]] == [["agents", "first", "prompt"]]
    points = crewlog("checkpoints", run, "--diff", "--full")
    assert (points.code, "position" in points.out) == (0, False)
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
    assert "--edit agent.frist  the crew has no agent 'frist'" in done.err
    assert "Did you mean 'first'?" in done.err
    assert "--edit agent.first.timeout  " in done.err
    assert "operations" not in done.err
    (line,) = crewlog("change", run, "--remove", "first", "--json").err.splitlines()
    assert '"CommandRejected"' in line
    assert "only agent of the crew" in line


@pytest.mark.server
def test_at_a_terminal_it_asks_first(crewlog: Cli) -> None:
    run = asking(crewlog)
    for typed, said, code in (
        ("n", "Nothing was changed.", 6),
        ("y", f"{run} has graph v2: adds second", 0),
    ):
        terminal = Terminal(
            "change", run, "--add-agent", "second=Speak.", cwd=crewlog.cwd, env=crewlog.env
        )
        terminal.expect("Change it? [y/N]")
        assert "graph v1 → v2" in terminal.text
        terminal.type(typed)
        terminal.expect(said)
        assert terminal.end() == code


@pytest.mark.server
def test_what_changes_nothing_is_not_asked_about(crewlog: Cli) -> None:
    run = asking(crewlog)
    terminal = Terminal(
        "change", run, "--edit", "agent.first.prompt=P.", cwd=crewlog.cwd, env=crewlog.env
    )
    assert terminal.end() == 0
    assert f"That changes nothing: {run} is like that already." in terminal.text
    assert "[y/N]" not in terminal.text
    told = crewlog("change", run, "--enable", "first", "--json").records[0]
    assert (told["event"], told["swap"], told["graph_version"]) == ("unchanged", False, 1)
    kinds = [each["entry"]["kind"] for each in crewlog("log", run, "--json").records]
    assert "DefinitionChanged" not in kinds


@pytest.mark.server
def test_a_file_has_no_versions(crewlog: Cli) -> None:
    done = crewlog("graph", "two.yaml", "--version", "2")
    assert done.code == 2
    assert "--version asks for an earlier graph of a run, and 'two.yaml' is a file" in done.err


@pytest.mark.server
def test_what_a_change_waits_for_is_shown_while_it_drains(crewlog: Cli, project: Path) -> None:
    gate = project / f"gate-{uuid4().hex[:6]}"
    (project / "gates.py").write_text(
        "import pathlib\nimport time\n\n\n"
        'def gate(path: str) -> str:\n    """Wait for a file."""\n'
        "    while not pathlib.Path(path).exists():\n        time.sleep(0.02)\n"
        '    return "open"\n'
    )
    (project / "gated.yaml").write_text(
        "crew: gated\nmodel: scripted:gated.script.yaml\n"
        "tools:\n  gate: {run: 'gates:gate', effects: read}\n"
        "agents:\n  first: {prompt: P.}\n"
    )
    call = f"{{tool: gate, args: {{path: '{gate}'}}}}"
    (project / "gated.script.yaml").write_text(
        f"agents:\n  first:\n    - {{tool_calls: [{call}]}}\n    - {{text: ok}}\n"
        '  "*": [{text: ok}]\n'
    )
    run = f"gated-{uuid4().hex[:6]}"
    following = crewlog.start("run", "gated.yaml", "--id", run)
    assert following.stdout is not None
    assert any("gate" in line for line in following.stdout)
    terminal = Terminal(
        "change", run, "--add-agent", "second=Speak.", "--yes", cwd=crewlog.cwd, env=crewlog.env
    )
    terminal.expect("waits for first#1 (gate ")
    added = ("change", run, "--add-agent", "third=Speak.", "--by", "late")
    for more in (("--dry-run",), ("--graph-version", "1")):
        refused = crewlog(*added, *more)
        assert refused.code == 2
        assert "another change" in refused.err
        assert "to graph v2" in refused.err
    late = Terminal(*added, "--yes", cwd=crewlog.cwd, env=crewlog.env)
    late.expect("Another change is pending, to graph v2: adds second")
    gate.touch()
    terminal.expect(f"{run} has graph v2: adds second")
    assert terminal.end() == 0
    late.expect(f"{run} has graph v3: adds third")
    assert late.end() == 0
    assert "CommandRejected" not in crewlog("log", run).out
    following.communicate(timeout=90)
    assert following.returncode == 0
