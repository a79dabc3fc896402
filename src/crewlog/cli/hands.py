"""Who runs the steps: which task queue a run goes to, and the worker that a command brings along.

No step may reach a worker that lacks the crew's code. So a task queue belongs to one directory:

- `--task-queue` or `CREWLOG_TASK_QUEUE` names a queue: its workers are the caller's business.
- Else, on the local server, a background worker of the same directory is used (`crewlog dev`,
  `crewlog worker`; they refuse a queue that another directory's worker polls).
- Else the queue is the project's own, named after its directory and this machine, and the command
  runs a worker for it as a child process, for as long as the command lasts.

A file per project queue remembers its directory, so that `crewlog answer` and `crewlog watch` can
bring a worker for a run that was left behind.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import re
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from crewlog.cli.screen import Screen
from crewlog.cli.services import is_local
from crewlog.dev.paths import PRIVATE_FOLDER, Home, open_private
from crewlog.dev.processes import ProcessRecord, Watchdog, end, exit_code, size_of, spawn, tail
from crewlog.dev.registry import ServiceRecord
from crewlog.dev.services import Endpoints, Services
from crewlog.errors import UsageError, WorkerMissing
from crewlog.wire import TASK_QUEUE
from crewlog.workers.log_tail import log_tail

PREFIX = "crewlog-"
RESTARTS = 3
"""How often a command's own worker is started again where it ends by itself."""
GRACE = 20.0
"""Seconds for a worker to finish its activities."""
COMMAND = [sys.executable, "-m", "crewlog.cli.worker_process"]


@dataclass(frozen=True)
class Assignment:
    """Where a run's steps are done."""

    queue: str
    """The task queue."""
    directory: Path
    """The project: where the crew's code is."""
    own: bool
    """Whether the command brings the worker."""
    worker: ServiceRecord | None = None
    """The background worker of the directory, if it has one."""

    @property
    def comes(self) -> bool:
        """Whether there is a worker of this machine for it, though it may not poll yet."""
        return self.own or self.worker is not None


def assign(directory: Path, queue: str | None = None) -> Assignment:
    """The task queue for a crew whose code is in `directory`; see the module's docstring."""
    directory = directory.resolve()
    chosen = queue or os.environ.get("CREWLOG_TASK_QUEUE")
    if chosen:
        return Assignment(chosen, directory, own=False)
    if is_local():
        found = next((w for w in Services().workers() if directory_of(w) == directory), None)
        if found is not None:
            return Assignment(found.address, directory, own=False, worker=found)
    return Assignment(project_queue(directory), directory, own=True)


def project_queue(directory: Path) -> str:
    """The queue that is a directory's own: `crewlog-release-notes-1f0c9a2b`."""
    name = re.sub(r"[^a-z0-9]+", "-", directory.name.lower()).strip("-")[:40] or "root"
    place = f"{platform.node()}:{directory}".encode()
    return f"{PREFIX}{name}-{hashlib.sha256(place).hexdigest()[:8]}"


def directory_of(worker: ServiceRecord) -> Path | None:
    """The directory that a background worker runs in."""
    process = worker.process.find()
    if process is not None and worker.directory:
        return Path(worker.directory).resolve()
    try:
        return Path(process.cwd()).resolve() if process else None
    except (psutil.Error, OSError):
        return None


def claim(queue: str, directory: Path) -> None:
    """Refuse a queue that a worker of another directory polls on this machine.

    Raises:
        UsageError: there is one.
    """
    if not is_local():
        return
    for worker in Services().workers():
        other = directory_of(worker)
        if worker.address == queue and other is not None and other != directory.resolve():
            raise UsageError(
                f"the task queue {queue!r} has a worker of another directory already: its steps "
                "could reach a worker without their code",
                remedy=f"End that one (pid {worker.process.pid}, in {other}), or name another "
                f"queue: --task-queue {project_queue(directory.resolve())}.",
                place=f"task queue {queue!r}",
            )


def remember(assignment: Assignment) -> None:
    """Keep the directory of a project's queue."""
    if assignment.own:
        file = _memory() / f"{assignment.queue}.json"
        file.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
        with open(file, "w", encoding="utf-8", opener=open_private) as out:
            out.write(json.dumps({"directory": str(assignment.directory)}))


def remembered(queue: str) -> Path | None:
    """The directory of a project's queue, if it is one of this machine's and still there."""
    if not re.fullmatch(rf"{PREFIX}[a-z0-9-]+", queue):
        return None
    try:
        data = json.loads((_memory() / f"{queue}.json").read_text(encoding="utf-8"))
        directory = Path(data["directory"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return directory if directory.is_dir() else None


def assigned(queue: str) -> Assignment:
    """Who does the steps of a run that is on `queue`: a worker of its own only where we may."""
    directory = remembered(queue)
    workers = Services().workers() if is_local() else []
    worker = next((w for w in workers if w.address == queue), None)
    own = directory is not None and worker is None
    return Assignment(queue, directory or Path.cwd(), own=own, worker=worker)


def _memory() -> Path:
    return Home.default().root / "projects"


class Hand:
    """The worker process of one command."""

    def __init__(
        self,
        process: ProcessRecord,
        log: Path,
        start: int,
        watchdog: Watchdog,
        assignment: Assignment | None = None,
    ) -> None:
        self.process = process
        self.log = log
        self._start = start
        self._watchdog = watchdog
        self._assignment = assignment
        """What to start another one for; none where nobody is to."""
        self._restarts = 0

    async def keep(self, run: str, screen: Screen) -> None:
        """See whether it still works, and start another one if it does not, a few times.

        Raises:
            WorkerMissing: they all ended by themselves.
        """
        if self.process.alive:
            return
        if self._assignment is None or self._restarts >= RESTARTS:
            self.check(run)
        elif self._restarts < RESTARTS:
            self._restarts += 1
            screen.note(
                ("▸ ", "yellow"),
                f"the worker (pid {self.process.pid}) ended by itself: another one is started",
                (f"     {self.log}", "dim"),
            )
            assigned = self._assignment
            self.process, self.log, self._start = await start_worker(
                assigned.queue, assigned.directory
            )
            self._watchdog.watch(self.process)

    @property
    def stopped(self) -> bool:
        """Whether it ended because it was told to, as `crewlog dev --stop` does."""
        return exit_code(self.process) in _STOPPED

    def check(self, run: str = "RUN") -> None:
        """See whether it still works.

        Raises:
            WorkerMissing: it ended by itself, or was stopped; the message has its last words.
        """
        if self.process.alive:
            return
        log = tail(self.log, start=self._start, lines=1000)
        lines = [log_words(line) for line in log_tail(log)]
        said = "".join(f"\n    | {line}" for line in lines)
        if self._assignment is None:
            # To a queue that is not a project's own, commands that follow runs bring no worker.
            what = "its runs are safe and wait"
            brings = "The same command again starts another one, and the runs go on."
        else:
            what = "the run is safe and waits"
            brings = f"`crewlog watch {run}` brings another worker."
        how = "was stopped" if self.stopped else f"ended by itself{_killed(self.process)}"
        raise WorkerMissing(
            f"the worker of this command {how}; {what}{said}",
            remedy=f"Its whole log is {self.log}. {brings}",
            place=f"worker (pid {self.process.pid})",
        )

    async def close(self) -> None:
        """Let it finish what it has, and end it."""
        await asyncio.to_thread(end, self.process, grace=GRACE)
        await asyncio.to_thread(self._watchdog.close)


_STOPPED = (0, -signal.SIGTERM, -signal.SIGINT)
"""Exit codes of a worker that was told to end."""


def _killed(process: ProcessRecord) -> str:
    """` (SIGKILL)`: the signal that ended a process; empty where none did, or nobody knows."""
    code = exit_code(process)
    if code is None or code >= 0:
        return ""
    try:
        return f" ({signal.Signals(-code).name})"
    except ValueError:
        return f" (signal {-code})"


def log_words(line: str) -> str:
    """A line of a worker's log: its JSON in words."""
    try:
        data: object = json.loads(line)
    except ValueError:
        return line
    if not isinstance(data, dict) or "event" not in data:
        return line
    found: dict[str, object] = {**data}  # pyright: ignore[reportUnknownArgumentType]
    at = str(found.pop("timestamp", ""))[11:19]
    level = str(found.pop("level", ""))
    event = str(found.pop("event"))
    rest = "  ".join(f"{key}={value}" for key, value in found.items())
    return "  ".join(filter(None, [at, level, event, rest]))


def environment(endpoints: Endpoints, queue: str, directory: Path) -> dict[str, str]:
    """A worker's environment: ours, and where the services are.

    A local Temporal server is not named: so the worker knows it for local, and supervises it.
    """
    env = {**os.environ, "CREWLOG_TASK_QUEUE": queue, "DATABASE_URL": endpoints.database_url}
    env["CREWLOG_HOME"] = str(Home.default().root)
    # The crew's modules are imported from its directory, whatever PYTHONSAFEPATH says.
    paths = [str(directory), *filter(None, [os.environ.get("PYTHONPATH")])]
    env["PYTHONPATH"] = os.pathsep.join(paths)
    return env


async def start_worker(
    queue: str, directory: Path, *, variables: Mapping[str, str] | None = None
) -> tuple[ProcessRecord, Path, int]:
    """Start a worker process for a queue in a directory; its log, and where that begins, too."""
    endpoints = await Services().ensure()
    log = Home.default().logs / f"worker-{queue}.log"
    start = size_of(log)
    env = {**environment(endpoints, queue, directory), **(variables or {})}
    process = await asyncio.to_thread(spawn, COMMAND, log, env=env, cwd=directory)
    return process, log, start


@asynccontextmanager
async def hand(assignment: Assignment) -> AsyncGenerator[Hand | None]:
    """A worker for as long as the block runs, where the command is to bring one."""
    if not assignment.own:
        yield None
        return
    remember(assignment)
    watchdog = Watchdog()
    process, log, start = await start_worker(assignment.queue, assignment.directory)
    # Should we be killed, it ends all the same.
    watchdog.watch(process)
    lent = Hand(process, log, start, watchdog, assignment)
    try:
        yield lent
    finally:
        await asyncio.shield(lent.close())


DEFAULT_QUEUE = TASK_QUEUE
