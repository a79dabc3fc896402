"""A Temporal server whose database is away: its frontend answers, and says so to all that needs it.

As much of gRPC as that takes. The one call without arguments, GetSystemInfo, has an empty message:
that tells it from others.
"""

from __future__ import annotations

import asyncio
import gzip
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from temporalio.api.workflowservice.v1 import GetSystemInfoResponse

CAUSE = "no usable database connection found"
_DATA, _HEADERS, _SETTINGS, _PING = 0, 1, 4, 6
_END_STREAM, _ACK, _END_HEADERS = 1, 1, 4
_PREFACE = 24
_LENGTH = 5
"""Bytes before a message: whether it is compressed, and how long it is."""
_STATUS_200 = b"\x88"
UNAVAILABLE = 14


def _frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    return (
        struct.pack(">I", len(body))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + body
    )


def _header(name: str, value: str) -> bytes:
    return b"\x00" + b"".join(bytes([len(text)]) + text.encode() for text in (name, value))


_TYPE = _STATUS_200 + _header("content-type", "application/grpc")


def _refusal(stream: int) -> bytes:
    words = _header("grpc-status", str(UNAVAILABLE)) + _header("grpc-message", CAUSE)
    return _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _TYPE + words)


def _info(stream: int) -> bytes:
    body = GetSystemInfoResponse(server_version="1.31.2").SerializeToString()
    return (
        _frame(_HEADERS, _END_HEADERS, stream, _TYPE)
        + _frame(_DATA, 0, stream, b"\x00" + struct.pack(">I", len(body)) + body)
        + _frame(_HEADERS, _END_HEADERS | _END_STREAM, stream, _header("grpc-status", "0"))
    )


def _message(data: bytes) -> bytes:
    return gzip.decompress(data[_LENGTH:]) if data[0] else data[_LENGTH:]


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    said: dict[int, bytes] = {}
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        await reader.readexactly(_PREFACE)
        writer.write(_frame(_SETTINGS, 0, 0))
        while True:
            head = await reader.readexactly(9)
            kind, flags = head[3], head[4]
            stream = int.from_bytes(head[5:], "big")
            body = await reader.readexactly(int.from_bytes(head[:3], "big"))
            if kind in {_SETTINGS, _PING} and not flags & _ACK:
                writer.write(_frame(kind, _ACK, 0, body if kind == _PING else b""))
            if kind == _DATA:
                said[stream] = said.get(stream, b"") + body
                if flags & _END_STREAM:
                    writer.write(_refusal(stream) if _message(said[stream]) else _info(stream))
            await writer.drain()
    writer.close()


@asynccontextmanager
async def half_server() -> AsyncIterator[str]:
    """The address of such a server."""
    server = await asyncio.start_server(_serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    try:
        yield f"{host}:{port}"
    finally:
        server.close()
