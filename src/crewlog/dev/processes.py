"""Background processes: started detached, recognised beyond doubt, ended gently.

A pid alone proves nothing, since the system gives it to another process later. A process is taken
for a recorded one only if pid, start and command line all agree.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
from pydantic import BaseModel, ConfigDict

from crewlog.dev import watchdog as watchdog_script
from crewlog.dev.paths import PRIVATE_FOLDER, open_private

LOG_LIMIT = 8 * 1024 * 1024
"""Bytes from which a log is set aside when its service starts."""
POLL = 0.05
"""Seconds between two looks at a process that is to end."""
REAP_LIMIT = 5.0
"""Seconds for the parent of a process that ended, or for init, to reap it."""
LOADING_LIMIT = 0.5
"""Seconds for a new program to show its command line."""

_children: dict[int, subprocess.Popen[bytes]] = {}
"""Our own children: kept so that they can be reaped; a dead one would look alive as a zombie."""


class ProcessRecord(BaseModel):
    """What identifies a process, now and after the pid has been reused."""

    model_config = ConfigDict(frozen=True)

    pid: int
    """The process id."""
    started: float
    """When the system started it, as `watchdog.start_of` has it."""
    command: tuple[str, ...]
    """Its command line."""

    def find(self) -> psutil.Process | None:
        """The live process, or None if it ended or the pid belongs to another one now."""
        child = _children.get(self.pid)
        if child is not None and child.poll() is not None:
            return None
        try:
            process = psutil.Process(self.pid)
            if not watchdog_script.started_at(process, self.started):
                return None
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            if child is not None and child.args == list(self.command):
                # The pid of a child that was not reaped cannot be another process's.
                return process
            return process if _command_of(process) == self.command else None
        except psutil.Error:
            return None

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self.find() is not None

    @property
    def created(self) -> float:
        """When the system started it, in seconds since the epoch, by the clock of now."""
        return self.started + (psutil.boot_time() if psutil.LINUX else 0.0)


def exit_code(record: ProcessRecord) -> int | None:
    """The exit code of a child of ours that ended, minus the signal's number where one ended it.

    None where it runs, or is no child of ours.
    """
    child = _children.get(record.pid)
    return child.poll() if child is not None else None


def _command_of(process: psutil.Process) -> tuple[str, ...]:
    """The command line. It is empty for a moment while the system loads the program.

    `Popen` may return in that moment: the pipe that tells it closes a little before.
    """
    deadline = time.monotonic() + LOADING_LIMIT
    while True:
        command = tuple(process.cmdline())
        if command or time.monotonic() > deadline:
            return command
        time.sleep(0.001)


def directory_of(pid: int) -> str:
    """The directory that a process runs in; empty where it does not tell."""
    try:
        return psutil.Process(pid).cwd()
    except (psutil.Error, OSError):
        return ""


def identify(pid: int) -> ProcessRecord | None:
    """The record of the process that has this pid now, or None if there is none to be seen."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        started, command = watchdog_script.start_of(process), _command_of(process)
        return ProcessRecord(pid=pid, started=started, command=command)
    except psutil.Error:
        return None


def find_by_arguments(*arguments: str) -> ProcessRecord | None:
    """A live process of ours whose command line has `arguments` in a row, or None.

    This finds a server whose record was lost: its starter was killed, or the registry damaged.
    """
    count = len(arguments)
    for process in psutil.process_iter():
        try:
            command = tuple(process.cmdline())
        except psutil.Error:
            continue
        if any(command[i : i + count] == arguments for i in range(1, len(command) - count + 1)):
            return identify(process.pid)
    return None


def spawn(
    command: Sequence[str],
    log: Path,
    *,
    user: int | None = None,
    group: int | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    umask: int = -1,
) -> ProcessRecord:
    """Start `command` in a session of its own, so that it outlives us and our terminal.

    Args:
        command: Program and arguments.
        log: Where its output is appended.
        user: The uid to run as; ours if None.
        group: The gid to run as; ours if None.
        env: Its environment; ours if None.
        cwd: Its working directory: not one that somebody may want to remove or unmount.
        umask: What its files' modes lack; as ours if -1. Its log is ours alone in any case.

    Raises:
        OSError: The program cannot be run, or the log cannot be written.
    """
    log.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    if log.exists() and log.stat().st_size > LOG_LIMIT:
        log.replace(log.with_suffix(".old.log"))
    with open(log, "ab", opener=open_private) as out:
        child = subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            user=user,
            group=group,
            extra_groups=[] if user is not None else None,
            env=None if env is None else dict(env),
            cwd=cwd or Path(tempfile.gettempdir()).anchor,
            umask=umask,
        )
    _children[child.pid] = child
    try:
        started = watchdog_script.start_of(psutil.Process(child.pid))
    except psutil.Error:  # it has ended
        started = 0.0
    return ProcessRecord(pid=child.pid, started=started, command=tuple(command))


def end(
    record: ProcessRecord, *, gently: int = signal.SIGTERM, grace: float = 10.0
) -> psutil.Process | None:
    """End a recorded process: ask, wait, then kill. It blocks for up to `grace` seconds.

    Returns:
        The process that was ended; None if there was nothing to end.
    """
    process = record.find()
    if process is None:
        return None
    with suppress(psutil.NoSuchProcess):
        process.send_signal(gently)
        if not _is_gone(record, grace):
            process.kill()
            _is_gone(record, 5)
    child = _children.pop(record.pid, None)
    if child is not None:
        child.poll()
    _wait_until_reaped(process)
    return process


def _wait_until_reaped(process: psutil.Process) -> None:
    """Wait until the pid is free: Postgres refuses to start while its old one's pid exists."""
    deadline = time.monotonic() + REAP_LIMIT
    while process.is_running() and time.monotonic() < deadline:
        time.sleep(POLL)


def _is_gone(record: ProcessRecord, limit: float) -> bool:
    """Whether a process ends within `limit` seconds; one that nobody reaps has ended, too."""
    deadline = time.monotonic() + limit
    while record.alive:
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL)
    return True


def tail(log: Path, *, start: int = 0, lines: int = 8) -> str:
    """The last lines of a log, of what was written from byte `start` on."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start if start <= size else 0, size - 2_000 * lines))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(line.rstrip()[:400] for line in text.strip().splitlines()[-lines:])


def size_of(log: Path) -> int:
    """The size of a log in bytes, 0 if there is none; one that is too large will be set aside."""
    try:
        size = log.stat().st_size
    except OSError:
        return 0
    return 0 if size > LOG_LIMIT else size


def listens(record: ProcessRecord, port: int) -> bool:
    """Whether the recorded process itself listens on the TCP port."""
    process = record.find()
    if process is None:
        return False
    try:
        sockets = process.net_connections(kind="tcp")
    except psutil.AccessDenied:
        return not port_is_free(port)
    except psutil.Error:
        return False
    return any(s.status == psutil.CONN_LISTEN and s.laddr and s.laddr.port == port for s in sockets)


def port_is_free(port: int) -> bool:
    """Whether a server can listen on the port of 127.0.0.1 and nobody answers there yet."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            return False
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def free_port(preferred: int | None = None) -> int:
    """`preferred` if it is free, else a port that the system says is free."""
    if preferred is not None and port_is_free(preferred):
        return preferred
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class Watchdog:
    """Ends processes when this process ends, also by SIGKILL; see `crewlog.dev.watchdog`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(watchdog_script.__file__)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def watch(self, record: ProcessRecord, gently: int = signal.SIGTERM) -> None:
        """Adds a process, which is first asked to end with the signal `gently`."""
        if self._process.stdin is not None:
            self._process.stdin.write(f"{record.pid} {record.started} {int(gently)}\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """Ends the watched processes that still run, and the watchdog itself."""
        self._process.communicate()
