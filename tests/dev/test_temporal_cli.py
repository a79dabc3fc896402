from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from temporalio.testing import WorkflowEnvironment

from crewlog.dev.temporal_cli import cached_binary, find_cli, look_up, program
from crewlog.errors import TemporalUnavailable

Script = Callable[[Path, str], Path]
GOOD = 'echo "temporal version 1.5.1 (Server 1.29.1, UI 2.42.1)"'
GO = """
[ "$1" = version ] && echo "go version go1.26.8 linux/amd64" && exit 0
echo "$@" >> {calls}
{body}
"""
INSTALL = """
printf '#!/bin/sh\\necho "temporal version 0.0.0-DEV (Server 1.29.1, UI 2.42.1)"\\n' > "$GOBIN/temporal"
chmod +x "$GOBIN/temporal"
"""  # noqa: E501


class Recorder:
    def __init__(self) -> None:
        self.said: list[str] = []

    def begin(self, name: str) -> None:
        self.said.append(f"begin {name}")

    def update(self, name: str, text: str) -> None:
        self.said.append(text)

    def done(self, name: str, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    system = ":".join(d for d in ("/usr/bin", "/bin") if not (Path(d) / "go").exists())
    return {"PATH": f"{tmp_path}/bin:{system}", "CREWLOG_CACHE": str(tmp_path / "cache")}


@pytest.fixture(autouse=True)
def no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(**_: object) -> None:
        raise RuntimeError("Failed starting test server: no network")

    monkeypatch.setattr(WorkflowEnvironment, "start_local", refuse)


async def test_a_command_to_paste_names_a_program_that_is_there(
    env: dict[str, str], tmp_path: Path, script: Script
) -> None:
    assert await program(env) == "temporal"
    cached = script(cached_binary(tmp_path / "cache"), GOOD)
    assert await program(env) == str(cached)
    script(tmp_path / "bin" / "temporal", GOOD)
    assert await program(env) == "temporal"


def go(script: Script, tmp_path: Path, body: str) -> Path:
    calls = tmp_path / "calls"
    script(tmp_path / "bin" / "go", GO.format(calls=calls, body=body))
    return calls


async def test_order_path_then_cache_then_go(
    tmp_path: Path, env: dict[str, str], script: Script
) -> None:
    calls = go(script, tmp_path, INSTALL)
    progress = Recorder()

    built = await find_cli(progress, env)
    assert built.path == cached_binary(tmp_path / "cache")
    assert built.source.startswith("built once in ")
    assert built.server_version == "1.29.1"
    assert "building the server once with go" in progress.said[0]
    assert calls.read_text() == "install github.com/temporalio/cli/cmd/temporal@v1.5.1\n"
    assert [p.name for p in (tmp_path / "cache" / "temporal-cli").iterdir() if p.is_dir()] == [
        "v1.5.1"
    ]

    assert (await find_cli(progress, env)).source == "cached"
    on_path = script(tmp_path / "bin" / "temporal", GOOD)
    found = await find_cli(progress, env)
    assert (found.path, found.source) == (on_path, "PATH")
    assert len(calls.read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("exit 3", "does not run: exit code 3"),
        ("echo a calendar", "is not the Temporal CLI: it says 'a calendar'"),
        ('echo "temporal version 1.0.0 (Server 1.24.2)"', "is too old: Server 1.24.2"),
    ],
)
async def test_a_broken_program_on_path_is_passed_over(
    tmp_path: Path, env: dict[str, str], script: Script, body: str, reason: str
) -> None:
    script(tmp_path / "bin" / "temporal", body)
    script(cached_binary(tmp_path / "cache"), GOOD)
    assert (await find_cli(environ=env)).source == "cached"
    _, attempts = await look_up(env)
    assert reason in attempts[0].reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (None, "go install: go is not on PATH"),
        ("echo go version go1.24.1 linux/amd64", "is go1.24, too old: needs 1.25"),
        ("echo broken >&2; exit 1", "does not work: broken"),
        (GO.format(calls="/dev/null", body="echo no route to host; exit 1"), "no route to host"),
    ],
)
async def test_if_nothing_works_the_error_lists_every_option(
    tmp_path: Path, env: dict[str, str], script: Script, body: str | None, reason: str
) -> None:
    if body is not None:
        script(tmp_path / "bin" / "go", body)
    with pytest.raises(TemporalUnavailable, match="there is no Temporal server") as caught:
        await find_cli(environ=env)
    message = caught.value.message
    assert reason.replace("go1.24,", "go1.24.1,") in message
    for option in ("temporal on PATH: not found", "cached build: none", "download: Failed"):
        assert option in message
    assert "TEMPORAL_ADDRESS" in caught.value.remedy
    assert not cached_binary(tmp_path / "cache").exists()


async def test_without_go_the_download_is_kept(
    tmp_path: Path, env: dict[str, str], script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Running:
        async def shutdown(self) -> None:
            pass

    async def download(*, download_dest_dir: str, **_: object) -> Running:
        script(Path(download_dest_dir) / "temporal-sdk-python-1.35.0", GOOD)
        return Running()

    monkeypatch.setattr(WorkflowEnvironment, "start_local", download)
    assert (await find_cli(environ=env)).source == "downloaded once, cached"
    assert (await find_cli(environ=env)).source == "cached"


async def test_two_that_start_at_once_build_once(
    tmp_path: Path, env: dict[str, str], script: Script
) -> None:
    calls = go(script, tmp_path, INSTALL)
    found = await asyncio.gather(find_cli(environ=env), find_cli(environ=env))
    assert len({cli.path for cli in found}) == 1
    assert len(calls.read_text().splitlines()) == 1


async def test_a_cancelled_build_ends_the_compiler(
    tmp_path: Path, env: dict[str, str], script: Script
) -> None:
    pid_file = tmp_path / "pid"
    os.mkfifo(pid_file)
    go(script, tmp_path, f"sleep 1000 & echo $! > {pid_file}; wait")
    building = asyncio.create_task(find_cli(environ=env))
    compiler = psutil.Process(int(await asyncio.to_thread(pid_file.read_text)))
    building.cancel()
    with pytest.raises(asyncio.CancelledError):
        await building
    assert await asyncio.to_thread(psutil.wait_procs, [compiler], 10) == ([compiler], [])


async def test_a_cache_that_cannot_be_written_is_said(tmp_path: Path, env: dict[str, str]) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(TemporalUnavailable, match="cannot be written"):
        await find_cli(environ=env)
