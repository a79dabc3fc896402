"""Runs that nobody looks after: they end, ask people in vain, or take too long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Literal

from crewlog.client import Run
from crewlog.errors import CrewlogError, RunAlreadyExists, RunFailed
from crewlog.state.excerpt import sentences

LOOK = 1.0
"""Seconds between two looks at whether a run asks people: nobody answers an evaluation."""
GRACE = 60.0
"""Seconds that a run may take to end once it was stopped."""

Begin = Callable[[Literal["reject", "attach", "replace"]], Awaitable[Run]]
"""Starts a run of a given id; what it is told is what to do where there is one, as of `start`."""


async def carried_out(begin: Begin, timeout: float) -> tuple[Run, str]:
    """A run at its end, and why that was no good one, or nothing.

    One that is there already stays, whether it goes on or is done; where it came to no good end it
    is made anew: somebody may have mended since what stood in its way.
    """
    try:
        run = await begin("reject")
    except RunAlreadyExists:
        run = await begin("attach")
        if not await trouble(run, timeout):
            return run, ""
        run = await begin("replace")
    return run, await trouble(run, timeout)


async def trouble(run: Run, timeout: float) -> str:
    """Waits for a run's end; why it did not end well, or nothing."""
    ending = asyncio.ensure_future(run.result(timeout))
    try:
        while not ending.done():
            await asyncio.wait({ending}, timeout=LOOK)
            if not ending.done() and (asked := await _question(run)):
                await run.stop("nobody answers the questions of an evaluation")
                await run.result(GRACE)
                return asked
        status = ending.result().status
    except RunFailed as error:
        return sentences(error.message)
    except TimeoutError:
        await run.terminate("it took too long for an evaluation")
        return f"it did not come to its end within {timeout:g} s"
    finally:
        ending.cancel()
    return "" if status == "completed" else f"it was {status}"


async def _question(run: Run) -> str:
    try:
        asked = await run.interrupts()
    except CrewlogError:
        return ""  # looked at again
    if asked and asked[0].kind == "step_failed":
        return f"{asked[0].step} failed: {sentences(asked[0].detail)}"
    return f"it asks people: {asked[0].question}" if asked else ""
