"""A model that reads prompts for the command line, instead of the forms."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from crewlog.activities.chat_models import ModelFactory
from crewlog.activities.prompt_compiler import has_model
from crewlog.cli.main import run_cli
from crewlog.prompt.model_reader import REPAIRS
from crewlog.prompt.reading import reading_schema
from crewlog.prompt.registry import Registry
from crewlog.testing.scripted import recorded_prompts, scripted

PROMPT = """\
# Release notes
The collector gathers the changes. Then the writer drafts the notes.
Only the writer may use write_file. Thanks!
"""
"""The forms understand it, too. Its clauses: the heading, three sentences, thanks."""
_NO_MORE = {
    "if": "", "when": "", "within": "", "late": "", "each": "", "needs": [], "instead_of": "",
}  # fmt: skip


def reading() -> dict[str, Any]:
    """What the prompt says."""
    nothing: dict[str, Any] = {name: [] for name in reading_schema()["properties"]}  # type: ignore[union-attr]
    return {
        **nothing,
        "crew": "release-notes",
        "agents": [
            {"clauses": [2], "name": "collector", "about": ""},
            {"clauses": [3], "name": "writer", "about": ""},
        ],
        "steps": [
            {"clauses": [2], "name": "collector", "agent": "collector",
             "task": "gathers the changes", "after": [], **_NO_MORE},
            {"clauses": [3], "name": "writer", "agent": "writer", "task": "drafts the notes",
             "after": [{"of": ["collector"], "need": 1}], **_NO_MORE},
        ],
        "rights": [
            {"clauses": [4], "effect": "only", "agents": ["writer"], "tools": ["write_file"],
             "if": "", "quota": ""}
        ],
        "ledger": [
            {"clause": n, "status": "talk" if n == 5 else "used", "why": "", "against": []}
            for n in (1, 2, 3, 4, 5)
        ],
    }  # fmt: skip


def wrong() -> dict[str, Any]:
    """The same, but for the tool: it says that the writer may use it, and not that only he may."""
    changed = copy.deepcopy(reading())
    changed["rights"][0]["effect"] = "may"
    return changed


GOOD, WRONG = json.dumps(reading()), json.dumps(wrong())


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    Path("notes.md").write_text(PROMPT)


def answers(*replies: str, directory: Path = Path(), to: str = "compiler") -> None:
    """A registry whose model answers an agent with these, one after the other."""
    lines = [f"    - {{text: {json.dumps(reply)}}}" for reply in replies]
    (directory / "reader.yaml").write_text(f"agents:\n  {to}:\n" + "\n".join(lines) + "\n")
    (directory / "registry.yaml").write_text(
        "registry: notes\nmodel: scripted:reader.yaml\n"
        'tools:\n  write_file: {run: "my_tools:write_file", effects: write}\n'
    )


def compiled(
    capsys: pytest.CaptureFixture[str], *arguments: str, reader: str = "model", code: int = 0
) -> Any:
    assert run_cli(["compile", *arguments, "--reader", reader, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_model_reads_and_each_clause_has_what_it_became(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers(GOOD)
    found = compiled(capsys, "notes.md")
    assert (found["reader"], found["crew"], found["ok"]) == ("model", "release-notes", True)
    assert found["definition"]["flow"] == ["collector", "writer"]
    assert found["definition"]["permissions"] == {"write_file": ["writer"]}
    clauses = found["clauses"]
    assert [each["status"] for each in clauses] == ["used", "used", "used", "used", "talk"]
    assert clauses[1]["text"] == "The collector gathers the changes."
    assert clauses[1]["parts"] == ["collector starts with the run"]
    assert clauses[2]["parts"] == ["writer waits for collector"]
    assert clauses[3]["parts"] == ["write_file: writer"]
    assert clauses[4]["parts"] == []


def test_it_is_told_who_read_the_prompt(capsys: pytest.CaptureFixture[str]) -> None:
    answers(GOOD)
    assert run_cli(["compile", "notes.md", "--reader", "model"]) == 0
    assert "read by a model" in capsys.readouterr().out
    assert run_cli(["compile", "notes.md", "--reader", "forms"]) == 0
    assert "read by the forms" in capsys.readouterr().out


@pytest.mark.parametrize("first", ["Sure! Here is your crew.", WRONG])
def test_a_reading_that_does_not_hold_is_asked_for_again(
    capsys: pytest.CaptureFixture[str], first: str
) -> None:
    answers(first, GOOD)
    assert compiled(capsys, "notes.md")["ok"] is True


def test_of_all_readings_the_best_is_kept_with_its_faults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers("no", WRONG, *["no"] * (REPAIRS - 1))
    found = compiled(capsys, "notes.md", code=2)
    assert (found["ok"], found["understood"]) == (False, False)
    assert found["definition"]["flow"] == ["collector", "writer"]
    faults = [each for each in found["remarks"] if each["severity"] == "error"]
    assert [(each["code"], each["clauses"]) for each in faults] == [("obligation", [4])]
    assert (faults[0]["line"], faults[0]["column"]) == (3, 1)
    partial = compiled(capsys, "notes.md", "--allow-partial")
    assert (partial["ok"], partial["remarks"]) == (False, found["remarks"])
    assert partial["definition"]["flow"] == [
        {"ask": partial["definition"]["flow"][0]["ask"], "phase": "approve_crew"},
        *found["definition"]["flow"],
    ]


def test_a_model_that_never_makes_sense_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    answers(*["no"] * (REPAIRS + 1))
    for extra in ((), ("--allow-partial",)):  # there is no part of a crew, either
        found = compiled(capsys, "notes.md", *extra, code=2)
        assert (found["ok"], found["definition"]) == (False, None)
        assert {each["code"] for each in found["remarks"]} == {"model_failed"}
        assert "no JSON object" in found["remarks"][0]["message"]


def test_what_a_model_can_not_put_into_a_part_is_a_fault_with_its_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("notes.md").write_text(PROMPT.replace("Thanks!", "Make it snappy."))
    said = reading()
    said["ledger"][4].update(status="cannot", why="style is no part of a crew")
    answers(*[json.dumps(said)] * (REPAIRS + 1))
    found = compiled(capsys, "notes.md", code=2)
    (remark,) = [each for each in found["remarks"] if each["severity"] == "error"]
    assert (remark["code"], remark["line"], remark["column"]) == ("not_understood", 3, 37)
    assert (found["clauses"][4]["status"], found["clauses"][4]["reason"]) == (
        "cannot",
        "style is no part of a crew",
    )
    assert run_cli(["compile", "notes.md", "--reader", "model", "--allow-partial"]) == 0
    assert "→ not understood: style is no part of a crew" in capsys.readouterr().out


def test_a_script_stands_beside_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    Path("there").mkdir()
    answers(GOOD, directory=Path("there"))
    found = compiled(capsys, "notes.md", "--registry", "there/registry.yaml")
    assert (found["reader"], found["ok"]) == ("model", True)


@pytest.mark.parametrize("reader", ["model", "auto", "forms"])
@pytest.mark.parametrize("to", ["compiler", "writer"])
def test_the_crew_has_its_model_as_the_registry_names_it(
    capsys: pytest.CaptureFixture[str], reader: str, to: str
) -> None:
    if (reader, to) == ("model", "writer"):
        pytest.skip("there is no answer for the compiler")
    answers(GOOD, to=to)
    found = compiled(capsys, "notes.md", reader=reader)
    assert found["definition"]["model"] == "scripted:reader.yaml"
    assert str(Path.cwd()) not in json.dumps(found)


@pytest.mark.parametrize("reader", ["auto", "model"])
def test_no_message_to_a_model_has_a_path_of_this_machine(
    capsys: pytest.CaptureFixture[str], reader: str
) -> None:
    answers(GOOD)
    model = scripted(Path("reader.yaml").resolve())  # its prompts are kept
    assert compiled(capsys, "notes.md", reader=reader)["reader"] == "model"
    (asked,) = recorded_prompts(model)
    said = json.dumps(asked.messages)
    assert '"models":["scripted:reader.yaml"]' in said.replace("\\", "")
    assert str(Path.cwd()) not in said


def test_without_a_model_or_a_key_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compile", "notes.md", "--reader", "model"]) == 2
    told = capsys.readouterr().err
    assert "a model is to read the prompt, and none is configured" in told
    assert "--reader forms" in told
    Path("registry.yaml").write_text("registry: notes\nmodel: openai:gpt-5-mini\n")
    assert run_cli(["compile", "notes.md", "--reader", "model"]) == 2
    assert "OPENAI_API_KEY is not set" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("to", "reader", "who"),
    [
        ("compiler", "auto", "model"),
        ("writer", "auto", "forms"),
        ("compiler", "forms", "forms"),
    ],
)
def test_by_itself_a_script_is_a_model_where_it_answers_for_the_compiler(
    capsys: pytest.CaptureFixture[str], to: str, reader: str, who: str
) -> None:
    answers(GOOD, to=to)
    assert compiled(capsys, "notes.md", reader=reader)["reader"] == who


def test_by_itself_a_model_that_can_not_be_made_leaves_it_to_the_forms(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers(GOOD)
    registry = Path("registry.yaml")
    registry.write_text(registry.read_text().replace("scripted:reader.yaml", "openai:gpt-5-mini"))
    found = compiled(capsys, "notes.md", reader="auto")
    assert (found["reader"], found["ok"]) == ("forms", True)


@pytest.mark.parametrize(
    ("model", "reader", "key", "there"),
    [
        (None, "auto", "k", False),
        (None, "model", "k", False),
        ("openai:gpt-5-mini", "auto", "", False),
        ("openai:gpt-5-mini", "auto", "k", True),
        ("openai:gpt-5-mini", "forms", "k", False),
        ("openai:gpt-5-mini", "model", "", True),
        ("nothing:x", "auto", "k", False),
        ("scripted:no-such-file.yaml", "auto", "k", False),
    ],
)
async def test_there_is_a_model_by_one_rule_here_and_in_runs(
    model: str | None, reader: Any, key: str, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert await has_model(Registry(model=model), reader, ModelFactory()) is there


@pytest.mark.parametrize("reader", ["magic", "grammar", "llm"])
def test_an_unknown_reader_is_told(capsys: pytest.CaptureFixture[str], reader: str) -> None:
    assert run_cli(["compile", "notes.md", "--reader", reader]) == 2
    told = capsys.readouterr().err
    assert f"there is no reader {reader!r}" in told
    assert "The readers are: auto, forms, model." in told
