"""All that the local services keep is their user's alone, and no folder above it is changed."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import asyncpg
import pytest

from crewlog.cli.hands import Assignment, remember
from crewlog.dev import pg_install
from crewlog.dev.ephemeral import own_environ
from crewlog.dev.paths import Home
from crewlog.dev.processes import end, spawn
from crewlog.dev.services import Services
from crewlog.payload_storage.converter import data_converter

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts Postgres as another user")


@pytest.fixture
def private(directory: Path) -> Iterator[Path]:
    """A folder in private folders, made with the widest umask."""
    before = os.umask(0o022)
    folder = directory / "a" / "b"
    folder.mkdir(parents=True)
    for each in (directory, directory / "a", folder):
        each.chmod(0o700)
    yield folder
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """The modes of a folder, of all that is in it, and of what is above it."""
    found = [
        folder,
        *folder.parents,
        *(each for each in folder.rglob("*") if not each.is_symlink()),
    ]
    return {str(each): stat.S_IMODE(each.stat().st_mode) for each in found}


def open_to_others(folder: Path) -> list[str]:
    """What in a folder others may do anything with, but for sockets."""
    return [
        f"{each}: {stat.S_IMODE(each.stat().st_mode):o}"
        for each in (folder, *folder.rglob("*"))
        if not each.is_socket() and each.stat().st_mode & 0o077
    ]


async def test_a_home_and_all_in_it_is_private(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = {path: stat.S_IMODE(path.stat().st_mode) for path in private.parents}
    above[private] = 0o700
    home = Home.at(private / "share" / "home")
    monkeypatch.setenv("CREWLOG_HOME", str(home.root))
    services = Services(home, environ=own_environ())
    try:
        found = await services.ensure()
        connection = await asyncpg.connect(found.database_url)
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
        # What commands put there besides.
        worker = spawn([sys.executable, "-c", ""], home.logs / "worker-x.log")
        services.register_worker(os.getpid())
        remember(Assignment("crewlog-x-1234", private, own=True))
        converter = data_converter(home.payloads, 128 * 1024)
        await converter.encode(["x" * 300_000])
        assert [each for each in home.payloads.rglob("*") if each.is_file()]
        end(worker)
        assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
        assert open_to_others(home.root) == []
        assert {path: stat.S_IMODE(path.stat().st_mode) for path in above} == above
        # It is found again, and taken for no other's.
        home.registry.unlink()
        assert (await services.ensure()).started == []
        assert open_to_others(home.root) == []
    finally:
        with services._registry.edit() as data:
            data.workers.clear()  # the test itself
        await services.stop_all()


async def test_files_in_a_shared_payload_folder_stay_shared(private: Path) -> None:
    folder = private / "payloads"
    folder.mkdir()
    folder.chmod(0o755)
    await data_converter(folder, 128 * 1024).encode(["x" * 300_000])
    (file,) = (each for each in folder.rglob("*") if each.is_file())
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o755


@as_root
def test_programs_in_private_folders_are_copied_and_left_as_they_are(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install = pg_install.programs().parent
    shutil.copytree(install, private / install.name, symlinks=True)
    before = modes(private)
    with tempfile.TemporaryDirectory(prefix="crewlog-test-") as cache:
        Path(cache).chmod(0o755)
        monkeypatch.setattr(pg_install, "_COPIES", Path(cache) / "crewlog")
        found = pg_install.readable_programs(private / install.name / "bin")
        assert found.is_relative_to(cache)
        owner = pg_install.account()
        assert owner is not None
        for _ in range(2):
            done = subprocess.run(
                [found / "postgres", "--version"],
                check=True, capture_output=True, text=True, user=owner.uid, group=owner.gid,
                extra_groups=[], cwd="/",
            )  # fmt: skip
            assert done.stdout.startswith("postgres (PostgreSQL)")
            assert pg_install.readable_programs(private / install.name / "bin") == found
        assert [each.name for each in found.parents[1].iterdir()] == [found.parent.name]
    assert modes(private) == before


@as_root
def test_programs_that_others_may_run_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def stats(path: Path) -> Mapping[str, int]:
        return {str(each): each.stat().st_mode for each in (path, *path.parents)}

    with tempfile.TemporaryDirectory(prefix="crewlog-test-") as folder:
        Path(folder).chmod(0o755)
        bin_dir = Path(folder) / "bin"
        bin_dir.mkdir(mode=0o755)
        (bin_dir / "postgres").touch(mode=0o755)
        monkeypatch.setattr(pg_install, "_COPIES", Path("/nowhere"))
        before = stats(bin_dir)
        assert pg_install.readable_programs(bin_dir) == bin_dir
        assert stats(bin_dir) == before
