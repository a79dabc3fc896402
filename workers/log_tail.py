"""The log tail: the lines in which a worker that ended by itself says why.

The log of a worker also has the tracebacks of calls that failed. They do not say why the worker
ended, perhaps much later. So a worker writes `END_EVENT` before it writes why it ends.
"""

from __future__ import annotations

import re

END_EVENT = "the worker ends by an error"
"""The log event that precedes the reason."""
LINES = 6
"""The most lines that are returned."""
_MARK = re.compile(rf'"event": "{END_EVENT}"')
_ABORT = re.compile(r"^(Fatal Python error|fatal runtime error|thread '.*' panicked|panicked at)")
"""The beginning of a line when the interpreter or the SDK's core aborts."""
_RECORD = re.compile(r'^(\{".*"event": |(DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]+:)')
"""A log record, which shows that the worker started to work."""


def log_tail(log: str) -> list[str]:
    """Returns the lines that say why a worker ended; empty: it was killed.

    Args:
        log: The log of the worker.
    """
    lines = log.splitlines()
    for at in range(len(lines) - 1, -1, -1):
        if _MARK.search(lines[at]):
            return lines[at + 1 :][-LINES:]
        if _ABORT.match(lines[at]):
            return lines[at:][:LINES]
    # Without any record, the worker failed while it started: its last lines are the reason.
    return [] if any(_RECORD.match(line) for line in lines) else lines[-LINES:]
