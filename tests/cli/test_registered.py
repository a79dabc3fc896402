"""`crewlog builders` and `crewlog decisions`: what crews can use, of which package, and how."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from crewlog.cli.main import run_cli
from crewlog.definition import builders as registry
from crewlog.definition.builders import builders
from crewlog.definition.decisions import decisions


def _document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run_cli([*arguments, "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def test_all_that_are_registered_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    for noun, known in (("builders", builders()), ("decisions", decisions())):
        listed = _document(capsys, noun)[noun]
        assert [each["name"] for each in listed] == [*known]  # type: ignore[attr-defined, index]
        assert run_cli([noun]) == 0
        out = capsys.readouterr().out
        for name, each in known.items():
            assert name in out
            assert each.about.split("\n")[0] in out


def test_one_is_told_with_its_options_or_fields(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = _document(capsys, "decisions", "plan")
    (steps, _) = plan["fields"]  # type: ignore[misc]
    assert steps["required"] is True  # type: ignore[has-type]
    assert steps["each"] == ["id", "agent", "task", "after"]  # type: ignore[has-type]
    monkeypatch.setenv("COLUMNS", "60")
    assert run_cli(["builders", "review_loop"]) == 0
    out = capsys.readouterr().out
    assert "as an agent's pattern" in out
    assert "rounds  2" in out
    assert out.rstrip().endswith("review")  # the step that can be switched off
    assert max(map(len, out.splitlines())) <= 60


def test_an_unknown_one_is_refused_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["builders", "hup"]) == 2
    assert "Did you mean 'hub'?" in capsys.readouterr().err
    assert run_cli(["decisions", "nothing"]) == 2
    assert "There are: escalate, plan" in capsys.readouterr().err


def test_one_that_cannot_be_loaded_says_why(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = replace(builders()["hub"], name="debate", broken="the package 'talks' cannot be loaded")
    monkeypatch.setitem(registry._broken, ("debate", "talks:debate"), lost)  # pyright: ignore[reportPrivateUsage]
    assert run_cli(["builders"]) == 0
    assert "debate             the package 'talks' cannot be loaded" in capsys.readouterr().out
