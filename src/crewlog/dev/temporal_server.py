"""Starts the Temporal command line's dev server, tuned, and prepares its namespace.

The server is ready when its frontend answers a question about the namespace, not when some time
has passed. The namespace's retention and search attributes are set through the API, which works
for a database of any age; the flags of `start-dev` reach only what it creates itself.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.namespace.v1 import NamespaceConfig
from temporalio.api.operatorservice.v1 import (
    AddSearchAttributesRequest,
    ListSearchAttributesRequest,
)
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    RegisterNamespaceRequest,
    UpdateNamespaceRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from crewlog.dev.paths import Home
from crewlog.dev.processes import (
    ProcessRecord,
    end,
    find_by_arguments,
    free_port,
    listens,
    size_of,
    spawn,
    tail,
)
from crewlog.dev.registry import ServiceRecord
from crewlog.errors import TemporalUnavailable
from crewlog.temporal_service.cli import TemporalCli
from crewlog.temporal_service.namespaces import (
    RPC_TIMEOUT,
    describe_namespace,
    retention_of,
    server_version,
)

NAMESPACE = "default"
RETENTION = timedelta(days=30)
SEARCH_ATTRIBUTES = ("CrewlogCrew", "CrewlogPhase", "CrewlogStatus", "CrewlogWaiting")
"""Keywords that a run keeps up to date, for lists and the web interface."""
DEFAULT_PORT = 7233
DEFAULT_UI_PORT = 8233
READY_LIMIT = 90.0
"""Seconds within which a started server must answer; a slow, busy disk takes ten."""
ATTEMPTS = 3
"""Starts, if another program takes the port between our look and the server's."""
SHOWN = 8
"""Lines of a server's log that an error quotes."""
POLL = 0.05

# Measured: a durable step takes 97 ms with the server's defaults, 10 ms with these.
SQLITE_PRAGMAS = ("journal_mode=wal", "synchronous=normal")
DYNAMIC_CONFIG = (
    "history.transferProcessorMaxPollRPS=2000",
    "history.timerProcessorMaxPollRPS=2000",
    "system.enableActivityEagerExecution=true",
    "history.workflowIdReuseMinimalInterval=0",
    'history.timerProcessorMaxTimeShift="20ms"',
    # A run is deleted once the server has noted that the task of its end is done: by default that
    # takes up to half a minute.
    'history.transferProcessorUpdateAckInterval="1s"',
    # One server needs no partitions: with four, a task that was matched to one whose pollers are
    # gone waits for a poll of theirs to end, which takes up to a minute.
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
)

_WEDGED = (
    RPCStatusCode.UNAVAILABLE,
    RPCStatusCode.DEADLINE_EXCEEDED,
    RPCStatusCode.CANCELLED,
    RPCStatusCode.INTERNAL,
    RPCStatusCode.UNKNOWN,
    RPCStatusCode.NOT_FOUND,
)
"""What a server answers that does not reach its database, or nothing at all."""

OnSpawn = Callable[[ProcessRecord], None]
"""Told about a new process, before it is ready."""


@dataclass(frozen=True)
class Ports:
    """The ports of one server."""

    frontend: int
    """gRPC."""
    ui: int
    """The web interface."""

    @classmethod
    def choose(cls, *, usual: bool, last: ServiceRecord | None = None) -> Ports:
        """Free ports: those of the `last` server, else 7233 and 8233 if `usual`.

        Clients of a server that is started again reconnect to the port that they know.
        """
        frontend, ui = (DEFAULT_PORT, DEFAULT_UI_PORT) if usual else (None, None)
        if last is not None:
            frontend = int(last.address.rpartition(":")[2])
            ui = urlsplit(last.ui_url).port if last.ui_url else ui
        chosen, beside = free_port(frontend), free_port(ui)
        while beside == chosen:
            beside = free_port()
        return cls(chosen, beside)


def command(cli: Path, home: Home, ports: Ports) -> list[str]:
    """The command line of the server."""
    words = [str(cli), "server", "start-dev", "--db-filename", str(home.temporal_db)]
    words += ["--ip", "127.0.0.1", "--port", str(ports.frontend), "--ui-port", str(ports.ui)]
    words += ["--log-level", "warn"]
    for pragma in SQLITE_PRAGMAS:
        words += ["--sqlite-pragma", pragma]
    for setting in DYNAMIC_CONFIG:
        words += ["--dynamic-config-value", setting]
    for name in SEARCH_ATTRIBUTES:
        words += ["--search-attribute", f"{name}=Keyword"]
    return words


async def start(
    cli: TemporalCli,
    home: Home,
    *,
    usual_ports: bool = True,
    last: ServiceRecord | None = None,
    on_spawn: OnSpawn | None = None,
) -> ServiceRecord:
    """Start the server on the home's database and wait until it answers.

    Args:
        cli: The command line to start.
        home: Where its database and log are.
        usual_ports: Whether to prefer 7233 and 8233.
        last: The server that it replaces: its ports are preferred to all others.
        on_spawn: Told about the process at once.

    Raises:
        TemporalUnavailable: It ended, or did not answer in time; the message has its last words.
    """
    for attempt in range(1, ATTEMPTS + 1):
        ports = Ports.choose(usual=usual_ports, last=last)
        begin = size_of(home.temporal_log)
        words = command(cli.path, home, ports)
        try:
            process = spawn(words, home.temporal_log, umask=0o077)
        except OSError as error:
            raise TemporalUnavailable(
                f"the Temporal server cannot be started: {error.strerror}",
                remedy="Free some room, or set CREWLOG_HOME to a directory that you may write.",
                place=str(error.filename or cli.path),
            ) from error
        if on_spawn is not None:
            on_spawn(process)
        try:
            return await _ready(process, home, ports)
        except TemporalUnavailable as error:
            await asyncio.to_thread(end, process)
            # A port for its own services may be taken too: then it panics, with a long trace.
            log = tail(home.temporal_log, start=begin, lines=1000)
            if "address already in use" in log and attempt < ATTEMPTS:
                continue
            raise _did_not_start(error.message, home, log) from error
        except BaseException:
            await asyncio.shield(asyncio.to_thread(end, process))
            raise
    raise AssertionError


async def _ready(process: ProcessRecord, home: Home, ports: Ports) -> ServiceRecord:
    address = f"127.0.0.1:{ports.frontend}"
    deadline = time.monotonic() + READY_LIMIT
    while True:
        if not process.alive:
            raise TemporalUnavailable("the Temporal server ended while it was starting")
        # Only ask (and set up) what is ours: somebody else may have won a race for the port.
        if listens(process, ports.frontend):
            with suppress(TemporalUnavailable):
                version = await prepare(await connect(address), NAMESPACE)
                break
        if time.monotonic() > deadline:
            raise TemporalUnavailable(
                f"the Temporal server did not answer within {READY_LIMIT:.0f} s"
            )
        await asyncio.sleep(POLL)
    return ServiceRecord(
        name="temporal",
        process=process,
        address=address,
        ui_url=f"http://localhost:{ports.ui}",
        log=str(home.temporal_log),
        version=version,
    )


def _did_not_start(message: str, home: Home, log: str) -> TemporalUnavailable:
    words = _cause(log)
    said = "\n" + "\n".join(f"    | {line}" for line in words.splitlines()) if words else ""
    if "no space left" in words.lower() or "disk is full" in words.lower():
        remedy = f"The disk of {home.root} is full: free some room, or set CREWLOG_HOME."
    elif "database is locked" in words.lower():
        remedy = f"Another process has {home.temporal_db} open: end it, or set CREWLOG_HOME."
    else:
        remedy = f"The whole log is {home.temporal_log}. Set CREWLOG_HOME to begin afresh, or "
        remedy += "TEMPORAL_ADDRESS to use a server of your own."
    return TemporalUnavailable(message + said, remedy=remedy, place=str(home.temporal_log))


def _cause(log: str) -> str:
    """The last lines of a server's log; after a panic of Go, those from its cause on."""
    lines = log.splitlines()
    panics = (n for n, line in enumerate(lines) if line.startswith(("panic:", "fatal error:")))
    return "\n".join(lines[next(panics, -SHOWN) :][:SHOWN])


def find(home: Home) -> ServiceRecord | None:
    """A live server on this home's database that the registry has lost, or None."""
    process = find_by_arguments("--db-filename", str(home.temporal_db))
    if process is None:
        return None
    words = process.command
    values = {name: words[i + 1] for i, name in enumerate(words[:-1]) if name.startswith("--")}
    if "--port" not in values:
        return None
    return ServiceRecord(
        name="temporal",
        process=process,
        address=f"127.0.0.1:{values['--port']}",
        ui_url=f"http://localhost:{values['--ui-port']}" if "--ui-port" in values else None,
        log=str(home.temporal_log),
    )


async def connect(address: str, namespace: str = NAMESPACE, *, limit: float = 10.0) -> Client:
    """A client of the server at `address`.

    Args:
        address: `127.0.0.1:7233`.
        namespace: The namespace; whether it is there is not asked.
        limit: Seconds for the first answer.

    Raises:
        TemporalUnavailable: It does not answer.
    """
    try:
        async with asyncio.timeout(limit):
            return await Client.connect(address, namespace=namespace)
    except (RuntimeError, TimeoutError) as error:
        raise TemporalUnavailable(
            "the Temporal server does not answer",
            remedy="Check that it runs: `crewlog doctor`.",
            place=address,
        ) from error


async def version_at(address: str) -> str | None:
    """The version of the server at `address`, or None if it does not answer or cannot serve."""
    try:
        client = await connect(address)
        return None if await fault(client) else await server_version(client)
    except TemporalUnavailable:
        return None


async def fault(client: Client, limit: float = 10.0) -> str:
    """Why a server with the client's namespace cannot serve; empty if it can.

    The frontend reads the namespace from the database: a wedged server knows its own version, and
    nothing else.

    Args:
        client: A client of the server.
        limit: Seconds for the answer.
    """
    try:
        await client.workflow_service.describe_namespace(
            DescribeNamespaceRequest(namespace=client.namespace),
            retry=False,
            timeout=timedelta(seconds=limit),
        )
    except RPCError as error:
        return error.message if error.status in _WEDGED else ""
    return ""


async def missing_search_attributes(client: Client, namespace: str) -> list[str]:
    """Those of ours that the namespace lacks."""
    have = await client.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace=namespace), timeout=RPC_TIMEOUT
    )
    return [name for name in SEARCH_ATTRIBUTES if name not in have.custom_attributes]


async def prepare(client: Client, namespace: str) -> str:
    """Make the namespace what runs need: there, kept for 30 days, with our search attributes.

    Returns:
        The server's version.

    Raises:
        TemporalUnavailable: The server cannot do it yet.
    """
    try:
        try:
            described = await describe_namespace(client, namespace)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND or namespace == NAMESPACE:
                raise
            await _register(client, namespace)
            described = await describe_namespace(client, namespace)
        if retention_of(described) < RETENTION:
            await _keep(client, namespace)
            described = await describe_namespace(client, namespace)
            if retention_of(described) < RETENTION:
                raise TemporalUnavailable(f"the retention of {namespace!r} was not changed")
        missing = await missing_search_attributes(client, namespace)
        if missing:
            keyword = IndexedValueType.INDEXED_VALUE_TYPE_KEYWORD
            await client.operator_service.add_search_attributes(
                AddSearchAttributesRequest(
                    namespace=namespace, search_attributes=dict.fromkeys(missing, keyword)
                )
            )
        return await server_version(client)
    except RPCError as error:
        raise TemporalUnavailable(f"the Temporal server refused: {error.message}") from error


async def _register(client: Client, namespace: str) -> None:
    request = RegisterNamespaceRequest(namespace=namespace)
    request.workflow_execution_retention_period.FromTimedelta(RETENTION)
    await client.workflow_service.register_namespace(request)


async def _keep(client: Client, namespace: str) -> None:
    config = NamespaceConfig()
    config.workflow_execution_retention_ttl.FromTimedelta(RETENTION)
    await client.workflow_service.update_namespace(
        UpdateNamespaceRequest(namespace=namespace, config=config)
    )
