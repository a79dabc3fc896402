"""A codec server: it decrypts what Temporal's web UI shows, for who has its token.

It listens on this machine alone, answers pages of one origin, and takes `/decode` only: what is
encrypted without a run would belong to none, so there is nothing to encrypt for.
"""

from __future__ import annotations

import asyncio
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass

from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from temporalio.api.common.v1 import Payload, Payloads

from crewlog.encryption.codec import ENCRYPTED, decrypt_payload
from crewlog.encryption.keys import Keyring
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing

LARGEST = 8 * 1024 * 1024
"""Bytes of a request's body."""
_LARGEST_HEAD = 32 * 1024
_PATIENCE = 15.0
"""Seconds for a request to arrive."""
AT_ONCE = 32
"""Bodies that are read at a time."""


@dataclass(frozen=True)
class Answer:
    """What is answered to a request."""

    status: str
    """`200 OK`."""
    body: bytes = b""
    allowed: bool = False
    """Whether the page that asks may read it."""


class CodecServer:
    """Decrypts payloads over HTTP.

    Args:
        keys: The keys.
        origin: The origin of the web UI, `http://localhost:8233`.
        token: What a request must carry, as `Authorization: Bearer TOKEN`.
        namespace: The namespace whose payloads are shown.
    """

    def __init__(self, keys: Keyring, origin: str, token: str, namespace: str) -> None:
        self._keys = keys
        self._origin = origin.rstrip("/")
        self._token = token
        self._namespace = namespace
        self._room = asyncio.Semaphore(AT_ONCE)

    async def start(self, port: int) -> asyncio.Server:
        """Listens on this machine.

        Raises:
            OSError: the port is taken.
        """
        return await asyncio.start_server(
            self._serve, host="127.0.0.1", port=port, limit=_LARGEST_HEAD
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await self._answered(reader)
                writer.write(self._bytes(answer))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass  # who asked is gone, or never said what
        finally:
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader) -> Answer:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return Answer("431 Request Header Fields Too Large")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, *_ = [*first.split(" "), "", ""]
        headers = {
            name.strip().lower(): value.strip()
            for name, colon, value in (line.partition(":") for line in lines)
            if colon
        }
        refused = self._refused(method, path.partition("?")[0], headers)
        if refused is not None:
            return refused
        length = headers.get("content-length", "")
        if not length.isdecimal() or len(length) > len(str(LARGEST)):
            return Answer("411 Length Required", allowed=True)
        if int(length) > LARGEST:
            return Answer("413 Content Too Large", allowed=True)
        async with self._room:  # who has the token waits for no stranger that says nothing
            return self.decode(await reader.readexactly(int(length)))

    def _refused(self, method: str, path: str, headers: Mapping[str, str]) -> Answer | None:
        """Why a request is not looked at; none where it is."""
        # Another site's page may ask a server of this machine, by a name that it lets point here.
        host = headers.get("host", "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):
            return Answer("421 Misdirected Request")
        origin = headers.get("origin")
        if origin is not None and origin.rstrip("/") != self._origin:
            return Answer("403 Forbidden")
        if path != "/decode":
            return Answer("404 Not Found", allowed=True)
        if method == "OPTIONS":
            return Answer("204 No Content", allowed=True)
        if method != "POST":
            return Answer("405 Method Not Allowed", allowed=True)
        given = headers.get("authorization", "")
        if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
            return Answer("401 Unauthorized", allowed=True)
        if headers.get("x-namespace", self._namespace) != self._namespace:
            return Answer("403 Forbidden", allowed=True)
        return None

    def decode(self, body: bytes) -> Answer:
        """The payloads of a request, decrypted; one that cannot be is answered by why."""
        try:
            asked = ParseDict(json.loads(body), Payloads())
        except (ValueError, TypeError, ParseError, RecursionError):  # `null` is JSON, too
            return Answer("400 Bad Request", allowed=True)
        told = Payloads(payloads=[self._shown(payload) for payload in asked.payloads])
        return Answer("200 OK", json.dumps(MessageToDict(told)).encode(), allowed=True)

    def _shown(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCRYPTED:
            return payload
        try:
            return decrypt_payload(self._keys, payload, self._here)
        except (EncryptionKeyMissing, DecryptionFailed) as error:
            text = json.dumps(f"not decrypted: {error.message}").encode()
            return Payload(metadata={"encoding": b"json/plain"}, data=text)

    def _here(self, namespace: str, _workflow: str, _scheduled: bool) -> bool:
        return namespace in ("", self._namespace)

    def _bytes(self, answer: Answer) -> bytes:
        lines = [
            f"HTTP/1.1 {answer.status}",
            f"Content-Length: {len(answer.body)}",
            "Content-Type: application/json",
            "Cache-Control: no-store",
            "Connection: close",
            "Vary: Origin",
        ]
        if answer.allowed:
            lines += [
                f"Access-Control-Allow-Origin: {self._origin}",
                "Access-Control-Allow-Credentials: true",
                "Access-Control-Allow-Headers: authorization,content-type,x-namespace",
                "Access-Control-Allow-Methods: POST,OPTIONS",
            ]
        return "\r\n".join([*lines, "", ""]).encode() + answer.body
