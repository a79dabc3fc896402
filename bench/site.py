"""The place where everything runs: one tuned server, one Postgres, and a process for each peer.

The servers are throwaway ones, set up as `crewlog dev` sets them up. The workers are children of
this process, in its process group, started once and kept: what is measured is warm. Nothing is
encrypted, whatever the environment says, but by the case that measures what that costs.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import sys
import tempfile
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
from temporalio.client import Client as TemporalClient
from temporalio.client import WorkflowHandle

from bench.quiet import used
from crewlog.client import Client, Endpoints
from crewlog.client.session import LazyStore
from crewlog.definition.load import load_data
from crewlog.dev.ephemeral import ephemeral, own_environ
from crewlog.encryption import purposes
from crewlog.encryption.codec import encrypt_for
from crewlog.encryption.keys import ACCEPT_PLAIN, KEYS, Keyring
from crewlog.encryption.rows import RowCipher
from crewlog.ids import CrewName
from crewlog.payload_storage.converter import data_converter
from crewlog.store import PostgresStore, Store
from crewlog.wire import WORKFLOW_TYPE

ROOT = Path(__file__).parents[1]
START_LIMIT = 120.0
"""Seconds for a peer's process until it polls."""
RUN_LIMIT = timedelta(seconds=300)
"""The execution timeout of every run."""
_NUMBERS = itertools.count(1)


class PeerFailed(Exception):
    """A peer's process ended, or did not start; the end of its log is the message."""


@dataclass
class Peer:
    """A peer's process."""

    name: str
    queue: str
    process: Process
    log: Path

    async def line(self, limit: float) -> str:
        """The next line that it prints.

        Raises:
            PeerFailed: it ended, or printed none in time.
        """
        assert self.process.stdout is not None
        try:
            async with asyncio.timeout(limit):
                line, cause = await self.process.stdout.readline(), "ended"
        except TimeoutError:
            line, cause = b"", f"printed nothing within {limit:g} s"
        if not line:
            errors = self.log.read_text(errors="replace")[-3000:]
            raise PeerFailed(
                f"the process of {self.name!r} {cause}; its errors end with:\n{errors}"
            )
        return line.decode().strip()

    async def ask(self, order: Mapping[str, Any], limit: float = 300.0) -> dict[str, Any]:
        """Gives an order to a peer that takes them, and waits for the answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        await self.process.stdin.drain()
        return await self.answer(limit)

    async def answer(self, limit: float) -> dict[str, Any]:
        """The next line that it prints, as JSON.

        Raises:
            PeerFailed: it ended, or printed none in time.
        """
        answer: dict[str, Any] = json.loads(await self.line(limit))
        return answer

    def used_ms(self, since: float | None = 0.0) -> float | None:
        """Milliseconds of processor time that it has used; None where the system does not say.

        Args:
            since: What that was before; what it has used since then is told.
        """
        seconds = used(self.process.pid)
        return None if seconds is None or since is None else seconds * 1000 - since

    async def end(self) -> None:
        """Ends it: by the end of its input, or by force where that does not help."""
        if self.process.returncode is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            try:
                async with asyncio.timeout(15):
                    await self.process.wait()
            except TimeoutError:
                self.process.kill()
                await self.process.wait()


@dataclass
class Site:
    """Servers, peers, and a client of them."""

    temporal: TemporalClient
    store: Store
    environ: Mapping[str, str]
    """What leads a child process to the servers."""
    root: Path
    peers: dict[str, Peer] = field(default_factory=dict[str, Peer])
    _crews: set[str] = field(default_factory=set[str])

    async def peer(self, name: str) -> Peer:
        """A Temporal peer's worker, started at the first use: `engine`, `bare`, `plugin`."""
        if name not in self.peers:
            self.peers[name] = await self.spawn(name, "bench.peers.worker", name)
        return self.peers[name]

    async def plain(self) -> Peer:
        """The process of plain LangGraph."""
        if "plain" not in self.peers:
            self.peers["plain"] = await self.spawn("plain", "bench.peers.plain")
        return self.peers["plain"]

    async def spawn(
        self, name: str, module: str, *arguments: str, queue: str = "", folder: Path = ROOT
    ) -> Peer:
        """A process of its own; the caller ends it, or adds it to `peers`.

        Args:
            name: What it is called.
            module: What it runs.
            arguments: What that is given.
            queue: The queue that it polls; by default its own.
            folder: Where it runs: modules there are found as well.
        """
        own = f"bench-{name}-{next(_NUMBERS)}"
        queue = queue or own
        environ = {
            "PYTHONPATH": str(ROOT),
            **self.environ,
            "CREWLOG_TASK_QUEUE": queue,
            "CREWLOG_PAYLOADS": str(self.root / "payloads"),
            "CREWLOG_WORKSPACE": str(self.root / "workspace"),
        }
        peer = await launch(
            name,
            [sys.executable, "-m", module, *arguments],
            log=self.root / f"{own}.log",
            environ=environ,
            queue=queue,
            folder=folder,
        )
        try:
            assert await peer.line(START_LIMIT) == "ready"
        except BaseException:
            await peer.end()
            raise
        return peer

    async def register(self, crew: Mapping[str, Any]) -> str:
        """Registers a crew once, so that starting a run of it carries its name alone."""
        name = str(crew["crew"])
        if name not in self._crews:
            definition = load_data(dict(crew))
            await self.store.register_crew(
                CrewName(definition.crew), definition.to_json(), int(time.time() * 1000)
            )
            self._crews.add(name)
        return name

    async def start(
        self, peer: Peer, kind: str, argument: Any, *, id: str | None = None
    ) -> WorkflowHandle[Any, Any]:
        """Starts a workflow on a peer's queue."""
        return await self.temporal.start_workflow(
            kind,
            argument,
            id=id or f"{peer.name}-{next(_NUMBERS)}",
            task_queue=peer.queue,
            execution_timeout=RUN_LIMIT,
        )

    async def start_crew(self, crew: str, *, peer: Peer | None = None) -> WorkflowHandle[Any, Any]:
        """Starts a run of a registered crew."""
        worker = peer or await self.peer("engine")
        start = {"crew": crew, "input": "go", "by": "bench"}
        with encrypt_for(purposes.START):
            return await self.start(worker, WORKFLOW_TYPE, start)

    def client(self, queue: str) -> Client:
        """Crewlog's own client, whose runs are on that queue."""
        endpoints = Endpoints(
            self.environ["TEMPORAL_ADDRESS"], self.environ["TEMPORAL_NAMESPACE"], None
        )
        return Client(self.temporal, endpoints, LazyStore(self.store, self._opened), queue)

    async def _opened(self) -> Store:
        return self.store

    async def close(self) -> None:
        """Ends the peers."""
        for peer in self.peers.values():
            await peer.end()
        await self.store.close()


@asynccontextmanager
async def beside(site: Site, name: str, keys: Path | None = None) -> AsyncGenerator[Site]:
    """A site on the same servers that shares no row, no file and no worker with any other.

    Args:
        site: The one whose servers these are.
        name: What its database is called.
        keys: The key file of its worker and its client; none: they do not encrypt.
    """
    environ = {
        **await with_database(site.environ, name),
        **({KEYS: str(keys)} if keys else {}),
    }
    root = site.root / name
    root.mkdir()
    made = await make_site(environ, root, Keyring(keys) if keys else None)
    try:
        yield made
    finally:
        await made.close()


async def with_database(environ: Mapping[str, str], name: str) -> dict[str, str]:
    """Variables that lead to a new database of that name on the same PostgreSQL."""
    connection = await asyncpg.connect(environ["DATABASE_URL"])
    try:
        await connection.execute(f'CREATE DATABASE "{name}"')
    finally:
        await connection.close()
    head, question, query = environ["DATABASE_URL"].partition("?")
    return {**environ, "DATABASE_URL": f"{head.rpartition('/')[0]}/{name}{question}{query}"}


async def launch(
    name: str,
    words: Sequence[str],
    *,
    log: Path,
    environ: Mapping[str, str],
    queue: str = "",
    folder: Path = ROOT,
) -> Peer:
    """Starts a peer's process; it is not ready yet.

    Args:
        name: What it is called.
        words: Its command line.
        log: Where its standard error goes.
        environ: Variables besides those of this process; no other servers or keys are inherited.
        queue: The queue that it polls, if any.
        folder: Where it runs.
    """
    with log.open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=folder,
            env={**_plain_environ(), **environ, "LANGSMITH_TRACING": "false"},
            stdin=PIPE,
            stdout=PIPE,
            stderr=out,
        )
    return Peer(name, queue, process, log)


def _plain_environ() -> dict[str, str]:
    """This process's environment, without what names servers or turns encryption on."""
    return {k: v for k, v in own_environ().items() if k not in (KEYS, ACCEPT_PLAIN)}


async def make_site(environ: Mapping[str, str], root: Path, keys: Keyring | None = None) -> Site:
    """A site on servers that run: `TEMPORAL_ADDRESS`, `TEMPORAL_NAMESPACE`, `DATABASE_URL`."""
    namespace = environ["TEMPORAL_NAMESPACE"]
    temporal = await TemporalClient.connect(
        environ["TEMPORAL_ADDRESS"],
        namespace=namespace,
        data_converter=data_converter(root / "payloads", keys=keys),
    )
    cipher = RowCipher(keys, namespace)
    store = await PostgresStore.connect(environ["DATABASE_URL"], cipher=cipher)
    return Site(temporal, store, environ, root)


@asynccontextmanager
async def throwaway_site() -> AsyncGenerator[Site]:
    """A site with servers of its own; nothing is left of it."""
    root = Path(tempfile.mkdtemp(prefix="crewlog-bench-"))
    try:
        async with ephemeral(root / "home") as services:
            site = await make_site(services.environ, root)
            try:
                yield site
            finally:
                await site.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)
