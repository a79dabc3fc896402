"""The time at which a call ended, and its delay."""

from __future__ import annotations

import time
from datetime import timedelta

from temporalio import activity

from crewlog.state.model import CallDelay

SHORT = timedelta(seconds=1)
"""A shorter wait for a worker is not reported."""
_MS = timedelta(milliseconds=1)


class Clock:
    """The time of a run: the server's clock, and a worker's monotonic clock since the start."""

    delay: CallDelay | None = None
    """The delay of the call before this attempt; None: it is short."""

    def __init__(self) -> None:
        info = activity.info()
        began, since = info.started_time, info.current_attempt_scheduled_time
        self._began = began.timestamp()
        self._from = time.monotonic()
        if info.attempt > 1 or began - since > SHORT:
            self.delay = CallDelay(
                attempts=info.attempt,
                retries_ms=(since - info.scheduled_time) // _MS,
                queue_ms=max((began - since) // _MS, 0),
            )

    def now(self) -> int:
        """Returns the time in milliseconds since the epoch."""
        return int((self._began + time.monotonic() - self._from) * 1000)
