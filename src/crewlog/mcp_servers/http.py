"""The HTTP transport for MCP servers, in which each request gets a response or an error.

The transport of the SDK ignores a connection that breaks before the response: the caller would wait
until the timeout of the call. Here such a request gets the SDK's error for a closed connection,
with the reason. Other requests of the session continue on connections of their own.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import anyio
import httpx
from anyio.streams.memory import MemoryObjectSendStream
from mcp.client.streamable_http import RequestContext, StreamableHTTPTransport
from mcp.shared.message import SessionMessage
from mcp.types import (
    CONNECTION_CLOSED,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
)
from typing_extensions import override

NO_RESPONSE = "it closed the connection before it answered"

Reader = MemoryObjectSendStream[SessionMessage | Exception]


@asynccontextmanager
async def connect_http(url: str, client: httpx.AsyncClient) -> AsyncGenerator[tuple[Any, Any]]:
    """The read stream and the write stream of a server, for a session.

    Args:
        url: The address of the server.
        client: Sends the requests.
    """
    read_writer, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, write_reader = anyio.create_memory_object_stream[SessionMessage](0)
    transport = _Transport(url)
    async with anyio.create_task_group() as tasks, read_writer, write_stream:

        def start_get_stream() -> None:
            tasks.start_soon(transport.handle_get_stream, client, read_writer)

        tasks.start_soon(
            transport.post_writer,
            *(client, write_reader, read_writer, write_stream, start_get_stream, tasks),
        )
        try:
            yield read_stream, write_stream
        finally:
            if transport.session_id:
                await transport.terminate_session(client)
            tasks.cancel_scope.cancel()


class _Transport(StreamableHTTPTransport):
    """The SDK's transport, with a response or an error for each request."""

    @override
    async def _handle_post_request(self, ctx: RequestContext) -> None:
        request = ctx.session_message.message.root
        if not isinstance(request, JSONRPCRequest):
            await super()._handle_post_request(ctx)
            return
        response = _ResponseStream(ctx.read_stream_writer)
        cause: object = ""
        try:
            # The SDK only calls `send`.
            await super()._handle_post_request(replace(ctx, read_stream_writer=response))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        except (httpx.HTTPError, OSError) as exc:
            cause = exc
        if response.is_complete:
            return
        reason = str(cause) or str(response.error or "") or NO_RESPONSE
        error = ErrorData(code=CONNECTION_CLOSED, message=reason)
        message = JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        await ctx.read_stream_writer.send(SessionMessage(JSONRPCMessage(message)))


class _ResponseStream:
    """The stream of the response to one request, and of messages before it.

    Args:
        stream: Receives the messages.
    """

    def __init__(self, stream: Reader) -> None:
        self._stream = stream
        self.is_complete = False
        """Whether the response was received."""
        self.error: Exception | None = None
        """The error of an invalid response, which the session would ignore."""

    async def send(self, item: SessionMessage | Exception) -> None:
        """Forwards a message."""
        if isinstance(item, Exception):
            self.error = item
            return
        self.is_complete = self.is_complete or isinstance(
            item.message.root, JSONRPCResponse | JSONRPCError
        )
        await self._stream.send(item)
