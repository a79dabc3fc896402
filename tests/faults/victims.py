"""What can be killed and started again besides workers: the Temporal server, Postgres, a cluster.

A scenario knows a victim by its name and its two verbs, so that the same scenario runs against the
one process of the local server and against each process of a cluster.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from crewlog.dev import postgres
from crewlog.dev.paths import Home
from crewlog.dev.processes import ProcessRecord, Watchdog, end
from crewlog.dev.registry import ServiceRecord
from crewlog.dev.services import Services

SUPERVISED_LIMIT = 90.0
"""Seconds for a supervisor to notice and to start the server, on a busy machine."""
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

    def __init__(self, services: Services) -> None:
        self._services = services

    @property
    def record(self) -> ServiceRecord:
        found = self._services.temporal()
        assert found is not None
        return found

    async def kill(self) -> None:
        await asyncio.to_thread(end, self.record.process, gently=signal.SIGKILL)

    async def start(self) -> None:
        await self._services.ensure()


class SupervisedVictim(TemporalVictim):
    """The same under supervision: nobody starts it again but a supervisor.

    Args:
        services: The services of its home.
        number: SIGKILL ends it; SIGSTOP leaves a server that accepts connections and never answers.
    """

    def __init__(self, services: Services, number: signal.Signals) -> None:
        super().__init__(services)
        self.name = f"temporal after {number.name}"
        self._number = number
        self._hurt: ProcessRecord | None = None

    async def kill(self) -> None:
        self._hurt = self.record.process
        process = self._hurt.find()
        assert process is not None
        process.send_signal(self._number)

    async def start(self) -> None:
        deadline = time.monotonic() + SUPERVISED_LIMIT
        while self.record.process == self._hurt:
            assert time.monotonic() < deadline, "no supervisor restarts the server"
            await asyncio.sleep(0.1)
        assert self._hurt is not None
        assert not self._hurt.alive


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
        watchdog: Watchdog,
        signals: Sequence[int] = (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL),
    ) -> None:
        self._record = record
        self._home = home
        self._watchdog = watchdog
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
        self._watchdog.watch(process, signal.SIGQUIT)  # nobody needs its data any more


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
