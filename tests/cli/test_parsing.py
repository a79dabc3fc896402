"""What needs no server: help, mistakes, files."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from covers import covers
from crewlog.cli.main import run_cli

ROOT = Path(__file__).resolve().parents[2]
PLAIN = "crew: notes\nmodel: openai:gpt-5-mini\nagents: {a: {prompt: A.}, b: {prompt: B.}}\n"
WAITING = f"{PLAIN}flow: [{{agent: a, after: [b]}}, b, {{if: a.text, go: a}}]\n"
CREW = """\
crew: notes
model: scripted:x.yaml
agents:
  checker:   {prompt: Check., tools: [git_lgo]}
tools:
  git_log: {run: my_tools:git_log, effects: read}
"""
OLD = ["delete", "--older-than", "1d", "--status"]
NEVER = ["schedule", "create", "s", "c", "--overlap"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty directory, and no server: what asks for one fails, and starts none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CREWLOG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")


def test_the_help_names_every_command_in_sections(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["--help"]) == 0
    out = capsys.readouterr().out
    commands = re.findall(r"^  ([a-z][a-z-]*)  ", out, re.MULTILINE)
    assert commands[:3] == ["init", "run", "demo"]
    assert set(commands) == {
        *("init", "run", "demo", "validate", "graph", "schema", "register"),
        *("compile", "explain", "crews", "builders", "decisions", "mcp", "memory", "keys"),
        *("ps", "show", "watch", "log", "graphs", "lineage"),
        *("inbox", "answer", "pause", "resume", "stop", "interrupt", "message", "ask", "schedule"),
        *("change", "edit", "inject", "redirect", "rollback", "fork", "replay"),
        *("diff", "trace", "report", "checkpoints", "tag", "delete"),
        *("artifact", "chat", "dataset", "eval", "file"),
        *("audit", "permissions", "why", "allow", "deny", "inherit"),
        *("disable-tool", "enable-tool"),
        *("dev", "worker", "doctor", "rebuild", "encryption"),
    }
    for section in (
        "Crews:",
        "Look:",
        "Talk:",
        "Rewind:",
        "Evaluation:",
        "Authority:",
        "Surroundings:",
    ):
        assert section in out


@pytest.mark.parametrize("typed", [[], ["graph"], ["mcp"]])
def test_who_types_no_command_is_shown_which_there_are(
    typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(typed) == 2
    assert f"Usage: {' '.join(['crewlog', *typed])} [OPTIONS]" in capsys.readouterr().err


def test_every_command_is_documented_and_has_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["--help"]) == 0
    commands = re.findall(r"^  ([a-z][a-z-]*)  ", capsys.readouterr().out, re.MULTILINE)
    manual = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    for command in commands:
        assert run_cli([command, "--help"]) == 0
        told = capsys.readouterr().out
        parts = re.findall(r"^  ([a-z][a-z-]*)  ", told.partition("Commands:")[2], re.MULTILINE)
        for part in parts:
            assert run_cli([command, part, "--help"]) == 0
            assert "--json" in capsys.readouterr().out
            assert f"crewlog {command} {part}" in manual
        assert parts or "--json" in told
        assert f"crewlog {command}" in manual


@pytest.mark.parametrize(
    ("argv", "message", "hint"),
    [
        (["rnu"], "no such command 'rnu'", "Did you mean 'run'?"),
        (["unwire"], "no such command 'unwire'", "Did you mean `crewlog graph unwire`?"),
        (["ps", "--jsn"], "no such option: --jsn", "Did you mean '--json'?"),
        (["rollback", "music"], "'music' names no checkpoint", "`crewlog checkpoints music`"),
        (["fork", "m@3", "--edit", "x=1"], "'x=1' edits 'x', which is nothing", "agent.writer"),
        (["resume", "m", "--from", "x"], "cannot be resumed from 'x'", "recipe or live"),
        (["run", "c", "--existing", "x"], "--existing x is not understood", "attach or replace"),
        (["show"], "missing argument 'RUN", "`crewlog show --help`"),
        ([*OLD, "nonsense"], "has the status 'nonsense'", "stopped, terminated and timed_out."),
        ([*OLD, "failed", *OLD[3:], "complete"], "'complete'", "Did you mean 'completed'?"),
        (
            [*OLD, "paused"],
            "a run that is paused is under way",
            "completed, failed, merged, stopped",
        ),
        (["ps", "--limit", "x"], "invalid value for '--limit'", "`crewlog ps --help`"),
        (["graph", "g", "--version", "x"], "must be a whole number, not 'x'", "graph show --help"),
        (["ps", "--limit", "0"], "must be at least 1, not '0'", "`crewlog ps --help`"),
        ([*NEVER, "never"], "'--overlap': 'never' is not one of", "schedule create --help"),
        (["change", "m", "--operations", "no.yaml"], "cannot read", "file that lists operations"),
    ],
)
def test_a_wrong_command_line_is_one_clear_error(
    argv: list[str], message: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli(argv) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert message in found.err
    assert hint in found.err
    assert "Traceback" not in found.err


def test_errors_are_json_where_json_is_wanted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["ps", "--json", "--limit", "0"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["type"] == "UsageError"
    assert error["exit_code"] == 2
    assert error["place"] == "crewlog ps"


def test_a_fault_is_shown_with_its_place_its_line_and_a_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("crew.yaml").write_text(CREW)
    assert run_cli(["validate", "crew.yaml"]) == 2
    found = capsys.readouterr().err.splitlines()
    assert found[0].startswith("crew.yaml:4:39  ")
    assert "'git_lgo'" in found[0]
    assert found[1].strip() == "checker:   {prompt: Check., tools: [git_lgo]}"
    assert found[2].strip() == "^^^^^^^"
    assert found[2].index("^") == found[1].index("git_lgo")
    assert "Did you mean 'git_log'?" in found[3]


def test_faults_are_json_with_line_and_column(capsys: pytest.CaptureFixture[str]) -> None:
    Path("crew.yaml").write_text(CREW)
    assert run_cli(["run", "crew.yaml", "--json"]) == 2
    error = json.loads(capsys.readouterr().err)["error"]
    assert error["type"] == "InvalidDefinition"
    (fault,) = error["diagnostics"]
    assert (fault["line"], fault["column"], fault["length"]) == (4, 39, 7)


def test_faults_that_hide_others_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    hidden = "More errors may follow once {} corrected: not everything could be checked."
    shape = CREW.replace("effects: read", "effects: read, placed: locl")
    text = f"{CREW}crew: twice\n"
    for content, faults, note in (
        (shape, 2, hidden.format("these are")),
        (shape.replace("crew: notes", "crew: notes\nmodle: x"), 2, hidden.format("these are")),
        (text, 1, hidden.format("this one is")),
        (
            WAITING,
            1,
            hidden.format("this one is"),
        ),  # what goes back into the cycle is not looked at
        (f"{PLAIN}flow: [{{use: hub, with: {{ruoter: b}}}}]\n", 2, hidden.format("these are")),
        ("crew: [", 1, hidden.format("this one is")),
        (CREW, 1, ""),
    ):
        Path("crew.yaml").write_text(content)
        assert run_cli(["validate", "crew.yaml"]) == 2
        told = capsys.readouterr().err
        assert told.count("crew.yaml:") == faults
        assert ("More errors" in told) is bool(note)
        assert note in told
        assert run_cli(["validate", "crew.yaml", "--json"]) == 2
        error = json.loads(capsys.readouterr().err)["error"]
        assert error["more_may_follow"] is bool(note)
        assert len(error["diagnostics"]) == faults


@covers("C28")
def test_validate_finds_flows_that_no_run_could_take(capsys: pytest.CaptureFixture[str]) -> None:
    agents = "agents:\n  a: {prompt: A}\n  b: {prompt: B}\n"
    head = f"crew: t\nmodel: openai:x\n{agents}flags: {{ok: false}}\n"
    for flow, place, told in (
        ("[a]", "crew.yaml:5:3", "'b' is in no phase of the flow"),
        ("[a, {agent: b, after: go}]", "crew.yaml:7:29", "nothing ever starts the phase 'b'"),
        ("[{agent: a, after: b}, {agent: b, after: a}]", "crew.yaml:7", "wait for each other"),
        ("[a, b, {if: not ok, go: a}]", "crew.yaml:7", "at_most"),
        ("[a, b, {if: not done, go: end}]", "crew.yaml:7:23", "'done'"),
    ):
        Path("crew.yaml").write_text(f"{head}flow: {flow}\n")
        assert run_cli(["validate", "crew.yaml"]) == 2, flow
        found = capsys.readouterr().err
        assert place in found, flow
        assert told in found, flow
    Path("crew.yaml").write_text(f"{head}flow: [a, b, {{if: not ok, go: a, at_most: 2}}]\n")
    assert run_cli(["validate", "crew.yaml"]) == 0


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["validate", "nope.yaml"]) == 2
    assert "cannot read 'nope.yaml'" in capsys.readouterr().err


def test_a_bug_is_told_without_a_traceback_unless_debugging(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> str:
        raise KeyError("bug")

    monkeypatch.setattr("crewlog.definition.schema.schema_text", broken)
    assert run_cli(["schema"]) == 70
    told = capsys.readouterr().err
    assert "KeyError: 'bug'" in told
    assert "--debug" in told
    assert "Traceback" not in told
    assert run_cli(["schema", "--debug"]) == 70
    assert "Traceback" in capsys.readouterr().err


def test_schema_is_a_json_schema_of_crew_files(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["schema"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["$schema"].endswith("2020-12/schema")
    assert {"crew", "agents", "flow"} <= set(found["properties"])


def test_init_makes_a_crew_that_is_valid(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["init", "My Notes!"]) == 0
    assert "crewlog run crew.yaml" in capsys.readouterr().out
    made = {file.name for file in Path("My Notes!").iterdir()}
    assert {"crew.yaml", "crew.schema.json", "my_tools.py", "test_crew.py", "README.md"} <= made
    text = Path("My Notes!/crew.yaml").read_text()
    assert text.startswith("# yaml-language-server: $schema=./crew.schema.json\ncrew: my-notes\n")
    assert run_cli(["validate", "My Notes!/crew.yaml", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["agents"] == ["collector", "writer", "checker"]


def test_init_refuses_a_directory_that_is_not_empty(capsys: pytest.CaptureFixture[str]) -> None:
    Path("full").mkdir()
    Path("full/mine.txt").write_text("keep")
    assert run_cli(["init", "full"]) == 2
    assert "--force" in capsys.readouterr().err
    assert [file.name for file in Path("full").iterdir()] == ["mine.txt"]
    assert run_cli(["init", "full", "--force"]) == 0
    assert Path("full/mine.txt").read_text() == "keep"


def test_graph_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(ROOT / "examples" / "flutter_music_app" / "crew.yaml")
    assert run_cli(["graph", file]) == 0
    picture = capsys.readouterr().out
    assert "├─ aggregator ── audio (when backend.models_ready) ── done" in picture
    assert "\x1b" not in picture
    assert run_cli(["graph", file, "--mermaid"]) == 0
    assert capsys.readouterr().out.startswith("flowchart LR\n")
    assert run_cli(["graph", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["crew"] == "flutter-music-app"


def test_parsing_imports_nothing_heavy() -> None:
    code = (
        "import sys; from crewlog.cli.main import run_cli; run_cli(['--help']);"
        "heavy = {'temporalio', 'langchain_core', 'langgraph', 'pydantic', 'rich', 'asyncpg'};"
        "sys.exit(','.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
