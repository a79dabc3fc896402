"""What the command line says where the Temporal server answers and its database is away."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from crewlog.dev.doctor import CANNOT_SERVE
from half_server import CAUSE, half_server

from .conftest import LIMIT, Cli, Done, environment

NOWHERE = "postgresql://x@127.0.0.1:2/x"


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async with half_server() as found:
        yield found


async def tell(tmp_path: Path, address: str, *words: str) -> Done:
    cli = Cli(tmp_path / "home", tmp_path)
    return await asyncio.to_thread(
        cli,
        *words,
        TEMPORAL_ADDRESS=address,
        TEMPORAL_CONFIG_FILE="/dev/null",
        DATABASE_URL=NOWHERE,
    )


async def test_the_cause_is_told_and_nothing_of_the_sdks(tmp_path: Path, address: str) -> None:
    # At once: the SDK tries each for ten seconds.
    done, debugged = await asyncio.gather(
        tell(tmp_path, address, "show", "notes-42"),
        tell(tmp_path, address, "show", "notes-42", "--debug"),
    )
    assert done.code == 5
    assert done.out == ""
    assert f"{address}  the Temporal server cannot serve: {CAUSE}" in done.err
    assert "look at them" in done.err
    assert "temporalio" not in done.err
    # With --debug it is a line of ours: no terminal's codes.
    assert (debugged.code, debugged.out) == (5, "")
    assert "WARNING:temporalio" in debugged.err
    assert "retried" in debugged.err
    assert "\x1b" not in debugged.err


async def test_the_doctor_looks_behind_the_frontend(tmp_path: Path, address: str) -> None:
    done = await tell(tmp_path, address, "doctor")
    assert done.code == 5
    text = " ".join(done.out.split())
    assert f"✗ Temporal server 1.31.2 at {address} answers, and cannot serve: {CAUSE}" in text
    assert CANNOT_SERVE in text
    assert "Temporal CLI" in text


async def test_a_workers_log_has_what_the_sdk_says_without_codes(
    tmp_path: Path, address: str
) -> None:
    env = {
        **environment(tmp_path / "home"),
        "TEMPORAL_ADDRESS": address,
        "TEMPORAL_CONFIG_FILE": "/dev/null",
        "DATABASE_URL": "memory:",
    }
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "crewlog.workers",
        cwd=tmp_path,
        env=env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(LIMIT):
        out, err = await process.communicate()
    assert process.returncode == 5  # an abort would be negative
    assert b"the Temporal server cannot serve: " in err
    assert CAUSE.encode() in err
    assert b"Traceback" not in err
    assert out == b""
    assert b"WARNING:temporalio" in err
    assert b"\x1b" not in err
