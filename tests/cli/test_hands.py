"""Which task queue a run goes to: no step may reach a worker without its code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from crewlog.cli.hands import assign, assigned, claim, project_queue, remember, remembered
from crewlog.dev.services import Services
from crewlog.errors import UsageError


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("CREWLOG_", "TEMPORAL_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("CREWLOG_HOME", str(tmp_path / "home"))


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Path]:
    """A process that is recorded as the worker of a directory."""
    directory = tmp_path / "served"
    directory.mkdir()
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], cwd=directory)
    Services().register_worker(process.pid, task_queue="crewlog")
    yield directory
    process.kill()
    process.wait()


def test_two_projects_never_share_a_queue(tmp_path: Path) -> None:
    one, two = tmp_path / "a" / "My Crew", tmp_path / "b" / "My Crew"
    assert project_queue(one) != project_queue(two)
    assert project_queue(one).startswith("crewlog-my-crew-")
    assert assign(one).own


def test_a_named_queue_is_the_callers_business(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not assign(tmp_path, "tools").own
    monkeypatch.setenv("CREWLOG_TASK_QUEUE", "team")
    assert (assign(tmp_path).queue, assign(tmp_path).own) == ("team", False)


def test_the_worker_of_the_same_directory_is_used(worker: Path, tmp_path: Path) -> None:
    found = assign(worker)
    assert (found.queue, found.own) == ("crewlog", False)
    assert assign(tmp_path).own


def test_a_worker_that_closes_itself_is_found(
    worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that runs evaluators: nobody of its user sees later where it runs."""
    monkeypatch.setattr(psutil.Process, "cwd", Mock(side_effect=psutil.AccessDenied(1)))
    assert assign(worker).queue == "crewlog"


def test_a_shared_servers_default_queue_is_not_trusted(
    worker: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", "127.0.0.1:1")
    assert assign(worker).own


def test_a_queue_belongs_to_one_directory(worker: Path, tmp_path: Path) -> None:
    claim("crewlog", worker)
    claim("other", tmp_path)
    with pytest.raises(UsageError, match="has a worker of another directory already"):
        claim("crewlog", tmp_path)


def test_a_projects_queue_is_remembered(tmp_path: Path) -> None:
    assignment = assign(tmp_path)
    assert remembered(assignment.queue) is None
    remember(assignment)
    assert assigned(assignment.queue).directory == tmp_path.resolve()
    assert assigned(assignment.queue).own
    assert not assigned("crewlog").own
    assert remembered("crewlog-../../etc") is None
