"""`crewlog compile`, `explain`, and what `validate` and `schema` say of prompts and registries."""

from __future__ import annotations

import io
import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from covers import covers
from crewlog.cli.compiling import is_prompt, read_source
from crewlog.cli.files import is_file
from crewlog.cli.main import run_cli
from crewlog.definition.content import definition_hash
from crewlog.definition.load import load_definition, load_file

PROMPT = """\
The collector gathers the changes, then the writer drafts notes. The checker
reviews; unless approved, back to the writer, at most 3 times, otherwise ask me.
Only the writer may write files. Make it snappy.
"""
WHOLE = PROMPT.replace(" Make it snappy.", "")
BAD = PROMPT + "The writer uses the model gpt-9.\n"
REGISTRY = """\
registry: notes
model: openai:gpt-5-mini
tools:
  write_file: {run: "my_tools:write_file", effects: write, words: [write files]}
  git_log: {run: "my_tools:git_log", effects: read}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("registry.yaml").write_text(REGISTRY)
    Path("notes.md").write_text(PROMPT)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert run_cli(list(arguments)) == code
    return capsys.readouterr().out


def document(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    return json.loads(shown(capsys, *arguments, "--json", code=code))


@covers("C4")
def test_each_part_stands_beside_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "compile", "notes.md").splitlines()
    parts = {line[2:18].strip(): line for line in lines if line[2:3].strip()}
    assert "collector → writer → checker" in parts["phases"]
    assert "not approved → writer (≤ 3), else" in parts["decision"]
    assert "write_file: writer" in parts["permission"]
    columns = {parts[label].index("line") for label in ("phases", "decision", "permission")}
    assert len(columns) == 1
    assert re.search(r"  lines 1.2$", parts["phases"])
    assert parts["permission"].endswith("  line 3")
    assert "collector ── writer ── checker" in "\n".join(lines)
    assert "\x1b" not in "\n".join(lines)


def test_the_words_are_quoted_on_demand(capsys: pytest.CaptureFixture[str]) -> None:
    assert "“" not in shown(capsys, "compile", "notes.md")
    found = shown(capsys, "compile", "notes.md", "--words")
    assert "“at most 3 times" in found
    assert "“Only the writer may write files" in found


def test_what_was_not_understood_is_underlined(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "compile", "notes.md").splitlines()
    at = next(i for i, line in enumerate(lines) if "not understood" in line)
    assert "notes.md:3:34" in lines[at]
    begin = lines[at + 1].index("Make it snappy.")
    assert lines[at + 2].index("^") == begin
    assert lines[at + 3].strip()


def test_a_prompt_comes_from_prose_a_file_or_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = document(capsys, "compile", "notes.md")
    prose = document(capsys, "compile", PROMPT)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROMPT.encode())))
    stdin = document(capsys, "compile", "-")
    assert file["hash"] == prose["hash"] == stdin["hash"]
    assert [each["file"] for each in (file, prose, stdin)] == [
        "notes.md",
        "prompt",
        "standard input",
    ]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("nope.md", "cannot read 'nope.md'"),
        ("nope", "cannot read 'nope'"),
        ("registry.yaml", "is a crew's file and no prompt"),
        ("latin.md", "the byte 0xe9 in line 2 is not UTF-8"),
    ],
)
def test_what_is_no_prompt_is_told(
    argument: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("latin.md").write_bytes("The writer\ndrafts café.".encode("latin-1"))
    assert run_cli(["compile", argument]) == 2
    assert message in capsys.readouterr().err


def test_a_crew_is_written_alone_to_standard_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(PROMPT.encode())))
    before = set(Path().iterdir())
    for _ in range(2):  # there is nothing to be replaced
        assert run_cli(["compile", "notes.md", "--out", "-"]) == 0
        told = capsys.readouterr()
        assert "Make it snappy." in told.err
        assert "crewlog run" not in told.err
    assert run_cli(["compile", "-", "-o", "-"]) == 0
    assert capsys.readouterr().out == told.out
    assert set(Path().iterdir()) == before
    found = document(capsys, "compile", "notes.md")
    assert definition_hash(load_definition(told.out)) == found["hash"]
    assert run_cli(["compile", "notes.md", "--out", "-", "--json"]) == 2
    assert "both write to standard output" in capsys.readouterr().err
    assert run_cli(["compile", "notes.md", "--out", "-", "--strict"]) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "command",
    [
        ("crews", "add"),
        ("crews", "who", "--in"),
        ("crews", "diff", "notes.md"),
        ("register",),
        ("graph",),
    ],
)
@pytest.mark.parametrize("file", ["notes.md", "with: colon.txt", "prose"])
def test_a_prompt_in_a_crews_place_is_told_how_to_become_one(
    command: tuple[str, ...], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("with: colon.txt").write_text("Note: the writer drafts.\nThen: the checker reviews it.\n")
    Path("prose").write_text(WHOLE)
    assert run_cli([*command, file]) == 2
    name = "notes.md" if "diff" in command else file
    told = " ".join(capsys.readouterr().err.split())
    assert f"{name!r} is a prompt and no crew's file" in told
    assert f"crewlog compile {shlex.quote(name)} --out crew.yaml" in told


def test_a_crew_of_another_suffix_is_told_its_own_faults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("crew.txt").write_text("crew: a\nagents:\n  b: {promt: P.}\n")
    assert run_cli(["crews", "add", "crew.txt"]) == 2
    assert "unknown key 'promt'" in capsys.readouterr().err


def test_the_document_is_stable(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "compile", "notes.md")
    assert {
        *("ok", "understood", "reader", "file", "crew", "hash", "definition"),
        *("requirements", "remarks", "provenance"),
    } <= set(found)
    assert (found["ok"], found["understood"], found["reader"]) == (True, False, "grammar")
    (remark,) = [each for each in found["remarks"] if each["code"] == "not_understood"]
    assert (remark["line"], remark["column"], remark["severity"]) == (3, 34, "warning")
    assert remark["words"][0]["text"].startswith("Make it snappy")
    phases = [each for each in found["provenance"] if each["what"] == "phase"]
    assert [each["text"] for each in phases] == ["collector", "writer", "checker"]
    assert phases[0]["words"][0]["first"] == 1
    assert phases[0]["path"] == ["flow", 0]
    assert document(capsys, "compile", "notes.md") == found


def test_a_crew_is_written_and_not_replaced_without_force(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = document(capsys, "compile", "notes.md", "--out", "crew.yaml")
    assert found["out"] == "crew.yaml"
    assert definition_hash(load_file("crew.yaml")) == found["hash"]
    text = Path("crew.yaml").read_text()
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 2
    assert "there is a file 'crew.yaml' already" in capsys.readouterr().err
    assert Path("crew.yaml").read_text() == text
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml", "--force"]) == 0
    assert definition_hash(load_file("crew.yaml")) == found["hash"]
    assert run_cli(["compile", "notes.md", "--out", "no/such/dir.yaml"]) == 2
    assert "cannot write 'no/such/dir.yaml'" in capsys.readouterr().err


def test_a_new_version_keeps_what_was_named(capsys: pytest.CaptureFixture[str]) -> None:
    Path("notes.md").write_text(WHOLE)
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    renamed = (
        Path("crew.yaml").read_text().replace("else: ask_human", "else: ask_human, phase: verdict")
    )
    Path("crew.yaml").write_text(renamed)
    load_file("crew.yaml")
    Path("notes.md").write_text(WHOLE.replace("at most 3", "at most 4"))
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml", "--force"]) == 0
    capsys.readouterr()
    text = Path("crew.yaml").read_text()
    assert "at_most: 4" in text
    assert "verdict" in text


@pytest.mark.parametrize(
    "written",
    [
        "rules: [{tool: write_file, do: never, agents: [writer], reason: Not yet.}]\n",
        "rules: [{tool: write_file, quota: 5 per run}]\n",
        "groups: {desk: [writer, checker]}\n",
        "interrupts: {people: [ana], expires: 2h, default: stop}\n",
        "logs: {notes: {readers: [checker]}}\n",
        "timezone: Europe/Berlin\n",
        "approvals: {write_file: }\n",
    ],
)
def test_what_people_wrote_into_the_file_stands(
    capsys: pytest.CaptureFixture[str], written: str
) -> None:
    Path("notes.md").write_text(WHOLE)
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    whole = Path("crew.yaml").read_text() + written
    Path("crew.yaml").write_text(whole)
    before = load_file("crew.yaml")
    Path("notes.md").write_text(WHOLE.replace("at most 3", "at most 4"))
    capsys.readouterr()
    found = document(capsys, "compile", "notes.md", "--out", "crew.yaml", "--force")
    after = load_file("crew.yaml")
    key = written.partition(":")[0]
    assert getattr(after, key) == getattr(before, key)
    assert [line for line in found["replaced"] if "at most 4" in line or "at_most" in line]
    assert definition_hash(after) == found["hash"]


def test_what_would_be_lost_of_the_file_is_named_and_it_stays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("notes.md").write_text(WHOLE + " At most 20 steps.")
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    text = Path("crew.yaml").read_text().replace("steps: 20", "steps: 10")
    text += "rules: [{tool: write_file, do: ask, agents: [checker]}]\n"
    Path("crew.yaml").write_text(text)
    more = WHOLE.replace("checker", "proofreader").replace("the writer may", "the proofreader may")
    Path("notes.md").write_text(f"{more} At most 20 steps.")
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml", "--force"]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "rules[0] is about 'checker', which the prompt does not have" in told
    assert "the crew's limit of 'steps' is 10, and the prompt says 20" in told
    assert "permissions do not let proofreader call write_file, and the prompt does" in told
    assert "or take it out of crew.yaml first" in told
    assert Path("crew.yaml").read_text() == text
    Path("crew.yaml").write_text(f"{text}rulez: []\n")
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml", "--force"]) == 2
    assert "rulez" in capsys.readouterr().err


def test_errors_are_all_shown_and_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.md").write_text(BAD + "The checker uses the model gpt-8.\n")
    assert run_cli(["compile", "bad.md", "--out", "crew.yaml"]) == 2
    found = capsys.readouterr()
    assert "gpt-9" in found.err
    assert "gpt-8" in found.err
    assert "bad.md:4:" in found.err
    assert "not to be run" in found.out
    assert not Path("crew.yaml").exists()
    assert run_cli(["compile", "bad.md", "--json"]) == 2
    found = capsys.readouterr()
    assert json.loads(found.out)["ok"] is False
    assert json.loads(found.err)["error"]["type"] == "InvalidDefinition"


def test_strict_takes_no_sentence_that_was_not_understood(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_cli(["compile", "notes.md", "--strict", "--out", "crew.yaml"]) == 2
    assert "notes.md:3:34" in capsys.readouterr().err
    assert not Path("crew.yaml").exists()
    Path("notes.md").write_text(WHOLE)
    assert run_cli(["compile", "notes.md", "--strict"]) == 0


def test_the_registry_is_found_beside_the_prompt_or_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("there").mkdir()
    Path("there/notes.md").write_text(WHOLE)
    Path("there/registry.yaml").write_text(REGISTRY.replace("gpt-5-mini", "beside"))
    Path("other.yaml").write_text(REGISTRY.replace("gpt-5-mini", "named"))

    def model(*arguments: str) -> str:
        found = document(capsys, "compile", "there/notes.md", *arguments)
        return str(found["definition"]["model"])

    assert model() == "openai:beside"
    assert model("--registry", "other.yaml") == "openai:named"
    assert model("--model", "openai:given") == "openai:given"
    Path("there/registry.yaml").unlink()
    assert model() == "openai:gpt-5-mini"
    Path("other.yaml").write_text("registry: x\ntols: {}\n")
    assert run_cli(["compile", "there/notes.md", "--registry", "other.yaml"]) == 2
    assert "other.yaml:2:1" in capsys.readouterr().err


def test_without_a_registry_there_are_no_tools(capsys: pytest.CaptureFixture[str]) -> None:
    Path("registry.yaml").unlink()
    assert run_cli(["compile", "The planner plans. Then the coder writes the code."]) == 2
    assert "--model" in capsys.readouterr().err
    made = shown(
        capsys, "compile", "The planner plans. Then the coder codes.", "--model", "openai:x"
    )
    assert "planner → coder" in made


@covers("C29")
def test_a_dry_run_follows_what_was_understood(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, "compile", "notes.md", "--dry-run")
    assert "nothing is called; agents say nothing and set nothing" in found
    assert "not approved holds (approved is not set) → writer, time 1 of 3" in found
    assumed = document(
        capsys, "compile", "notes.md", "--dry-run", "--assume", "checker.approved=true"
    )["dry_run"]
    assert [each["node"] for each in assumed["steps"]][:3] == ["collector", "writer", "checker"]
    assert (assumed["flags"], assumed["end"]) == ({"approved": True}, "completed")
    assert run_cli(["compile", "notes.md", "--assume", "approved"]) == 2
    assert "--assume is for a dry run" in capsys.readouterr().err
    assert run_cli(["compile", "notes.md", "--dry-run", "--assume", "aproved"]) == 2
    assert "Did you mean 'approved'?" in capsys.readouterr().err


def test_a_crew_file_has_a_dry_run_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    capsys.readouterr()
    found = shown(capsys, "validate", "crew.yaml", "--dry-run")
    assert "✓ crew.yaml: crew" in found
    assert "13 visits · 1 question" in found
    data = document(capsys, "validate", "crew.yaml", "--dry-run", "--assume", "approved")
    assert data["valid"] is True
    assert data["dry_run"]["questions"] == []


def test_validate_checks_prompts_and_registries(capsys: pytest.CaptureFixture[str]) -> None:
    assert "1 part not understood" in shown(capsys, "validate", "notes.md")
    assert document(capsys, "validate", "notes.md")["understood"] is False
    Path("bad.md").write_text(BAD)
    assert run_cli(["validate", "bad.md"]) == 2
    assert "gpt-9" in capsys.readouterr().err
    assert "registry notes · 2 tools" in shown(capsys, "validate", "registry.yaml")
    assert document(capsys, "validate", "registry.yaml")["tools"] == ["write_file", "git_log"]
    Path("offers.yaml").write_text("# Ours\nregistry: notes\ntols: {}\nmodle: x\n")
    assert run_cli(["validate", "offers.yaml"]) == 2
    found = capsys.readouterr().err
    assert "offers.yaml:3:1" in found
    assert "offers.yaml:4:1" in found


@pytest.mark.parametrize(
    ("what", "key"), [("crew", "flow"), ("registry", "tools"), ("prompt-ast", "statements")]
)
def test_schemas(what: str, key: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(shown(capsys, "schema", what))
    assert key in found["properties"]
    assert found["$schema"].endswith("2020-12/schema")


def test_an_unknown_schema_has_a_remedy(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["schema", "registri"]) == 2
    assert "Did you mean 'registry'?" in capsys.readouterr().err


def test_a_node_is_explained_with_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys, "explain", "notes.md", "writer")
    assert "the writer drafts notes" in found
    assert "“Only the writer may write files" in found
    rows = {line[2:17].strip(): line[17:] for line in found.splitlines() if line[2:3].strip()}
    assert rows["waits for"] == "collector"
    assert rows["may follow"] == "checker"
    assert "write_file" in rows["may call"]
    data = document(capsys, "explain", "notes.md", "writer")
    assert {each["what"] for each in data["words"]} >= {"phase", "permission"}
    assert run_cli(["explain", "notes.md", "wrter"]) == 2
    assert "Did you mean 'writer'?" in capsys.readouterr().err


def test_a_crew_files_node_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compile", "notes.md", "--out", "crew.yaml"]) == 0
    capsys.readouterr()
    found = shown(capsys, "explain", "crew.yaml", "after_checker")
    assert "decision" in found
    assert "writer, where not approved (≤ 3)" in found
    assert "in the prompt" not in found
    checker = shown(capsys, "explain", "crew.yaml", "checker")
    assert "flags approved" in checker
    assert "write_file  permissions let only writer call it" in checker


def test_parts_stand_in_their_column_in_a_narrow_pipe(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(capsys, "compile", "notes.md").splitlines()
    assert max(map(len, lines)) <= 80
    parts = [line for line in lines if re.search(r"  lines? \d", line)]
    assert len({line.index("  line") for line in parts}) == 1


def test_prose_too_long_for_a_file_s_name_is_prose() -> None:
    prose = "The collector gathers the changes, then the writer drafts notes. " * 5
    assert is_prompt(prose)
    assert read_source(prose).text == prose
    assert not is_file(prose)
    assert not is_file("x" * 300)
    assert not is_file("a\0b")
