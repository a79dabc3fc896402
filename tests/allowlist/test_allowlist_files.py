"""Tools open only files of the workspace, also if a folder is replaced by a link meanwhile."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml

from crewlog.allowlist.files import open_within, resolve_within
from crewlog.errors import NotInAllowlist

PATHS: Any = yaml.safe_load(
    (Path(__file__).parents[1] / "authority" / "paths.yaml").read_text("utf-8")
)
HOSTILE = [path for paths in PATHS["refused"].values() for path in paths]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inside = tmp_path / "workspace"
    (inside / "notes" / "sub").mkdir(parents=True)
    (inside / "notes" / "a.md").write_text("inside")
    (tmp_path / "secret").write_text("outside")
    return inside


def test_reading_and_writing(root: Path) -> None:
    with open_within(root, "notes/a.md") as file:
        assert file.read() == "inside"
    with open_within(root, "notes/new/deep/b.md", "w", ["notes/"]) as file:
        file.write("bü")
    assert (root / "notes/new/deep/b.md").read_text("utf-8") == "bü"
    with open_within(root, "notes/a.md", "a") as file:
        file.write("!")
    with open_within(root, "notes/a.md", "rb") as file:
        assert file.read() == b"inside!"
    with open_within(root, "notes/a.md", "r+") as file:
        file.write("I")
    assert (root / "notes/a.md").read_text() == "Inside!"
    with open_within(root, "notes/a.md", "w") as file:
        file.write("x")
    assert (root / "notes/a.md").read_text() == "x"
    with pytest.raises(FileExistsError), open_within(root, "notes/a.md", "x"):
        pass
    with pytest.raises(FileNotFoundError, match="notes/none"), open_within(root, "notes/none/x"):
        pass
    assert not (root / "notes/none").exists()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"encoding": "no-such-encoding"}, LookupError),
        ({"errors": 1}, TypeError),
        ({"newline": "x"}, ValueError),
        ({"buffering": 0}, ValueError),
        ({"closefd": False}, ValueError),
        ({"opener": os.open}, TypeError),
    ],
)
def test_options_that_no_file_has_close_each_descriptor_once(
    root: Path, options: dict[str, Any], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread gets the number of a descriptor as soon as it is closed."""
    taken: list[int] = []
    gc.collect()  # what other tests left open closes now, not in between
    before = len([*Path("/dev/fd").iterdir()])
    real = os.close

    def close(fd: int) -> None:
        real(fd)
        taken.append(os.open(root / "notes/a.md", os.O_RDONLY))

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", close)
        with pytest.raises(error):
            open_within(root, "new.txt", "w", **options)
    for fd in taken:
        assert os.read(fd, 6) == b"inside"
        os.close(fd)
    gc.collect()
    assert len([*Path("/dev/fd").iterdir()]) == before


@pytest.mark.parametrize("mode", ["r", "w"])
def test_hostile_paths_open_nothing(root: Path, mode: str) -> None:
    before = sorted(p for p in root.parent.rglob("*"))
    for path in HOSTILE:
        with pytest.raises(NotInAllowlist):
            open_within(root, path.replace("LONG_NAME", "a" * 300), mode, ["notes/"]).close()
    assert sorted(p for p in root.parent.rglob("*")) == before


def test_links(root: Path) -> None:
    (root / "notes" / "out").symlink_to(root.parent)
    (root / "notes" / "file").symlink_to(root.parent / "secret")
    (root / "notes" / "within").symlink_to(root / "notes" / "a.md")
    (root / "notes" / "dangling").symlink_to(root.parent / "made")
    (root / "notes" / "loop").symlink_to(root / "notes" / "loop")
    (root / "elsewhere").mkdir()
    (root / "notes" / "aside").symlink_to(root / "elsewhere")
    for path in ("notes/out/secret", "notes/file", "notes/within", "notes/dangling", "notes/loop"):
        for mode in ("r", "w", "a", "x", "r+"):
            with pytest.raises((NotInAllowlist, FileExistsError)):
                open_within(root, path, mode).close()
    assert not (root.parent / "made").exists()
    assert (root.parent / "secret").read_text() == "outside"
    # A link that stays inside may be followed by another program; not out of the tool's folders.
    assert resolve_within(root, "notes/within") == root / "notes" / "a.md"
    for path in ("notes/out/secret", "notes/file", "notes/loop"):
        with pytest.raises(NotInAllowlist):
            resolve_within(root, path)
    with pytest.raises(NotInAllowlist, match="may not use 'notes/aside/x'"):
        resolve_within(root, "notes/aside/x", ["notes/"])


def test_a_file_with_another_name(root: Path) -> None:
    os.link(root.parent / "secret", root / "notes" / "hard")
    for mode in ("w", "a", "r+"):
        with pytest.raises(NotInAllowlist, match="hard link"):
            open_within(root, "notes/hard", mode).close()
    assert (root.parent / "secret").read_text() == "outside"


def test_what_is_no_plain_file(root: Path) -> None:
    os.mkfifo(root / "notes" / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "notes" / "sock"))
        for path in ("notes/pipe", "notes/sock", "notes", "notes/", "notes/sub"):
            for mode in ("r", "w"):
                with pytest.raises((NotInAllowlist, IsADirectoryError)):
                    open_within(root, path, mode).close()
    with pytest.raises(NotInAllowlist, match="not a folder"):
        open_within(root, "notes/a.md/b", "w").close()


def test_a_folder_that_is_swapped_for_a_link_all_the_time(root: Path) -> None:
    """Whoever wins the race, nothing outside is read or written."""
    (root.parent / "sub").mkdir()
    target = root.parent / "sub" / "f"
    target.write_text("outside")
    over = threading.Event()

    def swap() -> None:
        real, link = root / "notes" / "real", root / "notes" / "link"
        while not over.is_set():
            link.unlink(missing_ok=True)
            link.symlink_to(root.parent / "sub")
            (root / "notes" / "sub").rename(real)
            link.rename(root / "notes" / "sub")
            (root / "notes" / "sub").unlink()
            real.rename(root / "notes" / "sub")

    (root / "notes" / "sub" / "f").write_text("inside")
    thread = threading.Thread(target=swap)
    thread.start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    seen = {"inside": 0, "refused": 0}
    try:
        for _ in range(100_000):
            if min(seen.values()) >= 100:
                break
            try:
                with open_within(root, "notes/sub/f", "r+", ["notes/"]) as file:
                    assert file.read() == "inside"
                    seen["inside"] += 1
            except (NotInAllowlist, FileNotFoundError):
                seen["refused"] += 1
    finally:
        sys.setswitchinterval(interval)
        over.set()
        thread.join()
    assert target.read_text() == "outside"
    assert all(seen.values()), seen
