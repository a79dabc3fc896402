"""What a worker that ended by itself said of its end, in its log.

A worker's log also has the tracebacks of calls that failed in the ordinary way. They say nothing of
its end, which may have come long after: so a worker marks where it begins to say why it ends.
"""

from __future__ import annotations

import re
from pathlib import Path

from crewlog.dev.processes import tail

LAST_WORDS = "the worker ends by an error"
"""The event in a worker's log after which it says why it ends."""
LINES = 6
"""How many of them are shown."""
_MARK = re.compile(rf'"event": "{LAST_WORDS}"')
_ABORT = re.compile(r"^(Fatal Python error|fatal runtime error|thread '.*' panicked|panicked at)")
"""What the interpreter and the Temporal runtime begin with where they abort."""
_RECORD = re.compile(r'^(\{".*"event": |(DEBUG|INFO|WARNING|ERROR|CRITICAL):[\w.]+:)')
"""A line of a worker's log that is a record: it came to work."""


def last_words(log: Path, start: int) -> list[str]:
    """The lines in which a worker said why it ended; none where it was killed.

    Args:
        log: Its log.
        start: Where its own words begin in it, in bytes.
    """
    lines = tail(log, start=start, lines=1000).splitlines()
    for at in range(len(lines) - 1, -1, -1):
        if _MARK.search(lines[at]):
            return lines[at + 1 :][-LINES:]
        if _ABORT.match(lines[at]):
            return lines[at:][:LINES]
    # One that never came to write a record ended as it began.
    return [] if any(_RECORD.match(line) for line in lines) else lines[-LINES:]
