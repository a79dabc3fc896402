"""Workers that die and are replaced: some are always alive, and every death has a known cause."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .ledger import Ledger
from .points import Points

TESTS = Path(__file__).parent.parent
READY_LIMIT = 60.0
"""Seconds for a new worker to poll, on a machine that does much else."""
END_LIMIT = 15.0


class Nursery:
    """The process that forks workers, see `faults.worker`."""

    def __init__(self) -> None:
        self._process: Process | None = None
        self._lock = asyncio.Lock()

    async def open(self) -> None:
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "faults.worker",
            stdin=PIPE,
            stdout=PIPE,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is the driver's
        )
        assert await self._line() == "ready"

    async def fork(self, environ: Mapping[str, str], folder: Path, log: Path) -> int:
        """Forks a worker and returns its process id."""
        order = {"environ": dict(environ), "cwd": str(folder), "log": str(log)}
        async with self._lock:
            assert self._process is not None
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            return int(await self._line())

    async def _line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        line = (await self._process.stdout.readline()).decode().strip()
        if not line:
            raise AssertionError("the process that forks workers has ended")
        return line

    async def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await self._process.wait()


@dataclass(eq=False)
class Worker:
    """A worker's process, held by a descriptor: its id may be somebody else's later."""

    pid: int
    log: Path
    _fd: int = -1
    _gone: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        try:
            self._fd = os.pidfd_open(self.pid)
        except ProcessLookupError:  # it was gone at once
            self._gone.set()
        else:
            asyncio.get_running_loop().add_reader(self._fd, self._ended)

    def _ended(self) -> None:
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)
        self._gone.set()

    @property
    def alive(self) -> bool:
        return not self._gone.is_set()

    def send(self, number: signal.Signals) -> None:
        if self.alive:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._fd, number)

    async def gone(self) -> None:
        await self._gone.wait()

    def said(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    async def ready(self) -> bool:
        """Waits until it polls; false where it ends before."""
        deadline = time.monotonic() + READY_LIMIT
        while self.alive and "the worker polls" not in self.said():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the worker {self.pid} does not poll: {self.said()[-2000:]}")
            await asyncio.sleep(0.02)
        return self.alive


class Fleet:
    """A number of workers on one task queue; whoever is killed is replaced at once."""

    def __init__(
        self,
        nursery: Nursery,
        environ: Mapping[str, str],
        folder: Path,
        points: Points,
        ledger: Ledger,
        size: int,
    ) -> None:
        self._nursery = nursery
        self._environ = dict(environ)
        self._folder = folder
        self.points = points
        self._ledger = ledger
        self._size = size
        self._workers: dict[int, Worker] = {}
        self._watches: set[asyncio.Task[None]] = set()
        self._killed: set[int] = set()
        self._closing = False
        self._number = 0
        self.kills: Counter[str] = Counter()
        """By point; `anywhere` for those that came from outside at a random moment."""
        self.deserters: list[str] = []
        """Workers that ended without having been killed, and what they said."""

    async def open(self) -> None:
        await asyncio.gather(*(self._start() for _ in range(self._size)))
        await asyncio.gather(*(worker.ready() for worker in self.workers))

    @property
    def workers(self) -> list[Worker]:
        return [worker for worker in self._workers.values() if worker.alive]

    def alive(self, pid: int) -> bool:
        return pid in self._workers and self._workers[pid].alive

    async def _start(self) -> None:
        self._number += 1
        log = self._folder / f"worker-{self._environ['CREWLOG_TASK_QUEUE']}-{self._number}.log"
        worker = Worker(await self._nursery.fork(self._environ, self._folder, log), log)
        self._workers[worker.pid] = worker
        watch = asyncio.create_task(self._watch(worker))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _watch(self, worker: Worker) -> None:
        await worker.gone()
        halts = [halt for halt in self._ledger.halts(worker.pid) if halt.action == "kill"]
        if halts:
            self.kills[halts[-1].point] += 1
        elif worker.pid in self._killed:
            self.kills["anywhere"] += 1
        elif not self._closing:
            said = worker.said()[-3000:]
            self.deserters.append(f"the worker {worker.pid} ended by itself: {said}")
        if not self._closing:
            await self._start()

    def kill_any(self, rng: random.Random) -> bool:
        """SIGKILLs some worker; false where none is left to be killed."""
        found = [w for w in self.workers if w.pid not in self._killed and not self.is_frozen(w.pid)]
        if not found:
            return False
        worker = rng.choice(sorted(found, key=lambda w: w.pid))
        self._killed.add(worker.pid)
        worker.send(signal.SIGKILL)
        return True

    def is_frozen(self, pid: int) -> bool:
        """Whether the process is stopped by a signal."""
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        except FileNotFoundError:
            return False

    def thaw(self, pid: int) -> None:
        """Lets a frozen worker go on."""
        self._workers[pid].send(signal.SIGCONT)

    async def close(self) -> None:
        """Ends all workers, gently where they let themselves be asked."""
        self._closing = True
        workers = self.workers
        for worker in workers:
            worker.send(signal.SIGCONT)
            worker.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(END_LIMIT):
                await asyncio.gather(*(worker.gone() for worker in workers))
        except TimeoutError:
            for worker in workers:
                worker.send(signal.SIGKILL)
        await asyncio.gather(*(worker.gone() for worker in workers), *self._watches)
