"""Servers over HTTP whose connections break before they answer: whoever called is told at once."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from crewlog.activities.mcp_tools import McpTools
from crewlog.activities.tool_loader import Tool, ToolLoader
from crewlog.activities.tool_node import ToolRunner
from crewlog.definition.model import CrewDefinition, ToolDefinition
from crewlog.definition.reaching import McpServer
from crewlog.errors import OutcomeUnknown, ToolFailed
from crewlog.ids import ToolName
from crewlog.mcp_servers.descriptions import describe_tool
from crewlog.store.in_process import InMemoryStore
from crewlog.tool_call import ToolCall, calling

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"how": {"type": "string"}}}
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "breaks", "version": "1"},
    },
    "tools/list": {"tools": [{"name": "do", "inputSchema": SCHEMA}]},
}


class Handler(BaseHTTPRequestHandler):
    """Answers calls as their argument says."""

    protocol_version = "HTTP/1.1"
    ends: threading.Event

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self.answer(405)

    def do_DELETE(self) -> None:
        self.answer(405)

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "id" not in asked:
            self.answer(202)
        elif asked["method"] == "tools/call":
            self.call(asked["id"], asked["params"]["arguments"]["how"])
        else:
            self.tell(asked["id"], RESULTS[asked["method"]])

    def call(self, number: int, how: str) -> None:
        match how:
            case "breaks" | "breaks after an event":
                self.begin("text/event-stream")
                if how == "breaks after an event":
                    self.chunk(b"id: 1\nretry: 10\ndata:\n\n")
                # Nothing is read any more: the other end is told so.
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes(8))
                self.close_connection = True
            case "ends":
                self.begin("text/event-stream")
                self.chunk(b"")
            case "accepts":
                self.answer(202)
            case "garbage":
                self.answer(200, b"{", "application/json")
            case "prose":
                self.answer(200, b"<html>", "text/html")
            case "error":
                self.answer(500, b"oh no", "text/plain")
            case "waits":
                self.ends.wait(30)
                said: dict[str, Any] = {"content": [{"type": "text", "text": "waited"}]}
                self.tell(number, said)

    def tell(self, number: int, result: dict[str, Any]) -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        self.answer(200, body, "application/json")

    def begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def answer(self, status: int, body: bytes = b"", kind: str = "text/plain") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url() -> Generator[str]:
    Handler.ends = threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/mcp"
        Handler.ends.set()
        server.shutdown()


async def made(url: str, repeat: str) -> tuple[ToolLoader, Tool]:
    """The server's tool on a worker."""
    digest = describe_tool("do", None, SCHEMA).hash
    mcp = McpTools(InMemoryStore())
    registry = ToolLoader(mcp=lambda: mcp)
    definition = ToolDefinition.model_validate(
        {"run": "mcp:s/do", "approved": digest, "retry": repeat}
    )
    servers = {"s": McpServer(url=url)}
    crew = CrewDefinition.model_construct(tools={"do": definition}, mcp=servers)
    return registry, await registry.load(ToolName("do"), crew, for_call=True)


async def call(tool: Tool, folder: Path, how: str) -> str:
    known: Any = {"run": "r", "step": "a#1", "call": 1, "key": "r/a#1/1", "agent": "a"}
    with calling(ToolCall(**known, id="c", tool=ToolName("do"), workspace=folder)):
        return (await ToolRunner().run(tool, "c", {"how": how}, {})).message.text


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("breaks", "closed the connection before it answered"),
        ("breaks after an event", "closed the connection before it answered"),
        ("ends", "closed the connection before it answered"),
        ("accepts", "closed the connection before it answered"),
        ("garbage", "Invalid JSON"),
        ("prose", "Unexpected content type: text/html"),
        ("error", "500 Internal Server Error"),
    ],
)
async def test_a_call_that_is_never_answered_is_told_at_once(
    how: str, told: str, url: str, tmp_path: Path
) -> None:
    registry, tool = await made(url, "never")
    try:
        other = asyncio.create_task(call(tool, tmp_path, "waits"))
        began = time.monotonic()
        with pytest.raises(OutcomeUnknown, match="the MCP server 's' disconnected while") as gone:
            await asyncio.wait_for(call(tool, tmp_path, how), 20)
        assert time.monotonic() - began < 10
        assert told in gone.value.message
        # The session's other calls have connections of their own.
        Handler.ends.set()
        assert await asyncio.wait_for(other, 20) == "waited"
    finally:
        await registry.close()


async def test_a_call_that_may_be_repeated_is_tried_again(url: str, tmp_path: Path) -> None:
    registry, tool = await made(url, "safe")
    try:
        with pytest.raises(ToolFailed, match="disconnected while") as gone:
            await asyncio.wait_for(call(tool, tmp_path, "breaks"), 20)
        assert gone.value.retryable
    finally:
        await registry.close()
