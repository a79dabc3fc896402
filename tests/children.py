"""Processes that a test has started."""

from __future__ import annotations

from pathlib import Path

import psutil


def running(script: Path) -> list[int]:
    """The ids of those that run a script."""
    found: list[int] = []
    for each in psutil.Process().children(recursive=True):
        try:
            command = each.cmdline()
        except psutil.NoSuchProcess:  # it has ended while it was looked at
            continue
        if str(script) in " ".join(command):
            found.append(each.pid)
    return found
