"""Starts the embedded PostgreSQL on the home's data directory, reached by a Unix socket.

It listens on no TCP port, so two homes never collide. The server is ready when it answers a
query. A cluster is made in a directory of its own and renamed, so that one whose making was
interrupted is never taken for whole.

All of a home is private. Root starts the server as another account, which may not pass through the
folders above the data directory: so it is started in that, and names it by its working directory.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

import asyncpg

from crewlog.dev.paths import Home
from crewlog.dev.pg_install import (
    OWN_SERVER,
    Account,
    account,
    pg_version,
    programs,
    reached_as,
    readable_programs,
)
from crewlog.dev.processes import ProcessRecord, end, identify, size_of, spawn, tail
from crewlog.dev.progress import SILENT, Progress
from crewlog.dev.registry import ServiceRecord
from crewlog.dev.temporal_server import OnSpawn
from crewlog.errors import StoreUnavailable

__all__ = ["DATABASE", "find", "pg_version", "start", "stop", "version_at"]

DATABASE = "crewlog"
SUPERUSER = "postgres"
NAME = "postgres"
SOCKET_LIMIT = 100
"""Characters of a Unix socket's path that every system takes."""
READY_LIMIT = 120.0
"""Seconds to recover from a crash and answer."""
OLD_BACKENDS_LIMIT = 15.0
"""Seconds for the children of a killed server to notice and end."""
ASK_LIMIT = 10.0
POLL = 0.03
STOP = signal.SIGINT
"""PostgreSQL's fast shutdown; SIGTERM would wait for its clients."""

SETTINGS = (
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "shared_buffers=48MB",
    "max_connections=80",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=256MB",
    "max_worker_processes=2",
    "max_parallel_workers_per_gather=0",
    "jit=off",
    "log_min_messages=warning",
)
SETTINGS_18 = ("io_method=sync",)
THROWAWAY_SETTINGS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
"""For tests, whose data need not survive the machine."""


def pid_file(home: Home) -> Path:
    """Where a running server of this home says who and where it is."""
    return home.postgres / "postmaster.pid"


def find(home: Home) -> ServiceRecord | None:
    """The live server of this home's data directory, recorded or not, or None."""
    try:
        lines = pid_file(home).read_text().splitlines()
        process = identify(int(lines[0]))
        socket_dir = lines[4].strip()
    except (OSError, ValueError, IndexError):
        return None
    if process is None or not socket_dir or _mark(home) not in process.command:
        return None
    inside = Path(socket_dir).is_relative_to("/proc")
    return _record(home, process, home.postgres if inside else Path(socket_dir))


def _mark(home: Home) -> str:
    """A setting, of no effect, that tells whose server it is: it may not name its directory."""
    return f"crewlog.data={home.postgres}"


def _record(home: Home, process: ProcessRecord, socket_dir: Path) -> ServiceRecord:
    return ServiceRecord(
        name=NAME,
        process=process,
        address=database_url(socket_dir),
        log=str(home.postgres_log),
    )


def database_url(socket_dir: Path, database: str = DATABASE) -> str:
    """The URL of a database of the server whose socket is in `socket_dir`."""
    return f"postgresql://{SUPERUSER}@/{database}?host={quote(str(socket_dir))}"


async def start(
    home: Home,
    *,
    progress: Progress = SILENT,
    throwaway: bool = False,
    on_spawn: OnSpawn | None = None,
) -> ServiceRecord:
    """Start the server, make the database `crewlog` if it is missing, wait until it answers.

    Args:
        home: Where its data and log are.
        progress: Told when a new cluster is made.
        throwaway: Trade durability for speed.
        on_spawn: Told about the process at once.

    Raises:
        StoreUnavailable: It cannot be started; the message has its last words.
    """
    begin = size_of(home.postgres_log)
    try:
        words, socket_dir, owner = await asyncio.to_thread(_prepare, home, progress, throwaway)
        deadline = time.monotonic() + OLD_BACKENDS_LIMIT
        while True:
            process = _spawn(words, home, owner)
            if on_spawn is not None:
                on_spawn(process)
            try:
                version = await _ready(process, socket_dir, home, begin)
                break
            except StoreUnavailable:
                await asyncio.to_thread(stop, process)
                # A killed server's children still hold its shared memory, not for long.
                old = "shared memory block" in tail(home.postgres_log, start=begin)
                if not old or time.monotonic() > deadline:
                    raise
                begin = size_of(home.postgres_log)
            except BaseException:
                await asyncio.shield(asyncio.to_thread(stop, process))
                raise
    except OSError as error:
        raise StoreUnavailable(
            f"the embedded PostgreSQL cannot be started: {error.strerror or error}",
            remedy="Set CREWLOG_HOME to a directory that you may write and that has room. "
            + OWN_SERVER,
            place=str(error.filename or home.postgres),
        ) from error
    return _record(home, process, socket_dir).model_copy(update={"version": version})


def stop(process: ProcessRecord) -> bool:
    """Shut the server down, its clients' connections included; whether there was one."""
    return end(process, gently=STOP) is not None


def _spawn(words: list[str], home: Home, owner: Account | None) -> ProcessRecord:
    return spawn(
        words,
        home.postgres_log,
        user=owner.uid if owner else None,
        group=owner.gid if owner else None,
        env=_environment(),
        cwd=home.postgres if owner else None,
    )


def _environment() -> dict[str, str]:
    """Ours, without what would steer PostgreSQL's programs (PGDATA, PGPORT, locale)."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def _prepare(
    home: Home, progress: Progress, throwaway: bool
) -> tuple[list[str], Path, Account | None]:
    """Make what the server needs on disk; its command line, socket directory and account."""
    marker = home.postgres / "PG_VERSION"
    major = int(marker.read_text()) if marker.exists() else None
    bin_dir, owner = programs(major), account()
    if owner is not None:
        bin_dir = readable_programs(bin_dir)
    if major is None:
        _make_cluster(home, bin_dir, owner, throwaway)
    _forget_reused_pid(home)
    socket_dir = _socket_dir(home, owner)
    settings = SETTINGS + (THROWAWAY_SETTINGS if throwaway else ())
    if bin_dir.parent.name.startswith("pginstall18"):
        settings += SETTINGS_18
    inside = reached_as(home.postgres, owner)
    sockets = inside if socket_dir == home.postgres else str(socket_dir)
    words = [str(bin_dir / "postgres"), "-D", inside, "-k", sockets]
    for setting in (*settings, _mark(home)):
        words += ["-c", setting]
    return words, socket_dir, owner


def _make_cluster(home: Home, bin_dir: Path, owner: Account | None, throwaway: bool) -> None:
    for leftover in home.root.glob("pg.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix="pg.new-", dir=home.root))
    try:
        if owner is not None:
            os.chown(fresh, owner.uid, owner.gid)
        inside = reached_as(fresh, owner)
        words = [str(bin_dir / "initdb"), "-D", inside, "-U", SUPERUSER, "--auth=trust"]
        words += ["--encoding=UTF8", "--locale=C", "--no-instructions"]
        done = subprocess.run(
            words + (["--no-sync"] if throwaway else []),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
            env=_environment(),
            cwd=fresh if owner else "/",
            user=owner.uid if owner else None,
            group=owner.gid if owner else None,
            extra_groups=[] if owner else None,
        )
        if done.returncode != 0:
            raise StoreUnavailable(
                "the embedded PostgreSQL cannot make its data directory:\n"
                + "\n".join(f"    | {line}" for line in done.stderr.strip().splitlines()[-6:]),
                remedy=f"Check the room on the disk and the rights of {home.root}. " + OWN_SERVER,
                place=str(home.postgres),
            )
        fresh.rename(home.postgres)
    except subprocess.TimeoutExpired as error:
        raise StoreUnavailable(
            "the embedded PostgreSQL did not make its data directory within 5 minutes",
            remedy=OWN_SERVER,
            place=str(home.postgres),
        ) from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _forget_reused_pid(home: Home) -> None:
    """Remove a pid file whose pid now belongs to a program that is not PostgreSQL.

    PostgreSQL would refuse to start. A file whose pid is free is left: with it PostgreSQL
    itself makes sure that no child of the killed server still writes.
    """
    file = pid_file(home)
    try:
        process = identify(int(file.read_text().splitlines()[0]))
    except (OSError, ValueError, IndexError):
        return
    if process is not None and "postgres" not in " ".join(process.command):
        file.unlink(missing_ok=True)


def _socket_dir(home: Home, owner: Account | None) -> Path:
    """The data directory, or a private one in /tmp where the path is too long for a socket."""
    if len(os.fsencode(home.postgres / ".s.PGSQL.5432.lock")) <= SOCKET_LIMIT:
        return home.postgres
    digest = hashlib.sha256(os.fsencode(home.postgres)).hexdigest()[:12]
    uid = owner.uid if owner is not None else os.geteuid()
    path = Path("/tmp") / f"crewlog-{uid}-{digest}"  # noqa: S108  (owner and mode are checked)
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if path.is_symlink() or status.st_uid not in {uid, os.geteuid()}:
        raise StoreUnavailable(
            "the directory for the database's socket belongs to somebody else",
            remedy="Remove it, or set CREWLOG_HOME to a shorter path.",
            place=str(path),
        )
    path.chmod(0o700)
    if owner is not None:
        os.chown(path, owner.uid, owner.gid)
    return path


async def _ready(process: ProcessRecord, socket_dir: Path, home: Home, begin: int) -> str:
    """Wait until the server answers, make the database; its version."""
    deadline = time.monotonic() + READY_LIMIT
    while True:
        # In this order: a server that ends between the two is seen in the next round.
        alive = process.alive
        try:
            return await _make_database(socket_dir)
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
            if not alive or time.monotonic() > deadline:
                what = "did not answer in time" if alive else "ended while it was starting"
                words = tail(home.postgres_log, start=begin).splitlines()
                raise StoreUnavailable(
                    "\n    | ".join([f"the embedded PostgreSQL {what}", *words]),
                    remedy=f"The whole log is {home.postgres_log}. " + OWN_SERVER,
                    place=str(home.postgres),
                ) from error
        await asyncio.sleep(POLL)


async def _make_database(socket_dir: Path) -> str:
    connection = await asyncpg.connect(database_url(socket_dir, "postgres"), timeout=ASK_LIMIT)
    try:
        query = "SELECT 1 FROM pg_database WHERE datname = $1"
        if await connection.fetchval(query, DATABASE) is None:
            await connection.execute(f'CREATE DATABASE "{DATABASE}"')
        return str(await connection.fetchval("SHOW server_version")).split()[0]
    finally:
        await connection.close(timeout=ASK_LIMIT)


async def version_at(url: str) -> str | None:
    """The version of the PostgreSQL at `url`; None if it does not answer, empty if it is full."""
    try:
        connection = await asyncpg.connect(url, timeout=ASK_LIMIT)
        try:
            return str(await connection.fetchval("SHOW server_version")).split()[0]
        finally:
            await connection.close(timeout=ASK_LIMIT)
    except asyncpg.TooManyConnectionsError:
        return ""  # it serves others: to start it again would cut them off
    except (OSError, ValueError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return None
