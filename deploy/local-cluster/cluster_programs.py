"""The programs of the local cluster: Temporal's server and schema tool, and Debian's PostgreSQL.

Temporal's are built once with Go and kept in the user's cache, for all checkouts. A build is made
in a directory of its own, under a lock, and moved into the cache whole: two processes that start at
once build once, and a killed build leaves nothing that could be taken for a finished one.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cluster_config import cache_dir

from crewlog.dev.paths import hold
from crewlog.dev.progress import Progress
from crewlog.errors import StoreUnavailable, TemporalUnavailable

MODULE = "go.temporal.io/server"
VERSION = "v1.32.0"
"""The server's version: that of the local server, and of the images in deploy/compose.yaml."""
MINIMUM_GO = (1, 26)
"""What the module's go.mod asks for."""
SCHEMA = "schema/postgresql/v12"
BUILD_LIMIT = 1800.0
POSTGRES_MAJOR = 15
POSTGRES_DIRS = Path("/usr/lib/postgresql")
"""Where Debian puts PostgreSQL, in a folder for each major version."""
ACCOUNT = "postgres"
"""Debian's system user: PostgreSQL refuses to run as root."""


@dataclass(frozen=True)
class TemporalPrograms:
    """What was built of Temporal."""

    server: Path
    """`temporal-server`."""
    sql_tool: Path
    """`temporal-sql-tool`, which makes the schema."""
    schema: Path
    """The folder with the schemas `temporal` and `visibility`."""
    source: str
    """`cached`, or `built once in 3m51s, cached`."""


def _cached(folder: Path, source: str = "cached") -> TemporalPrograms | None:
    found = TemporalPrograms(
        folder / "temporal-server", folder / "temporal-sql-tool", folder / "schema", source
    )
    return found if folder.is_dir() else None


async def temporal_programs(
    progress: Progress, environ: Mapping[str, str] | None = None
) -> TemporalPrograms:
    """Temporal's server and schema tool, built if need be.

    Args:
        progress: Told about the build, every second.
        environ: The environment; the process's own if None.

    Raises:
        TemporalUnavailable: There is no Go, or the build failed; the message has its last line.
    """
    env = os.environ if environ is None else environ
    cache = cache_dir(env) / "temporal-server"
    target = cache / VERSION
    if (found := _cached(target)) is not None:
        return found
    cache.mkdir(parents=True, exist_ok=True)

    def waiting() -> None:
        progress.update("cluster", "another process is building the server; waiting for it")

    async with hold(cache / "build.lock", waiting=waiting):
        # Whoever held the lock may just have built it.
        if (found := _cached(target)) is not None:
            return found
        for leftover in cache.glob("making-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix="making-", dir=cache))
        try:
            source = await _build(made, env, progress)
            await asyncio.to_thread(_keep, made, target)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    found = _cached(target, source)
    if found is None:
        raise TemporalUnavailable("the server was built and is not there", place=str(target))
    return found


def _keep(made: Path, target: Path) -> None:
    made.chmod(0o755)
    made.rename(target)


async def _build(made: Path, env: Mapping[str, str], progress: Progress) -> str:
    await _require_go(env)
    began = time.monotonic()

    def spent() -> str:
        return duration(time.monotonic() - began)

    def tick() -> None:
        progress.update("cluster", f"building Temporal's server {VERSION} once with go … {spent()}")

    async def go(*words: str) -> str:
        code, out = await run_command(
            ["go", *words], timeout=BUILD_LIMIT, env={**env, "GOBIN": str(made)}, tick=tick
        )
        if code != 0:
            raise TemporalUnavailable(
                f"`go {words[0]}` failed after {spent()}: {out.strip()[-600:] or f'code {code}'}",
                remedy="Look at that output; the build needs Go 1.26.4 or newer, and the module "
                "proxy of Go.",
            )
        return out

    tick()
    await go("install", *(f"{MODULE}/{part}@{VERSION}" for part in ("cmd/server", "cmd/tools/sql")))
    # The module's own schema, kept beside the programs: the module cache may be cleaned.
    out = await go("mod", "download", "-json", f"{MODULE}@{VERSION}")
    source = Path(json.loads(out[out.index("{") :])["Dir"]) / SCHEMA
    (made / "server").rename(made / "temporal-server")
    (made / "sql").rename(made / "temporal-sql-tool")
    shutil.copytree(source, made / "schema", copy_function=shutil.copyfile)
    for folder in [made / "schema", *(p for p in (made / "schema").rglob("*") if p.is_dir())]:
        folder.chmod(0o755)  # Go's module cache is read-only
    return f"built once in {spent()}, cached"


async def _require_go(env: Mapping[str, str]) -> None:
    """Check that `go` on PATH is new enough.

    Raises:
        TemporalUnavailable: There is none, it is broken, or it is too old.
    """
    wanted = ".".join(map(str, MINIMUM_GO))
    remedy = f"Install Go {wanted} or newer: https://go.dev/dl."
    where = shutil.which("go", path=env.get("PATH", ""))
    if where is None:
        raise TemporalUnavailable("go is not on PATH", remedy=remedy)
    code, out = await run_command([where, "version"], timeout=60, env=env)
    match = re.search(r"\bgo(\d+)\.(\d+)", out)
    if code != 0 or match is None:
        fault = out.strip()[-300:] or f"exit code {code}"
        raise TemporalUnavailable(f"go does not work: {fault}", remedy=remedy, place=where)
    if (int(match[1]), int(match[2])) < MINIMUM_GO:
        raise TemporalUnavailable(
            f"{match[0]} is too old: the server needs {wanted}", remedy=remedy, place=where
        )


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


def duration(seconds: float) -> str:
    """`7s`, `2m51s`."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


def postgres_programs(root: Path = POSTGRES_DIRS) -> Path:
    """The directory with Debian's `postgres` and `initdb`: version 15, else the newest newer one.

    The PostgreSQL that installs with pip will not do: Temporal's visibility schema needs the
    extension `btree_gin`, which it lacks.

    Raises:
        StoreUnavailable: It is not installed; the message has the command.
    """
    found = {
        int(folder.name): folder / "bin"
        for folder in (root.iterdir() if root.is_dir() else ())
        if folder.name.isdigit() and (folder / "bin" / "initdb").exists()
    }
    usable = [major for major in sorted(found) if major >= POSTGRES_MAJOR]
    if not usable:
        raise StoreUnavailable(
            f"the cluster needs Debian's PostgreSQL {POSTGRES_MAJOR} or newer, "
            f"and {root} has {', '.join(map(str, sorted(found))) or 'none'}",
            remedy="apt-get update && apt-get install --yes --no-install-recommends "
            f"postgresql-{POSTGRES_MAJOR}",
        )
    return found[POSTGRES_MAJOR if POSTGRES_MAJOR in usable else usable[-1]]


def postgres_account() -> tuple[int, int] | None:
    """Whom PostgreSQL runs as: None for ourselves, the ids of a system user if we are root.

    Raises:
        StoreUnavailable: We are root and there is no such user.
    """
    if os.geteuid() != 0:
        return None
    import pwd  # noqa: PLC0415  (does not exist on Windows)

    try:
        entry = pwd.getpwnam(ACCOUNT)
    except KeyError as error:
        raise StoreUnavailable(
            f"PostgreSQL does not run as root, and there is no system user {ACCOUNT!r}",
            remedy=f"useradd --system --user-group --no-create-home {ACCOUNT}",
        ) from error
    return entry.pw_uid, entry.pw_gid
