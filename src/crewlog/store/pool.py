"""A pool of Postgres connections that speaks Crewlog's errors and comes back by itself.

Why not asyncpg's pool as it is: every call here is one round trip (asyncpg resets a connection at
each release, which is a second one), every error says which server and what to do and never the
password, and a connection that was lost beneath a call is tried once more. That is safe because
every statement of the store is idempotent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Self, TypeAlias
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
    asyncpg.InterfaceError,
    ConnectionResetError,
    BrokenPipeError,
)
"""The connection was lost, or the transaction lost against another: the next try may do."""
_URL_REMEDY = (
    "It has the form postgresql://user:password@host:port/database, where special characters in "
    "the password are percent-encoded."
)
_REMEDIES = {
    "28": "Check the user and the password in the URL.",
    "3D": "Create the database first: CREATE DATABASE …",
    "42501": "The user needs the right to use, and at first to create, the schema `crewlog`.",
    "42P01": "A table is gone: restore the database, or drop the schema `crewlog` and let "
    "`crewlog rebuild RUN` make each run's rows again.",
    "53300": "Too many connections: raise `max_connections`, or run fewer workers.",
    "25006": "The server is a read-only replica: use the address of the primary.",
}
"""What to do, by the start of the SQLSTATE."""


# The pool mends itself in the background, and prints a traceback for every try while the server is
# away. Whoever needs the store then gets an error that says so.
logging.getLogger("asyncpg.pool").setLevel(logging.CRITICAL)


class EntryRefusedError(Exception):
    """`crewlog.refuse_entry` was called: a position holds another entry. Only the store sees it."""

    def __init__(self, position: int) -> None:
        super().__init__(position)
        self.position = position


class Pool:
    """Connections to one database; made by `Pool.connect`."""

    def __init__(self, pool: asyncpg.Pool[asyncpg.Record], place: str) -> None:
        self._pool = pool
        self.place = place
        """The server and the database, for messages."""

    @classmethod
    async def connect(cls, dsn: str, *, max_size: int) -> Self:
        """Opens the pool with one connection.

        Raises:
            StoreUnavailable: where that is not possible.
        """
        place = describe(dsn)
        with _translated(place):
            try:
                pool: asyncpg.Pool[asyncpg.Record] = await asyncpg.create_pool(
                    dsn,
                    min_size=1,
                    max_size=max_size,
                    timeout=_CONNECT_TIMEOUT,
                    command_timeout=_COMMAND_TIMEOUT,
                    init=_prepare,
                    reset=_keep,
                )
            except ValueError:
                # Not chained: the error quotes what it cannot parse, which may be the password.
                raise StoreUnavailable(
                    "the Postgres URL cannot be read", place=place, remedy=_URL_REMEDY
                ) from None
        return cls(pool, place)

    @asynccontextmanager
    async def acquire(self) -> AsyncGenerator[Connection]:
        """A connection for several statements; errors as from `fetch`, without its second try."""
        with _translated(self.place):
            async with self._pool.acquire(timeout=_ACQUIRE_TIMEOUT) as connection:
                yield connection

    async def fetch(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """Runs one idempotent statement and returns its rows.

        Raises:
            StoreUnavailable: where the server is away or refuses.
            InternalError: where the statement or its values are wrong.
            EntryRefusedError: where `append` meets another entry.
        """
        with _translated(self.place):
            try:
                return await self._fetch(sql, args)
            except _WORTH_A_RETRY:
                return await self._fetch(sql, args)

    async def _fetch(self, sql: str, args: tuple[object, ...]) -> list[asyncpg.Record]:
        async with self._pool.acquire(timeout=_ACQUIRE_TIMEOUT) as connection:
            return await connection.fetch(sql, *args)

    async def close(self) -> None:
        """Closes the connections, by force where the server does not answer."""
        try:
            await asyncio.wait_for(self._pool.close(), _CLOSE_TIMEOUT)
        except _DRIVER_ERRORS:
            self._pool.terminate()


async def _prepare(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    # What a statement costs must not grow with the tables. Every query of ours has an index to walk
    # along, but a plan that was made while the tables were small would scan and hash them whole
    # until the next ANALYZE. `jit` would compile a walk through a log for 100 ms.
    await connection.execute(
        "SET jit = off; SET enable_seqscan = off; SET enable_hashjoin = off; "
        "SET enable_mergejoin = off; SET plan_cache_mode = force_generic_plan"
    )


async def _keep(_: asyncpg.Connection[asyncpg.Record]) -> None:
    """Replaces asyncpg's reset: nothing here changes a connection beyond its transaction."""


@contextmanager
def _translated(place: str) -> Generator[None]:
    """Turns what the driver raises into Crewlog's errors."""
    try:
        yield
    except _DRIVER_ERRORS as error:
        if isinstance(error, asyncpg.PostgresError) and error.sqlstate == _REFUSED:
            raise EntryRefusedError(int(error.as_dict()["detail"] or 0)) from None
        raise _translate(error, place) from error


def _translate(error: BaseException, place: str) -> CrewlogError:
    state = error.sqlstate or "" if isinstance(error, asyncpg.PostgresError) else ""
    text = str(error) or type(error).__name__
    if state.startswith(_OUR_FAULT) and state not in _NOT_OUR_FAULT:
        return InternalError(f"Postgres refused a statement: {text}", place=place)
    if isinstance(error, TimeoutError):
        text = "no answer in time"
    remedy = next(
        (remedy for start, remedy in _REMEDIES.items() if state and state.startswith(start)),
        "Is the server up, and is this its address? Nothing is lost: what needs the store is "
        "tried again.",
    )
    return StoreUnavailable(f"Postgres is not available: {text}", place=place, remedy=remedy)


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
