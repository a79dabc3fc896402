"""`python -m crewlog.client.schemas`: where it writes, and where it leaves everything as it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from crewlog.client.schemas import DIALECT, files, main


def test_it_writes_a_new_folder_and_a_folder_of_schemas(tmp_path: Path) -> None:
    folder = tmp_path / "schemas"
    assert main([str(folder)]) == 0
    (folder / "Gone.json").write_text(json.dumps({"$schema": DIALECT}))
    (folder / "Command.json").write_text(json.dumps({"$schema": DIALECT}))
    assert main([str(folder)]) == 0
    assert {
        path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.json")
    } == files()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("notes.txt", "mine"),
        ("package.json", "{}"),
        ("list.json", "[]"),
        ("broken.json", "{"),
        ("crew.json", '{"$schema": "./crew.schema.json"}'),
        ("index.json", '{"name": "my site"}'),
    ],
)
def test_a_folder_with_other_files_is_left_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    assert main([str(tmp_path)]) == 2
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == text
    told = capsys.readouterr().err
    assert f"has '{name}', which is no schema" in told
    assert "Name a folder" in told


def test_a_folder_in_a_folder_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "more.json").mkdir()
    assert main([str(tmp_path)]) == 2


@pytest.mark.parametrize(
    ("there", "say"), [("file", "is a file"), ("none/schemas", "there is no folder in which")]
)
def test_what_is_no_folder_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], there: str, say: str
) -> None:
    (tmp_path / "file").write_text("")
    assert main([str(tmp_path / there)]) == 2
    assert say in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("typed", "code"), [(["--help"], 0), (["-h"], 0), (["--out", "x"], 2), (["a", "b"], 2)]
)
def test_options_are_no_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: list[str], code: int
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(typed)
    assert ended.value.code == code
    assert [*tmp_path.iterdir()] == []
