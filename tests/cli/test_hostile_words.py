"""Whatever a prompt, a model's reply or a crew says, nothing raw of it reaches the terminal."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path

import pytest

from crewlog.cli.main import run_cli
from readings import reading

BAD = "\x1b[2J\x1b]0;owned\x07\u202e\x9b31m"
PROMPTS = (
    f"# Crew {BAD}../../etc\n\nThe wri{BAD}ter drafts, then the checker reviews.\n",
    f"The writer drafts {BAD}. Ask me '{BAD} publish?' before the publisher publishes.\n",
    "The ../../etc/passwd agent drafts, then the !!python/object agent reviews.\n",
    f"The writer may use {BAD}rm. The {BAD} writes.\n",
    f"The writer drafts. {BAD} Make it {BAD} snappy.\n",
)
CREW = f"""\
crew: t
description: {json.dumps(BAD)}
model: {json.dumps("openai:" + BAD)}
agents:
  a: {{prompt: {json.dumps(BAD)}, outputs: [score]}}
flow:
  - a
  - {{ask: {json.dumps("Go " + BAD)}, phase: q, options: [{json.dumps("yes" + BAD)}, "no"]}}
"""
STEP = {"agent": "writer", "task": "drafts the notes"}


def clean(text: str) -> bool:
    """Whether there is no control and no direction in it but ends of lines."""
    return not [c for c in text if c != "\n" and unicodedata.category(c) in {"Cc", "Cf"}]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("registry.yaml").write_text("registry: r\nmodel: openai:gpt-5-mini\n")
    Path("crew.yaml").write_text(CREW)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize(
    "command",
    [
        "compile notes.md --words",
        "compile notes.md --dry-run",
        "compile notes.md --json",
        "validate notes.md",
        "explain notes.md writer",
        "explain notes.md \x1b[2J",
        "run notes.md",
    ],
)
def test_of_a_prompt(command: str, prompt: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("notes.md").write_text(prompt)
    assert run_cli(command.split(" ")) in {0, 2}
    out, err = capsys.readouterr()
    assert out or err
    assert clean(err)
    if "--json" in command:
        json.loads(out)  # a program's reader undoes the escapes
        assert "\x1b" not in out
    else:
        assert clean(out)


@pytest.mark.parametrize(
    "command",
    [
        *("validate crew.yaml", "explain crew.yaml a", "explain crew.yaml q", "graph crew.yaml"),
        *("crews diff crew.yaml crew.yaml", "crews who a.score --in crew.yaml"),
    ],
)
def test_of_a_crew(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(command.split(" ")) in {0, 2}
    out, err = capsys.readouterr()
    assert out or err
    assert clean(out + err)


@pytest.mark.parametrize("field", ["crew", "agent", "task", "about", "why", "no JSON"])
def test_of_a_models_reply(field: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("notes.md").write_text("The writer drafts the notes.\n")
    bad = f"w{BAD}"
    agent, task = (bad if field == name else said for name, said in STEP.items())
    given = reading([(agent, task, [1])], of=1, crew=bad if field == "crew" else "notes")
    if field == "about":
        given["agents"][0]["about"] = bad
    if field == "why":
        given["ledger"][0] |= {"status": "cannot", "why": bad}
    reply = bad if field == "no JSON" else json.dumps(given)
    lines = "\n".join(f"    - {{text: {json.dumps(reply)}}}" for _ in range(4))
    Path("reader.yaml").write_text(f"agents:\n  compiler:\n{lines}\n")
    Path("registry.yaml").write_text("registry: r\nmodel: scripted:reader.yaml\n")
    assert run_cli(["compile", "notes.md", "--reader", "model", "--words"]) in {0, 2}
    out, err = capsys.readouterr()
    assert out or err
    assert clean(out + err)
