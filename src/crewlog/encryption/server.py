"""A codec server: decrypts payloads for Temporal's web UI, for users with its token.

It listens on this machine only, serves pages of one origin, and has only `/decode`: an encrypted
payload is bound to a run, which the web UI does not name for `/encode`.
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
_REQUEST_TIMEOUT = 15.0
"""Seconds in which a request must arrive."""
MOST_REQUESTS = 32
"""Bodies that are read at the same time."""


@dataclass(frozen=True)
class Response:
    """A response."""

    status: str
    """`200 OK`."""
    body: bytes = b""
    allowed: bool = False
    """Whether the page that sent the request may read it."""


class CodecServer:
    """Decrypts payloads over HTTP.

    Args:
        keys: The keys.
        origin: The origin of the web UI, `http://localhost:8233`.
        token: The token that a request must have, as `Authorization: Bearer TOKEN`.
        namespace: The namespace whose payloads are decrypted.
    """

    def __init__(self, keys: Keyring, origin: str, token: str, namespace: str) -> None:
        self._keys = keys
        self._origin = origin.rstrip("/")
        self._token = token
        self._namespace = namespace
        self._bodies = asyncio.Semaphore(MOST_REQUESTS)

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
            async with asyncio.timeout(_REQUEST_TIMEOUT):
                response = await self._respond(reader)
                writer.write(self._encode(response))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has disconnected, or sent no whole request
        finally:
            writer.close()

    async def _respond(self, reader: asyncio.StreamReader) -> Response:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            return Response("431 Request Header Fields Too Large")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, *_ = [*first.split(" "), "", ""]
        headers = {
            name.strip().lower(): value.strip()
            for name, colon, value in (line.partition(":") for line in lines)
            if colon
        }
        rejection = self._reject(method, path.partition("?")[0], headers)
        if rejection is not None:
            return rejection
        length = headers.get("content-length", "")
        if not length.isdecimal() or len(length) > len(str(LARGEST)):
            return Response("411 Length Required", allowed=True)
        if int(length) > LARGEST:
            return Response("413 Content Too Large", allowed=True)
        async with self._bodies:  # requests without the token never wait here
            return self.decode(await reader.readexactly(int(length)))

    def _reject(self, method: str, path: str, headers: Mapping[str, str]) -> Response | None:
        """The response to an invalid or unauthorized request; None if it is valid."""
        # A page of another site could reach this server by a DNS name that points to this machine.
        host = headers.get("host", "").rpartition(":")[0]
        if host not in ("127.0.0.1", "localhost"):
            return Response("421 Misdirected Request")
        origin = headers.get("origin")
        if origin is not None and origin.rstrip("/") != self._origin:
            return Response("403 Forbidden")
        if path != "/decode":
            return Response("404 Not Found", allowed=True)
        if method == "OPTIONS":
            return Response("204 No Content", allowed=True)
        if method != "POST":
            return Response("405 Method Not Allowed", allowed=True)
        authorization = headers.get("authorization", "")
        if not hmac.compare_digest(authorization.encode(), f"Bearer {self._token}".encode()):
            return Response("401 Unauthorized", allowed=True)
        if headers.get("x-namespace", self._namespace) != self._namespace:
            return Response("403 Forbidden", allowed=True)
        return None

    def decode(self, body: bytes) -> Response:
        """Decrypts the payloads of a request; replaces one that cannot be by an error text."""
        try:
            request = ParseDict(json.loads(body), Payloads())
        except (ValueError, TypeError, ParseError, RecursionError):  # `null` is JSON, too
            return Response("400 Bad Request", allowed=True)
        decoded = Payloads(payloads=[self._decode_payload(payload) for payload in request.payloads])
        return Response("200 OK", json.dumps(MessageToDict(decoded)).encode(), allowed=True)

    def _decode_payload(self, payload: Payload) -> Payload:
        if payload.metadata.get("encoding") != ENCRYPTED:
            return payload
        try:
            return decrypt_payload(self._keys, payload, self._is_in_namespace)
        except (EncryptionKeyMissing, DecryptionFailed) as error:
            text = json.dumps(f"not decrypted: {error.message}").encode()
            return Payload(metadata={"encoding": b"json/plain"}, data=text)

    def _is_in_namespace(self, namespace: str, _workflow: str, _scheduled: bool) -> bool:
        return namespace in ("", self._namespace)

    def _encode(self, response: Response) -> bytes:
        lines = [
            f"HTTP/1.1 {response.status}",
            f"Content-Length: {len(response.body)}",
            "Content-Type: application/json",
            "Cache-Control: no-store",
            "Connection: close",
            "Vary: Origin",
        ]
        if response.allowed:
            lines += [
                f"Access-Control-Allow-Origin: {self._origin}",
                "Access-Control-Allow-Credentials: true",
                "Access-Control-Allow-Headers: authorization,content-type,x-namespace",
                "Access-Control-Allow-Methods: POST,OPTIONS",
            ]
        return "\r\n".join([*lines, "", ""]).encode() + response.body
