"""What `crewlog run FILE` looks at before it starts a worker of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from crewlog.cli.preflight import check_worker_can, findable, scripted_note
from crewlog.definition.load import load_file
from crewlog.errors import InvalidDefinition

CREW = """\
crew: bad
model: openai:gpt-5-mini
agents:
  first: {prompt: P., tools: [t]}
  second: {prompt: P., tools: [u], model: "scripted:nope.yaml"}
tools:
  t: {run: my_tool:go, effects: read}
  u: {run: far.away:go, effects: read, queue: elsewhere}
"""


def test_everything_that_is_missing_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file = tmp_path / "crew.yaml"
    file.write_text(CREW)
    (tmp_path / "my_tools.py").write_text("raise SystemExit('imported')")
    crew = load_file(file)
    with pytest.raises(InvalidDefinition) as caught:
        check_worker_can(crew, tmp_path, file)
    found = {(each.line, each.message) for each in caught.value.diagnostics}
    assert {line for line, _ in found} == {2, 5, 7}
    assert "Did you mean 'my_tools'?" in {each.remedy for each in caught.value.diagnostics}

    monkeypatch.setenv("OPENAI_API_KEY", "k")
    (tmp_path / "my_tool.py").write_text("raise SystemExit('imported')")
    (tmp_path / "nope.yaml").write_text("")
    check_worker_can(crew, tmp_path, file)
    assert "my_tool" not in sys.modules
    assert scripted_note(crew) == "▸ model: scripted (nope.yaml)"


def test_modules_are_found_without_being_run(tmp_path: Path) -> None:
    package = tmp_path / "kit" / "inner"
    package.mkdir(parents=True)
    (tmp_path / "kit" / "__init__.py").write_text("raise SystemExit('imported')")
    (package / "tools.py").write_text("")
    paths = [str(tmp_path), *sys.path]
    assert findable("kit.inner.tools", paths)
    assert findable("os.path", paths)
    assert findable("sys", paths)
    assert not findable("kit.outer", paths)
    assert "kit" not in sys.modules
