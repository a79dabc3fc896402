"""`crewlog encryption serve`: the codec server, and what it says of itself."""

from __future__ import annotations

import os
import secrets
import socket
from pathlib import Path

from crewlog.cli import exits
from crewlog.cli.screen import Screen
from crewlog.cli.services import connected
from crewlog.encryption.keys import Keyring
from crewlog.encryption.server import codec_app, serve
from crewlog.errors import UsageError


async def serve_pages(path: Path, port: int, origin: str | None, *, as_json: bool) -> int:
    """Decrypts for the web UI's pages until Ctrl-C.

    Args:
        path: The key file.
        port: Where it listens.
        origin: The web UI's; by default that of the server in use.
        as_json: Whether it says where in JSON.
    """
    screen = Screen(as_json=as_json)
    async with connected(screen) as client:
        page, namespace = origin or client.endpoints.ui_url, client.endpoints.namespace
    if page is None:
        raise UsageError(
            "the address of the web UI is not known",
            remedy="Say it: --origin http://localhost:8233",
        )
    token = os.environ.get("CREWLOG_CODEC_TOKEN") or secrets.token_urlsafe(24)
    app = codec_app(Keyring(path), page, token, namespace)
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise UsageError(
            f"the port {port} cannot be had: {error.strerror}", remedy="Choose another: --port"
        ) from None
    at = listening.getsockname()[1]
    if as_json:
        screen.record({"endpoint": f"http://localhost:{at}", "origin": page, "token": token})
    else:
        screen.line(("▸ ", "green"), f"decrypts at http://localhost:{at} for {page}")
        screen.line(f"  token   {token}")
    await serve(app, listening)
    return exits.OK
