"""A codec server for Temporal's web UI and command line, for users with its token.

It listens on this machine only, and pages of one origin may read its responses. `/decode` decrypts
every payload of the namespace. `/encode` needs the place of the payload, which Temporal does not
send: the headers `X-Crewlog-Run: RUN` and `X-Crewlog-Purpose: signal NAME` have it.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
from collections.abc import Callable, Sequence

import uvicorn
from google.protobuf.json_format import MessageToDict, ParseDict, ParseError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from temporalio.api.common.v1 import Payload, Payloads

from crewlog.encryption import purposes
from crewlog.encryption.codec import ENCRYPTED, ORIGIN, EncryptionCodec, decrypt_payload
from crewlog.encryption.keys import Keyring
from crewlog.encryption.purposes import Purpose
from crewlog.errors import DecryptionFailed, EncryptionKeyMissing

LARGEST = 8 * 1024 * 1024
"""Bytes of a request's body."""
REQUEST_TIMEOUT = 15.0
"""Seconds in which a body must arrive."""
RUN, PURPOSE = "X-Crewlog-Run", "X-Crewlog-Purpose"
"""The headers with the place of payloads that are to be encrypted."""
_PURPOSES: dict[str, Callable[..., Purpose]] = {
    "start": lambda: purposes.START,
    "signal": purposes.signal,
    "update": purposes.update,
}


def codec_app(keys: Keyring, origin: str, token: str, namespace: str) -> Starlette:
    """The application.

    Args:
        keys: The keys.
        origin: The origin of the web UI, `http://localhost:8233`.
        token: The token that a request must have, as `Authorization: Bearer TOKEN`.
        namespace: The namespace whose payloads are encrypted and decrypted.
    """

    async def decode(request: Request) -> Response:
        payloads = await _read(request, origin.rstrip("/"), token, namespace)
        return _respond([_decode(keys, namespace, each) for each in payloads])

    async def encode(request: Request) -> Response:
        payloads = await _read(request, origin.rstrip("/"), token, namespace)
        run, purpose = request.headers.get(RUN, ""), request.headers.get(PURPOSE, "").split()
        try:
            bound = _PURPOSES[purpose[0]](*purpose[1:])
        except (LookupError, TypeError):
            bound = ()
        if not run or not bound:
            raise HTTPException(
                400,
                f"the headers {RUN}: RUN and {PURPOSE}: start, signal NAME or update NAME ID are "
                "needed: a payload is encrypted for one command of one run",
            )
        return _respond(await EncryptionCodec(keys, namespace, run, bound).encode(payloads))

    return Starlette(
        routes=[
            Route("/decode", decode, methods=["POST"]),
            Route("/encode", encode, methods=["POST"]),
        ],
        middleware=[
            # A page of another site could reach this server by a DNS name that points to this
            # machine.
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
            Middleware(
                CORSMiddleware,
                allow_origins=[origin.rstrip("/")],
                allow_methods=["POST"],
                allow_headers=["Authorization", "Content-Type", "X-Namespace", RUN, PURPOSE],
                allow_credentials=True,
            ),
        ],
    )


async def serve(app: Starlette, listening: socket.socket) -> None:
    """Serves requests on a socket until it is cancelled or interrupted."""
    config = uvicorn.Config(app, log_level="warning", lifespan="off", server_header=False)
    await uvicorn.Server(config).serve([listening])


async def _read(request: Request, origin: str, token: str, namespace: str) -> Sequence[Payload]:
    """The payloads of an authorized request.

    Raises:
        HTTPException: it is not authorized, too large or not valid.
    """
    if request.headers.get("origin", origin) != origin:
        raise HTTPException(403)
    authorization = request.headers.get("authorization", "")
    if not hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode()):
        raise HTTPException(401)
    if request.headers.get("x-namespace", namespace) != namespace:
        raise HTTPException(403, f"this server has the keys of the namespace {namespace!r}")
    body = b""
    try:
        async with asyncio.timeout(REQUEST_TIMEOUT):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST:
                    raise HTTPException(413)
        return ParseDict(json.loads(body), Payloads()).payloads
    except TimeoutError:
        raise HTTPException(408) from None
    except (ValueError, TypeError, ParseError, RecursionError):  # `null` is JSON, too
        raise HTTPException(400, "the body is no JSON of payloads") from None


def _decode(keys: Keyring, namespace: str, payload: Payload) -> Payload:
    """Decrypts a payload; replaces one that cannot be decrypted by an error text."""

    def is_in_namespace(of: str, _workflow: str, _purpose: Purpose) -> bool:
        return of in ("", namespace)

    if payload.metadata.get("encoding") != ENCRYPTED:
        return payload
    try:
        decrypted = decrypt_payload(keys, payload, is_in_namespace)
    except (EncryptionKeyMissing, DecryptionFailed) as error:
        text = json.dumps(f"not decrypted: {error.message}").encode()
        return Payload(metadata={"encoding": b"json/plain"}, data=text)
    del decrypted.metadata[ORIGIN]
    return decrypted


def _respond(payloads: Sequence[Payload]) -> Response:
    content = MessageToDict(Payloads(payloads=payloads))
    return JSONResponse(content, headers={"Cache-Control": "no-store"})
