"""Hints of one run to another: what it stored is there to be looked at.

They go with the storing, in one activity: a signal of the workflow's own is another task of it
before, and one after. A hint may be lost, doubled and late (docs/decisions/0052), so none is worth
a second try of the activity: the workflow is told what came of each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

from crewlog.ids import RunId
from crewlog.state.calls import MergeNotification, StoreBatchResult

Came = Literal["given", "gone", "untold"]
"""What became of a hint: the run has it; it has ended, or never was; nobody knows."""
Hinted = Callable[[RunId, MergeNotification], Awaitable[Came]]
"""Gives a hint of a run, and tells what became of it. It does not raise, and takes seconds."""


async def send_no_notification(run: RunId, hint: MergeNotification) -> Came:
    """Leaves all hints to the workflow: where there is no server."""
    del run, hint
    return "untold"


async def give(run: RunId, hints: Sequence[MergeNotification], hint: Hinted) -> StoreBatchResult:
    """Gives a run's hints; what they are about is stored.

    Args:
        run: The run that gives them.
        hints: To whom, of which merge.
        hint: Gives one.
    """
    came = await asyncio.gather(*(hint(run, each) for each in hints))
    return StoreBatchResult(
        gone=tuple(each.to for each, how in zip(hints, came, strict=True) if how == "gone"),
        untold=tuple(each for each, how in zip(hints, came, strict=True) if how == "untold"),
    )
