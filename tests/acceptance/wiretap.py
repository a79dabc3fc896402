"""Listens to what workers and clients say to servers, and what those answer: all of it.

A tap stands between both and keeps every byte. Of gRPC, `messages` takes the messages out of
HTTP/2's frames, and unpacks those that are compressed: queries, heartbeats and rejections are in no
history, and are seen only here.
"""

from __future__ import annotations

import asyncio
import gzip
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_FRAME, _MESSAGE = 9, 5
"""Bytes of the head of an HTTP/2 frame, and of that of a gRPC message."""
_DATA, _PADDED = 0, 8


@dataclass
class Tap:
    """What was said over all connections, each in both directions."""

    place: str
    """The port, or the directory of the socket."""
    said: list[bytearray] = field(default_factory=list[bytearray])

    def raw(self) -> bytes:
        """Every byte, one direction of one connection after the other."""
        return b"\n".join(map(bytes, self.said))

    def messages(self) -> bytes:
        """Every gRPC message, unpacked."""
        return b"\n".join(each for said in self.said for each in _messages(bytes(said)))


def _messages(said: bytes) -> Iterator[bytes]:
    streams: dict[int, bytearray] = defaultdict(bytearray)
    at = len(_PREFACE) if said.startswith(_PREFACE) else 0
    while at + _FRAME <= len(said):
        length = int.from_bytes(said[at : at + 3], "big")
        kind, flags = said[at + 3], said[at + 4]
        body = said[at + _FRAME : at + _FRAME + length]
        if kind == _DATA:
            assert not flags & _PADDED
            streams[int.from_bytes(said[at + 5 : at + 9], "big")] += body
        at += _FRAME + length
    for stream in streams.values():
        data, at = bytes(stream), 0
        while at + _MESSAGE <= len(data):
            end = at + _MESSAGE + int.from_bytes(data[at + 1 : at + _MESSAGE], "big")
            message = data[at + _MESSAGE : end]
            whole = end <= len(data)
            yield gzip.decompress(message) if data[at] and whole else message
            at = end


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter, kept: bytearray) -> None:
    try:
        while data := await source.read(65536):
            kept += data
            sink.write(data)
            await sink.drain()
    except OSError:
        pass
    finally:
        sink.close()


def _handler(
    tap: Tap, beyond: Callable[[], Awaitable[Streams]]
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await beyond()
        there, back = bytearray(), bytearray()
        tap.said += [there, back]
        await asyncio.gather(
            _copy(reader, far_writer, there),
            _copy(far_reader, writer, back),
            return_exceptions=True,
        )

    return handle


@asynccontextmanager
async def tapped_port(address: str) -> AsyncGenerator[Tap]:
    """A tap before a server's `host:port`; its place is an address, too."""
    host, _, port = address.rpartition(":")
    tap = Tap("")
    server = await asyncio.start_server(
        _handler(tap, lambda: asyncio.open_connection(host, int(port))), "127.0.0.1", 0
    )
    tap.place = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield tap
    finally:
        server.close()


@asynccontextmanager
async def tapped_socket(path: Path, own: Path) -> AsyncGenerator[Tap]:
    """A tap before the socket `path`: another one of that name in the directory `own`."""
    tap = Tap(str(own))
    server = await asyncio.start_unix_server(
        _handler(tap, lambda: asyncio.open_unix_connection(str(path))), str(own / path.name)
    )
    try:
        yield tap
    finally:
        server.close()
