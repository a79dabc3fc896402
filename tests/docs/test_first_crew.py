"""The README's first crew is the one that `crewlog init` writes, and it runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from crewlog.cli import main as cli
from crewlog.testing import CrewlogLocal, scripted

ROOT = Path(__file__).parents[2]


def _block(language: str, number: int = 0) -> str:
    text = (ROOT / "README.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[number]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What `crewlog init release-notes` writes."""
    monkeypatch.chdir(tmp_path)
    assert cli.run_cli(["init", "release-notes"]) == 0
    directory = tmp_path / "release-notes"
    monkeypatch.chdir(directory)
    monkeypatch.syspath_prepend(str(directory))
    sys.modules.pop("my_tools", None)
    return directory


def test_it_is_the_crew_that_init_writes(project: Path) -> None:
    written = (project / "crew.yaml").read_text()
    without_comment = "\n".join(line for line in written.splitlines() if not line.startswith("#"))
    assert _block("yaml").strip() == without_comment.strip()
    assert len(_block("yaml").splitlines()) <= 20
    assert _block("python").split('"""', 1)[1].strip() in (project / "my_tools.py").read_text()


@pytest.mark.server
async def test_it_runs(project: Path, crewlog_local: CrewlogLocal) -> None:
    (project / "crew.yaml").write_text(_block("yaml"))
    run = await crewlog_local.run(
        "crew.yaml", input="v2.1..HEAD", model=scripted(project / "notes.script.yaml")
    )
    assert run.steps == ["collector", "writer", "checker", "writer", "checker"]
    assert (crewlog_local.workspace / run.id / "notes" / "release.md").is_file()
    assert run.outputs["checker"]["text"] == "Every claim holds now. Approved."


@pytest.mark.server
async def test_its_python_runs(
    project: Path,
    crewlog_local: CrewlogLocal,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import crewlog

    client = await crewlog_local.client()

    async def connect() -> crewlog.Client:
        return client

    monkeypatch.setattr(crewlog, "connect", connect)
    space: dict[str, object] = {}
    exec(_block("python", 1), space)  # noqa: S102 - our own page
    await space["notes"]()  # type: ignore[operator]
    out = capsys.readouterr().out
    assert "RunCompleted" in out
    assert out.endswith("Every claim holds now. Approved.\n")
