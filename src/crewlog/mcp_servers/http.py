"""Exchanges with servers at an address: each request ends, with an answer or with an error.

The SDK's transport says nothing where a connection breaks, or ends, before the answer came: whoever
waits for it would wait until the call's timeout. Here a request that comes back without an answer
is answered with the error that the SDK has for that, and says why. Other requests of the session
go on: they have connections of their own.
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

UNANSWERED = "it closed the connection before it answered"

Reader = MemoryObjectSendStream[SessionMessage | Exception]


@asynccontextmanager
async def connect_http(url: str, client: httpx.AsyncClient) -> AsyncGenerator[tuple[Any, Any]]:
    """What a server at an address says, and what is said to it, as sessions take them.

    Args:
        url: Its address.
        client: What requests it.
    """
    hears, heard = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    said, to_say = anyio.create_memory_object_stream[SessionMessage](0)
    transport = _Transport(url)
    async with anyio.create_task_group() as tasks, hears, said:

        def listen() -> None:
            tasks.start_soon(transport.handle_get_stream, client, hears)

        tasks.start_soon(transport.post_writer, client, to_say, hears, said, listen, tasks)
        try:
            yield heard, said
        finally:
            if transport.session_id:
                await transport.terminate_session(client)
            tasks.cancel_scope.cancel()


class _Transport(StreamableHTTPTransport):
    """The SDK's transport, which answers every request."""

    @override
    async def _handle_post_request(self, ctx: RequestContext) -> None:
        request = ctx.session_message.message.root
        if not isinstance(request, JSONRPCRequest):
            await super()._handle_post_request(ctx)
            return
        answer = _Answer(ctx.read_stream_writer)
        why: object = ""
        try:
            # The SDK only sends, and closes nothing here.
            await super()._handle_post_request(replace(ctx, read_stream_writer=answer))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        except (httpx.HTTPError, OSError) as exc:
            why = exc
        if answer.came:
            return
        why = str(why) or str(answer.fault or "") or UNANSWERED
        error = ErrorData(code=CONNECTION_CLOSED, message=why)
        told = JSONRPCError(jsonrpc="2.0", id=request.id, error=error)
        await ctx.read_stream_writer.send(SessionMessage(JSONRPCMessage(told)))


class _Answer:
    """Where the answer to one request goes, and whatever else comes with it.

    Args:
        hears: Whoever hears it.
    """

    def __init__(self, hears: Reader) -> None:
        self._hears = hears
        self.came = False
        """Whether it was answered."""
        self.fault: Exception | None = None
        """Why what came is no answer: the session could do nothing with that."""

    async def send(self, item: SessionMessage | Exception) -> None:
        """Passes on what came."""
        if isinstance(item, Exception):
            self.fault = item
            return
        self.came = self.came or isinstance(item.message.root, JSONRPCResponse | JSONRPCError)
        await self._hears.send(item)
