"""Where the local services keep their files, and the locks that guard them."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from crewlog.errors import ServiceError
from crewlog.payload_storage.directory import data_directory

PRIVATE_FOLDER = 0o700
PRIVATE_FILE = 0o600
"""The modes of a home: histories, rows and logs have what crews say, and nobody else is to read."""
LOCK_POLL = 0.05
"""Seconds between two attempts at a lock that another process holds."""


@dataclass(frozen=True)
class Home:
    """The directory of one set of local services: databases, logs, payloads, the registry."""

    root: Path
    """Absolute and resolved: processes are recognised by the paths in their command lines."""

    @classmethod
    def at(cls, root: Path) -> Home:
        """The home in the directory `root`, which need not exist."""
        return cls(root.expanduser().resolve())

    @classmethod
    def default(cls, environ: Mapping[str, str] | None = None) -> Home:
        """`CREWLOG_HOME`, else the user's data directory (`~/.local/share/crewlog`)."""
        return cls(data_directory(environ))

    @property
    def temporal(self) -> Path:
        """The Temporal server's files."""
        return self.root / "temporal"

    @property
    def temporal_db(self) -> Path:
        """The Temporal server's SQLite database."""
        return self.temporal / "temporal.db"

    @property
    def postgres(self) -> Path:
        """The embedded PostgreSQL's data directory."""
        return self.root / "pg"

    @property
    def logs(self) -> Path:
        """Log files of servers and background workers."""
        return self.root / "logs"

    @property
    def temporal_log(self) -> Path:
        """What the Temporal server prints."""
        return self.logs / "temporal.log"

    @property
    def postgres_log(self) -> Path:
        """What PostgreSQL prints."""
        return self.logs / "postgres.log"

    @property
    def payloads(self) -> Path:
        """Payloads too large for a history (Temporal's external storage)."""
        return self.root / "payloads"

    @property
    def registry(self) -> Path:
        """Which processes were started, and where they answer."""
        return self.root / "services.json"

    @property
    def registry_lock(self) -> Path:
        """Held for the milliseconds of one change to the registry."""
        return self.root / "services.lock"

    @property
    def start_lock(self) -> Path:
        """Held while servers are started or stopped."""
        return self.root / "start.lock"

    def create(self) -> None:
        """Make the directories.

        Raises:
            ServiceError: The home cannot be written.
        """
        try:
            self.root.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
            for path in (self.temporal, self.logs, self.payloads):
                path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
            probe = self.root / f".probe-{os.getpid()}"
            probe.touch(mode=PRIVATE_FILE)
            probe.unlink()
        except OSError as error:
            raise unwritable(self.root, error) from error


def open_private(path: str, flags: int) -> int:
    """An `opener` for `open`: a file that it makes is for its owner alone."""
    return os.open(path, flags, PRIVATE_FILE)


def unwritable(root: Path, error: OSError) -> ServiceError:
    """The error for a home that cannot be written."""
    return ServiceError(
        f"the directory of the local services cannot be written: {error.strerror or error}",
        remedy="Set CREWLOG_HOME to a directory that you may write and that has room, or set "
        "TEMPORAL_ADDRESS and DATABASE_URL to use servers of your own.",
        place=str(error.filename or root),
    )


@asynccontextmanager
async def hold(path: Path, *, waiting: Callable[[], None] | None = None) -> AsyncGenerator[None]:
    """Hold the lock file `path`; another holder is waited for without blocking the event loop.

    Args:
        path: The lock file; it is made if need be and never removed by us.
        waiting: Called once if another process holds the lock.
    """
    lock = FileLock(path, thread_local=False, mode=PRIVATE_FILE)
    first = True
    while True:
        try:
            lock.acquire(timeout=0)
            break
        except Timeout:
            if first and waiting is not None:
                waiting()
            first = False
        except OSError as error:
            raise unwritable(path.parent, error) from error
        await asyncio.sleep(LOCK_POLL)
    try:
        yield
    finally:
        lock.release()
