"""Starts commands and workers from a process that has imported everything once: seconds sooner.

Each is a process of its own all the same, with its own directory, environment and output; it only
finds its modules there. `Starter` is the tests' side; `starter()` is the session's. This file is
also the program of that process: for each connection to its socket it forks a parent, which forks
the process that is asked for, waits for its end and sends its exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

READY_LIMIT = 60.0
"""Seconds in which everything is imported."""
COMMAND = "crewlog.cli.main"
"""The module whose `main` is a command; any other is run as `python -m` runs it."""


class Started:
    """A process of a `Starter`; as `subprocess.Popen`, as far as tests use that.

    Args:
        line: The connection to its parent, which has sent nothing yet.
    """

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._exit_code: int | None = None
        self.pid = int(self._read())

    def poll(self) -> int | None:
        """The exit code, negative for a signal; none while the process runs."""
        return self._ended_within(0)

    def wait(self, timeout: float) -> int:
        """The exit code, once the process has ended.

        Raises:
            subprocess.TimeoutExpired: it did not end in so many seconds.
        """
        code = self._ended_within(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code

    def send_signal(self, number: int) -> None:
        """Sends a signal, unless the process has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Sends SIGKILL, unless the process has ended."""
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, seconds: float) -> int | None:
        if self._exit_code is None and select.select([self._line], [], [], seconds)[0]:
            self._exit_code = int(self._read())
            self._line.close()
        return self._exit_code

    def _read(self) -> bytes:
        """One line; not through a buffer, which would hide from `select` what it holds."""
        text = b""
        while not text.endswith(b"\n"):
            byte = self._line.recv(1)
            assert byte, "the parent of a started process has ended"
            text += byte
        return text


class Starter:
    """A process that starts commands and workers; it ends with ours."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="clst-"))
        self._socket = self._root / "socket"
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._socket)], stdin=subprocess.PIPE
        )
        deadline = time.monotonic() + READY_LIMIT
        while not self._socket.exists():
            assert self._process.poll() is None, "the starter has ended"
            assert time.monotonic() < deadline, "the starter does not begin"
            time.sleep(0.01)

    def run(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], limit: float
    ) -> tuple[int, str, str]:
        """The exit code, standard output and standard error of a command.

        Raises:
            TimeoutError: it did not end in so many seconds; it was killed.
        """
        root = Path(tempfile.mkdtemp(dir=self._root))
        out, err = root / "out", root / "err"
        command = self._start(COMMAND, arguments, cwd, env, out, err)
        try:
            code = command.wait(limit)
        except subprocess.TimeoutExpired:
            command.kill()
            raise TimeoutError(
                f"crewlog {' '.join(arguments)} did not end in {limit:.0f} s\n"
                f"{out.read_text()}\n{err.read_text()}"
            ) from None
        return code, out.read_text(), err.read_text()

    def start(self, module: str, cwd: Path, env: Mapping[str, str], log: Path) -> Started:
        """Starts `python -m module`; its standard output and standard error go to the log."""
        return self._start(module, (), cwd, env, log, log)

    def _start(
        self,
        module: str,
        arguments: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        out: Path,
        err: Path,
    ) -> Started:
        asked = {"module": module, "argv": [*arguments], "cwd": str(cwd), "env": {**env}}
        asked |= {"out": str(out), "err": str(err)}
        for file in (out, err):
            file.touch()  # who waits for the process reads them before it opens them
        line = socket.socket(socket.AF_UNIX)
        line.connect(str(self._socket))
        line.sendall(json.dumps(asked).encode() + b"\n")
        return Started(line)

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        shutil.rmtree(self._root, ignore_errors=True)


@functools.cache
def starter() -> Starter:
    """The starter of this session, which ends with it."""
    found = Starter()
    atexit.register(found.close)
    return found


# -- the program -----------------------------------------------------------------------------------


def serve(path: str) -> NoReturn:
    """Starts a process for each connection, until standard input is closed."""
    main = _imported()
    assert threading.active_count() == 1, "what has threads cannot be forked"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a parent
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{path}.new")
    listening.listen(16)
    Path(f"{path}.new").rename(path)
    while 0 not in select.select([listening, 0], [], [])[0]:
        line, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _be_parent(line, main)
        line.close()
    os._exit(0)


def _imported() -> Callable[[], NoReturn]:
    import crewlog.cli

    for module in pkgutil.iter_modules(crewlog.cli.__path__, "crewlog.cli."):
        if not module.ispkg:
            importlib.import_module(module.name)
    for name in ("client.client", "client.schedules", "workers.worker", "dev.services"):
        importlib.import_module(f"crewlog.{name}")
    found: Callable[[], NoReturn] = importlib.import_module("crewlog.cli.main").main
    return found


def _be_parent(line: socket.socket, main: Callable[[], NoReturn]) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with line.makefile("rw") as lines:
        asked = json.loads(lines.readline())
        pid = os.fork()
        if pid == 0:
            line.detach()
            _become(asked, main)
        lines.write(f"{pid}\n")
        lines.flush()
        _, status = os.waitpid(pid, 0)
        with contextlib.suppress(BrokenPipeError):
            lines.write(f"{os.waitstatus_to_exitcode(status)}\n")
            lines.flush()
    os._exit(0)


def _become(asked: dict[str, Any], main: Callable[[], NoReturn]) -> NoReturn:
    os.chdir(asked["cwd"])
    os.environ.clear()
    os.environ.update(asked["env"])
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [os.open(os.devnull, os.O_RDONLY)]
    files += [os.open(asked[name], flags, 0o600) for name in ("out", "err")]
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 256)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "r" if n == 0 else "w") for n in range(3))
    sys.stderr.reconfigure(line_buffering=True)
    sys.argv = ["crewlog", *asked["argv"]]
    # As `python -m` has it.
    sys.path[:1] = [asked["cwd"], *filter(None, asked["env"].get("PYTHONPATH", "").split(":"))]
    if asked["module"] == COMMAND:
        main()
    runpy.run_module(asked["module"], run_name="__main__", alter_sys=True)
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
