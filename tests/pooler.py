"""Addresses in front of a Postgres server: one that can be led elsewhere, and a pooler."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest

from crewlog.dev.processes import free_port

INSTALL = "apt-get update && apt-get install --yes --no-install-recommends pgbouncer"
_PROGRAMS = ("/usr/sbin/pgbouncer", "/usr/bin/pgbouncer", "/usr/local/bin/pgbouncer")
_HOST = "127.0.0.1"
_LIMIT = 30.0
_CONFIG = """\
[databases]
* = host={host} port={backend} user={user}
[pgbouncer]
listen_addr = {host}
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 3
max_client_conn = 200
"""


class Address:
    """A TCP port of this machine that leads to a Postgres server, and later to another one."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._server: asyncio.Server | None = None
        self._relays: set[asyncio.Task[None]] = set()

    def lead_to(self, dsn: str) -> None:
        """Has new connections end at another server; open ones stay."""
        self._dsn = dsn

    def cut(self) -> None:
        """Ends all connections."""
        for each in self._relays:
            each.cancel()

    @property
    def port(self) -> int:
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def dsn(self) -> str:
        """The server's URL, by this address."""
        return at_port(self._dsn, self.port)

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._take, _HOST, 0)

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._relays, return_exceptions=True)

    async def _take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        relay = asyncio.current_task()
        assert relay is not None
        self._relays.add(relay)
        with suppress(OSError, asyncio.CancelledError):
            back, forth = await _open(self._dsn)
            try:
                # The first that ends its side ends both.
                pipes = {
                    asyncio.ensure_future(_pipe(reader, forth)),
                    asyncio.ensure_future(_pipe(back, writer)),
                }
                try:
                    await asyncio.wait(pipes, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for each in pipes:
                        each.cancel()
            finally:
                forth.close()
        writer.close()
        self._relays.discard(relay)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()


async def _open(dsn: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    url = urlsplit(dsn)
    if url.hostname is None:
        folder = Path(parse_qs(url.query)["host"][0])
        return await asyncio.open_unix_connection(folder / ".s.PGSQL.5432")
    return await asyncio.open_connection(url.hostname, url.port or 5432)


def at_port(dsn: str, port: int) -> str:
    """The URL of a server's database, by a port of this machine."""
    url = urlsplit(dsn)
    user = url.netloc.rpartition("@")[0] or "postgres"
    return f"postgresql://{user}@{_HOST}:{port}{url.path}"


@asynccontextmanager
async def address(dsn: str) -> AsyncGenerator[Address]:
    """An address of a server of its own, for the length of the block."""
    found = Address(dsn)
    await found.open()
    try:
        yield found
    finally:
        await found.close()


def program() -> str:
    """PgBouncer of Debian; `make test` installs it. Whoever has none skips the test."""
    found = next((each for each in _PROGRAMS if os.access(each, os.X_OK)), None)
    if found is None:
        pytest.skip(f"PgBouncer is not installed: {INSTALL}")
    return found


@asynccontextmanager
async def pooler(dsn: str) -> AsyncGenerator[int]:
    """The port of a PgBouncer in transaction mode in front of a server, for the block's length."""
    words = [program(), "-q"]
    if os.geteuid() == 0:  # it refuses to run as root
        words += ["-u", "nobody"]
    async with address(dsn) as backend:
        port = free_port()
        with tempfile.TemporaryDirectory(prefix="crewlog-test-") as folder:
            config = Path(folder) / "pgbouncer.ini"
            user = urlsplit(dsn).username or "postgres"
            text = _CONFIG.format(host=_HOST, backend=backend.port, port=port, user=user)
            config.write_text(text)
            process = await asyncio.create_subprocess_exec(
                *words, str(config), stderr=asyncio.subprocess.DEVNULL
            )
            try:
                await _answers(at_port(dsn, port), process)
                yield port
            finally:
                process.terminate()
                await asyncio.wait_for(process.wait(), _LIMIT)


async def _answers(dsn: str, process: asyncio.subprocess.Process) -> None:
    async with asyncio.timeout(_LIMIT):
        while True:
            assert process.returncode is None, "PgBouncer ended while it was starting"
            try:
                connection = await asyncpg.connect(dsn)
            except (OSError, asyncpg.PostgresError):
                await asyncio.sleep(0.02)
            else:
                await connection.close()
                return
