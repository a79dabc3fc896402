"""Runs that a worker is to forget: the next task of one is done by a new instance."""

from __future__ import annotations

import time
from typing import Protocol

from temporalio.worker import Worker

AGAIN = 10.0
"""Seconds between two guesses at one run: each costs a replay of its history."""
MOST = 10_000
"""Runs of which it is known when they were guessed at."""


class Evict(Protocol):
    """Has a run forgotten, once what it is asked is answered."""

    def __call__(self, execution: str, *, surely: bool) -> None:
        """Has it forgotten.

        Args:
            execution: Temporal's id of the execution.
            surely: Whether it must be; else it is a guess, which may be left out.
        """


def never(execution: str, *, surely: bool) -> None:
    """Forgets no run: where there is no worker, as in a replay."""
    del execution, surely


class Evictions:
    """What a worker is asked to forget.

    The SDK has this in its bridge, and shows it nowhere else.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._last: dict[str, float] = {}

    def serve(self, worker: Worker) -> None:
        """Asks this worker from now on."""
        self._worker = worker

    def ask(self, execution: str, *, surely: bool) -> None:
        """Has a run forgotten; where that is a guess, unless it was guessed at a moment ago."""
        if not surely and not self._may_guess(execution):
            return
        if self._worker is not None:
            self._worker._bridge_worker.request_workflow_eviction(execution)  # noqa: SLF001

    def _may_guess(self, execution: str) -> bool:
        now = time.monotonic()
        if now - self._last.get(execution, -AGAIN) < AGAIN:
            return False
        if len(self._last) >= MOST:
            self._last.clear()
        self._last[execution] = now
        return True
