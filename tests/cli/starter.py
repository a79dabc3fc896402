"""Starts commands from a process that has imported everything once: `crewlog …`, a second sooner.

A command is a process of its own all the same, with its own directory, environment and output; it
only finds its modules there. `Starter` is the tests' side. This file is also the program of that
process: for each connection to its socket it forks a nanny, which forks the command, waits for its
end and tells its exit code.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pkgutil
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


class Starter:
    """A process that starts commands; it ends with ours."""

    def __init__(self) -> None:
        self._root = Path(tempfile.mkdtemp(prefix="clst-"))
        self._socket = self._root / "socket"
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(self._socket)], stdin=subprocess.PIPE
        )
        deadline = time.monotonic() + READY_LIMIT
        while not self._socket.exists():
            assert self._process.poll() is None, "the starter of commands has ended"
            assert time.monotonic() < deadline, "the starter of commands does not begin"
            time.sleep(0.01)

    def run(
        self, arguments: Sequence[str], cwd: Path, env: Mapping[str, str], limit: float
    ) -> tuple[int, str, str]:
        """A command's exit code, standard output and standard error.

        Raises:
            TimeoutError: it did not end in so many seconds; it was killed.
        """
        root = Path(tempfile.mkdtemp(dir=self._root))
        out, err = root / "out", root / "err"
        asked = {"argv": [*arguments], "cwd": str(cwd), "env": {**env}}
        asked |= {"out": str(out), "err": str(err)}
        with socket.socket(socket.AF_UNIX) as line, line.makefile("rw") as lines:
            line.settimeout(limit)
            line.connect(str(self._socket))
            lines.write(json.dumps(asked) + "\n")
            lines.flush()
            pid = int(lines.readline())
            try:
                code = int(lines.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise TimeoutError(
                    f"crewlog {' '.join(arguments)} did not end in {limit:.0f} s\n"
                    f"{out.read_text()}\n{err.read_text()}"
                ) from None
        return code, out.read_text(), err.read_text()

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        shutil.rmtree(self._root, ignore_errors=True)


# -- the program -----------------------------------------------------------------------------------


def serve(path: str) -> NoReturn:
    """Starts a command for each connection, until standard input is closed."""
    main = _imported()
    assert threading.active_count() == 1, "what has threads cannot be forked"
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for a nanny
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(f"{path}.new")
    listening.listen(16)
    Path(f"{path}.new").rename(path)
    while 0 not in select.select([listening, 0], [], [])[0]:
        line, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            _nurse(line, main)
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


def _nurse(line: socket.socket, main: Callable[[], NoReturn]) -> NoReturn:
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
    flags = os.O_WRONLY | os.O_CREAT
    files = [os.open(os.devnull, os.O_RDONLY)]
    files += [os.open(asked[name], flags, 0o600) for name in ("out", "err")]
    for number, file in enumerate(files):
        os.dup2(file, number)
    os.closerange(3, 256)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "r" if n == 0 else "w") for n in range(3))
    sys.stderr.reconfigure(line_buffering=True)
    sys.argv = ["crewlog", *asked["argv"]]
    sys.path[0] = asked["cwd"]  # as `python -m` has it
    main()


if __name__ == "__main__":
    serve(sys.argv[1])
