"""What really happened, kept outside of the system that is tested.

An SQLite file that stands for the world: tools act on it, workers note what they are about to do in
it, and only the driver reads it. A write is one transaction, so that a SIGKILL leaves it whole or
not there, as it would leave a service of somebody else's.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_TABLES = """
PRAGMA journal_mode = WAL;
CREATE TABLE tries (
    run TEXT, item TEXT, tool TEXT, key TEXT, attempt INTEGER, execution TEXT, activity TEXT,
    activity_attempt INTEGER, pid INTEGER, at REAL
);
CREATE TABLE keyed (key TEXT PRIMARY KEY, run TEXT, item TEXT, pid INTEGER, at REAL);
CREATE TABLE clashes (key TEXT, run TEXT, item TEXT, other TEXT);
CREATE TABLE deeds (run TEXT, item TEXT, key TEXT, pid INTEGER, at REAL);
CREATE TABLE claims (key TEXT, owner TEXT, pid INTEGER, at REAL);
CREATE TABLE calls (
    run TEXT, execution TEXT, activity TEXT, attempt INTEGER, name TEXT, event TEXT,
    pid INTEGER, at REAL
);
CREATE TABLE releases (run TEXT, item TEXT);
CREATE TABLE halts (point TEXT, action TEXT, run TEXT, what TEXT, pid INTEGER, at REAL);
"""
_PATIENCE = 60.0
"""Seconds to wait for another process's write."""
_USE = threading.Lock()
"""Held by the thread of this process that uses the file."""


@dataclass(frozen=True)
class Effect:
    """Something that a tool did to the world."""

    run: str
    item: str
    """What was to be done, once: the script names it, and no two calls of a run share it."""
    key: str
    """The idempotency key that it was done under."""


@dataclass(frozen=True)
class Try:
    """A tool that began."""

    run: str
    item: str
    tool: str
    key: str
    attempt: int
    execution: str
    activity: str
    activity_attempt: int
    """The attempt of the activity that it began in; `attempt` counts those of earlier askings."""
    pid: int


@dataclass(frozen=True)
class Call:
    """An activity that began or returned in a worker; what is returned may still be refused."""

    run: str
    execution: str
    activity: str
    attempt: int
    name: str
    event: str
    """`begin`, `return` or `raise`."""
    pid: int


@dataclass(frozen=True)
class Halt:
    """A worker that stopped itself at a labelled point."""

    point: str
    action: str
    """`kill` or `freeze`."""
    run: str
    what: str
    """The activity and the attempt, as `ID/ATTEMPT`; empty outside of activities."""
    pid: int
    at: float


class Ledger:
    """The ledger in the file `path`; `create` makes it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self) -> None:
        with self._open() as database:
            database.executescript(_TABLES)

    @contextmanager
    def unused(self) -> Generator[None]:
        """While no thread of this process uses the file: a frozen one must not keep it locked."""
        with _USE:
            yield

    @contextmanager
    def _open(self) -> Generator[sqlite3.Connection]:
        # A connection for each use: nothing is carried over a fork or between threads.
        with _USE, self._connected() as database:
            yield database

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection]:
        database = sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)
        try:
            database.execute("PRAGMA synchronous = NORMAL")
            yield database
        finally:
            database.close()

    def _insert(self, table: str, *values: Any) -> None:
        marks = ", ".join("?" * len(values))
        with self._open() as database:
            database.execute(f"INSERT INTO {table} VALUES ({marks})", values)  # noqa: S608 - ours

    # -- what tools do -----------------------------------------------------------------------

    def begin(
        self, run: str, item: str, tool: str, key: str, attempt: int, within: tuple[str, str, int]
    ) -> None:
        """A tool begins, within an activity's attempt; nothing has happened yet."""
        self._insert("tries", run, item, tool, key, attempt, *within, os.getpid(), time.time())

    def deposit(self, run: str, item: str, key: str) -> bool:
        """A service that takes idempotency keys: true where the key was new.

        A key that comes with something else than it came with before is noted as a clash: the
        service would have swallowed one of the two.
        """
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            row = database.execute("SELECT run, item FROM keyed WHERE key = ?", [key]).fetchone()
            if row is None:
                values = (key, run, item, os.getpid(), time.time())
                database.execute("INSERT INTO keyed VALUES (?, ?, ?, ?, ?)", values)
            elif row != (run, item):
                values = (key, run, item, "/".join(row))
                database.execute("INSERT INTO clashes VALUES (?, ?, ?, ?)", values)
            database.execute("COMMIT")
            return row is None

    def send(self, run: str, item: str, key: str) -> None:
        """A service that knows no keys: whoever calls twice has done it twice."""
        self._insert("deeds", run, item, key, os.getpid(), time.time())

    def release(self, run: str, item: str) -> None:
        """Lets the tool call of an item end that waits for this."""
        self._insert("releases", run, item)

    def is_released(self, run: str, item: str) -> bool:
        return bool(self._rows("SELECT 1 FROM releases WHERE (run, item) = (?, ?)", [run, item]))

    # -- what workers note -------------------------------------------------------------------

    def claimed(self, key: str, owner: str) -> None:
        """A worker got the claim of a call that must not be repeated."""
        self._insert("claims", key, owner, os.getpid(), time.time())

    def call(
        self, run: str, execution: str, activity: str, attempt: int, name: str, event: str
    ) -> None:
        """An activity begins, or returns."""
        pid, now = os.getpid(), time.time()
        self._insert("calls", run, execution, activity, attempt, name, event, pid, now)

    def halt(self, point: str, action: str, run: str, what: str) -> None:
        """This worker is about to stop itself."""
        self._insert("halts", point, action, run, what, os.getpid(), time.time())

    # -- what the driver reads ---------------------------------------------------------------

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._open() as database:
            return database.execute(sql, values).fetchall()

    def progress(self, prefix: str) -> int:
        """How many different things the tools of the runs of that prefix have begun."""
        [[count]] = self._rows(
            "SELECT count(*) FROM (SELECT DISTINCT run, item FROM tries WHERE run GLOB ?)",
            [f"{prefix}*"],
        )
        return int(count)

    def tries(self, run: str) -> list[Try]:
        sql = (
            "SELECT run, item, tool, key, attempt, execution, activity, activity_attempt, pid "
            "FROM tries WHERE run = ? ORDER BY at"
        )
        return [Try(*row) for row in self._rows(sql, [run])]

    def deposits(self, run: str) -> list[Effect]:
        sql = "SELECT run, item, key FROM keyed WHERE run = ?"
        return [Effect(*row) for row in self._rows(sql, [run])]

    def clashes(self, run: str) -> list[str]:
        sql = "SELECT key, item, other FROM clashes WHERE run = ?"
        return [f"{key} for {item} and {other}" for key, item, other in self._rows(sql, [run])]

    def sent(self, run: str) -> list[Effect]:
        sql = "SELECT run, item, key FROM deeds WHERE run = ?"
        return [Effect(*row) for row in self._rows(sql, [run])]

    def was_sent(self, key: str) -> bool:
        return bool(self._rows("SELECT 1 FROM deeds WHERE key = ?", [key]))

    def holders(self, key: str) -> list[int]:
        """The processes that have claimed or begun the call of that key."""
        sql = "SELECT pid FROM claims WHERE key GLOB ? UNION SELECT pid FROM tries WHERE key = ?"
        return [int(pid) for [pid] in self._rows(sql, [f"{key}/*", key])]

    def is_at_work(self, run: str, pid: int) -> bool:
        """Whether a process, where it lives, has tool calls of the run that have not ended."""
        sql = (
            "SELECT 1 FROM calls WHERE run = ? AND pid = ? AND name = 'call_tool' "
            "GROUP BY execution, activity, attempt HAVING count(*) = 1"
        )
        return bool(self._rows(sql, [run, pid]))

    def calls(self, run: str) -> list[Call]:
        sql = (
            "SELECT run, execution, activity, attempt, name, event, pid FROM calls "
            "WHERE run = ? ORDER BY at"
        )
        return [Call(*row) for row in self._rows(sql, [run])]

    def halts(self, pid: int | None = None) -> list[Halt]:
        sql = "SELECT point, action, run, what, pid, at FROM halts ORDER BY at"
        found = [Halt(*row) for row in self._rows(sql)]
        return [halt for halt in found if pid is None or halt.pid == pid]
