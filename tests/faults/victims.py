"""What can be killed and started again besides workers: the Temporal server, Postgres, a cluster.

A scenario knows a victim by its name and its two verbs, so that the same scenario runs against the
one process of the local server and against each process of a cluster.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from crewlog.dev import postgres, temporal_server
from crewlog.dev.paths import Home
from crewlog.dev.processes import Guard, ProcessRecord, end, spawn
from crewlog.dev.registry import ServiceRecord

CLUSTER_SERVICES = ("frontend", "history", "matching", "worker", "postgres")


class Victim(Protocol):
    """Something that can be killed and started again."""

    name: str

    async def kill(self) -> None:
        """Kills it; it is gone when this returns."""
        ...

    async def start(self) -> None:
        """Starts it again; it answers when this returns."""
        ...


class TemporalVictim:
    """The local server's one process, killed by SIGKILL; its database is a file."""

    name = "temporal"

    def __init__(self, record: ServiceRecord, home: Home, guard: Guard) -> None:
        self._record = record
        self._home = home
        self._guard = guard

    async def kill(self) -> None:
        await asyncio.to_thread(end, self._record.process, gently=signal.SIGKILL)

    async def start(self) -> None:
        process = spawn(self._record.process.command, self._home.temporal_log)
        self._guard.watch(process, signal.SIGKILL)
        port = int(self._record.address.rpartition(":")[2])
        ports = temporal_server.Ports(port, 0)
        self._record = await temporal_server._ready(process, self._home, ports)


class PostgresVictim:
    """The store's Postgres, whose commits are durable; ended in one of Postgres's three ways.

    `signals` are taken in turn: SIGINT ends its clients' transactions and writes everything,
    SIGQUIT and SIGKILL leave it to recover from its log.
    """

    name = "postgres"

    def __init__(
        self,
        record: ServiceRecord,
        home: Home,
        guard: Guard,
        signals: Sequence[int] = (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL),
    ) -> None:
        self._record = record
        self._home = home
        self._guard = guard
        self._signals = list(signals)

    async def kill(self, number: int | None = None) -> None:
        """As every victim's; by the next of the signals, or by the one that is given."""
        if number is None:
            number = self._signals.pop(0)
            self._signals.append(number)
        await asyncio.to_thread(end, self._record.process, gently=number)

    async def start(self) -> None:
        self._record = await postgres.start(self._home, on_spawn=self._watch)

    def _watch(self, process: ProcessRecord) -> None:
        self._guard.watch(process, signal.SIGQUIT)  # nobody needs its data any more


class ClusterVictim:
    """A process of a cluster, by the cluster's own commands `kill SERVICE` and `start SERVICE`."""

    def __init__(self, program: Path, service: str) -> None:
        self._program = program
        self.name = service

    async def kill(self) -> None:
        await self._run("kill")

    async def start(self) -> None:
        await self._run("start")

    async def _run(self, verb: str) -> None:
        command = [sys.executable, str(self._program), verb, self.name]
        process = await asyncio.create_subprocess_exec(*command)
        code = await process.wait()
        if code != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {code}")


def cluster(program: Path) -> list[Victim]:
    """The victims of a cluster that `program` (`cluster.py`) manages and that is running."""
    return [ClusterVictim(program, service) for service in CLUSTER_SERVICES]
