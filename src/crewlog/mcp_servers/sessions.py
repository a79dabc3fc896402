"""Sessions with servers: one for each server on a worker, opened when it is needed, and closed.

A session's context must be left by the task that entered it, and calls come from many: so each
session has a task of its own that opens it, waits until nobody needs it, and closes it. A session
that broke is opened anew by the next call, before anything of that call has begun.
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
from crewlog.errors import CrewlogError, ToolMissing, ToolUnusable, in_words, joined_error_text
from crewlog.mcp_servers.descriptions import Described, cleaned_text, described, shortened
from crewlog.mcp_servers.http import connect_http
from crewlog.mcp_servers.stdio import LARGEST_ANSWER, Link, program
from crewlog.model import Json
from crewlog.secrets import resolve

T = TypeVar("T")
OPEN_SECONDS = 30.0
"""How long a server may take to answer at first, or to list its tools."""
IDLE_SECONDS = 300.0
"""How long a session is kept that nobody uses."""
CLOSE_SECONDS = 5.0
"""How long a server may take to end."""
LAST_SECONDS = 0.5
"""How long an answer is waited for whose server has ended."""
MOST_PAGES = 50
"""Pages of a server's list of tools."""
MOST_TOOLS = 2_000
"""Tools of a server: it is asked for them before each call."""


def allowed_hosts(name: str, server: McpServer) -> tuple[str, ...]:
    """The hosts that a server at an address may be reached at: its own, and those it declares.

    Raises:
        ToolUnusable: where its URL is none.
    """
    target = parse_url(server.url or "")
    if isinstance(target, AllowlistResult):
        raise ToolUnusable(
            f"the MCP server {name!r} has a URL that is none: {target.reason}",
            remedy="Correct its 'url'.",
            place=f"MCP server {name!r}",
        )
    return (_entry(target), *server.hosts)


def _entry(target: Target) -> str:
    host = f"[{target.host}]" if ":" in target.host else target.host
    return f"{target.scheme}://{host}:{target.port}"


class Session:
    """A session with one server.

    Args:
        name: The server's name in the crew, for people.
        server: How it is reached.
    """

    def __init__(self, name: str, server: McpServer) -> None:
        self._name = name
        self._server = server
        self._owner: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[ClientSession] | None = None
        self._end = asyncio.Event()
        self._link = Link()
        self._opening = asyncio.Lock()
        self._users = 0
        self._used = 0.0

    @property
    def name(self) -> str:
        """The server's name in the crew."""
        return self._name

    @asynccontextmanager
    async def use(self) -> AsyncGenerator[ClientSession]:
        """The session, open; it is not closed for idleness while it is in use.

        Raises:
            ToolMissing: where the server is away.
        """
        self._users += 1
        try:
            yield await self._session()
        finally:
            self._users -= 1
            self._used = asyncio.get_running_loop().time()

    async def tools(self) -> dict[str, Described]:
        """The server's tools, as it describes them now; a broken session is opened anew, once.

        Raises:
            ToolMissing: where the server is away.
        """
        for last in (False, True):
            async with self.use() as session:
                try:
                    async with asyncio.timeout(OPEN_SECONDS):
                        return await self.answered(listed(session))
                except Exception as exc:
                    await self.close()
                    if last:
                        raise self._away(exc) from exc
        raise AssertionError

    async def answered(self, asked: Coroutine[Any, Any, T]) -> T:
        """What comes of something that is asked in the session, for as long as there is one.

        Raises:
            ConnectionError: the server has gone; nobody knows what became of what was asked.
        """
        link, work = self._link, asyncio.ensure_future(asked)
        gone = asyncio.ensure_future(link.gone.wait())
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():  # its last answer may be on the way
                await asyncio.wait({work}, timeout=LAST_SECONDS)
            if link.gone.is_set() and (not work.done() or work.cancelled() or work.exception()):
                raise ConnectionError(link.why)
            return work.result()
        except McpError as exc:
            if exc.error.code == CONNECTION_CLOSED:
                raise ConnectionError(exc.error.message) from exc
            raise
        finally:
            for each in (work, gone):
                each.cancel()

    async def close(self) -> None:
        """Ends the session; the next use opens another."""
        owner, self._owner, self._opened = self._owner, None, None
        self._end.set()
        self._end = asyncio.Event()
        if owner is not None:
            await asyncio.wait({owner}, timeout=CLOSE_SECONDS)
            if not owner.done():
                owner.cancel()
                await asyncio.wait({owner}, timeout=CLOSE_SECONDS)

    async def _session(self) -> ClientSession:
        async with self._opening:
            if self._link.gone.is_set():
                await self.close()
            if self._opened is None or self._owner is None or self._owner.done():
                self._opened, self._link = asyncio.get_running_loop().create_future(), Link()
                owner = self._own(self._opened, self._end, self._link)
                self._owner = asyncio.create_task(owner)
            opened = self._opened
            try:
                async with asyncio.timeout(OPEN_SECONDS):
                    return await asyncio.shield(opened)
            except asyncio.CancelledError:
                raise
            except CrewlogError:
                raise
            except Exception as exc:
                await self.close()
                raise self._away(exc) from exc

    async def _own(
        self, opened: asyncio.Future[ClientSession], end: asyncio.Event, link: Link
    ) -> None:
        """Opens the session, keeps it while it is needed, and closes it: all in one task."""
        try:
            async with _connected(self._name, self._server, link) as session:
                await session.initialize()
                if not opened.done():
                    opened.set_result(session)
                await self._needed(end, link)
        except BaseException as exc:
            if not opened.done():
                failed = exc if isinstance(exc, Exception) else ConnectionError("it was ended")
                if link.why:  # nearer to the truth than what the session makes of it
                    failed = ConnectionError(link.why)
                opened.set_exception(failed)
                opened.exception()  # seen: who waits for it may be gone
            elif isinstance(exc, asyncio.CancelledError):
                raise
        finally:
            link.mark_closed("the session was closed")

    async def _needed(self, end: asyncio.Event, link: Link) -> None:
        clock = asyncio.get_running_loop().time
        self._used = clock()
        over = [asyncio.ensure_future(each.wait()) for each in (end, link.gone)]
        try:
            while True:
                done, _ = await asyncio.wait(
                    over, timeout=IDLE_SECONDS / 2, return_when=asyncio.FIRST_COMPLETED
                )
                if done or (not self._users and clock() - self._used > IDLE_SECONDS):
                    return
        finally:
            for each in over:
                each.cancel()

    def _away(self, exc: BaseException) -> ToolMissing:
        place = f"MCP server {self._name!r}"
        if isinstance(exc, FileNotFoundError) and self._server.command is not None:
            return ToolMissing(
                f"the MCP server {self._name!r} cannot be started: the program "
                f"{self._server.command!r} is not installed here",
                remedy="Install it where workers run, or correct 'command' under 'mcp:'.",
                place=place,
            )
        why = shortened(cleaned_text(_reason(exc)).replace("\n", " "), 500)
        return ToolMissing(
            f"the MCP server {self._name!r} does not answer: {why}",
            remedy=f"Start it, or correct it under 'mcp:'. It is {self._server.source!r}.",
            place=place,
        )


class Sessions:
    """The sessions of a worker, by server."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def of(self, name: str, server: McpServer) -> Session:
        """The session with a server; servers that are reached alike share one."""
        key = server.model_dump_json()
        found = self._sessions.get(key)
        if found is None:
            found = self._sessions[key] = Session(name, server)
        return found

    async def close(self) -> None:
        """Ends all of them."""
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.close() for session in sessions))


async def called(session: ClientSession, tool: str, args: dict[str, Json]) -> types.CallToolResult:
    """What a server answers to a call.

    Not `session.call_tool`: it holds the answer against a schema that the server has made up for
    it, on the event loop, for as long as that takes. Nothing here needs the answer to fit.

    Args:
        session: The session.
        tool: The tool's name there.
        args: The call's arguments.
    """
    params = types.CallToolRequestParams(name=tool, arguments=args)
    request = types.ClientRequest(types.CallToolRequest(params=params))
    return await session.send_request(request, types.CallToolResult)


async def listed(session: ClientSession) -> dict[str, Described]:
    """A server's tools, as it describes them.

    Raises:
        ConnectionError: it has too many.
    """
    found: dict[str, Described] = {}
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor))
        for tool in page.tools:
            found[tool.name] = described(tool.name, tool.description, tool.inputSchema, tool.title)
            if len(found) > MOST_TOOLS:
                raise ConnectionError(f"it has more than {MOST_TOOLS:,} tools")
            await asyncio.sleep(0)  # each may have a large schema: other runs go on meanwhile
        cursor = page.nextCursor
        if not cursor:
            break
    return found


@asynccontextmanager
async def _connected(name: str, server: McpServer, link: Link) -> AsyncGenerator[ClientSession]:
    connection = _by_program(server, link) if server.url is None else _over_http(name, server)
    async with connection as (read, write), ClientSession(read, write) as session:
        yield session


@asynccontextmanager
async def _over_http(name: str, server: McpServer) -> AsyncGenerator[tuple[Any, Any]]:
    hosts = allowed_hosts(name, server)
    async with (
        make_async_client(
            hosts,
            # What is packed may be a thousand times larger than it was on its way.
            headers={**_known(server.headers), "Accept-Encoding": "identity"},
            event_hooks={"response": [_bound]},
            follow_redirects=True,  # each of them is checked
            timeout=httpx.Timeout(OPEN_SECONDS, read=None),
        ) as client,
        connect_http(server.url or "", client) as (read, write),
    ):
        yield read, write


async def _bound(response: httpx.Response) -> None:
    """Lets no answer be larger than a worker can take."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise ConnectionError("it answers with what is compressed, and was asked not to")
    if isinstance(response.stream, httpx.AsyncByteStream):
        events = response.headers.get("content-type", "").startswith("text/event-stream")
        response.stream = _BoundedStream(response.stream, events=events)


class _BoundedStream(httpx.AsyncByteStream):
    """An answer, of which no more than `LARGEST_ANSWER` is read.

    Args:
        inner: The answer.
        events: Whether it is a stream of events, which has no end, and each of which is an answer.
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
        """Closes the connection, or gives it back."""
        await self._inner.aclose()


_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
"""What ends an event."""


@asynccontextmanager
async def _by_program(server: McpServer, link: Link) -> AsyncGenerator[tuple[Any, Any]]:
    # Not the worker's environment: a server is given what is written for it, and what any program
    # needs.
    env = {**get_default_environment(), **_known(server.env)}
    async with program(server.command or "", server.args, env, link) as (read, write):
        yield read, write


def _known(settings: Mapping[str, str]) -> dict[str, str]:
    """Settings with the secrets that they name."""
    return {
        key: resolve(value) if value.startswith(("env:", "file:")) else value
        for key, value in settings.items()
    }


def _reason(exc: BaseException) -> str:
    return joined_error_text(exc, _cause_told)


def _cause_told(exc: BaseException) -> str:
    if isinstance(exc, CrewlogError):
        return exc.message
    if isinstance(exc, McpError) and exc.error.code == CONNECTION_CLOSED:
        return exc.error.message
    if isinstance(exc, TimeoutError) and not str(exc):
        return f"no answer in {OPEN_SECONDS:g} s"
    if type(exc) is ConnectionError and str(exc):  # said here, for people
        return str(exc)
    return in_words(exc)
