"""The local services of a home: found, started, taken over, listed and stopped.

`ensure` holds the home's start lock from the look at the records to the last record written, so
of two processes that need a server at the same time one starts it and the other finds it. A
server is reused if its record names a live process (pid, start and command line agree)
that answers. If the records are lost, the process is found by its command line, since a second
server on the same database would damage it. Only if there is none, one is started.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.envconfig import ClientConfigProfile

from crewlog.dev import postgres, temporal_server
from crewlog.dev.paths import Home, hold
from crewlog.dev.processes import ProcessRecord, Watchdog, directory_of, end, identify
from crewlog.dev.progress import SILENT, Progress
from crewlog.dev.registry import Registry, ServiceRecord
from crewlog.errors import TemporalUnavailable, UsageError
from crewlog.temporal_service.cli import find_cli
from crewlog.temporal_service.connection import load_profile

HUNG_LIMIT = 15.0
"""Seconds for which a live server may not answer before it is ended and started again."""
QUIET_LIMIT = 1.0
"""Seconds without an answer after which the user sees that the command waits."""
CONFIRM_LIMIT = 2.0
"""Seconds for a server that is taken for wedged to answer on a new connection."""
WORKER_GRACE = 30.0
"""Seconds for a background worker to finish its activities."""
POLL = 0.1


@dataclass(frozen=True)
class Endpoints:
    """Where the services answer."""

    temporal_address: str
    """`127.0.0.1:7233`."""
    namespace: str
    """The Temporal namespace."""
    ui_url: str | None
    """Temporal's web interface; None if the server is not ours."""
    database_url: str
    """PostgreSQL, as asyncpg takes it."""
    started: list[str] = field(default_factory=list[str])
    """What this call started: `temporal`, `postgres`."""


@dataclass(frozen=True)
class ServiceStatus:
    """One background process and how it is."""

    name: str
    """`temporal`, `postgres` or `worker`."""
    pid: int
    """Its process id."""
    address: str
    """Where it answers; a worker's task queue."""
    alive: bool
    """Whether the process runs."""
    healthy: bool
    """Whether it answers; a worker is not asked."""
    since: float
    """When it was started, in seconds since the epoch."""
    log: str
    """Its log file."""
    version: str
    """The server's version."""


@dataclass(frozen=True)
class _Kind:
    """What differs between the servers."""

    name: str
    find: Callable[[Home], ServiceRecord | None]
    version_at: Callable[[str], Awaitable[str | None]]
    stop_signal: int
    wedged_signal: int
    """For one that does not answer."""


# What SQLite has committed outlives SIGKILL, and a wedged server ignores SIGTERM.
_TEMPORAL = _Kind(
    "temporal", temporal_server.find, temporal_server.version_at, signal.SIGTERM, signal.SIGKILL
)
_POSTGRES = _Kind("postgres", postgres.find, postgres.version_at, postgres.STOP, postgres.STOP)
_KINDS = {kind.name: kind for kind in (_TEMPORAL, _POSTGRES)}


def temporal_profile(
    environ: Mapping[str, str], *, address: str | None = None
) -> ClientConfigProfile:
    """The configured Temporal profile; with no address in it, the local server is used.

    Args:
        environ: The environment.
        address: The server's address, where the caller names one.

    Raises:
        UsageError: The file or a variable cannot be read, or a namespace is named without a server.
    """
    profile = load_profile(environ)
    own = temporal_server.NAMESPACE
    if not (address or profile.address) and (profile.namespace or own) != own:
        raise UsageError(
            f"the Temporal namespace {profile.namespace!r} is configured without a server, and the "
            f"local server has the namespace {own!r} only",
            remedy="Set TEMPORAL_ADDRESS too, or unset TEMPORAL_NAMESPACE.",
        )
    return profile


class Services:
    """The local services of one home.

    Args:
        home: Where their files are; `Home.default()` if None.
        environ: The environment; the process's own if None.
        watchdog: Ends the started processes when this process ends; None: they stay. Services with
            a watchdog are throwaway services, which also use free ports instead of the usual ones.
    """

    def __init__(
        self,
        home: Home | None = None,
        *,
        environ: Mapping[str, str] | None = None,
        watchdog: Watchdog | None = None,
    ) -> None:
        self.environ: Mapping[str, str] = os.environ if environ is None else environ
        self.home = Home.default(self.environ) if home is None else home
        self._watchdog = watchdog
        self._registry = Registry(self.home)

    async def ensure(self, progress: Progress = SILENT) -> Endpoints:
        """Make sure that Temporal and Postgres answer, and say where.

        `TEMPORAL_ADDRESS` (or a Temporal client profile with an address) and `DATABASE_URL` name
        servers of the user's; those are neither started nor asked.

        Raises:
            TemporalUnavailable: There is no Temporal server and none can be started.
            StoreUnavailable: The same for Postgres.
            ServiceError: The home cannot be written.
        """
        profile = temporal_profile(self.environ)
        database_url = self.environ.get("DATABASE_URL") or None
        kinds = ([] if profile.address else [_TEMPORAL]) + ([] if database_url else [_POSTGRES])
        records: dict[str, ServiceRecord] = {}
        started: list[_Kind] = []
        if kinds:
            await asyncio.to_thread(self.home.create)
            for kind in kinds:
                progress.begin(kind.name)
            async with self._hold_start(progress, kinds[0].name):
                records = await self._ensure_all(kinds, progress, started)
        temporal = records.get("temporal")
        own = temporal_server.NAMESPACE
        return Endpoints(
            temporal_address=temporal.address if temporal else str(profile.address),
            namespace=own if temporal else profile.namespace or own,
            ui_url=temporal.ui_url if temporal else None,
            database_url=records["postgres"].address if database_url is None else database_url,
            started=[kind.name for kind in kinds if kind in started],
        )

    async def _ensure_all(
        self, kinds: list[_Kind], progress: Progress, started: list[_Kind]
    ) -> dict[str, ServiceRecord]:
        """A server of each kind, or none that was not there: what was started ends with a failure.

        Nobody would know of a server whose start was interrupted while another one was starting.
        """
        each = [self._ensure_one(kind, progress, started) for kind in kinds]
        try:
            results = await asyncio.gather(*each, return_exceptions=True)
            records: dict[str, ServiceRecord] = {}
            for kind, result in zip(kinds, results, strict=True):
                if isinstance(result, BaseException):
                    raise result
                records[kind.name] = result
        except BaseException:
            await asyncio.shield(asyncio.to_thread(self._end, started))
            raise
        return records

    def _end(self, kinds: list[_Kind]) -> None:
        """End recorded servers, and forget them; the registry is not held while they end."""
        recorded = self._registry.read().services
        for kind in kinds:
            if (record := recorded.get(kind.name)) is not None:
                end(record.process, gently=self._stop_signal(kind))
        with self._registry.edit() as data:
            for kind in kinds:
                data.services.pop(kind.name, None)

    async def stop_all(self, progress: Progress = SILENT) -> list[str]:
        """End the recorded processes, workers first; the names of those that were running."""
        if not self.home.root.exists():
            return []
        stopped: list[str] = []
        async with self._hold_start(progress, "services"):
            data = self._registry.read()
            workers = [
                asyncio.to_thread(end, worker.process, grace=WORKER_GRACE)
                for worker in data.workers
            ]
            stopped += ["worker" for ended in await asyncio.gather(*workers) if ended is not None]
            running = [
                (k, data.services[k.name]) for k in _KINDS.values() if k.name in data.services
            ]
            ending = [
                asyncio.to_thread(end, record.process, gently=self._stop_signal(kind))
                for kind, record in running
            ]
            ended = await asyncio.gather(*ending)
            stopped += [
                k.name for (k, _), one in zip(running, ended, strict=True) if one is not None
            ]
            with self._registry.edit() as now:
                now.services.clear()
                now.workers = [worker for worker in now.workers if worker.process.alive]
        return stopped

    def temporal(self) -> ServiceRecord | None:
        """The record of the Temporal server; None before its start and after `stop_all`."""
        return self._registry.read().services.get(_TEMPORAL.name)

    async def restart_temporal(self, known: ServiceRecord) -> ServiceRecord | None:
        """Start the Temporal server again on the same data, unless it serves.

        Of several processes that call this one restarts it, and the others find the new one.

        Args:
            known: The server that does not serve.

        Returns:
            The record of the server; None if it was stopped on purpose.

        Raises:
            TemporalUnavailable: It cannot be started.
        """
        async with self._hold_start(SILENT, _TEMPORAL.name):
            record = self.temporal()
            if record is None or record.process != known.process:
                return record
            if not record.process.alive:
                # An interrupted start leaves a running server without a record. Two servers on
                # one database would damage it.
                record = await asyncio.to_thread(temporal_server.find, self.home) or record
            if record.process.alive:
                with suppress(TemporalUnavailable):
                    client = await temporal_server.connect(record.address, limit=CONFIRM_LIMIT)
                    if not await temporal_server.fault(client, CONFIRM_LIMIT):
                        self._keep(record)
                        return record
                await asyncio.to_thread(end, record.process, gently=_TEMPORAL.wedged_signal)
            record, _ = await self._start_temporal(record)
            self._keep(record)
            return record

    def register_worker(
        self, pid: int, *, task_queue: str = "crewlog", log: Path | None = None
    ) -> None:
        """Record a background worker, so that `stop_all` ends it and lists name it.

        Raises:
            UsageError: There is no such process.
        """
        process = identify(pid)
        if process is None:
            raise UsageError(f"there is no process {pid}", remedy="Look at the worker's log.")
        self.home.create()
        record = ServiceRecord(
            name="worker",
            process=process,
            address=task_queue,
            log=str(log or ""),
            directory=directory_of(pid),
        )
        with self._registry.edit() as data:
            data.workers = [w for w in data.workers if w.process.alive and w.process != process]
            data.workers.append(record)

    def workers(self) -> list[ServiceRecord]:
        """The recorded background workers that run."""
        return [worker for worker in self._registry.read().workers if worker.process.alive]

    def records(self) -> list[ServiceRecord]:
        """Everything that is recorded, alive or not."""
        data = self._registry.read()
        return [*data.services.values(), *data.workers]

    async def list_services(self) -> list[ServiceStatus]:
        """Every recorded process, asked whether it answers."""
        return list(await asyncio.gather(*[self._status(r) for r in self.records()]))

    async def _status(self, record: ServiceRecord) -> ServiceStatus:
        alive = record.process.alive
        kind = _KINDS.get(record.name)
        version: str | None = record.version
        if kind is not None:
            version = await kind.version_at(record.address) if alive else None
        return ServiceStatus(
            name=record.name,
            pid=record.process.pid,
            address=record.address,
            alive=alive,
            healthy=alive and version is not None,
            since=record.process.created,
            log=record.log,
            version=version or record.version,
        )

    def _hold_start(self, progress: Progress, name: str) -> AbstractAsyncContextManager[None]:
        def waiting() -> None:
            progress.update(name, "another process is starting the services; waiting for it")

        return hold(self.home.start_lock, waiting=waiting)

    async def _ensure_one(
        self, kind: _Kind, progress: Progress, started: list[_Kind]
    ) -> ServiceRecord:
        """The record of a server that answers; its kind is added to `started` where it was."""
        record = last = self._registry.read().services.get(kind.name)
        if record is None or not record.process.alive:
            record = await asyncio.to_thread(kind.find, self.home)
        if record is not None:
            version = await self._answer(kind, record, progress)
            if version is not None:
                record = record.model_copy(update={"version": version or record.version})
                self._keep(record)
                progress.done(kind.name, f"{record.version}, running")
                return record
            progress.update(kind.name, "it does not answer; starting it again")
            await asyncio.to_thread(end, record.process, gently=kind.wedged_signal)
            last = record
        progress.update(kind.name, "starting")
        record, how = await (
            self._start_temporal(last) if kind is _TEMPORAL else self._start_postgres(progress)
        )
        self._keep(record)
        started.append(kind)
        progress.done(kind.name, f"{record.version}, {how}")
        return record

    async def _answer(self, kind: _Kind, record: ServiceRecord, progress: Progress) -> str | None:
        """The version of a live server; None if it does not answer for long, or ends."""

        async def ask() -> str | None:
            while record.process.alive:
                if (version := await kind.version_at(record.address)) is not None:
                    return version
                await asyncio.sleep(POLL)
            return None

        asking = asyncio.create_task(ask())
        try:
            answered, _ = await asyncio.wait({asking}, timeout=QUIET_LIMIT)
            if not answered:
                progress.update(kind.name, "waiting for it to answer")
                answered, _ = await asyncio.wait({asking}, timeout=HUNG_LIMIT - QUIET_LIMIT)
            return asking.result() if answered else None
        finally:
            asking.cancel()

    def _keep(self, record: ServiceRecord) -> None:
        with self._registry.edit() as data:
            data.services[record.name] = record

    def _spawned(self, process: ProcessRecord) -> None:
        if self._watchdog is not None:
            kind = _TEMPORAL if "start-dev" in process.command else _POSTGRES
            self._watchdog.watch(process, self._stop_signal(kind))

    def _stop_signal(self, kind: _Kind) -> int:
        """A throwaway Temporal server need not take 1.5 s to say goodbye."""
        throwaway = self._watchdog is not None and kind is _TEMPORAL
        return signal.SIGKILL if throwaway else kind.stop_signal

    async def _start_temporal(self, last: ServiceRecord | None) -> tuple[ServiceRecord, str]:
        record = await temporal_server.start(
            await find_cli(self.environ),
            self.home,
            usual_ports=self._watchdog is None,
            last=last,
            on_spawn=self._spawned,
        )
        return record, "started" if last is None else "restarted on the same data"

    async def _start_postgres(self, progress: Progress) -> tuple[ServiceRecord, str]:
        record = await postgres.start(
            self.home,
            progress=progress,
            throwaway=self._watchdog is not None,
            on_spawn=self._spawned,
        )
        return record, "embedded"
