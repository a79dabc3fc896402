"""When a call ended."""

from __future__ import annotations

import time

from temporalio import activity


class Clock:
    """When a call ends, by the server's clock, so that no worker's clock tells the run's time."""

    def __init__(self) -> None:
        self._began = activity.info().started_time.timestamp()
        self._from = time.monotonic()

    def now(self) -> int:
        """Milliseconds since 1970."""
        return int((self._began + time.monotonic() - self._from) * 1000)
