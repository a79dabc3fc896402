"""A pool of Postgres connections that speaks Crewlog's errors and comes back by itself.

Why not asyncpg's pool as it is: every call here is one round trip (asyncpg resets a connection at
each release, which is a second one), every error says which server and what to do and never the
password, and a connection that was lost beneath a call is tried once more. That is safe because
every statement of the store is idempotent.

A pooler (PgBouncer) may give each transaction of a connection another session of the server, and
that session to another client afterwards. So behind one every statement runs in a transaction that
has the settings of `_PLANNER` for itself alone, and nothing is prepared for later. A connection to
the server itself has the settings for as long as it lives, keeps its prepared statements, and makes
one round trip a statement.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self, TypeAlias
from urllib.parse import parse_qs, urlsplit

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from crewlog.errors import CrewlogError, InternalError, StoreUnavailable

Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record]"
"""A connection of the pool; in quotes, because only the stubs know that it is generic."""

_CONNECT_TIMEOUT = 10.0
"""Seconds for a new connection."""
_COMMAND_TIMEOUT = 60.0
"""Seconds for one statement: only a server that hangs takes that long, and it must not hang us."""
_ACQUIRE_TIMEOUT = 30.0
"""Seconds to wait for a free connection of the pool."""

_CLOSE_TIMEOUT = 5.0
"""Seconds to say goodbye."""

_PLANNER = {
    "jit": "off",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
}
"""What a statement costs must not grow with the tables. Every query of ours has an index to walk
along, but a plan that was made while the tables were small would scan and hash them whole until the
next ANALYZE. `jit` would compile a walk through a log for 100 ms."""
_FOR_TRANSACTION = "; ".join(f"SET LOCAL {name} = {value}" for name, value in _PLANNER.items())
_FOR_SESSION = (
    "SELECT set_config(name, value, false) "  # noqa: S608 - our own names
    f"FROM json_each_text('{json.dumps(_PLANNER)}') AS settings (name, value) "
    "WHERE pg_backend_pid() = %d"
)
"""Sets them, where the session is the process of that id."""

_DRIVER_ERRORS = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""What asyncpg and the sockets raise; `TimeoutError` is an `OSError`."""
_REFUSED = "CL001"
"""The SQLSTATE of `crewlog.refuse_entry`."""
_OUR_FAULT = ("22", "23", "42")
"""SQLSTATE classes that say the statement or its values are wrong."""
_NOT_OUR_FAULT = ("42501", "42P01")
"""Exceptions in them: no permission, and a table that somebody has dropped."""
_WORTH_A_RETRY = (
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.TransactionRollbackError,
    asyncpg.ReadOnlySQLTransactionError,
    asyncpg.InterfaceError,
    ConnectionResetError,
    BrokenPipeError,
)
"""The connection was lost, or the transaction lost against another: the next try may do. So it may
where the server takes no writes: after a failover, new connections may lead to another one."""
_URL_REMEDY = (
    "It has the form postgresql://user:password@host:port/database, where special characters in "
    "the password are percent-encoded."
)
_AWAY = (
    "Postgres is not available",
    "Is the server up, and is this its address? Runs wait, and go on by themselves.",
)
_READ_ONLY = (
    "Postgres is read-only",
    "Have the address lead to the primary. Runs wait, and go on by themselves.",
)
_STATES = {
    "08P01": (_AWAY[0], "Look at the log of the pooler, or of whatever answers at this address."),
    "25006": _READ_ONLY,
    "28": (_AWAY[0], "Check the user and the password in the URL."),
    "3D": (_AWAY[0], "Create the database first: CREATE DATABASE …"),
    "42501": (
        _AWAY[0],
        "The user needs the right to use, and at first to create, the schema `crewlog`.",
    ),
    "42P01": (
        _AWAY[0],
        (
            "A table is gone: restore the database, or drop the schema `crewlog` and let "
            "`crewlog rebuild RUN` make each run's rows again."
        ),
    ),
    "53100": (
        "The disk of Postgres is full",
        "Make room on the disk of the database. Runs wait, and go on by themselves.",
    ),
    "53300": (
        "Postgres takes no more connections",
        (
            "Raise `max_connections`, put a pooler in front, or run fewer workers. Runs wait, and "
            "go on by themselves."
        ),
    ),
    "57P0": (
        "Postgres is starting, stopping or failing over",
        "Wait until it answers again. Runs wait, and go on by themselves.",
    ),
}
"""What is wrong and what to do, by the start of the SQLSTATE."""


# The pool mends itself in the background, and prints a traceback for every try while the server is
# away. Whoever needs the store then gets an error that says so.
logging.getLogger("asyncpg.pool").setLevel(logging.CRITICAL)


class EntryConflictError(Exception):
    """`crewlog.refuse_entry` was called: a position holds another entry. Only the store sees it."""

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
        """The server and the database, for messages."""

    @property
    def pooled(self) -> bool:
        """Whether a pooler is between us and the server."""
        return self._connector.pooled

    @classmethod
    async def connect(cls, dsn: str, *, max_size: int) -> Self:
        """Opens the pool with one connection.

        Raises:
            StoreUnavailable: where that is not possible.
        """
        place = describe(dsn)
        connector = _Connector()
        with _driver_errors_translated(place):
            try:
                pool: asyncpg.Pool[asyncpg.Record] = await asyncpg.create_pool(
                    dsn,
                    min_size=1,
                    max_size=max_size,
                    timeout=_CONNECT_TIMEOUT,
                    command_timeout=_COMMAND_TIMEOUT,
                    connect=connector,
                    reset=_keep,
                )
            except ValueError:
                # Not chained: the error quotes what it cannot parse, which may be the password.
                raise StoreUnavailable(
                    "the Postgres URL cannot be read", place=place, remedy=_URL_REMEDY
                ) from None
        return cls(pool, place, connector)

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Connection]:
        """A connection for several statements; errors as from `fetch`, without its second try.

        Behind a pooler all of them are one transaction.
        """
        with _driver_errors_translated(self.place):
            try:
                async with self._pool.acquire(timeout=_ACQUIRE_TIMEOUT) as connection:
                    if not self._connector.pooled:
                        yield connection
                        return
                    async with connection.transaction():
                        await connection.execute(_FOR_TRANSACTION)
                        yield connection
            except asyncpg.ReadOnlySQLTransactionError:
                await self._pool.expire_connections()
                raise

    async def fetch(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """Runs one idempotent statement and returns its rows.

        Raises:
            StoreUnavailable: where the server is away or refuses.
            InternalError: where the statement or its values are wrong.
            EntryConflictError: where `append` meets another entry.
        """
        with _driver_errors_translated(self.place):
            try:
                return await self._fetch(sql, args)
            except _WORTH_A_RETRY as error:
                if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
                    await self._pool.expire_connections()
                return await self._fetch(sql, args)

    async def _fetch(self, sql: str, args: tuple[object, ...]) -> list[asyncpg.Record]:
        async with self._pool.acquire(timeout=_ACQUIRE_TIMEOUT) as connection:
            if not self._connector.pooled:
                return await connection.fetch(sql, *args)
            async with connection.transaction():
                await connection.execute(_FOR_TRANSACTION)
                return await connection.fetch(sql, *args)

    async def close(self) -> None:
        """Closes the connections, by force where the server does not answer."""
        try:
            await asyncio.wait_for(self._pool.close(), _CLOSE_TIMEOUT)
        except _DRIVER_ERRORS:
            self._pool.terminate()


class _Connector:
    """Opens the connections of a pool, and notices where a pooler answers in the server's place."""

    def __init__(self) -> None:
        self.pooled = False
        """Whether a connection was found to end at a pooler; it holds for all from then on."""

    async def __call__(self, *args: Any, **options: Any) -> asyncpg.Connection[asyncpg.Record]:
        """A connection that has its settings; `asyncpg.connect` has the arguments."""
        connection: asyncpg.Connection[asyncpg.Record]
        if not self.pooled:
            connection = await asyncpg.connect(*args, **options)
            try:
                if await _prepare(connection):
                    return connection
                await connection.close()
            except BaseException:
                connection.terminate()
                raise
            self.pooled = True
        # A session of the server does not stay with us: it has none of the statements that we
        # prepared in another one, and has those of others under the same names.
        connection = await asyncpg.connect(*args, **options, statement_cache_size=0)
        return connection


async def _prepare(connection: asyncpg.Connection[asyncpg.Record]) -> bool:
    """Sets what statements need for as long as a connection lives; false behind a pooler.

    A server tells its process id when it is connected to. A pooler tells a number of its own there,
    so the process that executes the statement has another one, and nothing is set in it.
    """
    status = await connection.execute(_FOR_SESSION % connection.get_server_pid())
    return status == f"SELECT {len(_PLANNER)}"


async def _keep(_: asyncpg.Connection[asyncpg.Record]) -> None:
    """Replaces asyncpg's reset: nothing here changes a connection beyond its transaction."""


@contextmanager
def _driver_errors_translated(place: str) -> Generator[None]:
    """Turns what the driver raises into Crewlog's errors."""
    try:
        yield
    except _DRIVER_ERRORS as error:
        if isinstance(error, asyncpg.PostgresError) and error.sqlstate == _REFUSED:
            raise EntryConflictError(int(error.as_dict()["detail"] or 0)) from None
        raise _translate(error, place) from error


def _translate(error: BaseException, place: str) -> CrewlogError:
    state = error.sqlstate or "" if isinstance(error, asyncpg.PostgresError) else ""
    text = str(error) or type(error).__name__
    if state.startswith(_OUR_FAULT) and state not in _NOT_OUR_FAULT:
        return InternalError(f"Postgres refused a statement: {text}", place=place)
    if isinstance(error, TimeoutError):
        text = "no answer in time"
    what, remedy = next((told for start, told in _STATES.items() if state.startswith(start)), _AWAY)
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        what, remedy = _READ_ONLY
    return StoreUnavailable(f"{what}: {text}", place=place, remedy=remedy)


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
    # A password with an unquoted `/`, `#` or `?` ends up in the wrong part: show nothing then.
    if "@" in url.path + url.query + url.fragment or url.fragment:
        return "postgres"
    address = host if host.startswith("/") else f"{host}:{port}"
    return f"postgres {address}" + (f" database {database!r}" if database else "")
