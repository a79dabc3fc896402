"""Runs one program, and ends all its processes when the program or the worker ends.

    worker ──(what to run; then silence)──► watchdog ──► program ──► whatever it starts
           ◄──(how it ended, and the end of its output)──┘

It is a process of its own, so it outlives the worker: the end of its input means that the worker
ended, and it ends the program. It is run by its path and uses only the standard library, so it
starts in hundredths of a second.

The program is the leader of a session, which is killed as a whole. What leaves that session comes
back to the watchdog once its parent is gone (Linux calls that a subreaper), and is killed, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import selectors
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

PIECE = 65_536
LARGEST_FILE = 512 * 1024 * 1024
"""Bytes of a file that the program may write."""
LINGER = 2.0
"""Seconds that ending everything may take."""
_SUBREAPER = 36
_DEATH_SIGNAL = 1


def main() -> None:
    """Reads what to run, runs it, and says how it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    task = json.loads(sys.stdin.buffer.readline())
    _prctl(_SUBREAPER, 1)
    began = time.monotonic()
    told: dict[str, Any] = {"code": None, "timed_out": False, "written": 0, "error": ""}
    tail = b""
    alive = True
    try:
        process = subprocess.Popen(
            task["argv"],
            cwd=task["cwd"],
            env=task["env"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_bounded,
        )
    except OSError as error:
        told["error"] = f"{error.strerror}: {task['argv'][0]}"
    else:
        watch = _Watch(process, began + task["seconds"], task["most"])
        alive = watch.until_it_ends()
        told |= {"code": watch.code, "timed_out": watch.timed_out, "written": watch.written}
        tail = bytes(watch.tail)
    told["seconds"] = round(time.monotonic() - began, 3)
    if not alive:
        shutil.rmtree(task["scratch"], ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        sys.stdout.buffer.write(json.dumps(told).encode() + b"\n" + tail)
        sys.stdout.buffer.flush()


class _Watch:
    """Watches a program: its output, its time, and whether anybody still waits for it."""

    def __init__(self, process: subprocess.Popen[bytes], deadline: float, most: int) -> None:
        self._process = process
        self._deadline = deadline
        self._most = most
        self.tail = bytearray()
        self.written = 0
        self.timed_out = False
        self.code: int | None = None

    def until_it_ends(self) -> bool:
        """Waits for its end, and ends what is left of it; false where the worker is gone."""
        out = self._process.stdout
        assert out is not None  # noqa: S101 - it is a pipe
        os.set_blocking(out.fileno(), False)
        alive = True
        with selectors.DefaultSelector() as selector:
            selector.register(out, selectors.EVENT_READ)
            selector.register(sys.stdin, selectors.EVENT_READ)
            reads = True
            while self._process.poll() is None:
                left = self._deadline - time.monotonic()
                if left <= 0:
                    self.timed_out = True
                    break
                # It may close its output and go on: so its end is looked for now and then.
                for key, _ in selector.select(min(left, 0.05 if not reads else 0.2)):
                    if key.fd == sys.stdin.fileno():
                        if not os.read(sys.stdin.fileno(), PIECE):
                            alive = False
                    elif self._read(out) == b"":
                        selector.unregister(out)
                        reads = False
                if not alive:
                    break
        self._end()
        self.code = None if self.timed_out else self._process.poll()
        while self._read(out):
            pass
        out.close()
        return alive

    def _read(self, out: IO[bytes]) -> bytes | None:
        """Takes what there is; nothing at its end, and none where there is nothing yet."""
        try:
            piece = os.read(out.fileno(), PIECE)
        except BlockingIOError:
            return None
        self.written += len(piece)
        self.tail += piece
        del self.tail[: -self._most]
        return piece

    def _end(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(LINGER)
        until = time.monotonic() + LINGER
        while (left := _children()) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            time.sleep(0.005)


def _children() -> list[int]:
    """The processes that are children of this one by now; none where nobody can say."""
    me, found = str(os.getpid()), list[int]()
    with contextlib.suppress(OSError):
        for process in Path("/proc").iterdir():
            if not process.name.isdecimal():
                continue
            with contextlib.suppress(OSError):
                said = (process / "stat").read_text(errors="replace")
                # Behind the name, which is in brackets and may have any: the state, the parent.
                state, parent = said.rpartition(")")[2].split()[:2]
                if parent == me and state != "Z":
                    found.append(int(process.name))
    return found


def _bounded() -> None:
    """In the program, before it begins: bounds that it cannot lift."""
    _prctl(_DEATH_SIGNAL, signal.SIGKILL)
    for what, most in ((resource.RLIMIT_CORE, 0), (resource.RLIMIT_FSIZE, LARGEST_FILE)):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(what, (most, most))


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
