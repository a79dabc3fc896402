"""Finds the Temporal command line, or makes it: PATH, cache, `go install`, the SDK's download.

The order is from cheap to dear. Each option that fails leaves its reason; if none is left, the
error lists them all. A build is made in a directory of its own and moved into the cache whole,
under a lock: two processes that start at once build once, and a killed build leaves nothing that
could be taken for a finished one.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from crewlog.dev.paths import cache_dir, hold
from crewlog.dev.progress import SILENT, Progress, duration
from crewlog.errors import TemporalUnavailable

CLI_VERSION = "v1.5.1"
"""The newest version that `go install` can build (later ones have replace directives)."""
CLI_MODULE = "github.com/temporalio/cli/cmd/temporal"
MINIMUM_GO = (1, 25)
"""What the module's go.mod asks for."""
MINIMUM_SERVER = (1, 27)
"""The oldest server whose updates and settings behave as ours need."""
BUILD_LIMIT = 1800.0
DOWNLOAD_LIMIT = 300.0
NAME = "temporal"


@dataclass(frozen=True)
class TemporalCli:
    """A Temporal command line that works."""

    path: Path
    """The executable."""
    server_version: str
    """The version of the server inside, `1.29.1`."""
    source: str
    """`PATH`, `cached`, `built once in 2m51s, cached` or `downloaded once, cached`."""


@dataclass(frozen=True)
class Attempt:
    """An option that did not work."""

    option: str
    """Which one, `temporal on PATH`."""
    reason: str
    """Why not."""


class _NotUsableError(Exception):
    """This option does not work; the text says why. It never leaves this module."""


def cached_binary(cache: Path) -> Path:
    """Where the built or downloaded executable is kept."""
    return cache / "temporal-cli" / CLI_VERSION / "temporal"


async def look_up(
    environ: Mapping[str, str] | None = None,
) -> tuple[TemporalCli | None, list[Attempt]]:
    """What is on this machine already, and which options failed; builds nothing."""
    env = os.environ if environ is None else environ
    attempts: list[Attempt] = []
    found = await _on_path(env, attempts) or await _in_cache(cache_dir(env), attempts)
    return found, attempts


async def program(environ: Mapping[str, str] | None = None) -> str:
    """How to call the `temporal` command here, for a command line that people paste."""
    found, _ = await look_up(environ)
    if found is None or found.source == "PATH":
        return NAME
    return str(found.path)


async def find_cli(
    progress: Progress = SILENT, environ: Mapping[str, str] | None = None
) -> TemporalCli:
    """The Temporal command line, built or downloaded if need be.

    Args:
        progress: Told about a build, every second.
        environ: The environment; the process's own if None.

    Raises:
        TemporalUnavailable: No option works; the message lists each with its reason.
    """
    env = os.environ if environ is None else environ
    cache = cache_dir(env)
    found, attempts = await look_up(env)
    if found is not None:
        return found
    try:
        (cache / "temporal-cli").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        attempts.append(
            Attempt("build or download", f"{cache} cannot be written: {error.strerror}")
        )
        raise _nothing_works(attempts) from error

    def waiting() -> None:
        progress.update(NAME, "another process is building the server; waiting for it")

    async with hold(cache / "temporal-cli" / "build.lock", waiting=waiting):
        # Whoever held the lock may just have built it.
        found = await _in_cache(cache, [])
        if found is not None:
            return found
        for option, make in (("go install", _build), ("the SDK's download", _download)):
            try:
                return await _into_cache(cache, env, progress, make)
            except _NotUsableError as error:
                attempts.append(Attempt(option, str(error)))
            except OSError as error:
                attempts.append(Attempt(option, f"{error.filename or cache}: {error.strerror}"))
    raise _nothing_works(attempts)


def _nothing_works(attempts: list[Attempt]) -> TemporalUnavailable:
    tried = "".join(f"\n    - {a.option}: {a.reason}" for a in attempts)
    return TemporalUnavailable(
        f"there is no Temporal server to start; tried:{tried}",
        remedy="Install the Temporal CLI (https://docs.temporal.io/cli), or Go "
        f"{MINIMUM_GO[0]}.{MINIMUM_GO[1]} or newer and try again, or set TEMPORAL_ADDRESS to a "
        "server that runs.",
    )


async def _on_path(env: Mapping[str, str], attempts: list[Attempt]) -> TemporalCli | None:
    where = shutil.which("temporal", path=env.get("PATH", ""))
    option = "temporal on PATH"
    if where is None:
        attempts.append(Attempt(option, "not found"))
        return None
    try:
        return TemporalCli(Path(where), await _server_version(Path(where)), "PATH")
    except _NotUsableError as error:
        attempts.append(Attempt(option, f"{where} {error}"))
        return None


async def _in_cache(cache: Path, attempts: list[Attempt]) -> TemporalCli | None:
    path = cached_binary(cache)
    option = "cached build"
    if not path.exists():
        attempts.append(Attempt(option, f"none in {path.parent}"))
        return None
    try:
        return TemporalCli(path, await _server_version(path), "cached")
    except _NotUsableError as error:
        attempts.append(Attempt(option, f"{path} {error}"))
        return None


async def _server_version(path: Path) -> str:
    """The version of the server in the executable `path`, if it runs and is new enough."""
    code, out = await run_command([str(path), "--version"], timeout=30)
    if code != 0:
        raise _NotUsableError(f"does not run: {_last_line(out) or f'exit code {code}'}")
    match = re.search(r"[Ss]erver (\d+)\.(\d+)(?:\.(\d+))?", out)
    if match is None:
        raise _NotUsableError(f"is not the Temporal CLI: it says {_last_line(out)!r}")
    if (int(match[1]), int(match[2])) < MINIMUM_SERVER:
        wanted = ".".join(map(str, MINIMUM_SERVER))
        raise _NotUsableError(f"is too old: {match[0]}, needs {wanted}")
    return match[0].split()[1]


Maker = Callable[[Path, Mapping[str, str], Progress], Awaitable[str]]
"""Puts an executable `temporal` into a directory and says how it was made."""


async def _into_cache(
    cache: Path, env: Mapping[str, str], progress: Progress, make: Maker
) -> TemporalCli:
    """Make the executable aside, check that it runs, move it into the cache."""
    target = cached_binary(cache)
    for leftover in target.parent.parent.glob("making-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    made = Path(tempfile.mkdtemp(prefix="making-", dir=target.parent.parent))
    try:
        source = await make(made, env, progress)
        version = await _server_version(made / "temporal")
        target.parent.mkdir(parents=True, exist_ok=True)
        (made / "temporal").replace(target)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return TemporalCli(target, version, source)


async def go_version(environ: Mapping[str, str] | None = None) -> str:
    """The version of `go` on PATH.

    Raises:
        TemporalUnavailable: There is none, it is broken, or it is too old.
    """
    try:
        return (await _go(os.environ if environ is None else environ))[1]
    except _NotUsableError as error:
        raise TemporalUnavailable(str(error)) from error


async def _go(env: Mapping[str, str]) -> tuple[str, str]:
    where = shutil.which("go", path=env.get("PATH", ""))
    if where is None:
        raise _NotUsableError("go is not on PATH")
    code, out = await run_command([where, "version"], timeout=60, env=env)
    match = re.search(r"\bgo(\d+)\.(\d+)(\.\d+)?", out)
    if code != 0 or match is None:
        raise _NotUsableError(f"{where} does not work: {_last_line(out) or f'exit code {code}'}")
    if (int(match[1]), int(match[2])) < MINIMUM_GO:
        wanted = ".".join(map(str, MINIMUM_GO))
        raise _NotUsableError(f"{where} is {match[0]}, too old: needs {wanted}")
    return where, match[0].removeprefix("go")


async def _build(made: Path, env: Mapping[str, str], progress: Progress) -> str:
    go, _ = await _go(env)
    began = time.monotonic()

    def spent() -> str:
        return duration(time.monotonic() - began)

    def tick() -> None:
        progress.update(NAME, f"building the server once with go, some minutes … {spent()}")

    tick()
    code, out = await run_command(
        [go, "install", f"{CLI_MODULE}@{CLI_VERSION}"],
        timeout=BUILD_LIMIT,
        env={**env, "GOBIN": str(made)},
        tick=tick,
    )
    if code != 0:
        reason = _last_line(out) or f"exit code {code}"
        raise _NotUsableError(f"{go} install failed after {spent()}: {reason}")
    return f"built once in {spent()}, cached"


async def _download(made: Path, _env: Mapping[str, str], progress: Progress) -> str:
    """The SDK has no call that only downloads: start its own server once, and keep the file."""
    # Loads the SDK's workers: a fifth of a second that only this option is worth.
    from temporalio.testing import WorkflowEnvironment  # noqa: PLC0415

    progress.update(NAME, "downloading the server")
    try:
        async with asyncio.timeout(DOWNLOAD_LIMIT):
            environment = await WorkflowEnvironment.start_local(
                download_dest_dir=str(made), dev_server_log_level="error"
            )
            await environment.shutdown()
    except TimeoutError as error:
        raise _NotUsableError(f"no answer within {duration(DOWNLOAD_LIMIT)}") from error
    except RuntimeError as error:
        raise _NotUsableError(_last_line(str(error))) from error
    if not _name_executable(made):
        raise _NotUsableError("it left no executable")
    return "downloaded once, cached"


def _name_executable(made: Path) -> bool:
    """Name the one executable in the directory `temporal`; whether there is one."""
    for file in sorted(made.iterdir()):
        if file.is_file() and os.access(file, os.X_OK):
            file.replace(made / "temporal")
            return True
    return False


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


async def run_command(
    command: list[str],
    *,
    timeout: float,
    env: Mapping[str, str] | None = None,
    tick: Callable[[], None] | None = None,
) -> tuple[int, str]:
    """Run a command to its end; its exit code and output. It does not outlive a cancellation."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=None if env is None else dict(env),
            start_new_session=True,
        )
    )
    try:
        process = await asyncio.shield(starting)
    except OSError as error:
        return 126, str(error.strerror)
    except asyncio.CancelledError:
        # asyncio would end the command alone; it may have children already.
        with suppress(ProcessLookupError, OSError):
            os.killpg((await starting).pid, signal.SIGKILL)
        raise
    reading = asyncio.ensure_future(process.communicate())
    deadline = time.monotonic() + timeout
    try:
        while True:
            wait = min(1.0, deadline - time.monotonic())
            done, _ = await asyncio.wait({reading}, timeout=max(wait, 0))
            if done:
                out, _ = reading.result()
                return process.returncode or 0, out.decode(errors="replace")
            if time.monotonic() >= deadline:
                return 124, f"no end after {duration(timeout)}"
            if tick is not None:
                tick()
    finally:
        if not reading.done():
            with suppress(ProcessLookupError):
                # The compiler's processes too: the command leads a session of its own.
                os.killpg(process.pid, signal.SIGKILL)
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading
            await process.wait()
