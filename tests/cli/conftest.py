"""The command line as people use it: a process, with a home of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from crewlog.client.schemas import VIEWS as VIEW_MODELS
from starter import starter

LIMIT = 100
ROOT = Path(__file__).resolve().parents[2]
KEPT = ("CREWLOG_MAX_CACHED_RUNS", "CREWLOG_ENCRYPTION_KEYS")
OWN = ("CREWLOG_", "TEMPORAL_", "DATABASE_URL", "OPENAI_", "COLUMNS", "FORCE_COLOR", "NO_COLOR")


def environment(home: Path) -> dict[str, str]:
    """Ours, without what would point at other people's servers; workers replay and encrypt as the
    whole suite does."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(OWN) or k in KEPT}
    return {**keep, "CREWLOG_HOME": str(home)}


@pytest.fixture(autouse=True)
def _no_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe has no end here, wherever the tests themselves are started from."""
    monkeypatch.delenv("COLUMNS", raising=False)


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """Standard output as JSON lines."""
        return [json.loads(line) for line in self.out.splitlines()]


VIEWS = {
    "audit": "AuditRecordView",
    "checkpoints": "CheckpointListView",
    "diff": "DiffView",
    "explain": "ExplanationView",
    "graph": "GraphDrawingView",
    "inbox": "InboxInterruptView",
    "log": "EventView",
    "permissions": "PermissionMatrixView",
    "report": "ReportView",
    "trace": "TraceView",
    "why": "PermissionExplanationView",
    "artifact --diff": "ArtifactDiffView",
    "trace --diff": "TraceDiffView",
    "crews diff": "DefinitionDiffView",
}
"""The view model that a command prints with `--json`."""
DRY_RUNS = ("compile", "validate")
"""The commands whose documents have a `DryRunView` as `dry_run`."""
GRAPH_COMMANDS = {"add", "remove", "wire", "channel", "connect", "disconnect"}


def check_views(arguments: Sequence[str], records: list[dict[str, Any]]) -> None:
    """Checks that what a command printed is valid by the published schema of its view model."""
    command, option = arguments[0], "--diff" if "--diff" in arguments else ""
    name = VIEWS.get(f"{command} {option}") or VIEWS.get(command)
    name = name or VIEWS.get(" ".join(arguments[:2]))
    if command in DRY_RUNS:
        name = "DryRunView"
        records = [each["dry_run"] for each in records if "dry_run" in each]
    if command == "inbox":  # each line names its event beside the view
        records = [
            {key: value for key, value in each.items() if key != "event"}
            for each in records
            if each["event"] == "open"
        ]
    if name is None or (name == "GraphDrawingView" and arguments[1] in GRAPH_COMMANDS):
        return
    schema = json.loads((ROOT / "docs/schemas/reporting" / f"{name}.json").read_text())
    for record in records:
        jsonschema.validate(record, schema, cls=jsonschema.Draft202012Validator)
        VIEW_MODELS[name].model_validate(record)  # the schema allows fields of a newer version


class Cli:
    """Runs `crewlog …` in a directory."""

    def __init__(self, home: Path, cwd: Path) -> None:
        self.env = environment(home)
        self.cwd = cwd

    def __call__(self, *arguments: str, cwd: Path | None = None, **env: str) -> Done:
        done = Done(*starter().run(arguments, cwd or self.cwd, {**self.env, **env}, LIMIT))
        if done.code == 0 and "--json" in arguments:
            check_views(arguments, done.records)
        return done

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "crewlog.cli.main", *arguments],
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """A home for the session; its servers are ended with it. Short: sockets have short paths."""
    root = Path(tempfile.mkdtemp(prefix="clcli-"))
    yield root
    Cli(root, root)("dev", "--stop")
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project without a worker: commands bring their own."""
    root = tmp_path_factory.mktemp("alone")
    (root / "slow.yaml").write_text(
        "crew: slow\nmodel: scripted:slow.script.yaml\nagents:\n  first: {prompt: P., tools: []}\n"
    )
    (root / "slow.script.yaml").write_text('delay: 3\nagents:\n  "*": [{text: slept}]\n')
    return root


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with small crews, and the script of their model."""
    root = tmp_path_factory.mktemp("project")
    (root / "two.yaml").write_text(
        "crew: two\nmodel: scripted:script.yaml\n"
        "agents:\n  first: {prompt: P., tools: []}\n  second: {prompt: P., tools: []}\n"
    )
    (root / "ask.yaml").write_text(
        "crew: asker\nmodel: scripted:script.yaml\n"
        "agents:\n  first: {prompt: P., tools: []}\n"
        "flow:\n  - {ask: 'Publish [red]it[/red]?', options: [publish, discard], phase: gate}\n"
        "  - first\n"
    )
    (root / "hold.yaml").write_text(
        "crew: holder\nmodel: scripted:script.yaml\ninterrupts: {people: [ann]}\n"
        "agents:\n  first: {prompt: P., tools: []}\n  planner: {prompt: P., tools: []}\n"
        "flow:\n  - planner\n"
        "  - {ask: 'Go on?', options: [hold, planner, approve, stop], words: true, phase: gate}\n"
        "  - first\n"
    )
    (root / "script.yaml").write_text(
        'agents:\n  first: [{text: "\\e[2J[bold]done[/bold]"}]\n  "*": [{text: ok}]\n'
    )
    (root / "crew.yaml").write_text((root / "two.yaml").read_text())
    return root


@pytest.fixture(scope="session")
def served(home: Path, project: Path) -> dict[str, Any]:
    """`crewlog dev --detach` in the project: its worker takes the runs there."""
    up = Cli(home, project)("dev", "--detach", "--json")
    assert up.code == 0, up.err
    return up.records[0]


@pytest.fixture
def crewlog(home: Path, project: Path, served: dict[str, Any]) -> Cli:
    """`crewlog …` as a process, in the project, with a worker in the background."""
    return Cli(home, project)
