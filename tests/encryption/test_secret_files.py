"""Files that a definition names as secrets: plain ones, never the system's or the worker's own."""

from __future__ import annotations

import os
import re
import socket
from pathlib import Path

import pytest

from crewlog.errors import SecretMissing
from crewlog.secrets import resolve

KEY = "a-key-of-a-test-9417"


def refused(reference: str, environ: dict[str, str] | None = None) -> str:
    with pytest.raises(SecretMissing) as error:
        resolve(reference, environ or {})
    told = f"{error.value} {error.value.__cause__} {error.value.__context__}"
    assert KEY not in told
    return str(error.value)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="this system has no /proc")
@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/proc/self/environ", "a system file"),
        ("/proc/PID/environ", "a system file"),
        ("/proc/thread-self/root/proc/self/environ", "a system file"),
        ("/proc/self/cwd/../../../../../../../../proc/self/status", "a system file"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "a system file|No such file"),
        ("/dev/zero", "not a regular file"),
        ("/dev/stdin", "not a regular file|a system file|No such"),
        ("/etc", "not a regular file"),
        ("~no-such-user/key", "home folder does not exist"),
        ("\ud800", "not a valid path"),
    ],
)
def test_what_is_no_secret(path: str, why: str) -> None:
    # The id is put in here: all processes of one session must name their tests alike.
    path = path.replace("PID", str(os.getpid()))
    assert re.search(why, refused(f"file:{path}"))


def test_links_lead_where_they_lead(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "key").write_text(KEY)
    (tmp_path / "key").symlink_to("data/key")
    assert resolve(f"file:{tmp_path}/key", {}) == KEY
    (tmp_path / "environ").symlink_to("/proc/self/environ")
    assert "cannot be read" in refused(f"file:{tmp_path}/environ")
    (tmp_path / "loop").symlink_to("loop")
    assert "cannot be read" in refused(f"file:{tmp_path}/loop")


def test_nothing_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(f"file:{tmp_path}/pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        assert "cannot be read" in refused(f"file:{tmp_path}/socket")
    (tmp_path / "huge").write_bytes(KEY.encode() * 8000)
    assert "more than 65536 bytes" in refused(f"file:{tmp_path}/huge")
    (tmp_path / "binary").write_bytes(KEY.encode() + b"\xff")
    assert "not a text" in refused(f"file:{tmp_path}/binary")


def test_the_worker_s_own_files_are_for_no_crew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    keys = tmp_path / ".config" / "crewlog" / "keys"
    keys.mkdir(parents=True)
    for path in (keys / "ana.pem", tmp_path / "keys.json", tmp_path / ".pgpass", tmp_path / "ok"):
        path.write_text(KEY)
    (tmp_path / "link").symlink_to("keys.json")
    environ = {
        "CREWLOG_ENCRYPTION_KEYS": str(tmp_path / "keys.json"),
        "CREWLOG_HOME": str(tmp_path),
    }
    for name in (".config/crewlog/keys/ana.pem", "keys.json", "link", ".pgpass"):
        assert "the worker's own files" in refused(f"file:{tmp_path}/{name}", environ)
    assert "the worker's own files" in refused("file:~/.pgpass", environ)
    assert resolve(f"file:{tmp_path}/ok", environ) == KEY


def test_folders_of_secrets(tmp_path: Path) -> None:
    for name in ("in", "also", "out"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "key").write_text(KEY)
    (tmp_path / "in" / "link").symlink_to("../out/key")
    environ = {"CREWLOG_SECRET_FILES": f"{tmp_path}/in{os.pathsep}{tmp_path}/also"}
    assert resolve(f"file:{tmp_path}/in/key", environ) == KEY
    assert resolve(f"file:{tmp_path}/also/key", environ) == KEY
    for path in ("out/key", "in/link", "in/../out/key"):
        assert "in no folder" in refused(f"file:{tmp_path}/{path}", environ)
