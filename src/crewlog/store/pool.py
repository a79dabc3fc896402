"""A pool of Postgres connections that raises Crewlog's errors and reconnects.

Differences to asyncpg's pool:

- A call is one round trip: asyncpg would reset the connection at each release, which is another.
- An error names the server and a remedy, and never the password.
- A call whose connection was lost is tried once more, since statements of the store are idempotent.

Behind a pooler (PgBouncer) each transaction of a connection may run in another session of the
server, which other clients use, too. So every statement there is a transaction that sets `_PLANNER`
for itself, and no statement is prepared. A connection to the server itself sets `_PLANNER` once and
keeps its prepared statements.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlsplit

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from crewlog.errors import CrewlogError, InternalError, StoreUnavailable

R = TypeVar("R")
Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
"""A connection of the pool. In quotes, because it is generic only in the stubs."""

_CONNECT_TIMEOUT = 10.0
"""Seconds for a new connection."""
_COMMAND_TIMEOUT = 60.0
"""Seconds for one statement: only a server that hangs takes that long."""
_ACQUIRE_TIMEOUT = 30.0
"""Seconds to wait for a free connection of the pool."""

_CLOSE_TIMEOUT = 5.0
"""Seconds to close the connections."""

_PLANNER = {
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
"""The cost of a statement must not grow with the tables. Every query has an index, but a plan that
was made while the tables were small would scan them until the next ANALYZE. `jit` would compile a
walk through a log for 100 ms."""
_FOR_TRANSACTION = "; ".join(f"SET LOCAL {name} = {value}" for name, value in _PLANNER.items())
_FOR_SESSION = (
    "SELECT set_config(name, value, false) "  # noqa: S608 - our own names
    f"FROM json_each_text('{json.dumps(_PLANNER)}') AS settings (name, value) "
    "WHERE pg_backend_pid() = %d"
)
"""Sets them if the session is the process with this id."""

_DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""Errors of asyncpg and of sockets; `TimeoutError` is an `OSError`."""
_ENTRY_CONFLICT = "CL001"
"""The SQLSTATE of `crewlog.reject_entry`."""
_INVALID_STATEMENT = ("22", "23", "42")
"""SQLSTATE classes of a wrong statement or wrong values."""
_VALID_STATEMENT = ("42501", "42P01")
"""States of these classes with another cause: no permission, and a dropped table."""
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    ConnectionResetError,
    BrokenPipeError,
)
"""Errors of a lost connection. The server reports its end before it closes the socket. Until then
the connection looks open, and a statement that begins on it fails with an internal error."""
_RETRYABLE = (
    *_LOST,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
)
"""Errors of a lost connection, or of a conflict with another transaction. A server that takes no
writes is among them: after a failover, a new connection may lead to another server."""
_URL_REMEDY = (
    "It has the form postgresql://user:password@host:port/database, where special characters in "
    "the password are percent-encoded."
)
_UNAVAILABLE = (
    "Postgres is not available",
    "Check that the server runs at this address. Runs wait, and continue when it answers.",
)
_READ_ONLY = (
    "Postgres is read-only",
    "Use the address of the primary server. Runs wait, and continue when it answers.",
)
_ADVICE = {
    "08P01": (_UNAVAILABLE[0], "See the log of the pooler, or of the server at this address."),
    "25006": _READ_ONLY,
    "28": (_UNAVAILABLE[0], "Check the user and the password in the URL."),
    "3D": (_UNAVAILABLE[0], "Create the database first: CREATE DATABASE …"),
    "42501": (
        _UNAVAILABLE[0],
        "Grant the user the right to use the schema `crewlog`, and to create it if it is missing.",
    ),
    "42P01": (
        _UNAVAILABLE[0],
        (
            "A table is missing: restore the database, or drop the schema `crewlog` and rebuild "
            "the rows of each run with `crewlog rebuild RUN`."
        ),
    ),
    "53100": (
        "The disk of Postgres is full",
        "Free space on the disk of the database. Runs wait, and continue when there is some.",
    ),
    "53300": (
        "Postgres takes no more connections",
        (
            "Raise `max_connections`, use a pooler, or run fewer workers. Runs wait, and continue "
            "when there are free connections."
        ),
    ),
    "57P0": (
        "Postgres is starting, stopping or failing over",
        "Wait until it answers again. Runs wait, and continue then.",
    ),
}
"""The message and the remedy, by the start of the SQLSTATE."""


# The pool reconnects in the background, and logs a traceback for every failure. Callers get an
# error of their own.
logging.getLogger("asyncpg.pool").setLevel(logging.CRITICAL)


class EntryConflictError(Exception):
    """`crewlog.reject_entry` was called: a position holds another entry. Only the store sees it."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class Pool:
    """Connections to one database; made by `Pool.connect`."""

    def __init__(
        self, pool: asyncpg.Pool[asyncpg.Record], place: str, connector: _Connector
    ) -> None:
        self._pool = pool
        self._connector = connector
        self.place = place
        """The server and the database, for errors."""

    @property
    def has_pooler(self) -> bool:
        """Whether connections go through a pooler."""
        return self._connector.has_pooler

    @classmethod
    async def connect(cls, dsn: str, *, max_size: int) -> Self:
        """Opens the pool with one connection.

        Raises:
            StoreUnavailable: the server does not answer or refuses, or the URL is invalid.
        """
        place = describe(dsn)
        connector = _Connector()
        with _translate_driver_errors(place):
            try:
                pool: asyncpg.Pool[asyncpg.Record] = await asyncpg.create_pool(
                    dsn,
                    min_size=1,
                    max_size=max_size,
                    timeout=_CONNECT_TIMEOUT,
                    command_timeout=_COMMAND_TIMEOUT,
                    connect=connector,
                    reset=_skip_reset,
                )
            except ValueError:
                # Not chained: the error quotes what it cannot parse, which may be the password.
                raise StoreUnavailable(
                    "the Postgres URL is invalid", place=place, remedy=_URL_REMEDY
                ) from None
        return cls(pool, place, connector)

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Connection]:
        """A connection for several statements; errors as from `fetch`, without its retry.

        Behind a pooler all of them are one transaction.
        """
        with _translate_driver_errors(self.place):
            async with self._acquire() as connection:
                yield connection

    @asynccontextmanager
    async def _acquire(self) -> AsyncGenerator[Connection]:
        try:
            async with self._pool.acquire(timeout=_ACQUIRE_TIMEOUT) as connection:
                if not self._connector.has_pooler:
                    yield connection
                    return
                async with connection.transaction():
                    await connection.execute(_FOR_TRANSACTION)
                    yield connection
        except asyncpg.ReadOnlySQLTransactionError:
            await self._pool.expire_connections()
            raise

    async def transact(self, work: Callable[[Connection], Awaitable[R]]) -> R:
        """Runs idempotent statements in one transaction; errors and retry as of `fetch`."""
        with _translate_driver_errors(self.place):
            try:
                return await self._transact(work)
            except _RETRYABLE:
                return await self._transact(work)

    async def _transact(self, work: Callable[[Connection], Awaitable[R]]) -> R:
        async with self._acquire() as connection:
            try:
                async with connection.transaction():
                    return await work(connection)
            except _LOST:
                connection.terminate()
                raise

    async def fetch(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """Runs one idempotent statement and returns its rows.

        Raises:
            StoreUnavailable: the server does not answer or refuses.
            InternalError: the statement or its values are wrong.
            EntryConflictError: `append` found another entry at a position.
        """
        with _translate_driver_errors(self.place):
            try:
                return await self._fetch(sql, args)
            except _RETRYABLE as error:
                if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
                    await self._pool.expire_connections()
                return await self._fetch(sql, args)

    async def _fetch(self, sql: str, args: tuple[object, ...]) -> list[asyncpg.Record]:
        async with self._pool.acquire(timeout=_ACQUIRE_TIMEOUT) as connection:
            try:
                if not self._connector.has_pooler:
                    return await connection.fetch(sql, *args)
                async with connection.transaction():
                    await connection.execute(_FOR_TRANSACTION)
                    return await connection.fetch(sql, *args)
            except _LOST:
                connection.terminate()
                raise

    async def close(self) -> None:
        """Closes the connections; terminates them if the server does not answer in time."""
        try:
            await asyncio.wait_for(self._pool.close(), _CLOSE_TIMEOUT)
        except _DRIVER_ERRORS:
            self._pool.terminate()


class _Connector:
    """Opens the connections of a pool, and detects a pooler."""

    def __init__(self) -> None:
        self.has_pooler = False
        """Whether a connection went through a pooler; all later ones are treated so."""

    async def __call__(self, *args: Any, **options: Any) -> asyncpg.Connection[asyncpg.Record]:
        """Opens a connection with its settings; the arguments are those of `asyncpg.connect`."""
        connection: asyncpg.Connection[asyncpg.Record]
        if not self.has_pooler:
            connection = await asyncpg.connect(*args, **options)
            try:
                if await _configure_session(connection):
                    return connection
                await connection.close()
            except BaseException:
                connection.terminate()
                raise
            self.has_pooler = True
        # Each transaction may run in another session: it lacks the statements that were prepared in
        # an earlier one, and has those of other clients under the same names.
        connection = await asyncpg.connect(*args, **options, statement_cache_size=0)
        return connection


async def _configure_session(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    """Sets `_PLANNER` for the session; False behind a pooler.

    A server sends its process id when a client connects; a pooler sends a number of its own. So
    behind a pooler no session has the id, and nothing is set.
    """
    status = await connection.execute(_FOR_SESSION % connection.get_server_pid())
    return status == f"SELECT {len(_PLANNER)}"


async def _skip_reset(_: asyncpg.Connection[asyncpg.Record]) -> None:
    """Replaces asyncpg's reset, since nothing here changes a connection beyond its transaction."""


@contextmanager
def _translate_driver_errors(place: str) -> Generator[None]:
    """Turns the errors of the driver into Crewlog's."""
    try:
        yield
    except _DRIVER_ERRORS as error:
        if isinstance(error, asyncpg.PostgresError) and error.sqlstate == _ENTRY_CONFLICT:
            raise EntryConflictError(int(error.as_dict()["detail"] or 0)) from None
        raise _translate(error, place) from error


def _translate(error: BaseException, place: str) -> CrewlogError:
    state = error.sqlstate or "" if isinstance(error, asyncpg.PostgresError) else ""
    text = str(error) or type(error).__name__
    if state.startswith(_INVALID_STATEMENT) and state not in _VALID_STATEMENT:
        return InternalError(f"Postgres refused a statement: {text}", place=place)
    if isinstance(error, TimeoutError):
        text = "no answer in time"
    message, remedy = next(
        (advice for start, advice in _ADVICE.items() if state.startswith(start)), _UNAVAILABLE
    )
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        message, remedy = _READ_ONLY
    return StoreUnavailable(f"{message}: {text}", place=place, remedy=remedy)


def describe(dsn: str) -> str:
    """The server and the database of a URL, without user and password."""
    try:
        url = urlsplit(dsn)
        query = parse_qs(url.query)
        host = url.hostname or query.get("host", ["localhost"])[0]
        port = url.port or int(query.get("port", ["5432"])[0])
        database = url.path.lstrip("/") or query.get("database", query.get("dbname", [""]))[0]
    except ValueError:
        return "postgres"
    # An unquoted `/`, `#` or `?` in a password moves it to another part: show nothing then.
    if "@" in url.path + url.query + url.fragment or url.fragment:
        return "postgres"
    address = host if host.startswith("/") else f"{host}:{port}"
    return f"postgres {address}" + (f" database {database!r}" if database else "")
