"""`crewlog crews`: what is registered, and who can do what, as people and programs see it."""

from __future__ import annotations

import json
import secrets
from pathlib import Path

import pytest

from cli.conftest import Cli
from covers import covers
from crewlog.cli.catalogued import list_catalog, show_tools
from crewlog.cli.crews import nobody
from crewlog.cli.screen import Screen
from crewlog.client.catalog import unknown
from crewlog.definition.content import definition_hash
from crewlog.definition.load import load_definition

CREW = """\
crew: NAME
description: Notes for users.
model: scripted:script.yaml
agents:
  collector: {prompt: Collect the changes., tools: [git_log]}
  writer:    {prompt: Write notes., tools: [write_file], writes_flags: [ready]}
  checker:   {prompt: Check., tools: [git_log, write_file]}
tools:
  git_log:    {run: my_tools:git_log, effects: read}
  write_file: {run: my_tools:write_file, effects: write, retry: keyed}
  wipe:       {run: my_tools:wipe}
flow:
  - collector
  - writer
  - {agent: checker, when: writer.ready}
permissions:
  write_file: [writer]
  wipe: []
"""
PRESS = """\
registry: NAME
model: openai:gpt-5-mini
tools:
  git_log: {run: my_tools:git_log, effects: read, words: [read the log]}
  post:    {run: press:post, risk: high, grant: [editor]}
agents:
  editor: {prompt: Edit., tools: [git_log]}
builders: [supervisor]
"""


@pytest.fixture
def name() -> str:
    """A name of the test's own: the session shares its store."""
    return f"n{secrets.token_hex(4)}"


@pytest.fixture
def crews(home: Path, tmp_path: Path, name: str) -> Cli:
    """The command line in a directory with `crew.yaml`, `crew2.yaml` and `press.yaml`."""
    (tmp_path / "crew.yaml").write_text(CREW.replace("NAME", name))
    changed = CREW.replace("NAME", name).replace("[writer]", "[writer, checker]")
    (tmp_path / "crew2.yaml").write_text(changed.replace("Write notes.", "Write short notes."))
    (tmp_path / "press.yaml").write_text(PRESS.replace("NAME", f"{name}-press"))
    return Cli(home, tmp_path)


def test_an_empty_registry_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    begin = "Nothing is registered yet. Add a crew or a registry: crewlog crews add FILE"
    list_catalog(Screen(), [], [])
    assert begin in capsys.readouterr().out
    show_tools(Screen(), [])
    assert begin in capsys.readouterr().out
    assert nobody("write_file", []).message == "nothing is registered yet"
    error = unknown("crew", "notes", [], "Add it.")
    assert error.remedy == "None is registered yet. Add it."


@covers("C60")
def test_a_crew_is_added_once_and_shown(crews: Cli, name: str) -> None:
    first = crews("crews", "add", "crew.yaml")
    assert first.code == 0, first.err
    assert f"✓ crew {name} version 1, new" in first.out
    assert f"= crew {name} version 1, unchanged" in crews("crews", "add", "crew.yaml").out
    again = crews("crews", "add", "crew2.yaml", "--json").records[0]
    assert (again["kind"], again["name"], again["version"], again["new"]) == ("crew", name, 2, True)
    # `register` is the same for crews.
    assert crews("register", "crew2.yaml", "--json").records[0]["version"] == 2

    shown = crews("crews", "show", f"{name}@1")
    assert shown.code == 0, shown.err
    assert f"crew {name} version 1 of 2" in shown.out
    assert "collector ── writer ── checker (when writer.ready)" in shown.out
    assert "write_file   my_tools:write_file" in shown.out
    assert "sets ready" in shown.out
    assert f"crewlog run {name}" in shown.out
    assert "\x1b" not in shown.out
    data = crews("crews", "show", name, "--json").records[0]
    assert (data["version"], data["versions"], data["kind"]) == (2, [1, 2], "crew")
    text = crews("crews", "show", name, "--yaml").out
    assert definition_hash(load_definition(text)) == data["hash"]

    listed = crews("crews", "list", "--all-versions", "--json").records[0]["crews"]
    assert [each["version"] for each in listed if each["name"] == name] == [1, 2]
    newest = crews("crews", "list").out
    assert len([line for line in newest.splitlines() if line.split()[:1] == [name]]) == 1


@covers("C20")
def test_a_registry_is_added_with_its_parts(crews: Cli, name: str, tmp_path: Path) -> None:
    press = f"{name}-press"
    added = crews("crews", "add", "press.yaml")
    assert added.code == 0, added.err
    assert f"✓ registry {press} version 1, new" in added.out
    assert "2 tools, 1 agent, 1 model, 1 builder" in added.out
    file = tmp_path / "press.yaml"
    file.write_text(file.read_text().replace("Edit.", "Edit well."))
    changed = crews("crews", "add", "press.yaml", "--json").records[0]
    assert [each["name"] for each in changed["parts"] if each["new"]] == [f"{press}/editor"]
    shown = crews("crews", "show", press).out
    assert "granted to editor" in shown
    assert "high risk" in shown
    part = crews("crews", "show", f"{press}/editor@1", "--yaml").out
    assert part == "prompt: Edit.\ntools: [git_log]\n"
    assert "~ prompt Edit. →" in crews("crews", "diff", f"{press}/editor").out
    crews("crews", "add", "crew.yaml")
    assert f"{press}@2 has git_log" in crews("crews", "show", name).out


def test_differences_are_told_in_words_and_as_data(crews: Cli, name: str) -> None:
    words = [
        'agent writer: prompt "Write notes." → "Write short notes."',
        "permission to call write_file: writer → writer and checker",
    ]
    files = crews("crews", "diff", "crew.yaml", "crew2.yaml")
    assert (files.code, all(each in files.out for each in words)) == (0, True)
    crews("crews", "add", "crew.yaml")
    mixed = crews("crews", "diff", name, "crew2.yaml", "--json").records[0]
    assert [change["words"] for change in mixed["changes"]] == words
    assert (mixed["same"], mixed["old"]["version"], mixed["new"]["file"]) == (
        False,
        1,
        "crew2.yaml",
    )
    crews("crews", "add", "crew2.yaml")
    for arguments in ([name], [f"{name}@1", f"{name}@2"], [f"{name}@1", name]):
        found = crews("crews", "diff", *arguments)
        assert f"{name}@1 → {name}@2" in found.out, found.err
        assert "2 changed" in found.out
    same = crews("crews", "diff", name, "crew2.yaml")
    assert (same.code, f"= {name}@2 and crew2.yaml are the same" in same.out) == (0, True)
    assert crews("crews", "diff", name, "crew2.yaml", "--json").records[0]["same"] is True


@covers("C15", "C20")
def test_who_can_do_what(crews: Cli, name: str) -> None:
    crews("crews", "add", "crew.yaml")
    crews("crews", "add", "press.yaml")
    found = crews("crews", "who", "write_file", "--json").records[0]["found"]
    mine = {each["who"]: each["allowed"] for each in found if each["name"] == name}
    assert mine == {"writer": True, "checker": False}
    asked = crews("crews", "who", "write_file").out
    assert "lists it, and permissions name it" in asked
    assert "lists it, but permissions say that only writer may" in asked
    ready = crews("crews", "who", "ready", "--in", "crew.yaml").out
    assert "✓ writer         writes it  declares the flag" in ready
    assert "✓ phase checker  needs it   waits for writer.ready" in ready
    nobody = crews("crews", "who", "wipe", "--in", "crew.yaml")
    assert (nobody.code, "permissions say that nobody may" in nobody.out) == (0, True)
    tools = crews("crews", "who", "--in", "crew.yaml", "--in", "press.yaml").out
    assert "nobody: permissions say that nobody may" in tools
    assert "agents of prompts" in tools


def test_names_that_are_not_there(crews: Cli, name: str) -> None:
    crews("crews", "add", "crew.yaml")
    for arguments, message, remedy in (
        (
            ["show", f"{name}x"],
            f"there is no crew or registry '{name}x'",
            f"Did you mean '{name}'?",
        ),
        (["show", f"{name}@9"], f"the crew '{name}' has no version 9", "It has one version: 1."),
        (["show", f"{name}@x"], "no version after the '@'", "NAME@2"),
        (["show", "nope/tool"], "there is no part of a registry 'nope/tool'", "crews list"),
        (["diff", name], f"there is nothing before {name}@1", "crews diff A B"),
        (["diff", name, "press.yaml"], "press.yaml a registry", "registry:NAME"),
        (["who", "git_lgo", "--in", "crew.yaml"], "log 'git_lgo'", "Did you mean 'git_log'?"),
        (["show", name, "--yaml", "--json"], "two formats", "one of them"),
    ):
        done = crews("crews", *arguments)
        assert done.code == 2, (arguments, done.out)
        told = done.err if "--json" not in arguments else json.loads(done.err)["error"]["message"]
        assert message in told, arguments
        assert remedy in done.err, arguments


def test_faults_of_files_have_their_place(crews: Cli, tmp_path: Path) -> None:
    file = tmp_path / "press.yaml"
    file.write_text(file.read_text().replace("tools: [git_log]", "tools: [git_lgo]"))
    done = crews("crews", "add", "press.yaml")
    assert done.code == 2
    assert "press.yaml:7:35  agent 'editor' uses the tool 'git_lgo'" in done.err
    assert "Did you mean 'git_log'?" in done.err


def test_a_prompt_may_name_a_registered_registry(crews: Cli, name: str) -> None:
    crews("crews", "add", "press.yaml")
    prompt = "The editor edits the text, then the writer sends it. The writer uses git_log."
    done = crews("compile", prompt, "--registry", f"{name}-press", "--json")
    assert done.code == 0, done.err
    tools = done.records[0]["definition"]["tools"]
    assert tools["git_log"]["run"] == "my_tools:git_log"
    unknown = crews("compile", prompt, "--registry", f"{name}-pres")
    assert (unknown.code, f"'{name}-press'" in unknown.err) == (2, True)


@pytest.mark.server
def test_a_registered_crew_is_explained_by_its_name(crews: Cli, name: str) -> None:
    assert crews("crews", "add", "crew.yaml").code == 0
    told = crews("explain", name, "checker", "--json")
    assert told.code == 0, told.err
    (found,) = told.records
    assert (found["crew"], found["node"], found["sources"]) == (name, "checker", ["writer"])
    rights = {each["tool"]: each["is_allowed"] for each in found["tools"]}
    assert (rights["git_log"], rights["write_file"]) == (True, False)
    unknown = crews("explain", name, "cheker", "--json")
    assert (unknown.code, unknown.out) == (2, "")
    missing = crews("explain", f"{name}x", "checker", "--json")
    assert (missing.code, missing.out) == (2, "")
    assert "no registered crew" in json.loads(missing.err)["error"]["message"]


def test_show_tells_who_sees_asks_and_commands(crews: Cli, tmp_path: Path, name: str) -> None:
    more = """\
groups: {desk: [writer, checker]}
logs: {facts: {readers: [writer], writers: [collector]}}
rules: [{tool: wipe, do: never, reason: Nobody needs it.}]
interrupts: {people: [ana], expires: 2h}
policy: {mode: open}
"""
    (tmp_path / "crew.yaml").write_text(CREW.replace("NAME", name) + more)
    assert crews("crews", "add", "crew.yaml").code == 0
    out = crews("crews", "show", name).out
    for words in (
        "desk: writer and checker",
        "facts: read by writer, written by collector",
        "wipe is never called (Nobody needs it)",
        "only ana may answer",
        "questions wait 2h, then they count as rejected",
        "open: whoever reaches the server commands",
    ):
        assert words in out


@covers("C60")
def test_a_crew_is_chosen_for_runs_that_name_none_and_removed(
    crews: Cli, name: str, tmp_path: Path
) -> None:
    (tmp_path / "script.yaml").write_text('agents: {"*": [{text: Noted.}]}')
    crew = f"crew: {name}\nmodel: scripted:script.yaml\nagents: {{writer: {{prompt: Write.}}}}\n"
    (tmp_path / "crew.yaml").write_text(crew)
    unset = crews("run", "--input", "x")
    assert (unset.code, "there is no default crew" in unset.err) == (2, True)
    assert crews("crews", "add", "crew.yaml").code == 0
    assert "is the default crew" in crews("crews", "default", name).out
    assert json.loads(crews("crews", "default", "--json").out) == {"default": name}
    ran = crews("run", "--input", "x", "--id", f"{name}-run")
    assert ran.code == 0, ran.err
    report = crews("report", f"{name}-run", "--md")
    assert f"# Report: {name}, run `{name}-run`" in report.out
    assert "Noted." in report.out
    assert json.loads(crews("report", f"{name}-run", "--json").out)["summary"]["value"] == "Noted."
    assert "result, by writer" in crews("report", f"{name}-run").out
    assert "is removed: 1 version" in crews("crews", "remove", name).out
    assert json.loads(crews("crews", "default", "--json").out) == {"default": None}
    assert f"no crew '{name}'" in crews("crews", "remove", name).err
    assert crews("show", f"{name}-run").code == 0
