"""Calls that no worker can make yet: the run tells of them by a query, and not in its journal.

A call whose tool a worker lacks is made again until a worker has it. Between two tries the run says
that it waits; while a try is under way it does not know. So a step is taken to wait until two looks
in a row have found otherwise.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from crewlog.errors import CrewlogError

if TYPE_CHECKING:
    from crewlog.client import Run
    from crewlog.ids import StepId

PAUSE = 1.0
"""Seconds between two looks."""
MISSES = 2
"""Looks in a row that find nothing, until a step is taken to go on."""


class Lacking:
    """What the steps of a run wait for; looked at beside whatever else is done.

    Args:
        run: The run.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self.steps: dict[StepId, str] = {}
        """The steps that wait, with what for."""
        self._missed: dict[StepId, int] = {}
        self._told: set[tuple[StepId, str]] = set()
        self._looked = time.monotonic()
        self._looking: asyncio.Future[dict[StepId, str] | None] | None = None

    def look(self) -> list[tuple[StepId, str]]:
        """What was not told yet, of the last look that has ended; begins the next one in time."""
        found = None
        if self._looking is not None and self._looking.done():
            found, self._looking = self._looking.result(), None
        if self._looking is None and time.monotonic() - self._looked > PAUSE:
            self._looked = time.monotonic()
            self._looking = asyncio.ensure_future(self._look())
        return self.take(found) if found is not None else []

    def take(self, found: dict[StepId, str]) -> list[tuple[StepId, str]]:
        """What is new in what a look has found."""
        for step in [step for step in self.steps if step not in found]:
            self._missed[step] = self._missed.get(step, 0) + 1
            if self._missed[step] >= MISSES:
                del self.steps[step]
        for step in found:
            self._missed.pop(step, None)
        self.steps.update(found)
        new = [each for each in found.items() if each not in self._told]
        self._told.update(new)
        return new

    def end(self) -> None:
        """Looks no more."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None  # a session looks again in its next turn

    async def _look(self) -> dict[StepId, str] | None:
        try:
            view = await self._run.status()
        except CrewlogError:
            return None  # nobody answers: that is told elsewhere
        return {step.step: step.failure for step in view.frontier if step.failure}
