"""A command at a terminal of its own: what it shows, and what somebody types."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\r")


class Terminal:
    """`crewlog …` at a terminal.

    Args:
        arguments: The command line.
        cwd: Where it runs.
        env: Its environment.
        width: The terminal's columns.
    """

    def __init__(
        self, *arguments: str, cwd: Path, env: Mapping[str, str], width: int = 100
    ) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
        self._ours = ours
        self._seen = ""
        self.raw = ""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "crewlog.cli.main", *arguments],
            cwd=cwd,
            env={**env, "TERM": "xterm-256color"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    @property
    def text(self) -> str:
        """Everything that was shown, without colours."""
        return _CONTROL.sub("", self.raw)

    def expect(self, words: str, limit: float = 100) -> str:
        """What was shown since the last look, up to and with `words`."""
        end = time.monotonic() + limit
        while words not in self._fresh:
            if not self._read(end - time.monotonic()):
                raise AssertionError(f"{words!r} was not shown:\n{self._fresh}")
        found, _, _ = self._fresh.partition(words)
        self._seen += found + words
        return found + words

    @property
    def _fresh(self) -> str:
        return self.text[len(self._seen) :]

    def type(self, line: str) -> None:
        """Types a line."""
        os.write(self._ours, f"{line}\n".encode())

    def hang_up(self) -> None:
        """Ctrl-D."""
        os.write(self._ours, b"\x04")

    def interrupt(self) -> None:
        """Ctrl-C: its signal, for this terminal controls no process.

        It is sent once the command waits: Python hears of a signal between two of its steps, and
        one that comes right before it begins to wait is heard with the next key.
        """
        end = time.monotonic() + 60
        while psutil.Process(self.process.pid).status() != psutil.STATUS_SLEEPING:
            assert time.monotonic() < end, "the command never waits"
        self.process.send_signal(signal.SIGINT)

    def end(self, limit: float = 90) -> int:
        """Waits for the command's end; its exit code."""
        end = time.monotonic() + limit
        while self._read(end - time.monotonic()):
            pass
        code = self.process.wait(max(1.0, end - time.monotonic()))
        os.close(self._ours)
        return code

    def _read(self, patience: float) -> bool:
        """Reads what is there; false at the end, or where nothing came in time."""
        ready, _, _ = select.select([self._ours], [], [], max(0.0, patience))
        if not ready:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # the command's end of the terminal is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)


def rendered(raw: str, width: int) -> list[str]:
    """What somebody sees at the end: the lines of a terminal that was sent this.

    It knows what prompts need: a line's begin and end, up, and to clear what is below.
    """
    lines, row, column = [""], 0, 0
    for sequence, char in re.findall(r"\x1b\[([0-9;?]*[A-Za-z])|([^\x1b])", raw):
        if sequence == "2K":
            lines[row] = ""
        elif sequence == "J":
            del lines[row + 1 :]
            lines[row] = lines[row][:column]
        elif sequence.endswith("A"):
            row = max(row - int(sequence[:-1] or 1), 0)
        elif char == "\r":
            column = 0
        elif char:
            if char == "\n" or column == width:
                row += 1
                column = 0 if column == width and char != "\n" else column
                lines += [""] * (row + 1 - len(lines))
            if char != "\n":
                line = lines[row].ljust(column)
                lines[row] = line[:column] + char + line[column + 1 :]
                column += 1
    return [line.rstrip() for line in lines if line.strip()]
