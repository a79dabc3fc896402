"""With `--json` an error is one line on standard error, and standard output has no part of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crewlog.cli.main import run_cli

BROKEN = "crew: t\nmodel: openai:x\nagents: {a: {prompt: p}}\nflow: [a, b]\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    Path("broken.yaml").write_text(BROKEN)
    Path("empty.md").write_text("")
    Path("wrong.md").write_text("The writer writes. The writer uses the model gpt-99.\n")
    Path("registry.yaml").write_text("registry: r\nmodel: openai:gpt-5-mini\n")


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("compile gone.md", "UsageError"),
        ("compile broken.yaml", "UsageError"),
        ("compile wrong.md --registry gone.yaml", "UsageError"),
        ("compile wrong.md --reader best", "UsageError"),
        ("compile wrong.md --no-such-option", "UsageError"),
        ("compile wrong.md --assume a", "UsageError"),
        ("validate gone.yaml", "UsageError"),
        ("validate broken.yaml", "InvalidDefinition"),
        ("validate empty.md", "InvalidDefinition"),
        ("validate wrong.md", "InvalidDefinition"),
        ("explain broken.yaml a", "InvalidDefinition"),
        ("explain wrong.md writer", "InvalidDefinition"),
        ("explain gone.yaml a", "UsageError"),
        ("crews add broken.yaml", "InvalidDefinition"),
        ("crews add gone.yaml", "UsageError"),
        ("crews diff broken.yaml broken.yaml", "InvalidDefinition"),
        ("crews who write_file --in broken.yaml", "InvalidDefinition"),
        ("crews show", "UsageError"),
        ("run wrong.md --yes", "InvalidDefinition"),
        ("schema nothing", "UsageError"),
        ("graph broken.yaml", "InvalidDefinition"),
    ],
)
def test_standard_output_is_empty(
    command: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_cli([*command.split(), "--json"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    error = json.loads(line)["error"]
    assert (error["type"], error["exit_code"]) == (kind, 2)
    assert error["message"]


@pytest.mark.parametrize("prompt", ["empty.md", "wrong.md"])
def test_compile_has_its_document_too(prompt: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["compile", prompt, "--json"]) == 2
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert document["ok"] is False
    (line,) = err.splitlines()
    told = [each["message"] for each in json.loads(line)["error"]["diagnostics"]]
    assert told == [each["message"] for each in document["remarks"] if each["severity"] == "error"]


def test_a_model_that_cannot_be_asked_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the forms understand the prompt: a model that is configured reads it."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    Path("more.md").write_text("The writer writes.\n")
    assert run_cli(["compile", "more.md", "--json"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    (line,) = err.splitlines()
    error = json.loads(line)["error"]
    assert error["type"] == "ModelUnavailable"
    assert "cannot be reached" in error["message"]
    assert run_cli(["compile", "more.md", "--reader", "forms", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["reader"] == "forms"
    assert err == ""
