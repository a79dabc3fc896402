"""Whether a run is the part of another one that it says it is: the other one's journal decides."""

from __future__ import annotations

import asyncio
import time
from typing import NamedTuple

from crewlog.activities.look_at_run import Ended
from crewlog.errors import SplitNeverRecorded, SplitNotRecorded
from crewlog.ids import RunId
from crewlog.state import journal as j
from crewlog.state.journal import ComponentChanged, SplitRun, entry_from_json
from crewlog.store.protocol import Store

PATIENCE = 2.0
"""Seconds in which what is about to be stored is looked for, before it is left to another try."""
SPLIT_POLL_SECONDS = 0.025
"""Seconds from one look to the next."""
_INSTEAD = (
    j.SwapFailed,
    j.ChangeAccepted,
    j.RunReopened,
    j.RunCompleted,
    j.RunStopped,
    j.RunFailed,
    j.RunEndedByMerge,
)
"""What a run records where it is not parted after all: none of it comes between the beginning of
its parts and their names."""


class SplitRecord(NamedTuple):
    """Where a journal names a part."""

    position: int
    entry: ComponentChanged
    part: SplitRun


async def wait_for_split(
    store: Store, ended: Ended, source: RunId, run: RunId, after: int
) -> SplitRecord:
    """Waits until a run's journal says that another run is a part of it, or certainly never will.

    While that is open, it must be waited for, however long: the run may be about to store it, and
    its creatures would live nowhere then. So there are two ways only to give up. The journal says
    that it came otherwise. Or the run has ended, by itself or from outside: then its store is shut
    to it, and what it did not say by then it never says.

    Args:
        store: Where the journal is.
        ended: Asks the server whether the run has ended.
        source: The run that is parted.
        run: The part.
        after: The position above which the journal says it.

    Raises:
        SplitNotRecorded: it does not say so yet.
        SplitNeverRecorded: it never will.
    """
    until = time.monotonic() + PATIENCE
    while True:
        found, after = await _named(store, source, run, after)
        if found is not None:
            return found
        if time.monotonic() > until:
            break
        await asyncio.sleep(SPLIT_POLL_SECONDS)
    ending = await ended(source)
    if ending is None:
        raise SplitNotRecorded(
            f"the journal of the run {source!r} does not say after {after} that {run!r} is a part "
            "of it"
        )
    await store.shut(source, ending.executions)
    found, _ = await _named(store, source, run, after)
    if found is None:
        raise _never(source, run, "that run has ended")
    return found


async def _named(
    store: Store, source: RunId, run: RunId, after: int
) -> tuple[SplitRecord | None, int]:
    """Where a part is named, as far as the journal goes; and how far that is."""
    while rows := await store.read_journal(source, after):
        for row in rows:
            entry = entry_from_json(row.entry)
            if isinstance(entry, ComponentChanged):
                for part in entry.parts:
                    if part.graph == run:
                        return SplitRecord(row.position, entry, part), row.position
            if isinstance(entry, _INSTEAD):
                what = f"it has {entry.kind} at {row.position} instead"
                raise _never(source, run, what)
        after = rows[-1].position
    return None, after


def _never(source: RunId, run: RunId, why: str) -> SplitNeverRecorded:
    return SplitNeverRecorded(
        f"the journal of the run {source!r} does not say that {run!r} is a part of it, and never "
        f"will: {why}",
        remedy=f"Its creatures are in {source!r}: `crewlog graphs` shows them.",
    )
