"""Whether others were at work on the machine meanwhile, and who used its processors.

Linux says both: `/proc/stat` how long the processors were busy and how long a hypervisor kept them
away, and a clock for each process how long that one was busy. What was busy and is not ours, others
were. Where the system says neither, nothing is called disturbed.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

OTHERS = 0.25
"""Processors that others may keep busy; a machine at rest has about a tenth of this."""
STOLEN = 0.05
"""The part of the processors' time that a hypervisor may keep away."""
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Look:
    """The machine at one time, in seconds since some time before."""

    at: float
    busy: float
    """All processors, whoever kept them busy."""
    stolen: float
    """How long the hypervisor had them."""
    ours: dict[int, float]
    """This process and all below it."""


def look() -> Look | None:
    """The machine now; None where the system does not say."""
    try:
        line = Path("/proc/stat").read_text().partition("\n")[0]
        user, nice, system, _, _, irq, soft, stolen = (int(n) for n in line.split()[1:9])
        ours = {pid: seconds for pid in family() if (seconds := used(pid)) is not None}
    except (OSError, ValueError):
        return None
    busy = (user + nice + system + irq + soft) / _TICKS
    return Look(time.monotonic(), busy, stolen / _TICKS, ours)


def disturbed(before: Look | None, after: Look | None) -> str:
    """What disturbed the machine between two looks; empty: nothing, or that is not known."""
    if before is None or after is None or after.at <= before.at:
        return ""
    seconds = after.at - before.at
    ours = sum(used - before.ours.get(pid, 0) for pid, used in after.ours.items())
    others = (after.busy - before.busy - ours) / seconds
    if others > OTHERS:
        return f"others kept {others:.2f} processors busy"
    stolen = (after.stolen - before.stolen) / seconds / (os.cpu_count() or 1)
    if stolen > STOLEN:
        return f"the hypervisor kept {stolen:.0%} of the processors away"
    return ""


def used(pid: int) -> float | None:
    """Seconds of processor time that a process has used; None where the system does not say."""
    try:
        # The clock of a process, as clock_getcpuclockid(3) names it on Linux.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


def family() -> list[int]:
    """This process and all processes below it."""
    below: dict[int, list[int]] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue  # it has ended
            below.setdefault(parent, []).append(int(path.name))
    found = [os.getpid()]
    for pid in found:
        found += below.get(pid, [])
    return found
