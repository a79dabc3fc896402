"""A model that reads prompts for the command line, in place of the grammar."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from crewlog.activities.models import ModelFactory
from crewlog.activities.reading import has_model
from crewlog.cli.main import run_cli
from crewlog.prompt.registry import Registry

PROMPT = """\
# Release notes
The collector gathers the changes, then the writer drafts the notes.
Make it snappy.
"""
READING: dict[str, Any] = {
    "statements": [
        {"kind": "crew", "name": "release-notes", "quotes": ["# Release notes"]},
        {
            "kind": "step",
            "quotes": ["The collector gathers the changes"],
            "parts": [{"agent": "collector", "task": "gathers the changes"}],
        },
        {
            "kind": "step",
            "quotes": ["then the writer drafts the notes."],
            "parts": [{"agent": "writer", "task": "drafts the notes"}],
        },
    ],
    "not_understood": ["Make it snappy."],
}


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    Path("notes.md").write_text(PROMPT)


def answers(*replies: str, directory: Path = Path()) -> None:
    """A registry whose model answers with these, one after the other."""
    lines = [f"    - {{text: {json.dumps(reply)}}}" for reply in replies]
    (directory / "reader.yaml").write_text("agents:\n  compiler:\n" + "\n".join(lines) + "\n")
    (directory / "registry.yaml").write_text("registry: notes\nmodel: scripted:reader.yaml\n")


def compiled(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert run_cli(["compile", *arguments, "--reader", "llm", "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_a_model_reads_and_its_words_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    answers(json.dumps(READING))
    found = compiled(capsys, "notes.md")
    assert (found["reader"], found["crew"], found["ok"]) == ("llm", "release-notes", True)
    assert found["definition"]["flow"] == ["collector", "writer"]
    (missed,) = [each for each in found["remarks"] if each["code"] == "not_understood"]
    assert (missed["line"], missed["column"]) == (3, 1)
    phases = [each for each in found["provenance"] if each["what"] == "phase"]
    assert phases[0]["words"][0]["text"] == "The collector gathers the changes"


def test_what_does_not_hold_is_mended(capsys: pytest.CaptureFixture[str]) -> None:
    answers("Sure! Here is your crew.", json.dumps(READING))
    assert compiled(capsys, "notes.md")["ok"] is True


def test_a_model_that_never_makes_sense_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    answers(*["no"] * 4)
    assert compiled(capsys, "notes.md", code=2)["ok"] is False


def test_a_script_stands_beside_the_registry(capsys: pytest.CaptureFixture[str]) -> None:
    Path("there").mkdir()
    answers(json.dumps(READING), directory=Path("there"))
    found = compiled(capsys, "notes.md", "--registry", "there/registry.yaml")
    assert found["reader"] == "llm"


def test_without_a_model_or_a_key_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compile", "notes.md", "--reader", "llm"]) == 2
    assert "a model is to read the prompt, and there is none" in capsys.readouterr().err
    Path("registry.yaml").write_text("registry: notes\nmodel: openai:gpt-5-mini\n")
    assert run_cli(["compile", "notes.md", "--reader", "llm"]) == 1
    assert "OPENAI_API_KEY is not set" in capsys.readouterr().err


@pytest.mark.parametrize(("who", "reader"), [("compiler", "llm"), ("writer", "grammar")])
def test_by_itself_a_script_is_a_model_where_it_answers_for_the_compiler(
    capsys: pytest.CaptureFixture[str], who: str, reader: str
) -> None:
    answers(json.dumps(READING))
    script = Path("reader.yaml")
    script.write_text(script.read_text().replace("compiler", who))
    assert run_cli(["compile", "notes.md", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reader"] == reader


def test_what_the_grammar_understands_whole_is_not_asked_about(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers(json.dumps(READING))
    Path("notes.md").write_text(PROMPT.replace("Make it snappy.\n", ""))
    assert run_cli(["compile", "notes.md", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["reader"] == "grammar"


@pytest.mark.parametrize(
    ("model", "reader", "key", "there"),
    [
        (None, "auto", "k", False),
        (None, "llm", "k", False),
        ("openai:gpt-5-mini", "auto", "", False),
        ("openai:gpt-5-mini", "auto", "k", True),
        ("openai:gpt-5-mini", "grammar", "k", False),
        ("openai:gpt-5-mini", "llm", "", True),
        ("nothing:x", "auto", "k", False),
        ("scripted:no-such-file.yaml", "auto", "k", False),
    ],
)
async def test_there_is_a_model_by_one_rule_here_and_in_runs(
    model: str | None, reader: Any, key: str, there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    assert await has_model(Registry(model=model), reader, ModelFactory()) is there


def test_an_unknown_reader_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compile", "notes.md", "--reader", "magic"]) == 2
    assert "The readers are: auto, grammar, llm." in capsys.readouterr().err
