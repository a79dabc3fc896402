"""The worker process that the environment configures."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 60
SERVERS = ("TEMPORAL_ADDRESS", "DATABASE_URL")


def run_worker(folder: Path, **servers: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in SERVERS}
    env |= {"TEMPORAL_CONFIG_FILE": "/dev/null", "CREWLOG_HOME": str(folder / "home"), **servers}
    return subprocess.run(
        [sys.executable, "-m", "crewlog.workers"],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )


@pytest.mark.parametrize(
    ("servers", "error", "remedy"),
    [
        ({}, "no Temporal server is configured", "Set TEMPORAL_ADDRESS"),
        ({"TEMPORAL_ADDRESS": "127.0.0.1:1"}, "no database is configured", "Set DATABASE_URL"),
    ],
)
def test_a_worker_starts_no_local_server(
    tmp_path: Path, servers: dict[str, str], error: str, remedy: str
) -> None:
    done = run_worker(tmp_path, **servers)
    assert done.returncode == 5, done.stderr
    assert error in done.stderr
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "home").exists()
