"""Servers that mean harm: nothing that they answer fills a worker, or holds it up."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mcp import ClientSession, types

from crewlog.definition.reaching import McpServer
from crewlog.errors import ToolMissing
from crewlog.mcp_servers import sessions
from crewlog.mcp_servers.sessions import MOST_TOOLS, Session, call_tool

PIECE = b"x" * 65_536
PIECES = 1_000
LARGEST = 1_000_000


@asynccontextmanager
async def serving(head: str, pieces: Iterable[bytes]) -> AsyncGenerator[tuple[Session, list[int]]]:
    """A session with a server that answers everything like that, and how much it has sent."""
    sent: list[int] = []
    answer = list(pieces)

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(f"HTTP/1.1 {head}\r\nConnection: close\r\n\r\n".encode())
            for piece in answer:
                writer.write(piece)
                await writer.drain()
                sent.append(len(piece))
        writer.close()

    server = await asyncio.start_server(one, "127.0.0.1", 0)
    session = Session(
        "s", McpServer(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp")
    )
    try:
        yield session, sent
    finally:
        await session.close()
        server.close()


@pytest.mark.parametrize(
    ("head", "pieces"),
    [
        ("200 OK\r\nContent-Type: application/json", [PIECE] * PIECES),
        ("200 OK\r\nContent-Type: text/event-stream", [b"data: ", *[PIECE] * PIECES]),
        ("200 OK\r\nContent-Type: text/event-stream", [b"data: " + PIECE + b"\n"] * PIECES),
        (
            "200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip",
            [gzip.compress(b"[" + b" " * 50_000_000)],
        ),
        ("307 Temporary Redirect\r\nLocation: http://169.254.169.254/latest/meta-data/", []),
        ("307 Temporary Redirect\r\nLocation: http://127.0.0.1:9/mcp", []),
        ("307 Temporary Redirect\r\nLocation: file:///etc/passwd", []),
    ],
)
async def test_no_answer_fills_a_worker(
    head: str, pieces: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "OPEN_SECONDS", 2.0)
    monkeypatch.setattr(sessions, "CLOSE_SECONDS", 0.5)
    monkeypatch.setattr(sessions, "LARGEST_ANSWER", LARGEST)
    async with serving(head, pieces) as (session, sent):
        with pytest.raises(ToolMissing, match="the MCP server 's' does not answer"):
            await session.list_tools()
    # Each of two tries is ended at the limit; what is on its way then fills the system's buffers.
    assert sum(sent) < PIECES * len(PIECE) / 2


class Listing:
    """A session with a server that has as many tools as anybody asks for."""

    def __init__(self, pages: int, each: int) -> None:
        self._pages, self._each = pages, each
        self.asked = 0

    async def list_tools(self, params: Any) -> types.ListToolsResult:
        del params
        self.asked += 1
        tools = [
            types.Tool(name=f"t{self.asked}-{n}", inputSchema={"type": "object"})
            for n in range(self._each)
        ]
        more = None if self.asked == self._pages else "more"
        return types.ListToolsResult(tools=tools, nextCursor=more)


async def test_a_server_has_so_many_tools() -> None:
    few = Listing(2, 10)
    assert len(await sessions.list_tools(cast("ClientSession", few))) == 20
    endless = Listing(10**9, MOST_TOOLS // 2)
    with pytest.raises(ConnectionError, match="more than 2,000 tools"):
        await sessions.list_tools(cast("ClientSession", endless))
    assert endless.asked == 3


async def test_an_answer_is_held_against_no_schema_of_its_server() -> None:
    """Such a schema could take a lifetime: what it would find is nobody's concern."""
    answer = types.CallToolResult(content=[], structuredContent={"a": "a" * 40 + "b"})

    async def send_request(request: types.ClientRequest, kind: type[Any]) -> Any:
        del kind
        assert request.root.params == types.CallToolRequestParams(name="t", arguments={"n": 1})
        return answer

    schema = {"properties": {"a": {"pattern": "^(a+)+$"}}}
    session = SimpleNamespace(send_request=send_request, _tool_output_schemas={"t": schema})
    async with asyncio.timeout(5):
        assert await call_tool(cast("ClientSession", session), "t", {"n": 1}) is answer
