from __future__ import annotations

import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path

import pytest

from crewlog.dev.ephemeral import Ephemeral, ephemeral, own_environ
from crewlog.dev.paths import Home
from crewlog.dev.processes import end
from crewlog.dev.services import Services
from crewlog.temporal_service.cli import TemporalCli, find_cli


@pytest.fixture
def directory() -> Generator[Path]:
    # Not pytest's tmp_path: as root, PostgreSQL's user must pass through the directories above,
    # and every pytest session closes /tmp/pytest-of-root for others again.
    path = Path(tempfile.mkdtemp(prefix="crewlog-test-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
async def cli() -> TemporalCli:
    """The server's command line, as commands find it."""
    return await find_cli()


@pytest.fixture(scope="session")
async def live() -> AsyncGenerator[Ephemeral]:
    root = Path(tempfile.mkdtemp(prefix="crewlog-test-"))
    async with ephemeral(root) as services:
        yield services
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture
def environ() -> dict[str, str]:
    """An environment that names no servers."""
    return own_environ()


@pytest.fixture
async def services(directory: Path, environ: dict[str, str]) -> AsyncGenerator[Services]:
    """Services of a home of their own, which stay in the background until the test ends."""
    local = Services(Home.at(directory / "home"), environ=environ)
    yield local
    for record in local.records():
        if record.name == "temporal":  # its graceful end takes 1.5 s
            end(record.process, gently=signal.SIGKILL)
    await local.stop_all()


@pytest.fixture
def foreign() -> Generator[subprocess.Popen[bytes]]:
    """A process that Crewlog did not start."""
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=-1)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def script() -> Callable[[Path, str], Path]:
    """Write an executable shell script."""

    def write(path: Path, body: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    return write
