from __future__ import annotations

from pathlib import Path

import pytest

from crewlog.errors import ToolFailed
from crewlog.ids import AgentName, CallKey, RunId, StepId, ToolName
from crewlog.tool_call import ToolCall, calling, current_call, workspace_of


def call(workspace: Path, *paths: str) -> ToolCall:
    return ToolCall(
        run=RunId("r"),
        step=StepId("s#1"),
        call=1,
        key=CallKey("r/s#1/1"),
        agent=AgentName("a"),
        tool=ToolName("write_file"),
        workspace=workspace,
        paths=paths,
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    inside.mkdir()
    (tmp_path / "outside").mkdir()
    (inside / "notes").mkdir()
    (inside / "escape").symlink_to(tmp_path / "outside")
    (inside / "notes" / "escape").symlink_to(inside)
    (inside / "loop").symlink_to(inside / "loop")
    (inside / "alias").symlink_to(inside / "notes")
    return inside


def test_paths_inside_are_resolved(workspace):
    assert call(workspace).resolve("new/file.txt") == workspace / "new" / "file.txt"
    assert call(workspace, "notes/").resolve("alias/a.md") == workspace / "notes" / "a.md"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/etc/passwd", "'/etc/passwd' is not inside the workspace"),
        ("../outside/x", "'../outside/x' is not inside"),
        ("notes/../../x", "is not inside"),
        ("a\0b", "is not inside"),
        ("escape/x", "leaves the workspace by a symbolic link"),
        ("loop/x", "cannot be followed"),
        ("other.txt", "'write_file' may not use 'other.txt'"),
        ("notes/escape/other.txt", "may not use"),
        ("notesX/a", "may not use"),
    ],
)
def test_paths_outside_are_refused(workspace, path, message):
    with pytest.raises(ToolFailed, match=message) as failed:
        call(workspace, "notes/").resolve(path)
    assert failed.value.remedy


def test_a_tool_can_be_tested_by_itself(workspace):
    with calling(call(workspace)) as made:
        assert current_call() is made
        made.heartbeat("nobody listens")
        assert not made.cancelled


LONG = "x" * 300


@pytest.mark.parametrize(
    "run",
    [
        "..",
        ".",
        "a/b",
        "../x",
        "/",
        "ü",
        ".hidden",
        "a b",
        "-rf",
        "_x",
        "a~b",
        "a\n",
        LONG,
        "\ud800",
    ],
)
def test_a_run_has_a_folder_whatever_its_id(tmp_path, run):
    folder = workspace_of(tmp_path, RunId(run))
    assert folder.parent == tmp_path
    folder.mkdir()
    assert workspace_of(tmp_path, RunId("music-7f3a")) == tmp_path / "music-7f3a"


def test_no_two_runs_share_a_folder(tmp_path):
    runs = ["a/b", "a_b", "a b", LONG, LONG + "x", "x" * 100, "x" * 101, "..", ".", "/", "A", "a"]
    folders = [workspace_of(tmp_path, RunId(run)) for run in runs]
    assert len(set(folders)) == len(runs)
    # Nobody can name a run so that it gets another run's folder.
    for run, folder in zip(runs, folders, strict=True):
        assert folder.name == run or workspace_of(tmp_path, RunId(folder.name)) != folder
    assert folders[5].name == "x" * 100
    assert all(len(folder.name) <= 100 for folder in folders)
