"""When a call ended, and what it took before it began."""

from __future__ import annotations

import time
from datetime import timedelta

from temporalio import activity

from crewlog.state.model import CallDelay

SHORT = timedelta(seconds=1)
"""What is waited for a worker less than this is not told."""
_MS = timedelta(milliseconds=1)


class Clock:
    """When a call ends, by the server's clock, so that no worker's clock tells the run's time."""

    delay: CallDelay | None = None
    """What the call took before this attempt; none where that is little."""

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
        """Milliseconds since 1970."""
        return int((self._began + time.monotonic() - self._from) * 1000)
