"""The cluster's PostgreSQL: Debian's programs, TCP on this machine, passwords, full durability.

It is killed in tests of outages, so nothing here trades what was committed for speed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import asyncpg
from cluster_config import HOST, POSTGRES, STORE_DATABASE, STORE_USER, TEMPORAL_USER, State
from cluster_programs import postgres_account, postgres_programs

from crewlog.dev.pg_install import Account, reached_as
from crewlog.dev.processes import ProcessRecord, end, size_of, spawn, tail
from crewlog.errors import StoreUnavailable

SUPERUSER = "postgres"
SETTINGS = (
    f"listen_addresses={HOST}",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=128MB",
    "max_wal_size=512MB",
    "jit=off",
    "log_min_messages=warning",
)
READY_LIMIT = 60.0
"""Seconds to recover from a crash and answer."""
OLD_BACKENDS_LIMIT = 15.0
"""Seconds for the children of a killed server to notice and end."""
ASK_LIMIT = 10.0
POLL = 0.03


def command(data: str, state: State) -> list[str]:
    """The command line of the server on the data directory, as the server names it."""
    words = [str(postgres_programs() / "postgres"), "-D", data]
    for setting in (*SETTINGS, f"port={state.ports[POSTGRES]}"):
        words += ["-c", setting]
    return words


def make(data: Path, state: State) -> None:
    """Makes the data directory if there is none; one that was interrupted is never taken for it.

    Raises:
        StoreUnavailable: It cannot be made.
    """
    if (data / "PG_VERSION").exists():
        return
    owner = _owner()
    for leftover in data.parent.glob("pg.new-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh = Path(tempfile.mkdtemp(prefix="pg.new-", dir=data.parent))
    try:
        password = fresh / "password"
        password.touch(mode=0o600)
        password.write_text(state.passwords[SUPERUSER] + "\n")
        if owner is not None:
            for path in (fresh, password):
                os.chown(path, owner.uid, owner.gid)
        inside = reached_as(fresh, owner)
        words = [str(postgres_programs() / "initdb"), "-D", f"{inside}/pg", "-U", SUPERUSER]
        words += ["--auth=scram-sha-256", f"--pwfile={inside}/password"]
        words += ["--encoding=UTF8", "--locale=C"]
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
            env=_environment(),
            cwd=fresh if owner else "/",
            user=owner.uid if owner else None,
            group=owner.gid if owner else None,
            extra_groups=[] if owner else None,
        )
        if done.returncode != 0:
            raise StoreUnavailable(
                f"PostgreSQL cannot make its data directory: {done.stderr.strip()[-600:]}",
                remedy="Check the room on the disk, or set CREWLOG_CLUSTER_HOME.",
                place=str(data),
            )
        (fresh / "pg").rename(data)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _environment() -> dict[str, str]:
    """Ours, without what would steer PostgreSQL's programs (PGDATA, PGPORT, locale)."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
    return {**kept, "LC_ALL": "C"}


def launch(data: Path, log: Path, state: State) -> ProcessRecord:
    """Starts the server's process."""
    owner = _owner()
    return spawn(
        command(reached_as(data, owner), state),
        log,
        user=owner.uid if owner else None,
        group=owner.gid if owner else None,
        env=_environment(),
        cwd=data if owner else None,
    )


def _owner() -> Account | None:
    found = postgres_account()
    return None if found is None else Account(*found)


async def start(data: Path, log: Path, state: State) -> ProcessRecord:
    """Starts the server and waits until it answers a query.

    Raises:
        StoreUnavailable: It ended or did not answer in time; the message has its last words.
    """
    deadline = time.monotonic() + OLD_BACKENDS_LIMIT
    while True:
        begin = size_of(log)
        process = launch(data, log, state)
        try:
            await _ready(process, state)
        except StoreUnavailable as error:
            await asyncio.to_thread(end, process)
            said = tail(log, start=begin)
            # A killed server's children still hold its shared memory, not for long.
            if "shared memory block" not in said or time.monotonic() > deadline:
                words = "\n    | ".join([error.message, *said.splitlines()])
                raise StoreUnavailable(words, place=str(log)) from error
        else:
            return process


async def _ready(process: ProcessRecord, state: State) -> None:
    deadline = time.monotonic() + READY_LIMIT
    while True:
        # In this order: a server that ends between the two is seen in the next round.
        alive = process.alive
        if await answers(state):
            return
        if not alive or time.monotonic() > deadline:
            what = "did not answer in time" if alive else "ended while it was starting"
            raise StoreUnavailable(f"the cluster's PostgreSQL {what}")
        await asyncio.sleep(POLL)


async def answers(state: State) -> bool:
    """Whether it answers a query."""
    try:
        connection = await asyncpg.connect(state.url(SUPERUSER, "postgres"), timeout=ASK_LIMIT)
        await connection.close(timeout=ASK_LIMIT)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False
    return True


async def make_users(state: State) -> None:
    """The users of Temporal and of the crew store, who may make databases, and the store's."""
    connection = await asyncpg.connect(state.url(SUPERUSER, "postgres"), timeout=ASK_LIMIT)
    try:
        for user in (TEMPORAL_USER, STORE_USER):
            if await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", user) is None:
                # The passwords are our own, and hexadecimal.
                await connection.execute(
                    f"CREATE ROLE {user} LOGIN CREATEDB PASSWORD '{state.passwords[user]}'"
                )
        query = "SELECT 1 FROM pg_database WHERE datname = $1"
        if await connection.fetchval(query, STORE_DATABASE) is None:
            await connection.execute(f"CREATE DATABASE {STORE_DATABASE} OWNER {STORE_USER}")
    finally:
        await connection.close(timeout=ASK_LIMIT)
