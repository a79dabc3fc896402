"""Sessions with MCP servers: one for each server on a worker, opened when needed.

The task that enters the context of a session must also leave it, and calls run in many tasks. So
each session has a task of its own, which opens it, waits until it is idle, and closes it. If a
session broke, the next call opens a new one before it sends anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx
from mcp import ClientSession, types
from mcp.client.stdio import get_default_environment
from mcp.shared.exceptions import McpError
from mcp.types import CONNECTION_CLOSED, PaginatedRequestParams

from crewlog.allowlist.http import make_async_client
from crewlog.authority.allowlist import AllowlistResult, Target, parse_url
from crewlog.definition.reaching import McpServer
from crewlog.errors import CrewlogError, ToolMissing, ToolUnusable, error_text, joined_error_text
from crewlog.mcp_servers.descriptions import ToolDescription, clean_text, describe_tool, shorten
from crewlog.mcp_servers.http import connect_http
from crewlog.mcp_servers.stdio import LARGEST_ANSWER, Link, run_program
from crewlog.model import Json
from crewlog.secrets import resolve

T = TypeVar("T")
OPEN_SECONDS = 30.0
"""How long a server may take to start, or to list its tools."""
IDLE_SECONDS = 300.0
"""How long an idle session stays open."""
CLOSE_SECONDS = 5.0
"""How long a server may take to stop."""
LAST_SECONDS = 0.5
"""How long to wait for the last response of a server that has ended."""
MOST_PAGES = 50
"""Pages of the list of tools."""
MOST_TOOLS = 2_000
"""Tools of a server; they are listed before each call."""


def allowed_hosts(name: str, server: McpServer) -> tuple[str, ...]:
    """The hosts that a session with a server may connect to: that of its URL, and its `hosts`.

    Raises:
        ToolUnusable: its URL is invalid.
    """
    target = parse_url(server.url or "")
    if isinstance(target, AllowlistResult):
        raise ToolUnusable(
            f"the MCP server {name!r} has an invalid URL: {target.reason}",
            remedy="Correct its 'url'.",
            place=f"MCP server {name!r}",
        )
    return (_host_rule(target), *server.hosts)


def _host_rule(target: Target) -> str:
    host = f"[{target.host}]" if ":" in target.host else target.host
    return f"{target.scheme}://{host}:{target.port}"


class Session:
    """A session with one server.

    Args:
        name: The name of the server in the crew, for errors.
        server: Its definition.
    """

    def __init__(self, name: str, server: McpServer) -> None:
        self._name = name
        self._server = server
        self._owner: asyncio.Task[None] | None = None
        self._session_future: asyncio.Future[ClientSession] | None = None
        self._end = asyncio.Event()
        self._link = Link()
        self._opening = asyncio.Lock()
        self._users = 0
        self._last_used = 0.0

    @property
    def name(self) -> str:
        """The server's name in the crew."""
        return self._name

    @asynccontextmanager
    async def use(self) -> AsyncGenerator[ClientSession]:
        """The open session. It is not idle inside this context.

        Raises:
            ToolMissing: the server does not answer.
        """
        self._users += 1
        try:
            yield await self._open()
        finally:
            self._users -= 1
            self._last_used = asyncio.get_running_loop().time()

    async def list_tools(self) -> dict[str, ToolDescription]:
        """The tools of the server. Opens a new session once if this one broke.

        Raises:
            ToolMissing: the server does not answer.
        """
        for last in (False, True):
            async with self.use() as session:
                try:
                    async with asyncio.timeout(OPEN_SECONDS):
                        return await self.wait_for(list_tools(session))
                except Exception as exc:
                    await self.close()
                    if last:
                        raise self._unavailable_error(exc) from exc
        raise AssertionError

    async def wait_for(self, request: Coroutine[Any, Any, T]) -> T:
        """Waits for the response to a request, or for the end of the server.

        Raises:
            ConnectionError: the server ended; the outcome of the request is unknown.
        """
        link, work = self._link, asyncio.ensure_future(request)
        closed = asyncio.ensure_future(link.closed.wait())
        try:
            await asyncio.wait({work, closed}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():  # its last response may still arrive
                await asyncio.wait({work}, timeout=LAST_SECONDS)
            if link.closed.is_set() and (not work.done() or work.cancelled() or work.exception()):
                raise ConnectionError(link.reason)
            return work.result()
        except McpError as exc:
            if exc.error.code == CONNECTION_CLOSED:
                raise ConnectionError(exc.error.message) from exc
            raise
        finally:
            for each in (work, closed):
                each.cancel()

    async def close(self) -> None:
        """Closes the session; the next use opens a new one."""
        owner, self._owner, self._session_future = self._owner, None, None
        self._end.set()
        self._end = asyncio.Event()
        if owner is not None:
            await asyncio.wait({owner}, timeout=CLOSE_SECONDS)
            if not owner.done():
                owner.cancel()
                await asyncio.wait({owner}, timeout=CLOSE_SECONDS)

    async def _open(self) -> ClientSession:
        async with self._opening:
            if self._link.closed.is_set():
                await self.close()
            if self._session_future is None or self._owner is None or self._owner.done():
                self._session_future, self._link = (
                    asyncio.get_running_loop().create_future(),
                    Link(),
                )
                owner = self._run(self._session_future, self._end, self._link)
                self._owner = asyncio.create_task(owner)
            session = self._session_future
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    return await asyncio.shield(session)
            except asyncio.CancelledError:
                raise
            except CrewlogError:
                raise
            except Exception as exc:
                await self.close()
                raise self._unavailable_error(exc) from exc

    async def _run(
        self, session_future: asyncio.Future[ClientSession], end: asyncio.Event, link: Link
    ) -> None:
        """Opens the session, waits until it is idle, and closes it: all in one task."""
        try:
            async with _connect(self._name, self._server, link) as session:
                await session.initialize()
                if not session_future.done():
                    session_future.set_result(session)
                await self._wait_until_idle(end, link)
        except BaseException as exc:
            if not session_future.done():
                error = exc if isinstance(exc, Exception) else ConnectionError("it was cancelled")
                if link.reason:  # more precise than the error of the session
                    error = ConnectionError(link.reason)
                session_future.set_exception(error)
                session_future.exception()  # marks it as retrieved: the caller may be cancelled
            elif isinstance(exc, asyncio.CancelledError):
                raise
        finally:
            link.mark_closed("the session was closed")

    async def _wait_until_idle(self, end: asyncio.Event, link: Link) -> None:
        clock = asyncio.get_running_loop().time
        self._last_used = clock()
        ends = [asyncio.ensure_future(each.wait()) for each in (end, link.closed)]
        try:
            while True:
                done, _ = await asyncio.wait(
                    ends, timeout=IDLE_SECONDS / 2, return_when=asyncio.FIRST_COMPLETED
                )
                if done or (not self._users and clock() - self._last_used > IDLE_SECONDS):
                    return
        finally:
            for each in ends:
                each.cancel()

    def _unavailable_error(self, exc: BaseException) -> ToolMissing:
        place = f"MCP server {self._name!r}"
        if isinstance(exc, FileNotFoundError) and self._server.command is not None:
            return ToolMissing(
                f"the MCP server {self._name!r} cannot be started: the program "
                f"{self._server.command!r} is not installed here",
                remedy="Install it where workers run, or correct 'command' under 'mcp:'.",
                place=place,
            )
        reason = shorten(clean_text(_reason(exc)).replace("\n", " "), 500)
        return ToolMissing(
            f"the MCP server {self._name!r} does not answer: {reason}",
            remedy=f"Start {self._server.source!r}, or correct the server under 'mcp:'.",
            place=place,
        )


class Sessions:
    """The sessions of a worker by server."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def of(self, name: str, server: McpServer) -> Session:
        """The session with a server; servers with the same definition share one."""
        key = server.model_dump_json()
        found = self._sessions.get(key)
        if found is None:
            found = self._sessions[key] = Session(name, server)
        return found

    async def close(self) -> None:
        """Closes all sessions."""
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.close() for session in sessions))


async def call_tool(
    session: ClientSession, tool: str, args: dict[str, Json]
) -> types.CallToolResult:
    """Calls a tool.

    Not `session.call_tool`: that validates the result with the schema of the server on the event
    loop, which may take long and is not needed here.

    Args:
        session: The session.
        tool: The name of the tool on the server.
        args: The arguments.
    """
    params = types.CallToolRequestParams(name=tool, arguments=args)
    request = types.ClientRequest(types.CallToolRequest(params=params))
    return await session.send_request(request, types.CallToolResult)


async def list_tools(session: ClientSession) -> dict[str, ToolDescription]:
    """The tools of a server.

    Raises:
        ConnectionError: it has too many.
    """
    found: dict[str, ToolDescription] = {}
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        for tool in page.tools:
            found[tool.name] = describe_tool(
                tool.name, tool.description, tool.inputSchema, tool.title
            )
            if len(found) > MOST_TOOLS:
                raise ConnectionError(f"it has more than {MOST_TOOLS:,} tools")
            await asyncio.sleep(0)  # a schema may be large: other tasks run meanwhile
        cursor = page.nextCursor
        if not cursor:
            break
    return found


@asynccontextmanager
async def _connect(name: str, server: McpServer, link: Link) -> AsyncGenerator[ClientSession]:
    connection = (
        _connect_program(server, link) if server.url is None else _connect_over_http(name, server)
    )
    async with connection as (read, write), ClientSession(read, write) as session:
        yield session


@asynccontextmanager
async def _connect_over_http(name: str, server: McpServer) -> AsyncGenerator[tuple[Any, Any]]:
    hosts = allowed_hosts(name, server)
    async with (
        make_async_client(
            hosts,
            # A compressed response may be a thousand times larger than the bytes received.
            headers={**_resolve_secrets(server.headers), "Accept-Encoding": "identity"},
            event_hooks={"response": [_limit_size]},
            follow_redirects=True,  # the transport checks each
            timeout=httpx.Timeout(OPEN_SECONDS, read=None),
        ) as client,
        connect_http(server.url or "", client) as (read, write),
    ):
        yield read, write


async def _limit_size(response: httpx.Response) -> None:
    """Limits the size of a response."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ConnectionError("its response is compressed, which the request excluded")
    if isinstance(response.stream, httpx.AsyncByteStream):
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _LimitedStream(response.stream, events=events)


class _LimitedStream(httpx.AsyncByteStream):
    """A response of at most `LARGEST_ANSWER` bytes.

    Args:
        inner: The response.
        events: Whether it is a stream of events; then the limit applies to each event.
    """

    def __init__(self, inner: httpx.AsyncByteStream, *, events: bool) -> None:
        self._inner = inner
        self._events = events

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        size = 0
        async for piece in self._inner:
            ends = max(map(piece.rfind, _EVENT_ENDS)) if self._events else -1
            size = len(piece) - ends if ends >= 0 else size + len(piece)
            if size > LARGEST_ANSWER:
                raise ConnectionError(f"it answers with more than {LARGEST_ANSWER:,} bytes")
            yield piece

    async def aclose(self) -> None:
        """Closes the connection, or returns it to the pool."""
        await self._inner.aclose()


_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
"""The ends of an event."""


@asynccontextmanager
async def _connect_program(server: McpServer, link: Link) -> AsyncGenerator[tuple[Any, Any]]:
    # Not the whole environment of the worker: only what any program needs, and the declared values.
    env = {**get_default_environment(), **_resolve_secrets(server.env)}
    async with run_program(server.command or "", server.args, env, link) as (read, write):
        yield read, write


def _resolve_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Replaces references to secrets by their values."""
    return {
        key: resolve(value) if value.startswith(("env:", "file:")) else value
        for key, value in settings.items()
    }


def _reason(exc: BaseException) -> str:
    return joined_error_text(exc, _cause_text)


def _cause_text(exc: BaseException) -> str:
    if isinstance(exc, CrewlogError):
        return exc.message
    if isinstance(exc, McpError) and exc.error.code == CONNECTION_CLOSED:
        return exc.error.message
    if isinstance(exc, TimeoutError) and not str(exc):
        return f"no answer in {OPEN_SECONDS:g} s"
    if type(exc) is ConnectionError and str(exc):  # a text of this module, for people
        return str(exc)
    return error_text(exc)
