"""A process that ends other processes when the process that started it ends.

Run as a script with a pipe as its standard input. Every line is `pid start signal`. When the
pipe ends, for whatever reason, SIGKILL of the parent included, the processes of all lines are
ended. `PR_SET_PDEATHSIG` would do this only on Linux, and it fires when the *thread* that forked
ends, which for a thread of an executor is long before the process does.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import psutil

GRACE = 8.0
"""Seconds between asking a process to end and killing it."""
TOLERANCE = 2.0
"""Seconds by which two readings of one start may differ."""


def start_of(process: psutil.Process) -> float:
    """When a process was started, in seconds: since the boot on Linux, since the epoch elsewhere.

    Linux has it since the boot, which no step of the clock changes. psutil adds the boot time.

    Raises:
        psutil.Error: There is no such process.
    """
    if not psutil.LINUX:
        return process.create_time()
    try:
        # `proc_pid_stat(5)`; the second field is a name that may have spaces.
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError as error:
        raise psutil.NoSuchProcess(process.pid) from error
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


def started_at(process: psutil.Process, start: float) -> bool:
    """Whether this is the start of a process."""
    return abs(start_of(process) - start) <= TOLERANCE


def main() -> None:
    """Wait for the end of the input, then end what it named."""
    for ignored in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    wards: list[tuple[psutil.Process, int]] = []
    for line in sys.stdin:
        pid, start, wanted = line.split()
        try:
            process = psutil.Process(int(pid))
            if not started_at(process, float(start)):
                continue
        except psutil.Error:
            continue
        wards.append((process, int(wanted)))
    for process, number in wards:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)
    _, left = psutil.wait_procs([process for process, _ in wards], timeout=GRACE)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()


if __name__ == "__main__":
    main()
